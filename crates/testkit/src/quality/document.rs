//! What an agent is given of a transcript that ends at a cut: sealed as a handoff, stored, loaded, packed and framed as
//! in `baton`'s hooks, so that frame, instructions and redaction count towards the budget.

use anyhow::Result;
use baton_core::fence::Key;
use baton_core::handoff::carried::{Carried, DocumentReader, Notes, SourceSession};
use baton_core::handoff::frame::{FrameFacts, framed};
use baton_core::handoff::{HandoffId, Kind};
use baton_core::plain::plain;
use baton_core::redact::redact;
use jiff::{Timestamp, ToSpan as _};

use super::speed;
use super::story::Story;

const ID: &str = "HO-20261116-000000-00000000";
const SESSION: &str = "6a4a6f0e-3f0c-4f6e-9a51-0d6d3c1f7b11";
const CHANNEL: &str = "app-1a2b3c";
const POINTER: &str = "/home/dev/.claude/handoff/archive/HO-20261116-000000-00000000.md";

/// A handoff as on disk.
pub struct Sealed {
    id: HandoffId,
    carried: Carried,
}

impl Sealed {
    pub fn of(transcript: &[u8], story: &Story) -> Result<Self> {
        let (provider, spoken) = if story.is_codex { ("codex", "Codex") } else { ("claude", "Claude") };
        let from = SourceSession {
            session: SESSION.to_owned(),
            agent: "app".to_owned(),
            provider: provider.to_owned(),
            project: story.root.clone(),
            channel: CHANNEL.to_owned(),
            kind: Kind::Precompact,
            at: Timestamp::UNIX_EPOCH,
        };
        let reader = DocumentReader { spoken, differs: None, has_memory: false };
        let ledger = speed::ledger(transcript);
        let carried = Carried::compose(from, &reader, &Notes::default(), None, ledger);
        Ok(Self { id: HandoffId::new(ID)?, carried: carried.stored() })
    }

    /// What the next context is given of it in `budget` characters.
    pub fn given(&self, budget: usize) -> String {
        let from = &self.carried.from;
        let about = FrameFacts {
            id: &self.id,
            channel: &from.channel,
            session: &from.session,
            kind: &from.kind,
            created: from.at,
            working_dir: &from.project,
            pointer: POINTER,
        };
        let now = from.at + 3.minutes();
        framed(&about, &Key::new([7; Key::LEN]), now, budget, |room| {
            redact(&plain(&self.carried.packed(room, POINTER))).text.into_owned()
        })
    }
}
