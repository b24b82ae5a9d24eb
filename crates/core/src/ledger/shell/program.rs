//! Which program the words of a command run.

use std::borrow::Cow;

/// The program and its arguments, without the words that only prepare it.
pub(super) fn program(words: &[String]) -> &[String] {
    let mut rest = words;
    while let Some(first) = rest.first() {
        let assignment = first.split_once('=').is_some_and(|(name, _)| {
            let name = name.trim_start_matches("$env:");
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        if assignment {
            rest = &rest[1..];
            continue;
        }
        rest = match first.as_str() {
            "sudo" | "time" | "env" | "exec" | "nohup" | "command" | "nice" | "stdbuf" | "!" | "if"
            | "then" | "do" | "else" | "while" | "{" | "npx" | "pnpx" | "bunx" | "uvx" | "corepack"
            | "xvfb-run" | "rtk" | "caffeinate" | "dotenv" | "Measure-Command" => &rest[1..],
            "timeout" | "gtimeout" => {
                let is_time = |word: &String| word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                let at = rest[1..].iter().position(|word| !is_time(word)).map_or(rest.len(), |at| at + 1);
                &rest[at..]
            }
            // `$out = go test`, as PowerShell keeps an output.
            name if name.starts_with('$') && rest.get(1).is_some_and(|word| word == "=") => &rest[2..],
            // Options of the words before.
            flag if flag.starts_with('-') && rest.len() < words.len() => {
                let valued = RUNNER_VALUED.contains(&flag) && words[0] != "time";
                &rest[if valued { 2.min(rest.len()) } else { 1 }..]
            }
            "uv" | "poetry" | "pipenv" | "bundle" | "mise" | "conda"
                if matches!(rest.get(1).map(String::as_str), Some("exec" | "x"))
                    || (first != "mise" && rest.get(1).is_some_and(|word| word == "run")) =>
            {
                &rest[2..]
            }
            "coverage" if rest.get(1).is_some_and(|word| word == "run") => {
                match rest.iter().position(|word| word == "-m") {
                    Some(at) => rest.get(at + 1..).unwrap_or_default(),
                    None => return rest,
                }
            }
            // `pnpm --filter web exec vitest`: the command follows the verb.
            "npm" | "pnpm" | "yarn" | "bun" => {
                match rest.iter().position(|w| matches!(w.as_str(), "exec" | "dlx" | "x")) {
                    Some(at) if at + 1 < rest.len() => &rest[at + 1..],
                    _ => return rest,
                }
            }
            _ => return rest,
        };
    }
    rest
}

/// Options of programs that run others, which take the next word.
const RUNNER_VALUED: [&str; 14] = [
    "-p",
    "--package",
    "--with",
    "--extra",
    "--group",
    "--only-group",
    "--python",
    "--project",
    "--directory",
    "--env-file",
    "--from",
    "-u",
    "-n",
    "-k",
];

/// The base name of a program, whatever its folder and extension. Only PowerShell writes capital letters, and does not
/// tell them from small ones.
pub(super) fn base(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let name = name.to_ascii_lowercase();
    let end = [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end));
    end.map(str::to_owned).unwrap_or(name)
}

/// A script that is given to a shell: one word of it, or for the shells of Windows all that follow.
pub(super) fn inner(words: &[String]) -> Option<Cow<'_, str>> {
    let shell = base(words.first()?);
    let is_windows = matches!(shell.as_str(), "pwsh" | "powershell" | "cmd");
    if !is_windows && !matches!(shell.as_str(), "bash" | "sh" | "zsh" | "dash") {
        return None;
    }
    let is_file = |word: &str| word.to_ascii_lowercase().ends_with(".ps1");
    let at = words[1..].iter().position(|word| {
        matches!(
            word.to_ascii_lowercase().as_str(),
            "-c" | "-lc" | "-ec" | "-command" | "-file" | "-f" | "/c"
        ) || (is_windows && is_file(word))
    })?;
    // A file is its own target.
    let from = if is_file(&words[at + 1]) { at + 1 } else { at + 2 };
    match words.get(from..)? {
        [] => None,
        [one] => Some(Cow::Borrowed(one)),
        [one, ..] if !is_windows => Some(Cow::Borrowed(one)),
        all => Some(Cow::Owned(all.join(" "))),
    }
}

/// `Get-Content`, `New-Item`: two words that begin with capital letters and a hyphen between them.
pub(super) fn is_cmdlet(word: &str) -> bool {
    word.split_once('-').is_some_and(|(verb, noun)| {
        let is_word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_uppercase())
                && text.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        is_word(verb) && is_word(noun)
    })
}
