//! What a hook costs: each event and the status line against an empty program built the same way, all builds
//! interleaved in one run so that whatever else the machine does hits all alike.
//!
//! `packaging/release-binary && cargo bench -p baton --bench hot` measures the shipped build and the plain one of
//! `cargo build --release`; `BATON_BENCH=OLD:NEW` measures these instead. Exits with 1 when a hot event is above the
//! target of its build.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::bench::{Spread, builds};
use serde_json::json;

const ROUNDS: usize = 400;
const SHELL_ROUNDS: usize = 40;
/// A hook against the empty program, in a static binary as it is shipped and in a plain build.
const SHIPPED_TARGET: f64 = 2.0;
const PLAIN_TARGET: f64 = 2.5;
/// A transcript of 1 GB against one of 1 MB.
const SIZE_TARGET: f64 = 1.2;

const HOT: [&str; 6] =
    ["PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "Notification", "SubagentStop"];
/// These seal or load and may sync, so they are shown without a target.
const OTHERS: [&str; 3] = ["SessionStart", "PreCompact", "SessionEnd"];

fn main() -> ExitCode {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a new one");
    let builds = builds(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton"));
    let benches: Vec<Bench> = builds
        .iter()
        .enumerate()
        .map(|(n, baton)| Bench::new(&dir.path().join(n.to_string()), baton))
        .collect();

    let mut tables: Vec<Vec<Row>> = benches.iter().map(Bench::rows).collect();
    let took = interleaved(&mut tables, ROUNDS);
    println!("{ROUNDS} rounds, interleaved, payloads of 5 KB, a transcript of 1 MB");
    let mut missed = false;
    for ((bench, rows), took) in benches.iter().zip(&tables).zip(&took) {
        println!(
            "\n{}: {}, target {:.1} × empty",
            bench.baton.display(),
            bench.kind.name(),
            bench.kind.target()
        );
        for (Row { name, .. }, spread) in rows.iter().zip(took) {
            let (ratio, best) =
                (spread.p50.div_duration_f64(took[0].p50), spread.p10.div_duration_f64(took[0].p10));
            let judged = HOT.contains(&name.as_str()) || name == "statusline" || name == NEWS;
            let verdict = if judged && ratio > bench.kind.target() { "  above the target" } else { "" };
            missed |= !verdict.is_empty();
            println!("{name:<20} {spread}  {ratio:>5.2} × empty ({best:.2} × at p10){verdict}");
        }
    }
    println!();

    let bench = &benches[0];
    if let Some(script) = bench.shell_script() {
        let mut rows =
            [vec![Row::new("empty", Command::new(&bench.empty)), Row::new("bash + jq + curl", script)]];
        let took = &interleaved(&mut rows, SHELL_ROUNDS)[0];
        let ratio = took[1].p50.div_duration_f64(took[0].p50);
        println!("{:<20} {}  {ratio:>5.2} × empty ({SHELL_ROUNDS} rounds)", rows[0][1].name, took[1]);
    } else {
        println!("bash + jq + curl     left out: jq or curl is not installed");
    }

    let mut rows = [vec![
        Row::new("1 MB", bench.hook("PostToolUse", "tools")),
        Row::new("1 GB", bench.hook("PostToolUse", "huge")),
    ]];
    let took = &interleaved(&mut rows, ROUNDS)[0];
    let ratio = took[1].p50.div_duration_f64(took[0].p50);
    missed |= ratio > SIZE_TARGET;
    println!("PostToolUse with a transcript of 1 MB {}, of 1 GB {}: {ratio:.2} ×\n", took[0], took[1]);

    for event in HOT.iter().chain(&["statusline"]) {
        let Some((processes, sockets, calls)) = bench.traced(event) else {
            println!("strace is not here: started processes and sockets were not counted");
            break;
        };
        missed |= processes + sockets > 0;
        println!("{event:<20} {processes} processes started, {sockets} sockets, {calls} system calls");
    }
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

const NEWS: &str = "PostToolUse, news";

/// A command that is started again and again.
struct Row {
    name: String,
    command: Command,
    /// A transcript that gets another answer before each start.
    grows: Option<PathBuf>,
}

impl Row {
    fn new(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), command, grows: None }
    }
}

/// How a binary was built, as far as its start depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Dynamic: what `cargo build --release` makes, position-independent with `BATON_PIE=1`.
    Plain { is_pie: bool },
    /// Static, for the target of `packaging/release-binary`.
    Shipped(&'static str),
}

impl Kind {
    /// Determined from the ELF header, the interpreter named after it, and the path.
    fn of(baton: &Path) -> Self {
        const TARGETS: [&str; 4] = [
            "x86_64-unknown-linux-musl",
            "x86_64-unknown-linux-gnu",
            "aarch64-unknown-linux-musl",
            "aarch64-unknown-linux-gnu",
        ];
        let mut header = [0; 4096];
        File::open(baton).and_then(|mut file| file.read_exact(&mut header)).expect("the build is there");
        let is_fixed = header.starts_with(b"\x7fELF") && header[16..18] == [2, 0];
        let is_static = !header.windows(8).any(|bytes| bytes == b"ld-linux");
        let named = TARGETS.iter().find(|target| baton.iter().any(|part| part == **target));
        // A copy of the binary somewhere else: the shipped one uses musl.
        let usual = TARGETS.iter().find(|target| target.starts_with(std::env::consts::ARCH));
        match named.or(usual) {
            Some(target) if is_fixed && is_static => Self::Shipped(target),
            _ => Self::Plain { is_pie: !is_fixed },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain { is_pie: false } => "plain build",
            Self::Plain { is_pie: true } => "plain build, PIE",
            Self::Shipped(_) => "shipped build",
        }
    }

    fn target(self) -> f64 {
        match self {
            Self::Plain { .. } => PLAIN_TARGET,
            Self::Shipped(_) => SHIPPED_TARGET,
        }
    }
}

struct Bench {
    dir: PathBuf,
    kind: Kind,
    baton: PathBuf,
    empty: PathBuf,
    transcript: PathBuf,
    huge: PathBuf,
    growing: PathBuf,
}

impl Bench {
    fn new(dir: &Path, baton: &Path) -> Self {
        std::fs::create_dir(dir).expect("a fresh folder takes a new one");
        let kind = Kind::of(baton);
        let bench = Self {
            dir: dir.to_owned(),
            kind,
            empty: empty_binary(dir, kind),
            baton: baton.to_owned(),
            transcript: dir.join("transcript.jsonl"),
            huge: dir.join("huge.jsonl"),
            growing: dir.join("growing.jsonl"),
        };
        std::fs::create_dir_all(dir.join("home/.claude")).expect("a fresh folder takes a new one");
        std::fs::create_dir_all(dir.join("app")).expect("a fresh folder takes a new one");
        write_transcript(&bench.transcript, 1 << 20);
        write_transcript(&bench.huge, 1 << 30);
        write_transcript(&bench.growing, 1 << 20);
        for session in ["tools", "turns", "seals", "huge", "news"] {
            let status = bench.hook("SessionStart", session).status().expect("baton starts");
            assert!(status.success());
        }
        // As in a session that was watched from its beginning, the mirror is complete. In a session that was long
        // before baton was installed, each hook copies up to 256 KB until it is.
        let mut verify = bench.command(&bench.baton);
        let verified =
            verify.args(["backup", "verify"]).stdout(Stdio::null()).status().expect("baton starts");
        assert!(verified.success());
        bench
    }

    /// The empty program, then everything that is measured against it.
    fn rows(&self) -> Vec<Row> {
        let mut rows = vec![Row::new("empty", Command::new(&self.empty))];
        // Prompts and ends of turns change the record, seals and loads change much more. Each kind has a separate
        // session, so that no row does work that another row has left.
        rows.extend(HOT.iter().chain(&OTHERS).map(|event| {
            let session = match *event {
                "UserPromptSubmit" | "Stop" => "turns",
                event if OTHERS.contains(&event) => "seals",
                _ => "tools",
            };
            Row::new(event, self.hook(event, session))
        }));
        rows.push(Row::new("statusline", self.status_line()));
        // As at most tool calls there is a new answer, so new numbers are stored and published.
        rows.push(Row {
            grows: Some(self.growing.clone()),
            ..Row::new(NEWS, self.hook("PostToolUse", "news"))
        });
        rows
    }

    /// A command with this bench's home and nothing else in its environment.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.dir.join("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("CLAUDECODE", "1")
            .env("CLAUDE_PID", std::process::id().to_string())
            .env("CLAUDE_CODE_ENTRYPOINT", "cli")
            .env("COLUMNS", "120")
            .current_dir(self.dir.join("app"));
        command
    }

    /// Each build has another one, because files below /tmp are named after it.
    fn id(&self, session: &str) -> String {
        let build = self.dir.file_name().unwrap_or_default().display();
        format!("bench-{}-{build}-{session}", std::process::id())
    }

    fn hook(&self, event: &str, session: &str) -> Command {
        let transcript = match session {
            "huge" => &self.huge,
            "news" => &self.growing,
            _ => &self.transcript,
        };
        let mut payload = json!({
            "session_id": self.id(session), "transcript_path": transcript,
            "cwd": self.dir.join("app"), "permission_mode": "default", "hook_event_name": event,
            "source": "resume", "trigger": "manual", "reason": "clear", "prompt": "go on",
            "notification_type": "auth_success", "stop_hook_active": false, "last_assistant_message": "Done.",
            "tool_name": "Bash", "tool_input": { "command": "cargo test" },
            "tool_response": { "stdout": "a line of output, as long as lines are\n".repeat(115) },
        });
        if event == "SubagentStop" {
            payload["agent_id"] = json!("a1833b489579581dc");
        }
        let path = self.dir.join(format!("{event}-{session}.json"));
        std::fs::write(&path, payload.to_string()).expect("a fresh folder takes a new file");
        let mut command = self.command(&self.baton);
        command.args(["hook", event]);
        with_input(command, path)
    }

    fn status_line(&self) -> Command {
        let payload = json!({
            "session_id": self.id("tools"), "transcript_path": self.transcript,
            "cwd": self.dir.join("app"), "model": { "id": "claude-opus-4-6" },
            "workspace": { "current_dir": self.dir.join("app") },
            "context_window": { "context_window_size": 200_000, "used_percentage": 30,
                "current_usage": { "input_tokens": 60_000, "output_tokens": 50 } },
            "padding": "x".repeat(4_500),
        });
        let path = self.dir.join("statusline.json");
        std::fs::write(&path, payload.to_string()).expect("a fresh folder takes a new file");
        let mut command = self.command(&self.baton);
        command.arg("statusline");
        with_input(command, path)
    }

    /// The work of a careful shell script for one reading: jq for each field, curl in the background.
    fn shell_script(&self) -> Option<Command> {
        let has = |tool: &str| Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_ok();
        if !has("jq") || !has("curl") {
            return None;
        }
        let path = self.dir.join("monitor.sh");
        std::fs::write(&path, SCRIPT).expect("a fresh folder takes a new file");
        let mut command = self.command(Path::new("bash"));
        command.arg(path);
        Some(with_input(command, self.dir.join("statusline.json")))
    }

    /// Processes started, sockets opened and system calls made by one event.
    fn traced(&self, event: &str) -> Option<(usize, usize, usize)> {
        let log = self.dir.join("strace.log");
        let hook = if event == "statusline" { self.status_line() } else { self.hook(event, "tools") };
        let mut command = self.command(Path::new("strace"));
        command.args(["-f", "-qq", "-o"]).arg(&log).arg(hook.get_program()).args(hook.get_args());
        let input = self.dir.join(if event == "statusline" {
            "statusline.json".to_owned()
        } else {
            format!("{event}-tools.json")
        });
        let traced = with_input(command, input).stderr(Stdio::null()).status();
        if !traced.is_ok_and(|status| status.success()) {
            return None;
        }
        let text = std::fs::read_to_string(&log).ok()?;
        let count = |names: &[&str]| {
            let of = |line: &&str| names.iter().any(|n| line.contains(&format!(" {n}(")));
            text.lines().filter(of).count()
        };
        // The first execve is the hook itself.
        let processes = count(&["clone", "clone3", "fork", "vfork", "execve"]) - 1;
        Some((processes, count(&["socket", "connect", "sendto"]), text.lines().count()))
    }
}

