//! Requests of threads to their users: listed like every other request, and answered through the server. Its other
//! clients (the terminal) show the same question at the same time, and the first answer wins.
//!
//! No hook waits here; the record names this process instead. When it dies, the next reader closes the request, and the
//! server asks the next attendant again.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use baton_core::approval::{Answer, AnswerAuthor, Closing, Request, RequestId, Verdict};
use baton_core::ids::{AgentId, SessionId};
use baton_core::message::Urgency;
use baton_core::process::Process;
use baton_core::wire::codex::app::{self, Matter, ServerRequest};
use jiff::{SignedDuration, Timestamp};

use crate::approvals::{ask, settle};
use crate::mail;
use crate::mail::maildir::Draft;
use crate::rotation::actuators::thread::link::ServerLink;
use crate::sessions::context::Context;
use crate::store::Store;
use crate::sys::watch::{Interest, Watch};

/// How many patches of unfinished items to keep; more than any client has under way.
const MAX_PATCHES: usize = 256;

struct Pending {
    id: RequestId,
    agent: AgentId,
    session: SessionId,
    server: PathBuf,
    asked: ServerRequest,
    until: Option<Timestamp>,
    /// We have answered, or the server reported another answer.
    is_over: bool,
}

pub(super) struct ThreadRequests {
    store: Store,
    me: Process,
    /// Watches the folders of open requests, where an answer appears as a new file.
    answers: Watch,
    pending: Vec<Pending>,
    /// By thread and item.
    patches: BTreeMap<(String, String), String>,
}

impl ThreadRequests {
    pub(super) fn new(store: &Store, me: &Process) -> std::io::Result<Self> {
        Ok(Self {
            store: store.clone(),
            me: me.clone(),
            answers: Watch::new()?,
            pending: Vec::new(),
            patches: BTreeMap::new(),
        })
    }

