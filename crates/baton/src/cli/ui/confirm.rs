//! Asks a person.

use std::io::{BufRead as _, IsTerminal as _};

use crate::cli::ui::{page, print};

/// Asks for confirmation. Without a terminal, refuses and says why.
pub(crate) fn confirm(question: &str) -> anyhow::Result<bool> {
    confirm_or_show(question, None)
}

/// One of several questions: a no applies only to this one.
pub(crate) fn yes_or_no(question: &str) -> anyhow::Result<bool> {
    print(&format!("{question} [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// The same; `d` shows `details` and asks again.
pub(crate) fn confirm_or_show(question: &str, details: Option<&str>) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        eprintln!(
            "baton: nothing was changed: this is not a terminal, so nobody can say yes; add --yes to do it"
        );
        return Ok(false);
    }
    let choices = if details.is_some() { "y/N, d for the whole diff" } else { "y/N" };
    let yes = loop {
        print(&format!("{question} [{choices}] "))?;
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        match (answer.trim().to_lowercase().as_str(), details) {
            ("d" | "diff", Some(details)) => page(details, true)?,
            ("y" | "yes", _) => break true,
            _ => break false,
        }
    };
    if !yes {
        print("Nothing was changed.\n")?;
    }
    Ok(yes)
}
