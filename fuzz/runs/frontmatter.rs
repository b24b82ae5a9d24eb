//! Any text as a checkpoint: what was read is written so that it is read again.

use super::grown_text;
use baton_core::checkpoint::{Checkpoint, FileName};

pub fn run(input: &[u8]) {
    let text = grown_text(input);
    if let Some(name) = text.lines().next().and_then(FileName::parse) {
        let _ = (name.timestamp(), name.session8());
    }
    let Some(read) = Checkpoint::parse(&text) else { return };
    let again = Checkpoint::parse(&read.format()).expect("it was just written");
    assert_eq!((&again.goal, &again.now), (&read.goal, &read.now));
    assert_eq!((again.next, again.blockers), (read.next, read.blockers));
}
