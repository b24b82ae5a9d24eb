//! Any bytes as a channel's manifest or a handoff document: what is written back is read back, and the rules keep a sound
//! manifest sound.

use super::grown;
use baton_core::handoff::document::Header;
use baton_core::handoff::manifest::{Manifest, World};
use jiff::{SignedDuration, Timestamp};

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    if let Ok((header, body)) = Header::parse(&String::from_utf8_lossy(&bytes)) {
        let text = header.with_body(body);
        let (again, body) = Header::parse(&text).expect("it was just written");
        // Control characters of a name are not written, so the second time nothing changes.
        assert_eq!(again.with_body(body), text);
    }
    let Ok(mut manifest) = serde_json::from_slice::<Manifest>(&bytes) else { return };
    let channel = manifest.channel.clone();
    let sound = manifest.check(&channel).is_ok();
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
    let world = World {
        now,
        expiry: SignedDuration::from_hours(24),
        alive: &|_| false,
        wanted: &|_| false,
        private: &|_| false,
    };
    manifest.release_dead(&world);
    manifest.sweep(&world);
    if sound {
        assert_eq!(manifest.check(&channel), Ok(()));
    }
    let text = serde_json::to_vec(&manifest).expect("it was read from JSON");
    let again: Manifest = serde_json::from_slice(&text).expect("it was just written");
    assert_eq!(again, manifest);
}
