//! How far one database carries a fleet: messages a second between two machines, the latency of a send to an idle machine,
//! moves of handoffs and heartbeats. The machines are homes with their own daemons; PostgreSQL syncs as it does by default.

use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::home::{self, run};
use baton_testkit::postgres::Postgres;
use baton_testkit::wait::wait_until;

const BATON: &str = env!("CARGO_BIN_EXE_baton");

fn main() {
    let Some(postgres) = Postgres::with(&[]) else { return };
    let homes = [Home::in_memory(BATON), Home::in_memory(BATON)];
    let baton = |n: usize, args: &[&str]| run(&mut homes[n].baton(args)).ok();
    baton(0, &["fleet", "init", &postgres.url()]);
    baton(0, &["fleet", "join", &postgres.url(), "--name", "m0"]);
    let said = baton(0, &["fleet", "invite", "m1"]);
    baton(1, &["fleet", "join", said.split('\'').nth(1).expect("a code")]);
    for home in &homes {
        home.run("serve --stop");
    }
    let daemons = [Served::new(&homes[0]), Served::new(&homes[1])];
    let link = |n: usize| home::record(&homes[n].state().join("fleet/link.json"));
    wait_until("both to connect", || link(0)["state"] == "connected" && link(1)["state"] == "connected");
    latency(&homes);
    throughput(&homes);
    drop(daemons);
    database(&postgres);
}

fn inbox(home: &Home) -> usize {
    std::fs::read_dir(home.state().join("mail/user/new")).map_or(0, |dir| dir.flatten().count())
}

/// From the start of `baton send` to the message in the other machine's mailbox.
fn latency(homes: &[Home; 2]) {
    let mut took: Vec<Duration> = Vec::new();
    for n in 0..100 {
        let (before, began) = (inbox(&homes[1]), Instant::now());
        run(&mut homes[0].baton(["send", "user@m1", &format!("message {n}")])).ok();
        while inbox(&homes[1]) == before {
            std::thread::sleep(Duration::from_micros(200));
        }
        took.push(began.elapsed());
    }
    took.sort();
    println!("send to an idle machine: p50 {:?}, p99 {:?}", took[50], took[98]);
}

/// Messages that wait in the outbox, as after a night without a database.
fn throughput(homes: &[Home; 2]) {
    const COUNT: usize = 2_000;
    let outbox = homes[0].state().join("fleet/outbox");
    let sent = std::fs::read_dir(outbox.join("sent"))
        .expect("something was sent")
        .flatten()
        .next()
        .expect("a parcel");
    let text = std::fs::read_to_string(sent.path()).expect("a parcel can be read");
    let name = sent.path().file_stem().expect("a name").to_string_lossy().into_owned();
    let before = inbox(&homes[1]);
    let aside = outbox.join("ready");
    std::fs::create_dir_all(&aside).expect("a folder");
    for n in 0..COUNT {
        let fresh = format!("m{n:020}-1-0000");
        std::fs::write(aside.join(format!("{fresh}.json")), text.replace(&name, &fresh)).expect("a file");
    }
    let began = Instant::now();
    for entry in std::fs::read_dir(&aside).expect("a folder").flatten() {
        std::fs::rename(entry.path(), outbox.join("new").join(entry.file_name())).expect("a rename");
    }
    run(&mut homes[0].baton(["send", "user@m1", "the last"])).ok();
    wait_until("all of them", || inbox(&homes[1]) > before + COUNT);
    let took = began.elapsed();
    println!("messages end to end: {:.0}/s ({COUNT} in {took:.1?})", COUNT as f64 / took.as_secs_f64());
}

/// How many statements of each kind the database itself executes per second, on one connection each.
fn database(postgres: &Postgres) {
    postgres.sql(
        "INSERT INTO baton.devices (fleet, name, role, invited_until, joined, card)
         SELECT (SELECT fleet FROM baton.fleets LIMIT 1), 'x' || n, 'x' || n, now(), now(), '{}'
           FROM generate_series(1, 10000) n;
         INSERT INTO baton.homes (fleet, handoff, home, epoch)
         SELECT (SELECT fleet FROM baton.fleets LIMIT 1), 'h' || n, 'x1', 1 FROM generate_series(1, 10000) n",
    );
    let began = Instant::now();
    postgres.sql(
        "DO $$ BEGIN FOR n IN 1..10000 LOOP
           UPDATE baton.devices SET beat = clock_timestamp(), beats = beats + 1 WHERE name = 'x' || n
              AND fleet = (SELECT fleet FROM baton.fleets LIMIT 1);
           COMMIT;
         END LOOP; END $$",
    );
    let took = began.elapsed();
    println!(
        "heartbeats of 10,000 machines: {took:.1?}, one after the other ({:.0}/s)",
        1e4 / took.as_secs_f64()
    );
    let began = Instant::now();
    postgres.sql(
        "DO $$ BEGIN FOR n IN 1..10000 LOOP
           UPDATE baton.homes SET home = 'x2', epoch = 2 WHERE handoff = 'h' || n AND home = 'x1' AND epoch < 2
              AND fleet = (SELECT fleet FROM baton.fleets LIMIT 1);
           COMMIT;
         END LOOP; END $$",
    );
    let took = began.elapsed();
    println!("moves of handoffs: {:.0}/s", 1e4 / took.as_secs_f64());
    let dead = postgres.sql(
        "SELECT string_agg(relname || ' ' || n_live_tup || ' live, ' || n_dead_tup || ' dead, ' || n_tup_hot_upd || ' hot of ' || n_tup_upd, '; ')
           FROM pg_stat_user_tables WHERE relname IN ('devices', 'homes', 'messages')",
    );
    println!("rows: {dead}");
    churn(postgres);
}

/// An hour of 10,000 machines: 240 heartbeats each, in batches. What it leaves, and what a vacuum takes.
fn churn(postgres: &Postgres) {
    let size = || {
        postgres.sql(
            "SELECT pg_size_pretty(pg_relation_size('baton.devices')) || ' and indexes of ' ||
                    pg_size_pretty(pg_indexes_size('baton.devices'))",
        )
    };
    let (before, began) = (size(), Instant::now());
    postgres.sql(
        "DO $$ BEGIN FOR n IN 1..240 LOOP
           UPDATE baton.devices SET beat = clock_timestamp(), beats = beats + 1 WHERE name LIKE 'x%';
           COMMIT;
         END LOOP; END $$",
    );
    let took = began.elapsed();
    let (after, began) = (size(), Instant::now());
    postgres.sql("VACUUM baton.devices");
    println!(
        "an hour of heartbeats (2.4 million): {took:.1?}; devices had {before}, then {after}; vacuum took {:.1?}, {} after it",
        began.elapsed(),
        size()
    );
}
