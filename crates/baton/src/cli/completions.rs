//! `baton completions`: a shell's completion script, generated from the declared command line. For changing values it
//! calls `baton complete`.

use clap_complete::{Shell, generate};

use crate::cli::Outcome;
use crate::cli::args::{CompletionsArgs, ShellArg};
use crate::cli::help;
use crate::cli::ui::print_raw;

/// Adds the output of `baton complete` to the generated completions.
const BASH: &str = r#"
_baton_values() {
    _baton "$@"
    local value
    while IFS= read -r value; do
        COMPREPLY+=("$value")
    done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _baton_values -o nosort -o bashdefault -o default baton
"#;

const ZSH: &str = r#"
_baton_values() {
    local -a values
    values=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    (( ${#values} )) && [[ -n "${values[1]}" ]] && compadd -V baton -a values
    _baton "$@"
}
"#;
/// The end of the zsh script, which works autoloaded or sourced.
const ZSH_END: &str = r#"if [ "$funcstack[1]" = "_baton" ]; then
    _baton "$@"
else
    compdef _baton baton
fi"#;

const FISH: &str = r#"
function __baton_values
    set -l words (commandline -opc)
    $words[1] complete -- $words[2..] (commandline -ct) 2>/dev/null
end
complete -c baton -a "(__baton_values)"
"#;

pub(super) fn run(args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    let (shell, values) = match args.shell {
        ShellArg::Bash => (Shell::Bash, BASH),
        ShellArg::Zsh => (Shell::Zsh, ZSH),
        ShellArg::Fish => (Shell::Fish, FISH),
    };
    let mut out = Vec::new();
    generate(shell, &mut help::command(), "baton", &mut out);
    let script = String::from_utf8_lossy(&out);
    let script = match script.split_once(ZSH_END) {
        Some((before, after)) => {
            let end = ZSH_END
                .replace("    _baton ", "    _baton_values ")
                .replace("compdef _baton ", "compdef _baton_values ");
            format!("{before}{values}{end}{after}")
        }
        None => format!("{script}{values}"),
    };
    print_raw(&script)?;
    Ok(Outcome::Done)
}
