//! The daemon under load: 1,000 agents, 2,000 requests a second from 50 kept-open connections for 30 s. Prints figures.
//! `packaging/release-binary && cargo bench -p baton --bench daemon`; another binary can be given in `BATON_BENCH`, another
//! time in `BATON_BENCH_SECONDS`.

use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::bench::release_binary;
use baton_testkit::daemon::Served;
use baton_testkit::load::{self, Report};

const AGENTS: usize = 1000;

fn main() {
    let seconds = std::env::var("BATON_BENCH_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(30);
    let home = Home::new(release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton")));
    load::populate(&home, AGENTS);
    let served = Served::on_http(&home);
    let pid = served.pid();
    let ms = |d: Duration| d.as_secs_f64() * 1000.0;
    assert_eq!(served.get("/sessions")["sessions"].as_array().map(Vec::len), Some(AGENTS));
    println!("{AGENTS} agents known: {} KiB anonymous", load::figure(pid, "RssAnon"));

    // By then the work of the start is done.
    std::thread::sleep(Duration::from_secs(8));
    let (began, before) = (Instant::now(), load::sleeps(pid));
    std::thread::sleep(Duration::from_secs(10));
    let wakes = load::woken(&before, &load::sleeps(pid)) as f64 / began.elapsed().as_secs_f64();
    println!("idle: {wakes:.2} wake-ups a second, {} KiB anonymous", load::figure(pid, "RssAnon"));

    let before = load::processor_time(pid);
    let report = load::run(&served, AGENTS, 50, 2000, Duration::from_secs(seconds));
    let rate = report.sent as f64 / report.took.as_secs_f64();
    println!(
        "{} requests, {rate:.0} a second, {} answered, {} messages",
        report.sent,
        report.answered,
        report.messages.len()
    );
    let senders = ("senders woken late by the machine", &report.late);
    for (name, sorted) in [("context-usage", &report.usage), ("others", &report.other), senders] {
        let p = |n| ms(Report::percentile(sorted, n));
        println!("{name}: p50 {:.2} ms, p99 {:.2} ms, worst {:.2} ms", p(50), p(99), p(100));
    }
    let each = load::processor_time(pid).saturating_sub(before)
        / u32::try_from(report.sent.max(1)).unwrap_or(u32::MAX);
    println!("the daemon's processor time: {each:.1?} a request");
    println!("peak {} KiB anonymous", load::figure(pid, "RssAnon"));
    let lost = load::lost(&served, &report);
    println!("lost: {}", lost.len());

    let mut wire = served.unix();
    let mut took: Vec<Duration> = (0..200)
        .map(|_| {
            let began = Instant::now();
            let answered = wire.ask("GET", "/sessions", &[], None).expect("an answer");
            assert_eq!(answered.status, 200);
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    println!("GET /sessions: p50 {:.2} ms, p99 {:.2} ms", ms(took[100]), ms(took[198]));
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(report.sent, report.answered);
}