const SCRIPT: &str = r#"#!/bin/bash
INPUT=$(cat)
SESSION_ID=$(echo "$INPUT" | jq -r '.session_id // empty')
USED=$(echo "$INPUT" | jq -r '.context_window.used_percentage // 0')
SIZE=$(echo "$INPUT" | jq -r '.context_window.context_window_size // 200000')
curl -s --max-time 0.5 -X POST http://127.0.0.1:9/hooks/context-usage -H 'Content-Type: application/json' \
  -d "$(jq -n --arg id "$SESSION_ID" --argjson used "$USED" --argjson size "$SIZE" \
  '{session_id: $id, used_percentage: $used, context_window_size: $size}')" >/dev/null 2>&1 &
echo "$USED%"
"#;

/// An empty `main`, compiled and linked with the profile of that build.
fn empty_binary(dir: &Path, kind: Kind) -> PathBuf {
    let (source, binary) = (dir.join("empty.rs"), dir.join("empty"));
    std::fs::write(&source, "fn main() {}\n").expect("a fresh folder takes a new file");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols"]);
    match kind {
        Kind::Shipped(target) => {
            rustc.args(["--target", target, "-C", "target-feature=+crt-static"]);
            rustc.args(["-C", "relocation-model=static", "-C", "lto=fat", "-C", "codegen-units=1"]);
        }
        Kind::Plain { is_pie: false } => {
            rustc.args(["-C", "link-arg=-no-pie"]);
        }
        Kind::Plain { is_pie: true } => {}
    }
    let status = rustc.arg("-o").arg(&binary).arg(&source).status().expect("rustc is here");
    assert!(status.success(), "rustc compiles an empty main");
    binary
}

