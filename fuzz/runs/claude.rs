//! Any bytes as a transcript of Claude Code: the backward scan agrees with a scan of the whole, and every other reader
//! survives.

use std::io::Cursor;

use super::grown;
use baton_core::transcript::passages::{passages, provider_of};
use baton_core::transcript::summary::Summary;
use baton_core::transcript::tail::{REACH, last_usage, last_usage_in};
use baton_core::transcript::{Dialect, Parser};

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    let found = last_usage(&mut Cursor::new(&*bytes), REACH).expect("memory can be read");
    assert_eq!(found, last_usage_in(&bytes));

    let mut summary = Summary::default();
    summary.head(&bytes);
    summary.tail(&bytes);
    let mut parser = Parser::default();
    for line in bytes.split(|b| *b == b'\n') {
        parser.feed(line, 0);
        let _ = provider_of(line);
        passages(Dialect::Claude, line);
    }
}
