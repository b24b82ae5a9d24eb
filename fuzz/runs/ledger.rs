//! Any bytes as a transcript: the ledger is the same whether it is read at once or in two parts, and fits its budget.

use super::grown;
use baton_core::handoff::pack::pack;
use baton_core::handoff::render::render;
use baton_core::ledger::Ledger;

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    let mut whole = Ledger::default();
    whole.read(&*bytes).expect("memory can be read");
    let text = render(&whole, None);
    assert!(pack(&whole, None, 9_500, "/path").text.chars().count() <= 9_500);

    let cut = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |n| n / 2);
    let cut = bytes[..cut].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
    let mut parts = Ledger::default();
    parts.read(&bytes[..cut]).expect("memory can be read");
    let rest = usize::try_from(parts.read_to()).expect("it is within the input");
    parts.read(&bytes[rest..]).expect("memory can be read");
    assert_eq!(render(&parts, None), text);
}