fn answer(tokens: u64) -> serde_json::Value {
    json!({ "type": "assistant", "isSidechain": false, "timestamp": format!("{:.3}", jiff::Timestamp::now()),
        "message": { "role": "assistant", "model": "claude-opus-4-6",
            "usage": { "input_tokens": 500, "cache_read_input_tokens": tokens, "output_tokens": 50 },
            "content": [{ "type": "text", "text": "words of an answer ".repeat(40) }] } })
}

/// A transcript of `size` bytes: a hole, then records as the client writes them, the last usage among them.
fn write_transcript(path: &Path, size: u64) {
    let mut records = String::new();
    for n in 0..40 {
        let assistant = answer(59_000 + n);
        let user = json!({ "type": "user", "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "toolu_1", "content": "output ".repeat(120) }] } });
        records.extend([assistant.to_string(), "\n".to_owned(), user.to_string(), "\n".to_owned()]);
    }
    let mut file = File::create(path).expect("a fresh folder takes a new file");
    let hole = size - records.len() as u64 - 1;
    file.set_len(hole).and_then(|()| file.seek(SeekFrom::Start(hole))).expect("a file may have a hole");
    file.write_all(format!("\n{records}").as_bytes()).expect("the disk takes it");
}

const INPUT: &str = "BENCH_INPUT";

fn open(input: &Path) -> File {
    File::open(input).expect("its input is there")
}

fn with_input(mut command: Command, input: PathBuf) -> Command {
    command.stdin(open(&input)).stdout(Stdio::null()).stderr(Stdio::null());
    // For commands that are started repeatedly, which would share a file's position.
    command.env(INPUT, input);
    command
}

/// Starts each command of all tables once per round and waits for it. In another order each time: what comes right
/// after a hook that syncs finds the processor's caches empty, and it must not always be the same command.
fn interleaved(tables: &mut [Vec<Row>], rounds: usize) -> Vec<Vec<Spread>> {
    let mut took: Vec<Vec<Vec<Duration>>> =
        tables.iter().map(|rows| vec![Vec::with_capacity(rounds); rows.len()]).collect();
    let mut order: Vec<(usize, usize)> =
        (0..tables.len()).flat_map(|table| (0..tables[table].len()).map(move |row| (table, row))).collect();
    let mut random = 7_u64;
    for round in 0..rounds + 10 {
        for n in (1..order.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(n, usize::try_from(random >> 33).unwrap_or(0) % (n + 1));
        }
        for &(table, n) in &order {
            let row = &mut tables[table][n];
            let input = row.command.get_envs().find(|(name, _)| *name == INPUT).and_then(|(_, value)| value);
            let input = input.map_or_else(|| PathBuf::from("/dev/null"), PathBuf::from);
            row.command.stdin(open(&input));
            if let Some(path) = &row.grows {
                let mut file = File::options().append(true).open(path).expect("it was written");
                writeln!(file, "{}", answer(60_000 + 1_000 * (round as u64 % 8))).expect("the disk takes it");
            }
            let began = Instant::now();
            let status = row.command.status().expect("it starts");
            let spent = began.elapsed();
            assert!(status.success(), "{} failed", row.name);
            // The first rounds warm the caches.
            if round >= 10 {
                took[table][n].push(spent);
            }
        }
    }
    took.into_iter().map(|rows| rows.into_iter().map(Spread::of).collect()).collect()
}
