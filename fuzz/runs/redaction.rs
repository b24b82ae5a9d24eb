//! Any bytes: hits in order and inside the text, and a second pass that changes nothing.

use super::grown_text;
use baton_core::redact::redact;

pub fn run(input: &[u8]) {
    let text = grown_text(input);
    let out = redact(&text);
    let mut done = 0;
    for hit in &out.hits {
        assert!(done <= hit.range.start && hit.range.start < hit.range.end);
        assert!(text.get(hit.range.clone()).is_some());
        done = hit.range.end;
    }
    assert_eq!(redact(&out.text).text, out.text);
}
