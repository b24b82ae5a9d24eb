//! `sm`: translates the command line of session-manager (rajeshgoli/session-manager) to ours. A command without a
//! counterpart is an error that names the nearest.

use std::ffi::{OsStr, OsString};

use crate::providers;

/// Commands without a counterpart, and the nearest equivalent.
const NEAREST: &[(&str, &str)] = &[
    ("adopt", "baton adopt NAME attends to an agent in a pane; baton reparent NAME PARENT makes it a child"),
    ("alone", "baton agents lists who else is there"),
    ("clean", "baton agents leaves agents that are over out after a day"),
    ("context-monitor", "every agent's context is watched; baton status shows it"),
    ("dispatch", "baton send NAME \"…\", or baton clear NAME --prompt \"…\" for a new task"),
    ("em", "baton rename and baton children; the skill /baton:lead teaches to lead"),
    ("lock", "baton spawn --worktree gives each agent a folder of its own"),
    ("lookup", "baton agents"),
    ("maintainer", "baton rename NAME maintainer"),
    ("new", "baton run, or baton spawn NAME and baton attach NAME"),
    ("parent", "baton agents --tree shows who leads whom; baton reparent NAME PARENT changes it"),
    ("others", "baton agents --tree, and baton what NAME"),
    ("queue", "baton remind, and mail, which waits for an agent by itself"),
    ("register", "baton rename NAME ROLE, or baton spawn NAME --role ROLE"),
    ("review", "baton spawn NAME --role reviewer --prompt \"Review …\""),
    ("role", "baton spawn NAME --role ROLE"),
    ("roster", "baton agents"),
    ("setup", "baton install"),
    ("subagents", "baton what NAME open shows what runs beside an agent"),
    ("task", "baton checkpoint --goal \"…\" --now \"…\""),
    ("turn-complete", "the end of a turn is seen by itself; nothing needs to be called"),
    ("unlock", "there are no locks; baton spawn --worktree gives each agent a folder of its own"),
    ("unregister", "baton rename"),
    ("watch-job", "baton remind --every 5m \"look at the job\""),
    ("who", "baton agents"),
];

/// The words of `sm` as words of `baton`, starting with the program's name; or why there is no equivalent. `me` is the
/// calling agent.
pub(super) fn translate(words: &[OsString], me: Option<&str>) -> Result<Vec<OsString>, String> {
    let text: Option<Vec<String>> = words.iter().map(|w| w.to_str().map(str::to_owned)).collect();
    let translated = match text.as_deref() {
        Some([command, rest @ ..]) => command_of(command, rest, me)?,
        // All of session-manager's forms are text, so pass anything else on unchanged.
        _ => None,
    };
    let words =
        translated.map_or_else(|| words.to_vec(), |words| words.into_iter().map(Into::into).collect());
    Ok([OsStr::new("baton").to_owned()].into_iter().chain(words).collect())
}

