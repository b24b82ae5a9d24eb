//! A whole cycle in a temporary home: installs from this very program and runs the scripted agent, which fills up, is
//! asked, hands over, is cleared and continues from the handoff. Any problem of the machine shows here.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::setup::doctor::Finding;

/// What the agent must remember across the handoff.
const WORD: &str = "make the rehearsal pass";

const SCRIPT: &str = "\
window 200k
asked obey-stdin
handoff <<END
# Rehearsal

## Next
make the rehearsal pass
END
context
turn
  tokens 20%
  bash true
  tokens 70%
  bash true
  say Nearly full.
context
turn
  tokens 5%
  recall
";

/// Longer than the whole run takes anywhere.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the rehearsal and reports each step.
pub(crate) fn rehearse() -> anyhow::Result<Vec<Finding>> {
    let home = crate::sys::fs::temporary_dir("baton-rehearsal")?;
    crate::sys::fs::private_dir(&home.join("project/.git"))?;
    let done = Rehearsal { home: home.clone() }.run();
    let _ = std::fs::remove_dir_all(&home);
    done
}

struct Rehearsal {
    home: PathBuf,
}

impl Rehearsal {
    fn command(&self, program: &Path) -> Command {
        let bin = self.home.join("bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap_or(path);
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", path)
            .env("BATON_AGENT_SCRIPT", self.home.join("script"))
            .env("BATON_AGENT_SEEN", self.seen_file())
            .env("BATON_AGENT_PACE", "0")
            .current_dir(self.home.join("project"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn baton(&self, program: &Path, line: &str) -> anyhow::Result<String> {
        let out =
            self.command(program).args(line.split(' ')).output().context("could not start baton itself")?;
        if !out.status.success() {
            bail!("`baton {line}` failed: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    fn seen_file(&self) -> PathBuf {
        self.home.join("seen.jsonl")
    }

    fn run(&self) -> anyhow::Result<Vec<Finding>> {
        let me = std::env::current_exe().context("could not find this program's own path")?;
        std::fs::write(self.home.join("script"), SCRIPT)?;
        let settings = self.home.join(".claude/settings.json");
        let before = b"{\n  // a comment\n  \"model\": \"opus\"\n}\n";
        std::fs::create_dir_all(self.home.join(".claude"))?;
        std::fs::write(&settings, before)?;
        let bin = self.home.join("bin");
        let bin_dir = bin.to_str().context("the folder for temporary files has a name that is not UTF-8")?;
        let install = self.command(&me).args(["install", "--yes", "--bin-dir", bin_dir]).output()?;
        if !install.status.success() {
            bail!("`baton install` failed: {}", String::from_utf8_lossy(&install.stderr).trim());
        }
        let baton = bin.join("baton");
        let mut findings = vec![Finding::ok("Installed into a temporary home")];

        let ended = self.play(&baton)?;
        let seen = self.seen();
        let said = |kind: &str, needle: &str| {
            seen.iter().any(|line| line["kind"] == kind && line.to_string().contains(needle))
        };
        let mut step = |good: bool, done: &str, missed: &str| {
            findings.push(if good {
                Finding::ok(done)
            } else {
                Finding::fail(missed, "see `baton log --faults` and the steps above; please report it")
            });
        };
        step(ended, "The scripted agent ran to its end", "The scripted agent did not end in time");
        step(
            said("context", "baton handoff"),
            "Nearly full, it was asked for a handoff",
            "It was not asked for a handoff",
        );
        let history = self.baton(&baton, "handoffs history").unwrap_or_default();
        step(history.contains("HO-"), "It handed over; the handoff was sealed", "No handoff was sealed");
        let contexts = seen.iter().filter(|l| l["kind"] == "context-begins").count();
        step(contexts == 2, "It was cleared", "No fresh context began");
        step(
            said("context", "HANDOFF LOADED"),
            "The handoff was loaded into the fresh context",
            "The handoff was not loaded",
        );
        step(said("said", WORD), "It continued from there", "It did not continue from the handoff");
        let list = self.baton(&baton, "handoffs list").unwrap_or_default();
        step(
            list.contains("consumed"),
            "The handoff counts as consumed",
            "The handoff does not count as consumed",
        );
        self.baton(&baton, "uninstall --verify")?;
        step(
            std::fs::read(&settings)? == before,
            "Uninstalled; the settings are what they were, byte for byte",
            "The uninstall did not give the settings back",
        );
        Ok(findings)
    }

    /// Types the whole conversation ahead: the client queues input while it works.
    fn play(&self, baton: &Path) -> anyhow::Result<bool> {
        let mut agent = self
            .command(baton)
            .args(["demo-agent", "begin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("could not start the scripted agent")?;
        let mut keys = agent.stdin.take().context("it was asked for")?;
        keys.write_all(b"/clear\rgo on\r/exit\r")?;
        let began = Instant::now();
        while agent.try_wait()?.is_none() {
            if began.elapsed() > PATIENCE {
                agent.kill()?;
                agent.wait()?;
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(true)
    }

    fn seen(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.seen_file()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}
