//! The hook's side of a request: record it, let the rules decide, or wait for the first answer.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::agent::{Agent, Pane};
use baton_core::approval::rules::{Decision, ToolCall, files_of, is_clear};
use baton_core::approval::{Answer, AnswerAuthor, Case, Closing, Door, Request, RequestId, Verdict};
use baton_core::ids::AgentId;
use baton_core::process::Process;
use baton_core::session::{Session, Turn};
use jiff::Timestamp;
use serde_json::json;

use crate::approvals::log;
use crate::config::WaitFor;
use crate::sessions::SEAL_PATIENCE;
use crate::sessions::context::Context;
use crate::store::Store;
use crate::sys::fs::FileError;
use crate::sys::handle::Handle;
use crate::sys::poll::{self, PollFd, PollFlags};
use crate::sys::process;
use crate::sys::watch::{Interest, Watch};

/// How often to poll where the system does not report changed files or ended processes.
const POLL: Duration = Duration::from_millis(500);
/// How long a killed client takes to end after it has told its hooks to end. A client that loses its terminal may take
/// longer than it gives its hooks (1.4 s), and that case then looks like a denial by the user.
const ENDING: Duration = Duration::from_millis(250);
/// No tree of agents is deeper.
const DEEPEST: usize = 64;

fn is_spawned(agent: &Agent) -> bool {
    agent.pane.as_ref().is_some_and(|pane| pane.spawned)
}

/// Whether this agent's requests can be answered outside its client.
pub(crate) fn is_led(ctx: &Context, agent: &Agent) -> bool {
    match ctx.config.approvals.wait_for {
        WaitFor::All => true,
        WaitFor::Spawned => is_spawned(agent) || agent.approvals,
        WaitFor::Nobody => agent.approvals,
    }
}

/// How long a hook of this agent waits for an answer from elsewhere; `None` if it does not. `is_looked_at` tells
/// whether a person watches its pane.
pub(crate) fn patience(
    ctx: &Context,
    session: &Session,
    agent: &Agent,
    is_looked_at: impl FnOnce(&Pane) -> bool,
) -> Option<Duration> {
    let patience =
        if session.headless { ctx.config.approvals.headless_deadline } else { ctx.config.approvals.deadline };
    // If a waiting hook hides the dialog, wait only where nobody would see one. A shared server asks all its clients
    // instead, and the daemon is one of them.
    let hides_nothing = ctx.provider.hooks.dialog_stays
        || (!session.shared
            && match &agent.pane {
                Some(pane) if pane.spawned => session.headless || !is_looked_at(pane),
                _ => session.headless,
            });
    (is_led(ctx, agent) && hides_nothing).then_some(patience)
}

/// Records a request that waits at the client's own dialog, for listings.
pub(crate) fn note_dialog(ctx: &Context, request: &Request) {
    let about = about(request);
    let noted = ctx.store.sessions().update(&request.session, SEAL_PATIENCE, |s| {
        if s.turn != Turn::Blocked {
            (s.turn, s.turn_since) = (Turn::Blocked, Some(request.at));
        }
        s.blocked_on = Some(about);
    });
    if let Err(e) = noted {
        ctx.fault("note what an agent waits for", &e);
    }
}

/// Ends the session's wait at a dialog if the subagent's tool that it was for has run.
pub(crate) fn dialog_is_over(ctx: &Context, session: &Session, ran: &Request) {
    if session.turn == Turn::Blocked && session.blocked_on.as_ref() == Some(&about(ran)) {
        ctx.set_turn(session, Turn::Working);
    }
}

/// The tool and its subject, redacted.
fn about(request: &Request) -> String {
    format!("{}: {}", request.tool, crate::approvals::summary(request, 200))
}

