//! The part of the client's command line that the scripted agent understands.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::bail;

/// The output format of `--print`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Output {
    #[default]
    Text,
    Json,
    StreamJson,
}

/// The conversation to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Resume {
    Id(String),
    /// The newest one in this folder.
    Last,
}

#[derive(Debug, Default)]
pub(super) struct Options {
    pub prompt: Option<String>,
    pub print: bool,
    pub output: Output,
    pub session: Option<String>,
    pub resume: Option<Resume>,
    pub fork: bool,
    pub model: Option<String>,
    pub permission_mode: String,
    pub plugin_dirs: Vec<PathBuf>,
    /// A file, or inline JSON.
    pub settings: Vec<String>,
}

/// Options of the client that take a value and are ignored here.
const VALUED: [&str; 14] = [
    "--append-system-prompt",
    "--system-prompt",
    "--allowedTools",
    "--allowed-tools",
    "--disallowedTools",
    "--disallowed-tools",
    "--add-dir",
    "--mcp-config",
    "--agents",
    "--effort",
    "--max-turns",
    "--input-format",
    "--fallback-model",
    "--name",
];

impl Options {
    pub(super) fn parse(args: &[OsString]) -> anyhow::Result<Self> {
        let mut options = Self { permission_mode: "default".to_owned(), ..Self::default() };
        let mut args = args.iter().map(|a| a.to_string_lossy().into_owned()).peekable();
        let mut only_words = false;
        while let Some(arg) = args.next() {
            if only_words || !arg.starts_with('-') || arg == "-" {
                options.prompt = Some(match options.prompt.take() {
                    Some(before) => format!("{before} {arg}"),
                    None => arg,
                });
                continue;
            }
            let (name, mut inline) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let mut value = || inline.take().or_else(|| args.next()).unwrap_or_default();
            match name.as_str() {
                "--" => only_words = true,
                "-p" | "--print" => options.print = true,
                "--output-format" => {
                    options.output = match value().as_str() {
                        "text" => Output::Text,
                        "json" => Output::Json,
                        "stream-json" => Output::StreamJson,
                        other => bail!("error: --output-format takes text, json or stream-json, not {other}"),
                    }
                }
                "--session-id" => options.session = Some(value()),
                "-r" | "--resume" => options.resume = Some(Resume::Id(value())),
                "-c" | "--continue" => options.resume = Some(Resume::Last),
                "--fork-session" => options.fork = true,
                "--model" => options.model = Some(value()),
                "--permission-mode" => options.permission_mode = value(),
                "--plugin-dir" => options.plugin_dirs.push(PathBuf::from(value())),
                "--settings" => options.settings.push(value()),
                name if VALUED.contains(&name) => drop(value()),
                _ => {}
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Options {
        Options::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn known_options_are_parsed_and_unknown_ones_do_no_harm() {
        let o = parse("--effort high --model=opus --novel -p --output-format json --plugin-dir /a fix it");
        assert_eq!(o.prompt.as_deref(), Some("fix it"));
        assert_eq!((o.print, o.output, o.model.as_deref()), (true, Output::Json, Some("opus")));
        assert_eq!(o.plugin_dirs, [PathBuf::from("/a")]);
        let o = parse("--resume abc --fork-session -- --not-an-option");
        assert_eq!((o.resume, o.fork), (Some(Resume::Id("abc".into())), true));
        assert_eq!(o.prompt.as_deref(), Some("--not-an-option"));
    }
}
