//! The live screen with 1,000 agents: first paint, a change on the screen, idle processor time, memory. Prints figures.
//! `packaging/release-binary && cargo bench -p baton --bench screen`; another binary can be given in `BATON_BENCH`.

use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::bench::release_binary;
use baton_testkit::daemon::Served;
use baton_testkit::load::{self, Report};
use baton_testkit::pty::Pty;
use serde_json::json;

const AGENTS: usize = 1000;
const ROUNDS: usize = 50;

fn main() {
    let home = Home::new(release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton")));
    load::populate(&home, AGENTS);
    let served = Served::new(&home);
    let ms = |d: Duration| d.as_secs_f64() * 1000.0;
    assert_eq!(served.get("/sessions")["sessions"].as_array().map(Vec::len), Some(AGENTS));
    let mut wire = served.unix();
    let mut listed: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(wire.ask("GET", "/sessions", &[], None).expect("an answer").status, 200);
            began.elapsed()
        })
        .collect();
    listed.sort_unstable();
    println!(
        "GET /sessions: p50 {:.2} ms, p99 {:.2} ms",
        ms(Report::percentile(&listed, 50)),
        ms(Report::percentile(&listed, 99))
    );

    let start = || {
        let mut command = home.baton(["top"]);
        command.env("LANG", "C.UTF-8");
        let pty = Pty::start(&command).expect("a terminal");
        pty.resize(160, 45).expect("a size");
        pty
    };
    let mut paints: Vec<Duration> = (0..20)
        .map(|_| {
            let began = Instant::now();
            let mut pty = start();
            pty.wait_for("load-0").expect("the screen");
            let took = began.elapsed();
            pty.send("q").expect("a key");
            pty.wait_for_end().expect("its end");
            took
        })
        .collect();
    paints.sort_unstable();
    println!(
        "first paint with {AGENTS} agents: p50 {:.1} ms, worst {:.1} ms (process start and terminal included)",
        ms(Report::percentile(&paints, 50)),
        ms(Report::percentile(&paints, 100))
    );

    let mut pty = start();
    pty.wait_for("load-0").expect("the screen");
    let mut changes: Vec<Duration> = (0..ROUNDS)
        .map(|n| {
            // One per cent more each time; totals that disagree with the percentage are ignored.
            let tokens = 20_000 + 2_000 * n as u64;
            let body = json!({ "session_id": "load-0", "used_percentage": 10 + n, "total_input_tokens": tokens,
                "total_output_tokens": 0, "context_window_size": 200_000 });
            let left = format!("{}k left", (167_000 - tokens) / 1_000);
            served.post("/hooks/context-usage", &body);
            let began = Instant::now();
            pty.wait_for(&left).expect("the change");
            began.elapsed()
        })
        .collect();
    changes.sort_unstable();
    println!(
        "a change on the screen after it was accepted: p50 {:.1} ms, p99 {:.1} ms",
        ms(Report::percentile(&changes, 50)),
        ms(Report::percentile(&changes, 99))
    );

    // The idle agents were started a moment ago, so their ages are shown in seconds, which is the most expensive case.
    let idle = Duration::from_secs(10);
    let before = load::processor_time(pty.pid());
    std::thread::sleep(idle);
    let used = load::processor_time(pty.pid()).saturating_sub(before);
    println!("idle, ages in seconds: {:.2} % of a core", used.as_secs_f64() / idle.as_secs_f64() * 100.0);
    std::thread::sleep(Duration::from_mins(1).saturating_sub(idle));
    let before = load::processor_time(pty.pid());
    std::thread::sleep(idle);
    let used = load::processor_time(pty.pid()).saturating_sub(before);
    println!("idle, ages in minutes: {:.2} % of a core", used.as_secs_f64() / idle.as_secs_f64() * 100.0);
    println!("memory: {} KiB anonymous", load::figure(pty.pid(), "RssAnon"));
    pty.send("q").expect("a key");
    pty.wait_for_end().expect("its end");
}
