//! Any bytes: no control but newline and tab comes out, and a second pass changes nothing.
#![no_main]

use baton_core::plain::{plain, plain_line};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let shown = plain(&text);
    assert!(shown.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
    assert_eq!(plain(&shown), shown);
    assert!(plain_line(&text, 40).chars().all(|c| !c.is_control()));
});
