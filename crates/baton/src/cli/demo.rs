//! `baton demo`: what exists today, shown in a temporary home with the real commands.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::screen::{Paint, print};
use super::{Outcome, args::DemoArgs};

pub fn run(args: &DemoArgs) -> anyhow::Result<Outcome> {
    let me = std::env::current_exe().context("could not find this program's own path")?;
    let home = std::env::temp_dir().join(format!("baton-demo-{}", std::process::id()));
    let project = home.join("app");
    crate::sys::fs::private_dir(&project.join(".claude"))?;
    let told = story(&me, &home, &project);
    if args.keep {
        print(&format!("\nThe files are in {}\n", home.display()))?;
    } else {
        std::fs::remove_dir_all(&home).with_context(|| format!("could not remove {}", home.display()))?;
    }
    told?;
    Ok(Outcome::Done)
}

const HANDOFF: &str = "\
# Login is half done

## Now
Make `cargo test session_expiry` pass; the clock in `src/session.rs` is read twice.

## Rules from the user
- Never touch the public API in this change.
";

fn story(me: &Path, home: &Path, project: &Path) -> anyhow::Result<()> {
    let paint = Paint::stdout();
    let step = |title: &str, args: &[&str], input: &str| -> anyhow::Result<()> {
        print(&format!("\n{}\n{}\n", paint.bold(title), paint.dim(&format!("$ baton {}", args.join(" ")))))?;
        let out = call(me, home, project, args, input)?;
        print(&out)
    };
    step(
        "An agent is nearly full and writes down what matters.",
        &["handoffs", "seal", "-", "--type", "auto"],
        HANDOFF,
    )?;
    step("It is on disk now, and survives any crash.", &["handoffs", "list"], "")?;
    step(
        "A fresh agent starts in the same project and is given it.",
        &["handoffs", "load", "--session", "fresh"],
        "",
    )?;
    step("Only once: nobody else gets the same work.", &["handoffs", "history"], "")
}

fn call(me: &Path, home: &Path, project: &Path, args: &[&str], input: &str) -> anyhow::Result<String> {
    use std::io::Write as _;
    let mut child = Command::new(me)
        .args(args)
        .current_dir(project)
        .env_clear()
        .env("HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .context("could not start baton itself")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let out = child.wait_with_output()?;
    if !out.status.success() {
        bail!("`baton {}` failed: {}", args.join(" "), String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