/// `None` if the words are ours already.
fn command_of(command: &str, rest: &[String], me: Option<&str>) -> Result<Option<Vec<String>>, String> {
    let mut args = SmArguments::new(rest);
    let words = match command {
        "spawn" => match spawn(&mut args)? {
            Some(words) => words,
            None => return Ok(None),
        },
        "wait" => match rest {
            [name, seconds] if is_number(seconds) => {
                own(&["wait", name, "--timeout", &format!("{seconds}s")])
            }
            _ => return Ok(None),
        },
        "all" => own(&["agents"]),
        "watch" => own(&["top"]),
        "me" => own(&["status", &myself("me", me)?]),
        "name" => match rest {
            [new] => own(&["rename", &myself("name", me)?, new]),
            [old, new] => own(&["rename", old, new]),
            _ => return Err("sm name takes a name, or an agent and its new name".to_owned()),
        },
        "clear" => match rest {
            [name] => own(&["clear", name, "--yes"]),
            [name, prompt] => own(&["clear", name, "--yes", "--prompt", prompt]),
            _ => return Err("sm clear takes an agent and perhaps a prompt".to_owned()),
        },
        "status" => match rest {
            [text] if !text.starts_with('-') => own(&["checkpoint", "--goal", text, "--now", text]),
            [] => own(&["status", "--all"]),
            _ => return Ok(None),
        },
        "send" => send(&mut args, me.is_some()),
        "task-complete" => own(&["done"]).into_iter().chain(rest.iter().cloned()).collect(),
        "remind" => remind(&mut args)?,
        "tail" => {
            let raw = args.flag("--raw");
            args.option("--db-path");
            let more = if raw { vec!["--screen".to_owned()] } else { Vec::new() };
            own(&["tail"]).into_iter().chain(args.rest()).chain(more).collect()
        }
        "output" => {
            let lines = args.option("--lines").unwrap_or_else(|| "30".to_owned());
            own(&["tail", "--screen", "-n", &lines]).into_iter().chain(args.rest()).collect()
        }
        "children" => {
            args.option("--db-path");
            let status = args.option("--status");
            let all = status.filter(|status| status != "running").map(|_| "--all".to_owned());
            if args.flag("--recursive") {
                return Ok(Some(own(&["agents", "--tree"]).into_iter().chain(all).collect()));
            }
            own(&["children"]).into_iter().chain(args.rest()).chain(all).collect()
        }
        "kill" => own(&["retire"]).into_iter().chain(rest.iter().cloned()).collect(),
        "restore" => own(&["agents", "restore"]).into_iter().chain(rest.iter().cloned()).collect(),
        "what" => {
            args.option("--lines");
            args.flag("--deep");
            own(&["what"]).into_iter().chain(args.rest()).collect()
        }
        other => {
            // `sm codex-fork` starts that client in one of several ways.
            let starts = providers::PROVIDERS.iter().map(|provider| provider.name);
            let started = starts.filter(|name| other.split('-').next() == Some(name)).max();
            let nearest = match started {
                Some(name) => {
                    format!("baton run {name}, or baton spawn NAME --provider {name} and baton attach NAME")
                }
                None => match NEAREST.iter().find(|(name, _)| *name == other) {
                    Some((_, nearest)) => (*nearest).to_owned(),
                    None => return Ok(None),
                },
            };
            return Err(format!("sm {other} has no counterpart in baton; nearest: {nearest}"));
        }
    };
    Ok(Some(words))
}

fn own(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The agent that this runs in.
fn myself(command: &str, me: Option<&str>) -> Result<String, String> {
    me.map(str::to_owned).ok_or_else(|| {
        format!("CLAUDE_SESSION_MANAGER_ID not set. sm {command} can only be called from within a session.")
    })
}

/// `sm spawn PROVIDER PROMPT [--name NAME] …`. `None` if the form is ours: `spawn NAME --prompt …`.
fn spawn(args: &mut SmArguments) -> Result<Option<Vec<String>>, String> {
    let is_ours = args.words.iter().any(|word| word.starts_with("--prompt"));
    let Some(provider) = args.words.first().and_then(|word| provider_of(word)).filter(|_| !is_ours) else {
        return Ok(None);
    };
    args.words.remove(0);
    let name = args.option("--name");
    let (model, dir) = (args.option("--model"), args.option("--working-dir"));
    args.unheard(&["--wait", "--track", "--track-seconds"], "you hear by yourself when it is idle or done");
    let json = args.flag("--json");
    let [prompt] = &args.words[..] else {
        return Err("sm spawn takes a provider and one prompt in quotes; --name names the agent".to_owned());
    };
    let name = name.unwrap_or_else(|| format!("{provider}-{:04x}", std::process::id() & 0xffff));
    let mut words = own(&["spawn", &name, "--provider", provider, "--prompt", prompt]);
    words.extend(dir.into_iter().flat_map(|dir| ["--cwd".to_owned(), dir]));
    words.extend(json.then(|| "--json".to_owned()));
    words.extend(model.into_iter().flat_map(|model| own(&["--", "--model", &model])));
    Ok(Some(words))
}

/// The provider with this name, or the base of one of session-manager's variants: `codex-fork`.
fn provider_of(word: &str) -> Option<&'static str> {
    let base = word.split_once('-').map_or(word, |(base, _)| base);
    providers::find(base).map(|provider| provider.name)
}

