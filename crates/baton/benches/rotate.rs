//! What a rotation costs: from the Stop hook that asks for it to the start of the next client, the old one's own exit not
//! counted, with the scripted agent under `baton run` and every file on a disk.
//!
//! `packaging/release-binary && cargo bench -p baton --bench rotate`; another binary can be given in `BATON_BENCH`. Exits
//! with 1 when the median is above its target.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::bench::release_binary;
use serde_json::Value;

const ROTATIONS: usize = 60;
const TARGET_MS: f64 = 50.0;
/// Hands over in every context, forever.
const SCRIPT: &str =
    "turn\n  tokens 20%\n  bash echo \"What was done.\" | baton handoff -\n  say Handed over.\n";

fn main() -> ExitCode {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a new one");
    let baton = release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton"));
    println!("{}\n{}", baton.display(), file_system(dir.path()));
    let (home, app) = (dir.path().join("home"), dir.path().join("home/app"));
    let bin = dir.path().join("bin");
    for folder in [&home.join(".claude"), &app.join(".claude"), &bin] {
        std::fs::create_dir_all(folder).expect("a fresh folder takes a new one");
    }
    // The agent calls it by its name.
    std::os::unix::fs::symlink(&baton, bin.join("baton")).expect("it is fresh");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).expect("they were");
    std::fs::write(app.join(".baton.toml"), format!("[run]\nmax_restarts = {ROTATIONS}\n"))
        .expect("it is fresh");
    std::fs::write(dir.path().join("script"), SCRIPT).expect("it is fresh");
    let began = Instant::now();
    let mut run = Command::new(&baton)
        .args(["run", "--name", "bench", "demo", "Go."])
        .env_clear()
        .env("HOME", &home)
        .env("PATH", path)
        .env("BATON_AGENT_SCRIPT", dir.path().join("script"))
        .current_dir(&app)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("baton starts");
    let log = home.join(".local/state/baton/log");
    while lines(&log, "rotation-refused").is_empty() {
        assert!(began.elapsed() < Duration::from_mins(10), "the rotations do not come to an end");
        assert!(run.try_wait().expect("it is our child").is_none(), "baton run has ended");
        std::thread::sleep(Duration::from_millis(200));
    }
    let took = began.elapsed();
    drop(run.stdin.take());
    let _ = run.kill();
    let _ = run.wait();

    let rotated = lines(&log, "rotated");
    println!("{} rotations in {took:.1?}", rotated.len());
    let part =
        |name: &str| -> Vec<f64> { rotated.iter().filter_map(|l| l["detail"][name].as_f64()).collect() };
    let ours: Vec<f64> = rotated
        .iter()
        .filter_map(|l| {
            Some(l["detail"]["ms_until_told"].as_f64()? + l["detail"]["ms_until_started"].as_f64()?)
        })
        .collect();
    show("Stop hook to the word to end", part("ms_until_told"));
    show("the agent's own exit", part("ms_to_end"));
    show("its end to the next process", part("ms_until_started"));
    let median = show("ours, together", ours);
    if median > TARGET_MS { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn show(name: &str, mut ms: Vec<f64>) -> f64 {
    assert!(!ms.is_empty(), "nothing was measured");
    ms.sort_by(f64::total_cmp);
    let at = |part: usize| ms[ms.len() * part / 10];
    println!("{name:<30} p10 {:>6.1}  p50 {:>6.1}  p90 {:>6.1} ms", at(1), at(5), at(9));
    at(5)
}

fn lines(log: &Path, event: &str) -> Vec<Value> {
    let files = std::fs::read_dir(log).into_iter().flatten().flatten();
    let text: String = files.filter_map(|f| std::fs::read_to_string(f.path()).ok()).collect();
    let all = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    all.filter(|l| l["event"] == event).collect()
}

/// On a memory file system a sync costs nothing.
fn file_system(dir: &Path) -> String {
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(dir).output();
    let kind = kind.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    format!("file system: {kind}")
}
