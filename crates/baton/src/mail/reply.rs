//! Answers a message in the caller's own inbox, for the command line and the API.

use baton_core::ids::AgentId;
use baton_core::message::{Message, short_id};
use jiff::Timestamp;

use crate::mail::maildir::{Draft, Mail, SendError};
use crate::mail::{self, user};
use crate::store::Store;
use crate::sys::fs::FileError;

/// Why no answer was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplyRefusal {
    #[error("there is no message {0} in this inbox; `baton inbox` shows their ids")]
    Unknown(String),
    #[error("{1} messages begin with {0}; write more of it")]
    Ambiguous(String, usize),
    #[error("{0} is a notice of baton's own; nobody would read an answer")]
    Notice(String),
    #[error("there is no agent {0} any more")]
    Gone(AgentId),
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// An answer that was sent.
pub(crate) struct Replied {
    pub id: String,
    pub to: String,
    pub reply_to: String,
    /// The agent had another name when it wrote the message.
    pub renamed: bool,
}

/// The message with this id: short, whole, or the beginning of the whole one.
pub(crate) fn find(mail: &Mail, own: &AgentId, id: &str) -> Result<Message, ReplyRefusal> {
    let is_meant = |message: &Message| short_id(&message.id).starts_with(id) || message.id.starts_with(id);
    let mut found: Vec<Message> =
        mail.list(own).into_iter().map(|(message, _)| message).filter(is_meant).collect();
    match (found.pop(), found.len()) {
        (None, _) => Err(ReplyRefusal::Unknown(id.to_owned())),
        (Some(message), 0) => Ok(message),
        (Some(_), more) => Err(ReplyRefusal::Ambiguous(id.to_owned(), more + 1)),
    }
}

/// Answers the message `id` in the inbox of `own`, as `from`. Answering also marks it as read.
pub(crate) fn reply(
    store: &Store,
    own: &AgentId,
    from: &str,
    id: &str,
    text: &str,
    now: Timestamp,
) -> Result<Replied, ReplyRefusal> {
    let mail = Mail::of(store);
    let message = find(&mail, own, id)?;
    let sender = AgentId::new(message.from.as_str()).ok().filter(|from| from.as_str() != "baton");
    let sender = sender.ok_or_else(|| ReplyRefusal::Notice(id.to_owned()))?;
    let draft = Draft { reply_to: Some(&message.id), ..Draft::new(from, text) };
    let (id, to) = if sender == user::id() {
        (mail.post(&sender, &draft, now)?.id, sender.clone())
    } else {
        let agent = store.agents().named(&sender)?.ok_or_else(|| ReplyRefusal::Gone(sender.clone()))?;
        (mail::send(store, &agent, &draft, None, now)?.id, agent.id)
    };
    mail.seen(own, &message.id, "answered", now);
    Ok(Replied { id, renamed: to != sender, to: to.to_string(), reply_to: message.id })
}
