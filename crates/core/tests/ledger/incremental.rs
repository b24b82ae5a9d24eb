//! Reading on from a stored offset gives the same ledger as reading everything at once.

use baton_core::handoff::render::render;
use baton_core::ledger::Ledger;
use proptest::prelude::*;

use crate::claude::{Transcript, working_session};

#[test]
fn a_torn_last_line_is_read_when_it_is_whole() {
    let text = working_session().text();
    let cut = text.len() - 20;
    let mut ledger = Ledger::of(&text.as_bytes()[..cut]).unwrap();
    assert!(ledger.counts().torn);
    assert_eq!(ledger.notes(), ["The last line is not complete."]);
    let from = usize::try_from(ledger.read_to()).unwrap();
    assert!(from < cut && text.as_bytes()[from - 1] == b'\n');
    ledger.read(&text.as_bytes()[from..]).unwrap();
    assert!(ledger.notes().is_empty());
    assert!(ledger.last_reply().unwrap().text.contains("Clippy complains"));
}

#[test]
fn the_working_set_is_taken_from_the_end_and_facts_from_everywhere() {
    let session = Transcript::default().user("Never push.").shell("./deploy", "wrote artifact_of_old");
    let old = session.text().len() as u64;
    let text = session.shell("./deploy", "wrote artifact_of_new").text();
    let mut ledger = Ledger::new();
    ledger.recent_from(old);
    ledger.read(text.as_bytes()).unwrap();
    let names: Vec<&str> = ledger.working.names().iter().map(|name| name.text.as_str()).collect();
    assert_eq!(names, ["artifact_of_new"]);
    assert_eq!(ledger.words.first.unwrap().text, "Never push.");
}

proptest! {
    #[test]
    fn any_number_of_stops_with_the_state_stored_between_changes_nothing(
        stops in proptest::collection::vec(0_usize..14_000, 0..6),
    ) {
        let text = working_session().compacted().user("Go on.").text();
        let bytes = text.as_bytes();
        let mut stops: Vec<usize> = stops.into_iter().map(|s| s.min(bytes.len())).collect();
        stops.push(bytes.len());
        stops.sort_unstable();
        let mut ledger = Ledger::default();
        for stop in stops {
            let from = usize::try_from(ledger.read_to()).unwrap();
            if from < stop {
                ledger.read(&bytes[from..stop]).unwrap();
            }
            ledger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
        }
        prop_assert_eq!(render(&ledger, None), render(&Ledger::of(bytes).unwrap(), None));
    }
}
