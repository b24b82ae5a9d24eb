//! Any bytes: no panic, hits in order and inside the text, and a second pass that changes nothing.
#![no_main]

use baton_core::redact::redact;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let out = redact(&text);
    let mut done = 0;
    for hit in &out.hits {
        assert!(done <= hit.range.start && hit.range.start < hit.range.end);
        assert!(text.get(hit.range.clone()).is_some());
        done = hit.range.end;
    }
    assert_eq!(redact(&out.text).text, out.text);
});
