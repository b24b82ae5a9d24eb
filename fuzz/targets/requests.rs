//! `runs/requests.rs`, driven by libFuzzer.
#![no_main]

use baton_fuzz::grown;

#[path = "../runs/requests.rs"]
mod run;

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::timed(run::run, input));
