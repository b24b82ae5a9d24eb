//! The page in a real browser. `crates/baton/tests/page/browser.mjs` holds what happens there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::home::Home;
use crate::tools;

/// Chromium and the script that drives it.
pub struct Browser {
    chromium: &'static str,
    /// Where `scripts/test` puts the node packages.
    packages: PathBuf,
}

impl Browser {
    /// `None` if something is missing; the test is then skipped.
    #[track_caller]
    pub fn find() -> Option<Self> {
        let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/page");
        let packages = std::env::var_os("BATON_PAGE_TOOLS").map_or_else(usual, PathBuf::from);
        let has = |name: &str| packages.join("node_modules").join(name).is_dir();
        if !has("playwright-core") || !has("axe-core") {
            tools::missing(
                "playwright-core and axe-core not installed (scripts/test installs what the tests need)",
            );
            return None;
        }
        let known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
        let Some(chromium) = known.into_iter().find(|path| Path::new(path).exists()) else {
            tools::missing("chromium not installed (scripts/test installs what the tests need)");
            return None;
        };
        tools::has(&["node"]).then_some(Self { chromium, packages })
    }

    /// Runs a scenario on the page at `http`. `act` carries out its requests, besides those that all scenarios share.
    #[track_caller]
    pub fn run(
        &self,
        home: &Home,
        http: &str,
        scenario: &str,
        more: Value,
        mut act: impl FnMut(&str, &Value) -> Value,
    ) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../baton/tests/page/browser.mjs");
        let mut node = Command::new("node")
            .arg(script)
            .arg(scenario)
            .env("BATON_PAGE_TOOLS", &self.packages)
            .env("BATON_CHROMIUM", self.chromium)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let mut to = node.stdin.take().expect("a pipe");
        let mut args = json!({ "http": http });
        if let (Some(args), Value::Object(more)) = (args.as_object_mut(), more) {
            args.extend(more);
        }
        writeln!(to, "{args}").expect("node listens");
        let mut last = Value::Null;
        for line in BufReader::new(node.stdout.take().expect("a pipe")).lines() {
            let line = line.expect("node speaks");
            let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{scenario}: {line}"));
            if said["ask"].is_null() {
                last = said;
                break;
            }
            let answer = match said["ask"].as_str().unwrap_or_default() {
                "address" => home.run("page --json").json()["address"].clone(),
                "digits" => home.run("page --code --json").json()["code"].clone(),
                what => act(what, &said["value"]),
            };
            writeln!(to, "{answer}").expect("node listens");
        }
        let _ = node.wait();
        if let Some(failed) = last["failed"].as_str() {
            panic!("{scenario}: {failed}\ncomplaints: {}", last["complaints"]);
        }
        assert!(!last["done"].is_null(), "{scenario}: the browser ended without a word");
        last["done"].take()
    }
}
