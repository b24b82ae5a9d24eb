//! `baton doctor`: what works, what does not, and how to fix it.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::json;

use crate::cli::Outcome;
use crate::cli::args::DoctorArgs;
use crate::cli::ui::{Paint, print, print_json};
use crate::setup::doctor::{Finding, Scene, Severity, examine, rehearse};
use crate::sys::paths::Paths;

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<Outcome> {
    let paths = Paths::from_env()?;
    let cwd =
        std::env::current_dir().context("the current folder cannot be read; change to one that exists")?;
    let mut findings = examine(&Scene::new(paths.clone(), cwd.clone()));
    if args.fix {
        for (_, finding) in &mut findings {
            if let Some(fix) = finding.fix.take() {
                fix()?;
                finding.what = format!("Fixed: {}", finding.what);
                finding.level = Severity::Ok;
                finding.todo = None;
            }
        }
    }
    if args.rehearse {
        findings.extend(rehearse::rehearse()?.into_iter().map(|finding| ("rehearsal", finding)));
    }
    if args.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|(check, f)| json!({ "check": check, "level": f.level, "what": f.what, "do": f.todo }))
            .collect();
        print_json(&rows)?;
    } else {
        print(&report(&findings))?;
    }
    let worst = findings.iter().map(|(_, f)| f.level).max().unwrap_or(Severity::Ok);
    Ok(if worst == Severity::Fail { Outcome::Failed } else { Outcome::Done })
}

fn report(findings: &[(&str, Finding)]) -> String {
    let paint = Paint::stdout();
    let mut out = String::new();
    for (_, finding) in findings {
        let sign = match finding.level {
            Severity::Ok => paint.green("✓"),
            Severity::Note => paint.dim("·"),
            Severity::Warn => paint.yellow("!"),
            Severity::Fail => paint.red("✗"),
        };
        let _ = writeln!(out, "{sign}  {}", finding.what);
        if let Some(todo) = &finding.todo {
            let _ = writeln!(out, "   → {todo}");
        }
    }
    let count = |level| findings.iter().filter(|(_, f)| f.level == level).count();
    let (fails, warns) = (count(Severity::Fail), count(Severity::Warn));
    let _ = match (fails, warns) {
        (0, 0) => writeln!(out, "\nEverything works."),
        (0, w) => writeln!(out, "\nIt works; {w} to look at."),
        (1, 0) => writeln!(out, "\n1 needs fixing."),
        (1, w) => writeln!(out, "\n1 needs fixing, {w} to look at."),
        (f, 0) => writeln!(out, "\n{f} need fixing."),
        (f, w) => writeln!(out, "\n{f} need fixing, {w} to look at."),
    };
    out
}
