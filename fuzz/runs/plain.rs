//! Any bytes: no control but newline and tab comes out, and a second pass changes nothing.

use super::grown_text;
use baton_core::plain::{plain, plain_line};

pub fn run(input: &[u8]) {
    let text = grown_text(input);
    let shown = plain(&text);
    assert!(shown.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
    assert_eq!(plain(&shown), shown);
    assert!(plain_line(&text, 40).chars().all(|c| !c.is_control()));
}
