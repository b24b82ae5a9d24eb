//! Notices about an agent, for its parent or, without one, for the user; once per occasion.
//!
//! The first process that sees the occasion sends the notice: a hook, an attendant, a supervisor, a command, the
//! daemon. The key of the occasion makes it one message.

use baton_core::agent::{Agent, SupervisorOrder};
use baton_core::halt::Audience;
use baton_core::notice::{self, Notice, NoticeKind, client_of};
use baton_core::session::Session;
use jiff::Timestamp;

use crate::config::NotifySettings;
use crate::mail::keyed::Key;
use crate::mail::maildir::{Draft, Mail};
use crate::mail::{send, user};
use crate::store::Store;

/// Whether the user has muted this notice. A death cannot be muted.
pub(crate) fn is_muted(config: &NotifySettings, agent: &Agent, kind: NoticeKind) -> bool {
    kind != NoticeKind::Died && notice::is_muted(&config.mute, agent.id.as_str(), kind)
}

/// Notifies the agent's parent, or the user if there is no active parent, unless that is switched off.
pub(crate) fn tell(
    store: &Store,
    config: &NotifySettings,
    agent: &Agent,
    notice: Notice,
    text: &str,
    now: Timestamp,
) {
    let wanted = config.parent || notice.kind == NoticeKind::Died;
    if wanted && !is_muted(config, agent, notice.kind) {
        tell_always(store, agent, notice, text, now);
    }
}

fn tell_always(store: &Store, agent: &Agent, notice: Notice, text: &str, now: Timestamp) {
    if was_told(store, agent, notice) {
        return;
    }
    let told = match parent_of(store, agent) {
        Some(parent) => mail(store, &parent, &notice.key(agent.id.as_str()), text, now),
        None => user::tell(store, &agent.id, notice, text, now),
    };
    if let Err(e) = told {
        store.log().fault(now, "send a notice", &e);
    }
}

/// Whether this notice was sent when the agent had another name.
fn was_told(store: &Store, agent: &Agent, notice: Notice) -> bool {
    let listener = parent_of(store, agent).map_or_else(user::id, |parent| parent.id);
    let keys = Mail::of(store).dir(&listener, "keys");
    agent.former.iter().any(|name| keys.join(notice.key(name.as_str())).exists())
}

/// Who receives the agent's notices: its parent, unless that one was retired.
pub(crate) fn parent_of(store: &Store, agent: &Agent) -> Option<Agent> {
    // A parent whose record cannot be read may still be there, but nothing can be sent to it.
    let parent = store.agents().readable(agent.parent.as_ref()?)?;
    parent.retired.is_none().then_some(parent)
}

/// Who reads a notice about the agent.
pub(crate) fn audience(store: &Store, agent: &Agent) -> Audience {
    if parent_of(store, agent).is_some() { Audience::Agent } else { Audience::User }
}

/// Sends the notice by mail, once for each key.
pub(crate) fn mail(store: &Store, to: &Agent, key: &str, text: &str, now: Timestamp) -> anyhow::Result<()> {
    let draft = Draft::new("baton", text);
    send(store, to, &draft, Some(&Key::new(key)?), now)?;
    Ok(())
}

/// Sends a notice that an agent's client is gone although nobody stopped it.
pub(crate) fn death(store: &Store, agent: &Agent, session: Option<&Session>, how: &str, now: Timestamp) {
    let was_meant = agent.retired.is_some() || matches!(agent.order, Some(SupervisorOrder::Undo { .. }));
    if was_meant {
        return;
    }
    let Some(client) = client_of(agent, session) else { return };
    let text = NoticeKind::Died.text(agent.id.as_str(), how);
    tell_always(store, agent, Notice::of_death(client), &text, now);
}

/// How a client ended if nothing reported its end.
pub(crate) const UNSEEN: &str = "its client is gone, and nothing reported its end";
