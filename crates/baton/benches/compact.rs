//! What an answered compaction costs over its ledger: the process that seals the handoff and answers with it, against
//! reading the ledger of the same transcript once.
//!
//! `packaging/release-binary && cargo bench -p baton --bench compact`; another binary can be given in `BATON_BENCH`. Exits
//! with 1 when the median difference is above its target.

use std::io::{BufReader, Write as _};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use baton_core::ledger::Ledger;
use baton_testkit::Home;
use baton_testkit::bench::{Spread, release_binary, timed};
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

const ROUNDS: usize = 30;
const TARGET: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let baton = release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton"));
    println!("{}\n{ROUNDS} compactions each, every one of a session of its own", baton.display());
    let mut met = true;
    for results in [40, 400, 4_000] {
        let (mut ledgers, mut over) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for _ in 0..ROUNDS {
            let home = Home::new(&baton);
            let client = Client::new(&home).env("CLAUDE_PID", &std::process::id().to_string());
            client.starts("startup");
            work(&client, results);
            let transcript = client.transcript();
            bytes = transcript.metadata().expect("it was written").len();
            let ledger = timed(|| {
                let file = std::fs::File::open(&transcript).expect("it was written");
                let reader = BufReader::with_capacity(256 << 10, file);
                let mut ledger = Ledger::default();
                ledger.read(reader).expect("it is well formed");
                std::hint::black_box(&ledger);
            });
            let answer = timed(|| compact(&home, &client.session));
            ledgers.push(ledger);
            over.push(answer.saturating_sub(ledger));
        }
        let (ledger, over) = (Spread::of(ledgers), Spread::of(over));
        println!("{:>7.1} MB  the ledger  {ledger}", bytes as f64 / 1e6);
        println!("            over it     {over}  (target {TARGET:?})");
        met &= over.p50 <= TARGET;
    }
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A conversation in which commands printed `results` times seven kilobytes.
fn work(client: &Client<'_>, results: usize) {
    for n in 0..results {
        let result = format!("line {n} of the output of a command\n").repeat(200);
        client
            .record(&json!({ "type": "user", "isSidechain": false, "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": format!("t{n}"), "content": result } ] } }));
    }
    client.answers(168_000);
}

fn compact(home: &Home, session: &str) {
    let asked = json!({ "v": 1, "session": session, "trigger": "auto", "rows": [] }).to_string();
    let mut command = home.baton(["companion", "compact"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("baton starts");
    child.stdin.take().expect("it is piped").write_all(asked.as_bytes()).expect("it listens");
    let out = child.wait_with_output().expect("it is our child");
    let answer: Value = serde_json::from_slice(&out.stdout).expect("an answer is one line of JSON");
    assert_eq!(answer["do"], "handoff");
}