/// The decision of the rules, recorded as theirs.
pub(crate) fn by_rule(ctx: &Context, request: &Request) -> Option<Answer> {
    let rules = &ctx.config.approvals.rules;
    if rules.0.is_empty() {
        return None;
    }
    let home = ctx.paths.home.display().to_string();
    let (files, ancestors) = (files(request), ancestors(&ctx.store, &request.agent));
    let asked = ToolCall {
        tool: &request.tool,
        input: &request.input,
        home: &home,
        files: &files,
        agent: &request.agent,
        ancestors: &ancestors,
    };
    let (decision, rule) = rules.decide(&asked)?;
    let verdict = match decision {
        Decision::Allow => Verdict::Allow { input: None, permissions: Vec::new() },
        Decision::Deny => Verdict::Deny { reason: format!("The user's rule {rule} denies this.") },
    };
    let answer =
        Answer { at: ctx.now, author: AnswerAuthor::Rule(rule.to_string()), door: Door::Rule, verdict };
    let approvals = ctx.store.approvals();
    let recorded = approvals.draft(request).and_then(|(id, _)| approvals.conclude(&id, &answer).map(|()| id));
    match recorded {
        Ok(id) => {
            remember(ctx, request, &id);
            let case = Case { id, request: request.clone(), answer: None, outcome: None };
            let detail = json!({ "answer": crate::approvals::said(&answer), "door": Door::Rule.as_str() });
            log(&ctx.store, &case, "approval-answered", detail, ctx.now);
            Some(answer)
        }
        // Do not decide what cannot be recorded; the client's dialog still can.
        Err(e) => {
            ctx.fault("record what a rule decides", &e);
            None
        }
    }
}

/// The files that a request names, as written and with links resolved.
fn files(request: &Request) -> Vec<(String, String)> {
    let folder = Path::new(&request.cwd);
    let text = |path: &Path| path.display().to_string();
    let mut files = Vec::new();
    for named in files_of(&request.tool, &request.input) {
        if !is_clear(named) {
            // Use a name that no rule matches.
            files.push(("/..".to_owned(), "/..".to_owned()));
            continue;
        }
        let path = folder.join(named);
        files.push((text(&path), text(folder)));
        // Resolve a file that does not exist yet through its nearest folder. If it cannot be resolved, no rule matches
        // it.
        let real = resolved(&path).unwrap_or_else(|| PathBuf::from("/.."));
        files.push((text(&real), text(&resolved(folder).unwrap_or_else(|| PathBuf::from("/..")))));
    }
    files
}

fn resolved(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        match std::fs::canonicalize(at) {
            Ok(real) => return Some(missing.iter().rev().fold(real, |path, name| path.join(name))),
            // A dangling link: a write through it lands at its target.
            Err(_) if std::fs::symlink_metadata(at).is_ok() => return None,
            Err(_) => {
                missing.push(at.file_name()?);
                at = at.parent()?;
            }
        }
    }
}

/// Parent, grandparent and so on.
pub(crate) fn ancestors(store: &Store, agent: &AgentId) -> Vec<AgentId> {
    let mut ancestors = Vec::new();
    let parent_of = |id: &AgentId| store.agents().readable(id).and_then(|agent| agent.parent);
    let mut at = parent_of(agent);
    while let Some(id) = at.filter(|id| !ancestors.contains(id) && ancestors.len() < DEEPEST) {
        at = parent_of(&id);
        ancestors.push(id);
    }
    ancestors
}

/// Records the request in the session, so that later hooks look for its outcome.
fn remember(ctx: &Context, request: &Request, id: &RequestId) {
    let about = about(request);
    let kept = ctx.store.sessions().update(&request.session, SEAL_PATIENCE, |s| {
        s.approvals.push(id.clone());
        if s.turn == Turn::Blocked && request.subagent.is_none() {
            s.blocked_on = Some(about);
        }
    });
    if let Err(e) = kept {
        ctx.fault("remember a request with its session", &e);
    }
}

/// Sets the turn after an answer: the agent works on unless it waits for another one. A no at the dialog ends the turn
/// without an event. Other closings are left to the client's events.
pub(crate) fn goes_on(ctx: &Context, session: &Session, answer: &Answer) {
    let turn = match &answer.verdict {
        Verdict::Closed { because: Closing::Dismissed } => Turn::Idle,
        Verdict::Closed { .. } => return,
        Verdict::Allow { .. } | Verdict::Deny { .. } => Turn::Working,
    };
    let approvals = ctx.store.approvals();
    let changed = ctx.store.sessions().update(&session.id, SEAL_PATIENCE, |s| {
        if s.turn == Turn::Blocked && !s.approvals.iter().any(|id| approvals.is_waiting(id)) {
            (s.turn, s.turn_since, s.blocked_on) = (turn, Some(Timestamp::now()), None);
        }
    });
    if let Err(e) = changed {
        ctx.fault("record that the agent continues", &e);
    }
}

/// An answerable request, and the events that end its wait.
pub(crate) struct PendingRequest {
    id: RequestId,
    watch: Watch,
    /// Readable once the client has told the hook to end.
    dismissed: UnixStream,
    /// `None` if it ended before we began to wait.
    client: Option<Handle>,
    until: Timestamp,
}

