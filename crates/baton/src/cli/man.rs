//! `baton man`: the man page, generated from the declared command line.

use std::io;

use clap_mangen::Man;

use crate::cli::ui::print_raw;
use crate::cli::{Outcome, help};

pub(super) fn run() -> anyhow::Result<Outcome> {
    let page = page()?;
    print_raw(&String::from_utf8_lossy(&page))?;
    Ok(Outcome::Done)
}

/// One page with everything: the commands follow the overview.
fn page() -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut root = help::command();
    root.build();
    let man = Man::new(root.clone());
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    // In the groups of the help, so that a reader finds things where they were.
    let mut rest: Vec<&clap::Command> = root.get_subcommands().collect();
    for (title, names) in help::groups() {
        let mut roff = clap_mangen::roff::Roff::new();
        roff.control("SH", [title.to_uppercase().as_str()]);
        roff.to_writer(&mut out)?;
        for name in names {
            if let Some(at) = rest.iter().position(|command| command.get_name() == *name) {
                section(rest.remove(at), name, &mut out)?;
            }
        }
    }
    for command in rest {
        section(command, command.get_name(), &mut out)?;
    }
    man.render_extra_section(&mut out)?;
    man.render_version_section(&mut out)?;
    Ok(out)
}

fn section(command: &clap::Command, path: &str, out: &mut Vec<u8>) -> io::Result<()> {
    if command.is_hide_set() || command.get_name() == "help" {
        return Ok(());
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut roff = clap_mangen::roff::Roff::new();
    roff.control("SS", [format!("baton {path}").as_str()]);
    roff.text([clap_mangen::roff::roman(about)]);
    roff.to_writer(out)?;
    let man = Man::new(command.clone());
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        man.render_options_section(out)?;
    }
    if let Some(after) = command.get_after_help() {
        let mut roff = clap_mangen::roff::Roff::new();
        roff.control("PP", []).control("nf", []);
        roff.text([clap_mangen::roff::roman(after.to_string())]).control("fi", []);
        roff.to_writer(out)?;
    }
    for below in command.get_subcommands() {
        section(below, &format!("{path} {}", below.get_name()), out)?;
    }
    Ok(())
}
