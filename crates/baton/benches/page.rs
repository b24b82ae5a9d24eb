//! The page with 1,000 agents and 5,000 sessions in a real browser: first cards, a change on the page, the daemon's memory
//! with ten pages open. Prints figures. `cargo bench -p baton --bench page`; another binary can be given in `BATON_BENCH`.

use baton_core::ids::SessionId;
use baton_testkit::Home;
use baton_testkit::bench::release_binary;
use baton_testkit::daemon::Served;
use baton_testkit::load;
use baton_testkit::page::Browser;
use serde_json::{Value, json};

const AGENTS: usize = 1_000;
/// For each agent, including the current one.
const SESSIONS: usize = 5;

fn main() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton")));
    load::populate(&home, AGENTS);
    for n in 0..AGENTS {
        earlier_sessions(&home, n);
    }
    let served = Served::on_http(&home);
    let http = served.http.clone().expect("it was started with a port");
    let alone = memory(&served);
    let mut with_pages = 0;
    let told = browser.run(&home, &http, "bench", json!({ "agents": AGENTS }), |what, value| match what {
        "change" => {
            // One per cent more each time; totals that disagree with the percentage are ignored.
            let n = value.as_u64().unwrap_or(0);
            let body = json!({ "session_id": "load-0", "used_percentage": 10 + n,
                "total_input_tokens": 20_000 + 2_000 * n, "total_output_tokens": 0, "context_window_size": 200_000 });
            served.post("/hooks/context-usage", &body);
            json!(jiff::Timestamp::now().as_millisecond())
        }
        "memory" => {
            with_pages = memory(&served);
            json!(true)
        }
        other => panic!("{other} was not expected"),
    });
    println!(
        "first cards with {AGENTS} agents and {} sessions: {}",
        AGENTS * SESSIONS,
        figures(&told["first"])
    );
    println!("a change shown after it was accepted: {}", figures(&told["changes"]));
    println!("memory of the daemon: {alone} KiB before, {with_pages} KiB with ten pages open (anonymous)");
}

fn memory(served: &Served<'_>) -> u64 {
    load::figure(served.pid(), "RssAnon")
}

fn figures(values: &Value) -> String {
    let mut all: Vec<f64> = values.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    all.sort_by(f64::total_cmp);
    let at = |part: usize| all.get((all.len() * part / 100).min(all.len().saturating_sub(1))).copied();
    format!("p50 {:.0} ms, worst {:.0} ms", at(50).unwrap_or_default(), at(100).unwrap_or_default())
}

/// An agent's earlier sessions, as hooks would have left them.
fn earlier_sessions(home: &Home, n: usize) {
    let path = home.state().join(format!("agents/load-{n}.json"));
    let mut agent = baton_testkit::home::record(&path);
    let present = agent["session"].as_str().expect("a session").to_owned();
    let record = baton_testkit::home::record(&home.state().join(format!("sessions/{present}.json")));
    let mut sessions = Vec::new();
    for earlier in 1..SESSIONS {
        let id =
            SessionId::new(format!("{n:08x}-{earlier:04x}-4000-8000-000000000000")).expect("a plain word");
        let mut session = record.clone();
        session["id"] = json!(id);
        session["ended"] = json!({ "at": jiff::Timestamp::now(), "reason": "clear" });
        let path = home.state().join(format!("sessions/{id}.json"));
        std::fs::write(path, session.to_string()).expect("a file");
        sessions.push(json!(id));
    }
    sessions.push(json!(present));
    agent["sessions"] = json!(sessions);
    std::fs::write(&path, agent.to_string()).expect("a file");
}
