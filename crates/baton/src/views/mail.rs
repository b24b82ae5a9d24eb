//! A message as it is shown, with its delivery state.

use baton_core::message::{Message, short_id};
use baton_core::plain::plain;
use baton_core::redact::redact;
use serde_json::{Value, json};

use crate::mail::maildir::{Receipt, State};

/// A message with its state and how that is known.
pub(crate) fn row(message: &Message, state: State, receipt: Option<&Receipt>) -> Value {
    let mut row = json!(message);
    row["state"] = json!(state);
    row["short"] = json!(short_id(&message.id));
    if let Some(receipt) = receipt.filter(|r| r.state == state) {
        row["evidence"] = json!(receipt.evidence);
        row["since"] = json!(receipt.at);
    }
    row
}

/// The same for a page, without secrets. Other people's control characters stay; the page writes them out, so that a
/// person who approves a command sees all of it.
pub(crate) fn masked(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) => {
            // An invisible character inside a key would hide the key from the rules.
            let seen = redact(text).text.into_owned();
            let is_clean = redact(&plain(&seen)).text == plain(&seen);
            *text = if is_clean { seen } else { redact(&plain(text)).text.into_owned() };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = masked(item.take())),
        Value::Object(fields) => fields.values_mut().for_each(|field| *field = masked(field.take())),
        _ => {}
    }
    value
}
