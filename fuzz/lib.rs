//! What is done with each input, and what the targets share. The test suite compiles this file too (`tests/fuzzed.rs`), so
//! that a target which does not fit the code any more is seen there, and runs every seed through it.

use std::borrow::Cow;

#[path = "runs/claude.rs"]
pub mod claude;
#[path = "runs/codex.rs"]
pub mod codex;
#[path = "runs/frontmatter.rs"]
pub mod frontmatter;
#[path = "runs/ledger.rs"]
pub mod ledger;
#[path = "runs/mail.rs"]
pub mod mail;
#[path = "runs/manifests.rs"]
pub mod manifests;
#[path = "runs/packing.rs"]
pub mod packing;
#[path = "runs/payloads.rs"]
pub mod payloads;
#[path = "runs/plain.rs"]
pub mod plain;
#[path = "runs/redaction.rs"]
pub mod redaction;
#[path = "runs/requests.rs"]
pub mod requests;
#[path = "runs/settings.rs"]
pub mod settings;
#[path = "runs/tar.rs"]
pub mod tar;

/// Above this the instrumented parsers take longer than a fuzzer should wait for one input.
const LONGEST: usize = 512 * 1024;

/// The input itself; or, if it begins with `0xff` and a number, what follows repeated many times. Long and repetitive
/// text is what makes a parser slow, and a fuzzer does not come by it alone.
pub fn grown(input: &[u8]) -> Cow<'_, [u8]> {
    match input {
        [0xff, size, piece @ ..] if !piece.is_empty() => {
            let len = LONGEST >> (size % 8);
            Cow::Owned(piece.repeat(len / piece.len() + 1))
        }
        _ => Cow::Borrowed(input),
    }
}

/// The same as text.
pub fn grown_text(input: &[u8]) -> String {
    String::from_utf8_lossy(&grown(input)).into_owned()
}
