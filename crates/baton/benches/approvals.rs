//! How soon a permission request shows at each door after its hook has started, and how soon the hook ends after the
//! answer.
//!
//! `packaging/release-binary && cargo bench -p baton --bench approvals`; another binary can be given in `BATON_BENCH`.
//! Exits with 1 when a median is above its target.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::bench::{Spread, release_binary};
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

const ROUNDS: usize = 100;
const TARGET: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);
const SETTINGS: &str =
    "[approvals]\nwait_for = \"all\"\n[notify]\ncommand = \"echo $BATON_REQUEST >> $HOME/told\"\n";

/// Lines of a stream that never ends, with the instant at which each came.
struct Lines(&'static str, Receiver<(Instant, String)>);

impl Lines {
    fn of(door: &'static str, from: impl Read + Send + 'static) -> Self {
        let (to, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if to.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        Self(door, lines)
    }

    /// When the line that contains `text` came.
    fn came(&self, text: &str) -> Instant {
        loop {
            let line = self.1.recv_timeout(PATIENCE);
            let (at, line) = line.unwrap_or_else(|e| panic!("{} does not show {text}: {e}", self.0));
            if line.contains(text) {
                return at;
            }
        }
    }
}

fn read_lines(door: &'static str, command: &mut Command) -> (Child, Lines) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = Lines::of(door, child.stdout.take().expect("it was asked for"));
    (child, lines)
}

/// A hook that waits, and when it was started.
fn ask(client: &Client<'_>, command: &str) -> (Instant, Child) {
    let input = json!({ "tool_name": "Bash", "tool_input": { "command": command } });
    let payload = client.payload("PermissionRequest", input).to_string();
    let mut hook = client.command("PermissionRequest");
    let began = Instant::now();
    let mut hook = hook.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the hook starts");
    hook.stdin.take().expect("it was asked for").write_all(payload.as_bytes()).expect("it reads");
    (began, hook)
}

fn main() -> ExitCode {
    let baton = release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton"));
    println!("{}", baton.display());
    let home = Home::new(baton);
    home.write(".config/baton/config.toml", SETTINGS);
    let told = home.write("told", "");
    let client = Client::new(&home);
    client.starts("startup").ok();
    let served = Served::new(&home);
    let (mut watching, watched) = read_lines("watch", &mut home.baton(["approvals", "--watch", "--json"]));
    let (mut tail, told_to) =
        read_lines("notify.command", Command::new("tail").args(["-n", "+1", "-f"]).arg(&told));
    let mut stream = std::os::unix::net::UnixStream::connect(served.socket()).expect("it listens");
    stream.write_all(b"GET /events?agent=app HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    let events = Lines::of("events", stream);

    let mut times: [(&str, Vec<Duration>); 5] =
        ["socket", "events", "watch", "notify.command", "answer"].map(|name| (name, Vec::new()));
    for round in 0..ROUNDS {
        let command = format!("make {round}");
        let (began, hook) = ask(&client, &command);
        let row: Value = loop {
            let rows = served.get("/approvals")["approvals"].take();
            if let Some(row) = rows.as_array().and_then(|rows| rows.first()) {
                break row.clone();
            }
            assert!(began.elapsed() < PATIENCE, "the socket never shows it");
        };
        let at_socket = began.elapsed();
        let id = row["id"].as_str().expect("a row has an id");
        let shown = [events.came("event: approval-asked"), watched.came(id), told_to.came(id)];
        let answered = Instant::now();
        let body = json!({ "hash": id, "verdict": "allow" });
        let path = format!("/approvals/{id}");
        let code = served.unix().ask("POST", &path, &[], Some(&body)).expect("an answer").status;
        assert_eq!(code, 200);
        let said = hook.wait_with_output().expect("the hook ends");
        let took = [at_socket]
            .into_iter()
            .chain(shown.map(|at| at.saturating_duration_since(began)))
            .chain([answered.elapsed()]);
        assert!(String::from_utf8_lossy(&said.stdout).contains(r#""behavior":"allow""#), "{said:?}");
        for ((_, times), took) in times.iter_mut().zip(took) {
            times.push(took);
        }
        client.hook_with("PostToolUse", json!({ "tool_input": { "command": command } })).ok();
    }
    for reader in [&mut watching, &mut tail] {
        let _ = reader.kill();
        let _ = reader.wait();
    }
    let mut is_met = true;
    for (name, times) in times {
        let worst = times.iter().max().copied().unwrap_or_default();
        let spread = Spread::of(times);
        is_met &= spread.p50 <= TARGET;
        println!("{name:>14}: {spread}  worst {:.3} ms", worst.as_secs_f64() * 1e3);
    }
    println!("target: {TARGET:?} each");
    if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
