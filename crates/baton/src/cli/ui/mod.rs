//! Output for people: colours only where they help, aligned tables that never wrap, and closed pipes that are not
//! errors.

pub(crate) mod confirm;
mod pager;
mod paint;
pub(crate) mod picker;
pub(crate) mod progress;
pub(crate) mod request;
mod table;
pub(crate) mod text;

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anyhow::Context as _;
use baton_core::plain::is_unseen;

use crate::sys::terminal;

pub(crate) use pager::page;
pub(crate) use paint::Paint;
pub(crate) use table::{table, table_ranked, table_within};
pub(crate) use text::{age, clock, local, size, tokens};

/// Writes text for people to standard output. In a terminal long lines break between words.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match terminal::size() {
        Some((columns, _)) => print_raw(&text::wrap(text, usize::from(columns))),
        None => print_raw(text),
    }
}

/// Writes to standard output without a change: documents, diffs, scripts, and commands that people copy.
pub(crate) fn print_raw(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("could not write to standard output; check where it leads and try again")
}

/// Writes a message to standard error. In a terminal long lines break between words.
pub(crate) fn report(text: &str) {
    let text = match terminal::error_columns() {
        Some(columns) => text::wrap(text, usize::from(columns)),
        None => text.to_owned(),
    };
    // A failure cannot be reported to anyone.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints JSON. Escapes invisible characters that a terminal would interpret; parsers read them back unchanged.
pub(crate) fn print_json<T: serde::Serialize>(value: &T) -> anyhow::Result<()> {
    let mut text = escaped(&serde_json::to_string_pretty(value)?);
    text.push('\n');
    print_raw(&text)
}

/// JSON with every invisible character in its strings as `\u….`.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Line breaks between values are ours; those in strings are already escaped.
        if c != '\n' && is_unseen(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether the reader of our output went away (`baton … | head`).
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|e| e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_characters_are_escaped_in_json_and_mean_the_same() {
        let text = "red \u{9b}31m \u{7f} \u{202e}\u{2066}\u{200b} é 日本 \u{e0041}\n";
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let escaped = escaped(&json);
        assert!(!escaped.contains(['\u{9b}', '\u{7f}', '\u{202e}', '\u{2066}', '\u{e0041}']), "{escaped}");
        assert!(escaped.contains("é 日本") && escaped.contains("\\u202e"), "{escaped}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&escaped).unwrap()[0], text);
    }
}