    /// Readable when somebody has answered.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.answers.fd()
    }

    /// See [`Watch::timeout`].
    pub(super) fn timeout(&self, left: Option<Duration>) -> Option<Duration> {
        self.answers.timeout(left)
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.pending.iter().filter(|pending| !pending.is_over).filter_map(|pending| pending.until).min()
    }

    /// Whether a thread waits for somebody's answer.
    fn waits(&self, session: &SessionId) -> bool {
        self.pending.iter().any(|pending| !pending.is_over && pending.session == *session)
    }

    /// Remembers an item's changes, to show them when the item asks for permission.
    pub(super) fn note_patch(&mut self, thread: String, item: String, patch: String) {
        if self.patches.len() >= MAX_PATCHES {
            self.patches.clear();
        }
        self.patches.insert((thread, item), patch);
    }

    /// Lists a request of a thread.
    pub(super) fn add(&mut self, server: &Path, asked: ServerRequest) -> anyhow::Result<()> {
        // After a new subscription the server asks again.
        let is_known =
            |p: &Pending| p.asked.thread == asked.thread && p.asked.id == asked.id && p.server == server;
        if self.pending.iter().any(is_known) {
            return Ok(());
        }
        let Some(session) =
            SessionId::new(asked.thread.as_str()).ok().and_then(|id| self.store.sessions().readable(&id))
        else {
            return Ok(());
        };
        let Some(ctx) = Context::of(&session) else { return Ok(()) };
        let Some(agent) = ctx.agent(&session.agent) else { return Ok(()) };
        if !ask::is_led(&ctx, &agent) {
            return Ok(());
        }
        let patch = self.patches.get(&(asked.thread.clone(), asked.item.clone()));
        let Some((tool, input)) = asked.tool(patch.map(String::as_str)) else { return Ok(()) };
        let deadline = SignedDuration::try_from(ctx.config.approvals.deadline).ok();
        let until = deadline.and_then(|patience| ctx.now.checked_add(patience).ok());
        let request = Request {
            at: ctx.now,
            agent: agent.id.clone(),
            session: session.id.clone(),
            provider: ctx.provider.name.to_owned(),
            cwd: asked.cwd.clone().unwrap_or_else(|| ctx.cwd.display().to_string()),
            subagent: None,
            tool: tool.to_owned(),
            input,
            suggestions: Vec::new(),
            hook: Some(self.me.clone()),
            deadline: until,
        };
        let (id, dir) = self.store.approvals().draft(&request)?;
        self.answers.add(&dir, Interest::Queue).context("could not watch for an answer")?;
        ask::show(&ctx, request, id.clone())?;
        let (agent, session, server) = (agent.id, session.id, server.to_owned());
        self.pending.push(Pending { id, agent, session, server, asked, until, is_over: false });
        Ok(())
    }

    /// Passes answers on to the server, and closes requests whose deadline has passed.
    pub(super) fn give_answers(&mut self, links: &mut BTreeMap<PathBuf, ServerLink>) {
        self.answers.drain(|_| true);
        let now = Timestamp::now();
        for at in 0..self.pending.len() {
            if let Err(e) = self.give_answer(at, links, now) {
                self.store.log().fault(now, "give a thread its answer", &format!("{e:#}"));
            }
        }
        let store = &self.store;
        self.pending.retain(|pending| store.approvals().is_there(&pending.id));
    }

    fn give_answer(
        &mut self,
        at: usize,
        links: &mut BTreeMap<PathBuf, ServerLink>,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let approvals = self.store.approvals();
        let pending = &mut self.pending[at];
        if pending.is_over {
            return Ok(());
        }
        let answer = match approvals.answer_of(&pending.id)? {
            Some(answer) => answer,
            None if pending.until.is_some_and(|until| until <= now) => {
                approvals.answer(&pending.id, &Answer::closed(Closing::Deadline, now))?;
                pending.is_over = true;
                return Ok(approvals.finish(&pending.id)?);
            }
            None => return Ok(()),
        };
        pending.is_over = true;
        if let (Some(reply), Some(link)) = (pending.asked.reply(&answer), links.get_mut(&pending.server)) {
            link.answer(reply)?;
            if let (Verdict::Deny { reason }, false) =
                (&answer.verdict, matches!(pending.asked.matter, Matter::Questions { .. }))
            {
                tell_reason(&self.store, link, pending, &answer, reason, now)?;
            }
        }
        approvals.finish(&pending.id)?;
        let session = pending.session.clone();
        if !self.waits(&session)
            && let Some(session) = self.store.sessions().readable(&session)
            && let Some(ctx) = Context::of(&session)
        {
            ask::goes_on(&ctx, &session, &answer);
        }
        Ok(())
    }

    /// Handles the server's report that a request was answered, by us or by a person at the thread.
    pub(super) fn resolved(&mut self, thread: &str, id: &serde_json::Value) {
        let now = Timestamp::now();
        let is_it = |p: &Pending| p.asked.thread == thread && p.asked.id == *id;
        let Some(at) = self.pending.iter().position(is_it) else { return };
        let pending = &mut self.pending[at];
        let is_question = matches!(pending.asked.matter, Matter::Questions { .. });
        if !pending.is_over {
            pending.is_over = true;
            self.close(at, Closing::AnsweredAtTerminal, now);
        }
        // No item follows a question, so settle it now.
        if is_question {
            let pending = self.pending.remove(at);
            settle::by_client(&self.store, &pending.id, true, now);
        }
    }

    /// Settles the requests about an item that has ended.
    pub(super) fn item_done(&mut self, thread: &str, item: &str, ran: bool) {
        self.patches.remove(&(thread.to_owned(), item.to_owned()));
        let is_it = |p: &Pending| p.asked.thread == thread && p.asked.item == item;
        while let Some(at) = self.pending.iter().position(is_it) {
            let pending = self.pending.remove(at);
            settle::by_client(&self.store, &pending.id, ran, Timestamp::now());
            self.finish(&pending.id);
        }
    }

    /// Settles everything that the thread still asked for.
    pub(super) fn turn_ended(&mut self, session: &SessionId) {
        while let Some(at) = self.pending.iter().position(|p| p.session == *session) {
            let pending = self.pending.remove(at);
            settle::by_client(&self.store, &pending.id, false, Timestamp::now());
            self.finish(&pending.id);
        }
    }

    /// Closes the requests of a server that hung up, because nobody can answer them.
    pub(super) fn lost(&mut self, server: &Path) {
        let now = Timestamp::now();
        while let Some(at) = self.pending.iter().position(|p| p.server == server) {
            self.close(at, Closing::ClientGone, now);
            self.pending.remove(at);
        }
    }

    fn close(&self, at: usize, because: Closing, now: Timestamp) {
        let id = &self.pending[at].id;
        if let Err(e) = self.store.approvals().answer(id, &Answer::closed(because, now)) {
            self.store.log().fault(now, "close a permission request", &e);
        }
        self.finish(id);
    }

    fn finish(&self, id: &RequestId) {
        if let Err(e) = self.store.approvals().finish(id) {
            self.store.log().fault(Timestamp::now(), "close a permission request", &e);
        }
    }
}

/// Passes on the reason of a denial, for which the server's protocol has no field: the user's as a prompt in the same
/// turn, another agent's as mail.
fn tell_reason(
    store: &Store,
    link: &mut ServerLink,
    pending: &Pending,
    answer: &Answer,
    reason: &str,
    now: Timestamp,
) -> anyhow::Result<()> {
    match &answer.author {
        AnswerAuthor::Agent(author) => {
            let Some(agent) = store.agents().get(&pending.agent)? else { return Ok(()) };
            let words = answer.words(reason);
            let draft = Draft { urgency: Urgency::Important, ..Draft::new(author.as_str(), &words) };
            Ok(mail::send(store, &agent, &draft, None, now).map(drop)?)
        }
        _ => link.ask(&app::steer(&pending.asked.thread, &pending.asked.turn, reason)).map(drop),
    }
}
