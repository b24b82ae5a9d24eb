//! Many machines on one PostgreSQL: homes with their own daemons, and a database that is killed and restored.

mod conversations;
mod handoffs;
mod hostile;
mod mail;
mod races;
mod setup;

use std::path::PathBuf;

use baton_testkit::daemon::Served;
use baton_testkit::postgres::Postgres;
use baton_testkit::wait::wait_for;
use baton_testkit::wire::Wire;
use baton_testkit::{CommandOutput, Home, home, tools};
use serde_json::Value;

use crate::BATON;

/// Machines that have joined one fleet. The first has founded it.
pub struct Fleet {
    pub postgres: Postgres,
    pub homes: Vec<Home>,
}

/// A machine's name by its place.
pub fn name(n: usize) -> String {
    format!("m{n}")
}

impl Fleet {
    /// Nothing if there is no PostgreSQL or git: the test is skipped.
    pub fn of(machines: usize) -> Option<Self> {
        if !tools::has(&["git"]) {
            return None;
        }
        let postgres = Postgres::start()?;
        let homes: Vec<Home> = (0..machines).map(|_| Home::in_memory(BATON)).collect();
        found(&homes[0], &postgres.url());
        join_founder(&homes[0], &postgres.url(), "m0");
        for (n, home) in homes.iter().enumerate().skip(1) {
            let code = invite(&homes[0], &name(n));
            run(home, &["fleet", "join", &code]).ok();
        }
        Some(Self { postgres, homes })
    }

    pub fn run(&self, n: usize, args: &[&str]) -> CommandOutput {
        run(&self.homes[n], args)
    }

    /// The daemon of a machine, in front of us.
    pub fn serve(&self, n: usize) -> Served<'_> {
        Served::new(&self.homes[n])
    }

    pub fn link(&self, n: usize) -> Value {
        home::record(&self.homes[n].state().join("fleet/link.json"))
    }

    /// Waits until a machine's daemon is connected.
    #[track_caller]
    pub fn wait_for_link(&self, n: usize) {
        wait_for(&format!("m{n} to connect: {}", self.link(n)), || {
            (self.link(n)["state"] == "connected").then_some(())
        });
    }

    /// What a machine's user sent, by the text's beginning: its stage and the evidence.
    pub fn sent(&self, n: usize, text: &str) -> Option<(String, String)> {
        let rows = self.run(n, &["outbox", "user", "--json"]).json();
        let row =
            rows.as_array()?.iter().find(|row| row["text"].as_str().is_some_and(|t| t.starts_with(text)))?;
        let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        Some((word("state"), word("evidence")))
    }

    #[track_caller]
    pub fn wait_for_stage(&self, n: usize, text: &str, stage: &str) -> String {
        wait_for(&format!("{text:?} to be {stage}, it is {:?}", self.sent(n, text)), || {
            self.sent(n, text).filter(|(now, _)| now == stage).map(|(_, evidence)| evidence)
        })
    }

    /// The database's URL of a machine's own role.
    pub fn url(&self, n: usize) -> String {
        let config = home::record(&self.homes[n].state().join("fleet/config.json"));
        config["url"].as_str().unwrap().to_owned()
    }

    /// Stops the daemons that `join` has started, so that the test runs its own.
    pub fn quiet(self) -> Self {
        for home in &self.homes {
            home.run("serve --stop");
        }
        self
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for home in &self.homes {
            home.run("serve --stop");
        }
    }
}

pub fn run(home: &Home, args: &[&str]) -> CommandOutput {
    home::run(&mut home.baton(args))
}

pub fn found(home: &Home, url: &str) {
    run(home, &["fleet", "init", url]).ok();
}

pub fn join_founder(home: &Home, url: &str, name: &str) {
    run(home, &["fleet", "join", url, "--name", name]).ok();
}

/// The code in the command that `invite` prints.
pub fn invite(founder: &Home, name: &str) -> String {
    let said = run(founder, &["fleet", "invite", name]).ok();
    said.split('\'').nth(1).unwrap_or_else(|| panic!("no code in {said}")).to_owned()
}

pub fn fleet_file(home: &Home, name: &str) -> PathBuf {
    home.state().join("fleet").join(name)
}

/// Puts a wire between a machine whose daemon is to be started and the database.
pub fn through_a_wire(home: &Home, database: u16) -> Wire {
    let wire = Wire::to(database);
    let path = fleet_file(home, "config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    let (near, far) = (format!(":{}/", wire.port()), format!(":{database}/"));
    std::fs::write(&path, config.replace(&far, &near)).unwrap();
    wire
}
