//! Whatever the file contains, the reader reports it and does not break.

use std::io::{BufReader, Cursor, Read};

use baton_core::handoff::{pack::pack, render::render};
use baton_core::ledger::Ledger;
use proptest::prelude::*;

use crate::claude::working_session;

fn body(bytes: &[u8]) -> String {
    render(&Ledger::of(bytes).expect("reading from memory"), None)
}

#[test]
fn an_empty_transcript_is_reported_as_empty() {
    insta::assert_snapshot!(body(b""), @r"
    ## Not read
    Nothing of the work could be read from the transcript: no request, no answer, no file.
    - The transcript has no lines.
    ");
}

#[test]
fn a_binary_file_is_reported_as_unreadable() {
    let bytes: Vec<u8> = (0..4096_u32).map(|i| u8::try_from(i * 7919 % 251).unwrap()).collect();
    let body = body(&bytes);
    assert!(body.contains("Nothing of the work could be read"), "{body}");
    assert!(body.contains("could not be read as records"), "{body}");
}

#[test]
fn another_encoding_is_reported_as_unreadable() {
    let wide: Vec<u8> = working_session().text().encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(body(&wide).contains("Nothing of the work could be read"));
}

#[test]
fn bytes_that_are_not_text_cost_only_themselves() {
    let mut bytes = working_session().text().into_bytes();
    let at = bytes.windows(3).position(|w| w == b"bug").unwrap();
    bytes[at] = 0xff;
    let ledger = Ledger::of(bytes.as_slice()).unwrap();
    assert!(ledger.words.first.as_ref().unwrap().text.starts_with("Fix the login \u{fffd}ug."));
    assert!(ledger.notes()[0].contains("not UTF-8"));
}

#[test]
fn a_line_of_a_gigabyte_is_skipped_in_bounded_memory() {
    let good = working_session().text();
    let long = std::io::repeat(b'x').take(1 << 30);
    let reader = BufReader::with_capacity(
        1 << 16,
        Cursor::new("").chain(long).chain(Cursor::new(format!("\n{good}"))),
    );
    let ledger = Ledger::of(reader).unwrap();
    assert_eq!(ledger.counts().too_long, 1);
    assert!(ledger.words.first.is_some());
    assert!(render(&ledger, None).contains("longer than 8 MiB"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let ledger = Ledger::of(bytes.as_slice()).unwrap();
        prop_assert!(!render(&ledger, None).is_empty());
    }

    #[test]
    fn no_damage_to_a_transcript_makes_it_panic(
        at in 0_usize..9000, with in proptest::collection::vec(any::<u8>(), 0..12), cut in 0_usize..12000,
    ) {
        let mut bytes = working_session().text().into_bytes();
        let at = at.min(bytes.len());
        let end = (at + with.len()).min(bytes.len());
        bytes.splice(at..end, with);
        bytes.truncate(cut);
        let ledger = Ledger::of(bytes.as_slice()).unwrap();
        let packed = pack(&ledger, None, 2000, "x");
        prop_assert!(!packed.text.is_empty());
    }
}
