//! What a search costs compared with ripgrep: the same query over the same files, interleaved. Both find a word without
//! a capital letter in any case. For comparison, ripgrep's time with an exact case is printed as well.
//!
//! `packaging/release-binary && BATON_CORPUS=DIR cargo bench -p baton --bench search`: DIR holds `.jsonl` or `.jsonl.gz`
//! transcripts, which are repeated to a gigabyte under the target folder; without it generated ones are. Needs `rg`.
//! Exits with 1 above the target. Of the words that occur in the files, those with at most a thousand hits are taken.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::bench::release_binary;
use baton_testkit::{history, quality};

const SIZE: u64 = 1 << 30;
const ROUNDS: usize = 7;
const TARGET: f64 = 1.5;

fn main() -> ExitCode {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a new one");
    let files = fill(home.path());
    let size: u64 = files.iter().filter_map(|f| f.metadata().ok()).map(|m| m.len()).sum();
    println!(
        "{} transcripts, {} MB, all in the page cache; {ROUNDS} rounds, interleaved",
        files.len(),
        size >> 20
    );
    let words = std::env::var("BATON_WORDS").unwrap_or_else(|_| {
        "zzqqxx-not-there checkpointing handlers_test worktree Renamed TestHandle".to_owned()
    });
    let mut worst: f64 = 0.0;
    // The list of conversations is read once.
    run(home.path(), &baton("warm"));
    for word in words.split_whitespace() {
        let any_case = !word.chars().any(char::is_uppercase);
        let (ours, theirs, exact) =
            (baton(word), rg(home.path(), word, any_case), rg(home.path(), word, false));
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            a.push(run(home.path(), &ours).0);
            b.push(run(home.path(), &theirs).0);
            c.push(run(home.path(), &exact).0);
        }
        let hits = count(home.path(), &theirs);
        let (a, b, c) = (median(a), median(b), median(c));
        let ratio = a.as_secs_f64() / b.as_secs_f64();
        let judged = hits <= 1_000;
        if judged {
            worst = worst.max(ratio);
        }
        let note = if judged { "" } else { "  (not judged: more than 1,000 lines)" };
        let question = if any_case { "rg -i" } else { "rg   " };
        println!(
            "{word:<24} {question} {b:>9.3?}  baton {a:>9.3?}  ratio {ratio:.2}  {hits} lines; rg without -i {c:.3?}{note}"
        );
    }
    println!("worst ratio {worst:.2} (target: at most {TARGET})");
    if worst <= TARGET { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Copies of the corpus as separate sessions, up to a gigabyte.
fn fill(home: &Path) -> Vec<PathBuf> {
    let folder = home.join(".claude/projects/-work-app");
    std::fs::create_dir_all(&folder).expect("a home takes a new folder");
    let Some(corpus) = std::env::var_os("BATON_CORPUS") else {
        history::generate(home, 2_000, usize::try_from(SIZE / 2_000).expect("half a megabyte"));
        return walk(&home.join(".claude/projects"));
    };
    let texts = quality::corpus::load(Path::new(&corpus)).expect("BATON_CORPUS is a folder of transcripts");
    assert!(!texts.is_empty(), "BATON_CORPUS holds no .jsonl and no .jsonl.gz");
    let (mut files, mut total) = (Vec::new(), 0);
    for copy in 0.. {
        for (n, text) in texts.iter().enumerate() {
            let path = folder.join(format!("{n:08x}-0000-4000-8000-{copy:012x}.jsonl"));
            std::fs::write(&path, &text.bytes).expect("the target folder takes a gigabyte");
            total += text.bytes.len() as u64;
            files.push(path);
        }
        if total >= SIZE {
            break;
        }
    }
    files
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    entries.flat_map(|p| if p.is_dir() { walk(&p) } else { vec![p] }).collect()
}

fn baton(word: &str) -> Vec<String> {
    let baton = release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton"));
    let baton = baton.display().to_string();
    [&*baton, "sessions", "search", "--all", "-n", "1000", word].map(str::to_owned).to_vec()
}

/// All threads, no ignore files, as text: what an experienced user would run.
fn rg(home: &Path, word: &str, any_case: bool) -> Vec<String> {
    let folder = home.join(".claude/projects").display().to_string();
    let case = if any_case { "-i" } else { "-s" };
    ["rg", "-uu", "-a", "-F", case, "--no-config", "-e", word, &folder].map(str::to_owned).to_vec()
}

fn run(home: &Path, args: &[String]) -> (Duration, bool) {
    let mut command = Command::new(&args[0]);
    command.args(&args[1..]).env("HOME", home).current_dir(home).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status().unwrap_or_else(|e| panic!("{} does not start: {e}", args[0]));
    (began.elapsed(), status.success())
}

fn count(home: &Path, args: &[String]) -> usize {
    let output = Command::new(&args[0]).args(&args[1..]).env("HOME", home).output().expect("rg starts");
    memchr::memchr_iter(b'\n', &output.stdout).count()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
