//! Any bytes as a transcript: the backward scan never panics and agrees with a scan of the whole in memory.
#![no_main]

use std::io::Cursor;

use baton_core::transcript::tail::{REACH, last_usage, last_usage_in};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let found = last_usage(&mut Cursor::new(bytes), REACH).expect("memory can be read");
    assert_eq!(found, last_usage_in(bytes));
});
