//! What the mirror costs a hook.

use baton::testing::mirror::{Mirror, MirrorOrigin, PER_HOOK};
use baton_core::ids::SessionId;
use baton_testkit::hooks::Client;
use baton_testkit::trace;

use super::home;

/// Counts system calls: the mirror adds a handful to a hook, however large the transcript is.
#[test]
fn a_hook_pays_a_handful_of_calls_for_what_grew() {
    if !trace::available() {
        return;
    }
    let count = |enabled: bool, size: usize| {
        let home = home();
        home.write(".config/baton/config.toml", format!("[mirror]\nenabled = {enabled}\n"));
        let client = Client::new(&home);
        client.starts("startup").silent();
        client.answers(10);
        let line = format!("{{\"pad\":\"{}\"}}\n", "x".repeat(4_990));
        let mut text = line.repeat(size);
        text.push_str(&std::fs::read_to_string(client.transcript()).unwrap());
        std::fs::write(client.transcript(), text).unwrap();
        client.hook("Stop").ok();
        client.hook("PreCompact").ok();
        client.answers(10);
        client.hook("PostToolUse").ok();
        client.answers(20);
        let payload = home.write("payload.json", client.usual("PostToolUse").to_string());
        let log = home.path().join("calls");
        let mut command = home.command("strace");
        command.args(["-f", "-qq", "-o"]).arg(&log).arg(crate::BATON).args(["hook", "PostToolUse"]);
        client.dress(&mut command);
        command.stdin(std::fs::File::open(payload).unwrap());
        assert!(command.status().unwrap().success());
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(!text.contains("fsync") && !text.contains("fdatasync"), "a hook syncs nothing");
        text.lines().count()
    };
    let (without, with, large) = (count(false, 1), count(true, 1), count(true, 400));
    eprintln!("{without} system calls without the mirror, {with} with it, {large} with 2 MB");
    assert!(with <= without + 8, "{with} against {without}");
    assert!(large <= with + 1, "{large} against {with}");
}

/// Measures the time for 5 KB more in a transcript of 1 MB. The target is 0.1 ms; on a busy machine we assert ten times
/// that.
#[test]
fn five_kilobytes_are_taken_in_a_fraction_of_a_millisecond() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let mirror = Mirror::new(dir.path());
    let session = SessionId::new("s").unwrap();
    let transcript = dir.path().join("t.jsonl");
    let line = format!("{{\"pad\":\"{}\"}}\n", "x".repeat(5_000));
    std::fs::write(&transcript, line.repeat(200)).unwrap();
    let origin = MirrorOrigin { session: &session, provider: "claude", transcript: &transcript, cwd: "/" };
    mirror.catch_up(&origin, std::time::Duration::from_secs(10)).unwrap();
    let mut writer = std::fs::OpenOptions::new().append(true).open(&transcript).unwrap();
    let source = std::fs::File::open(&transcript).unwrap();
    let mut took: Vec<std::time::Duration> = (0..500)
        .map(|_| {
            writer.write_all(line.as_bytes()).unwrap();
            let began = std::time::Instant::now();
            assert_eq!(mirror.take(&origin, &source, PER_HOOK).unwrap().bytes, line.len() as u64);
            began.elapsed()
        })
        .collect();
    took.sort();
    eprintln!("5 KB: p50 {:?}, p90 {:?}, p99 {:?}", took[250], took[450], took[495]);
    assert!(took[250] < std::time::Duration::from_millis(1), "{:?}", took[250]);
}