/// `sm send ID TEXT [--sequential|--important|--urgent] …`: notifies the sender at the end of the turn, unless it opts
/// out.
fn send(args: &mut SmArguments, by_agent: bool) -> Vec<String> {
    args.flag("--sequential");
    if args.flag("--steer") {
        args.words.push("--important".to_owned());
    }
    args.unheard(&["--wait", "--track", "--track-seconds"], "`baton remind --every 5m` asks again and again");
    let quiet = args.flag("--no-notify-on-stop");
    let notify = (!quiet && by_agent && !args.words.iter().any(|word| word == "--notify"))
        .then(|| "--notify".to_owned());
    own(&["send"]).into_iter().chain(args.rest()).chain(notify).collect()
}

/// `sm remind SECONDS TEXT`, `--recurring SECONDS TEXT`, `cancel ID`, `ID --stop`.
fn remind(args: &mut SmArguments) -> Result<Vec<String>, String> {
    if args.flag("--stop") {
        return Err("sm remind --stop has no counterpart: nothing reminds others by itself; nearest: baton reminders, \
                    and baton reminders cancel ID"
            .to_owned());
    }
    let recurring = args.flag("--recurring");
    match &args.words[..] {
        [cancel, id] if cancel == "cancel" => Ok(own(&["reminders", "cancel", id])),
        [seconds, text @ ..] if is_number(seconds) => {
            let when = if recurring { "--every" } else { "--in" };
            let text = if text.is_empty() { "Reminder".to_owned() } else { text.join(" ") };
            Ok(own(&["remind", when, &format!("{seconds}s"), &text]))
        }
        // Already our form.
        words => Ok(own(&["remind"]).into_iter().chain(words.iter().cloned()).collect()),
    }
}

/// A command's arguments, from which options are taken one by one.
struct SmArguments {
    words: Vec<String>,
}

impl SmArguments {
    fn new(words: &[String]) -> Self {
        Self { words: words.to_vec() }
    }

    fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() < before
    }

    /// `--name VALUE` or `--name=VALUE`.
    fn option(&mut self, name: &str) -> Option<String> {
        let glued = format!("{name}=");
        let at = self.words.iter().position(|word| word == name || word.starts_with(&glued))?;
        let word = self.words.remove(at);
        if let Some(value) = word.strip_prefix(&glued) {
            return Some(value.to_owned());
        }
        (at < self.words.len()).then(|| self.words.remove(at))
    }

    /// Drops options that have no effect here and tells the user what happens instead. A number after such an option
    /// belongs to it.
    fn unheard(&mut self, names: &[&str], instead: &str) {
        for name in names {
            let glued = format!("{name}=");
            let Some(at) = self.words.iter().position(|word| word == name || word.starts_with(&glued)) else {
                continue;
            };
            let word = self.words.remove(at);
            if &word == name && self.words.get(at).is_some_and(|next| is_number(next)) {
                self.words.remove(at);
            }
            eprintln!("baton: {name} has no counterpart; {instead}");
        }
    }

    fn rest(&mut self) -> Vec<String> {
        std::mem::take(&mut self.words)
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    fn said(line: &str) -> Result<String, String> {
        said_by(line, None)
    }

    fn said_by(line: &str, me: Option<&str>) -> Result<String, String> {
        let words: Vec<OsString> = shlex::split(line).unwrap().into_iter().map(Into::into).collect();
        let words = translate(&words, me)?;
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        Ok(shlex::try_join(words).unwrap())
    }

    #[test]
    fn the_forms_of_session_manager_become_ours_and_ours_stay() {
        for (theirs, ours) in [
            (
                "spawn claude 'Port it' --name porter",
                "baton spawn porter --provider claude --prompt 'Port it'",
            ),
            (
                "spawn codex-app 'Port it' --name p --model o3 --working-dir /w --json",
                "baton spawn p --provider codex --prompt 'Port it' --cwd /w --json -- --model o3",
            ),
            (
                "spawn claude 'Port it' --name p --track --wait 60",
                "baton spawn p --provider claude --prompt 'Port it'",
            ),
            ("spawn porter --prompt 'Port it'", "baton spawn porter --prompt 'Port it'"),
            ("wait porter 600", "baton wait porter --timeout 600s"),
            ("wait porter --done", "baton wait porter --done"),
            ("all --summaries", "baton agents"),
            ("name old new", "baton rename old new"),
            ("clear porter 'Now the docs'", "baton clear porter --yes --prompt 'Now the docs'"),
            ("clear porter", "baton clear porter --yes"),
            ("status", "baton status --all"),
            ("status 'looking into it'", "baton checkpoint --goal 'looking into it' --now 'looking into it'"),
            ("send porter 'hello there' --sequential", "baton send porter 'hello there'"),
            ("send porter hello --urgent --track=300", "baton send porter hello --urgent"),
            ("task-complete", "baton done"),
            ("remind 300 'check the build'", "baton remind --in 300s 'check the build'"),
            ("remind --recurring 300 look again", "baton remind --every 300s 'look again'"),
            ("remind cancel a1b2c3", "baton reminders cancel a1b2c3"),
            ("tail porter -n 5", "baton tail porter -n 5"),
            ("tail porter --raw --db-path /x", "baton tail porter --screen"),
            ("output porter --lines 9", "baton tail --screen -n 9 porter"),
            ("children lead --json", "baton children lead --json"),
            ("children lead --status all", "baton children lead --all"),
            ("children --recursive", "baton agents --tree"),
            ("watch", "baton top"),
            ("kill porter", "baton retire porter"),
            ("retire porter", "baton retire porter"),
            ("restore porter", "baton agents restore porter"),
            ("what porter --lines 100", "baton what porter"),
            ("handoff notes.md", "baton handoff notes.md"),
        ] {
            let got = said(theirs).unwrap();
            assert_eq!(got, ours, "sm {theirs}");
            let words = shlex::split(&got).unwrap();
            let parsed = super::super::help::command().try_get_matches_from(words);
            let parsed = parsed.and_then(|matches| super::super::args::Cli::from_arg_matches(&matches));
            assert!(parsed.is_ok(), "{got}: {}", parsed.err().map(|e| e.to_string()).unwrap_or_default());
        }
    }

    #[test]
    fn an_agent_names_itself_and_is_told_when_the_turn_has_ended_unless_it_says_no() {
        let by = |line: &str| said_by(line, Some("lead")).unwrap();
        assert_eq!(by("me"), "baton status lead");
        assert_eq!(by("name boss"), "baton rename lead boss");
        assert_eq!(by("send porter hello"), "baton send porter hello --notify");
        assert_eq!(by("send porter hello --no-notify-on-stop"), "baton send porter hello");
        assert!(said("me").unwrap_err().contains("CLAUDE_SESSION_MANAGER_ID not set"));
    }

    #[test]
    fn a_command_without_a_counterpart_names_the_nearest() {
        for line in
            ["lock x", "parent", "em", "dispatch a --role b", "codex-fork", "queue list", "review --pr 3"]
        {
            let why = said(line).unwrap_err();
            assert!(why.contains("has no counterpart") && why.contains("baton "), "{line}: {why}");
        }
        assert!(said("remind porter --stop").unwrap_err().contains("baton reminders"));
        for (name, nearest) in NEAREST {
            assert!(nearest.contains("baton") || nearest.contains("by itself"), "{name}: {nearest}");
        }
    }
}
