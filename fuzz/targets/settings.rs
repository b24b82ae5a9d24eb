//! `runs/settings.rs`, driven by libFuzzer.
#![no_main]

use baton_fuzz::grown;

#[path = "../runs/settings.rs"]
mod run;

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::timed(run::run, input));
