//! What sealing costs: a 20 KB handoff with all its syncs, against one synced atomic replace of the same bytes.
//!
//! Both on the same disk and interleaved in one run, so that whatever else the machine does hits both alike.
//! `cargo bench -p baton --bench seal`; exits with 1 when the ratio of the medians is above the target.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use baton::testing::handoffs::{Draft, Handoffs};
use baton_core::handoff::{Entry, Kind};
use baton_core::ids::{ChannelName, SessionId};
use baton_testkit::bench::{Spread, timed};
use jiff::{SignedDuration, Timestamp};

const ROUNDS: i64 = 300;
const TARGET: f64 = 3.0;

fn main() -> ExitCode {
    // In the target folder rather than /tmp, which may be memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a new one");
    let store = Handoffs::new(
        dir.path().join("handoff"),
        SignedDuration::from_hours(2),
        Box::new(Entry::is_addressed),
    );
    let (channel, session) =
        (ChannelName::new("app"), SessionId::new("0398f495-c491-4e18-ad53-ad5ac70c0279"));
    let (channel, session) = (channel.expect("a plain word"), session.expect("a uuid"));
    let body = "a line of a handoff, as long as lines are\n".repeat(490);
    let plain = dir.path().join("plain");
    let (mut seals, mut replaces) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        replaces.push(timed(|| replace(&plain, body.as_bytes())));
        let draft = Draft {
            channel: &channel,
            session: &session,
            kind: Kind::Auto,
            working_dir: "/home/dev/app",
            body: &body,
            created_by_pid: 1,
            for_agent: None,
            for_session: None,
            rotation: None,
            carried: None,
        };
        // A second apart, like real handoffs, so that no time is spent on finding a free name.
        let now = Timestamp::from_second(1_770_000_000 + round).expect("a time in this century");
        seals.push(timed(|| drop(store.seal(&draft, now).expect("a handoff is sealed"))));
    }
    let (seal, replace) = (Spread::of(seals), Spread::of(replaces));
    let ratio = seal.p50.as_secs_f64() / replace.p50.as_secs_f64();
    println!("{} bytes, {ROUNDS} rounds, interleaved", body.len());
    println!("seal                   {seal}");
    println!("synced atomic replace  {replace}");
    println!("ratio of the medians   {ratio:.2} (target: at most {TARGET:.1})");
    if ratio <= TARGET { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The minimum for any careful writer: temporary file, sync, rename, sync of the folder.
fn replace(path: &Path, bytes: &[u8]) {
    let temp = path.with_extension("tmp");
    let mut file = File::create(&temp).expect("a fresh folder takes a new file");
    file.write_all(bytes).and_then(|()| file.sync_all()).expect("the disk takes it");
    std::fs::rename(&temp, path).expect("the same folder");
    let parent = path.parent().expect("it lies in a folder");
    File::open(parent).and_then(|dir| dir.sync_all()).expect("a folder can be synced");
}