/// Records the request so that every interface shows it.
pub(crate) fn publish(
    ctx: &Context,
    request: Request,
    client: Option<&Process>,
) -> Result<PendingRequest, anyhow::Error> {
    let approvals = ctx.store.approvals();
    let until = request.deadline.unwrap_or(ctx.now);
    let (id, dir) = approvals.draft(&request)?;
    // Watch before anybody can answer, so that no answer is missed. The watch stays with the folder when it moves.
    let pending = PendingRequest::new(id.clone(), &dir, until, client)?;
    remember(ctx, &request, &id);
    show(ctx, request, id)?;
    Ok(pending)
}

/// Makes a drafted request visible and answerable at every interface.
pub(crate) fn show(ctx: &Context, request: Request, id: RequestId) -> Result<(), FileError> {
    ctx.store.approvals().publish(&id)?;
    let case = Case { id, request, answer: None, outcome: None };
    log(&ctx.store, &case, "approval-asked", json!({}), ctx.now);
    crate::mail::announce::wake_listeners(&ctx.store.state, &case.request.agent);
    Ok(())
}

impl PendingRequest {
    fn new(id: RequestId, dir: &Path, until: Timestamp, client: Option<&Process>) -> anyhow::Result<Self> {
        let mut watch = Watch::new()?;
        match watch.add(dir, Interest::Queue) {
            // It was already answered and moved.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            added => drop(added?),
        }
        let (dismissed, told) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, told)?;
        let pid = client.and_then(|client| rustix::process::Pid::from_raw(i32::try_from(client.pid).ok()?));
        let handle = pid.map(Handle::open).transpose()?.flatten();
        // Check identity only after opening the handle: before that, the pid may be reused.
        let client = handle.filter(|_| client.is_some_and(process::is_alive));
        Ok(Self { id, watch, dismissed, client, until })
    }

    /// Rebuilds it after this process has executed another image.
    pub(crate) fn again(
        store: &Store,
        id: RequestId,
        until: Timestamp,
        client: Option<&Process>,
    ) -> anyhow::Result<Self> {
        let dir = store.approvals().waiting_dir().join(id.as_str());
        Self::new(id, &dir, until, client)
    }

    pub(crate) fn id(&self) -> &RequestId {
        &self.id
    }

    /// Sleeps until there is an answer, which may say that nobody answered.
    pub(crate) fn wait(mut self, ctx: &Context) -> Result<Answer, anyhow::Error> {
        let approvals = ctx.store.approvals();
        let id = self.id.clone();
        loop {
            if let Some(answer) = approvals.answer_of(&id)? {
                approvals.finish(&id)?;
                return Ok(answer);
            }
            let now = Timestamp::now();
            // The record was removed, so nobody can answer any more.
            if !approvals.is_there(&id) {
                return Ok(Answer::closed(Closing::Withdrawn, now));
            }
            if self.client.is_none() {
                approvals.answer(&id, &Answer::closed(Closing::ClientGone, now))?;
                continue;
            }
            let left = Duration::try_from(self.until.duration_since(now)).unwrap_or_default();
            if left.is_zero() {
                approvals.answer(&id, &Answer::closed(Closing::Deadline, now))?;
                continue;
            }
            if let Some(because) = self.sleep(left)? {
                approvals.answer(&id, &Answer::closed(because, Timestamp::now()))?;
            }
        }
    }

    /// Why to stop waiting; `None` if something else woke us.
    fn sleep(&mut self, left: Duration) -> Result<Option<Closing>, anyhow::Error> {
        let wakes = self.watch.wakes() && self.client.as_ref().is_none_or(|client| client.fd().is_some());
        let left = if wakes { left } else { left.min(POLL) };
        let because = {
            let client = self.client.as_ref().and_then(Handle::fd);
            let mut fds: Vec<PollFd<'_>> = [Some(self.dismissed.as_fd()), client, self.watch.fd()]
                .into_iter()
                .flatten()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            poll::wait(&mut fds, Some(left))?;
            let is_told = !fds[0].revents().is_empty();
            if is_told {
                // A client that ends tells its hooks first; its own end or the event that reports it comes next.
                let _ = poll::wait(&mut fds[1..], Some(ENDING));
            }
            let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let has_news = self.watch.fd().is_some() && is_ready(fds.len() - 1);
            if client.is_some() && is_ready(1) {
                Some(Closing::ClientGone)
            } else {
                (is_told && !has_news).then_some(Closing::Dismissed)
            }
        };
        self.watch.drain(|_| true);
        Ok(because)
    }
}
