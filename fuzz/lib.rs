//! What is done with each input, and what the targets share. The test suite compiles this file too (`tests/fuzzed.rs`), so
//! that a target which does not fit the code any more is seen there, and runs every seed through it. The targets that need
//! the binary's crate, `requests` and `settings`, compile what they do themselves.

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

/// Runs a target and fails if that took longer than a linear parser needs. Time is the thread's own, because fuzzers run
/// for hours beside other work.
#[cfg(fuzzing)]
pub fn timed(run: fn(&[u8]), input: &[u8]) {
    use std::cell::Cell;
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    thread_local!(static SLOWEST: Cell<Duration> = const { Cell::new(Duration::ZERO) });
    let used =
        || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("this clock starts at zero");
    let before = used();
    run(input);
    let took = used() - before;
    if took > SLOWEST.get().mul_f64(1.1) {
        SLOWEST.set(took);
        eprintln!("slowest: {:.3} s of processor, {} bytes", took.as_secs_f64(), input.len());
    }
    assert!(took < Duration::from_secs(4), "{took:?} for {} bytes", input.len());
}
