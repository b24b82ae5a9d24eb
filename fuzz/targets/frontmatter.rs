//! `runs/frontmatter.rs`, driven by libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::timed(baton_fuzz::frontmatter::run, input));
