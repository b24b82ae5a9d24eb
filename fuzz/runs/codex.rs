//! Any bytes as a rollout of Codex.

use std::io::Cursor;

use super::grown;
use baton_core::transcript::passages::passages;
use baton_core::transcript::rollout::last_usage;
use baton_core::transcript::summary::Summary;
use baton_core::transcript::tail::REACH;
use baton_core::transcript::{Dialect, Parser};

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    last_usage(&mut Cursor::new(&*bytes), REACH).expect("memory can be read");
    let mut summary = Summary::default();
    summary.head(&bytes);
    summary.tail(&bytes);
    let mut parser = Parser::default();
    for line in bytes.split(|b| *b == b'\n') {
        parser.feed(line, 0);
        passages(Dialect::Codex, line);
    }
}
