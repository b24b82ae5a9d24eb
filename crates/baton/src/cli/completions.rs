//! `baton completions`: what a shell needs to complete commands and options, made from the declared command line.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::Outcome;
use super::args::{Cli, CompletionsArgs, ShellArg};
use super::screen::print;

pub fn run(args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut out = Vec::new();
    generate(shell, &mut Cli::command(), "baton", &mut out);
    print(&String::from_utf8_lossy(&out))?;
    Ok(Outcome::Done)
}
