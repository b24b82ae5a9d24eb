//! `baton config`: every setting with its value and origin.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::bail;
use baton_core::approval::rules::{Decision, Rule, RuleScope};
use baton_core::nearest::nearest;
use baton_core::plain::plain_line;

use crate::cli::args::{ConfigArgs, ConfigCommand};
use crate::cli::ui::confirm::yes_or_no;
use crate::cli::ui::{Paint, print, print_json, table_ranked};
use crate::cli::{App, Outcome, refuse_agent};
use crate::config::{IgnoredBecause, KEYS, ResolvedConfig, SettingOrigin, edit};
use crate::store::Store;
use crate::sys::paths::Paths;
use crate::sys::{editor, fs};

pub(super) fn run(app: &App, args: &ConfigArgs) -> anyhow::Result<Outcome> {
    let resolved = &app.resolved;
    let settings = KEYS.iter().zip(&resolved.origins);
    if args.json {
        let rows: Vec<_> = settings
            .map(|(key, origin)| {
                serde_json::json!({
                    "key": key.name, "value": (key.get)(&resolved.config), "from": origin.shown(&app.paths),
                    "env": key.has_variable().then(|| key.env_name()), "help": key.help,
                })
            })
            .collect();
        let channels: Vec<_> = resolved
            .config
            .channels
            .iter()
            .zip(&resolved.channel_origins)
            .map(|((path, name), origin)| {
                serde_json::json!({ "path": path, "channel": name, "from": origin.shown(&app.paths) })
            })
            .collect();
        let ignored: Vec<_> = resolved
            .ignored
            .iter()
            .map(|i| serde_json::json!({ "path": i.path, "line": i.line, "what": i.what, "why": i.why.as_str() }))
            .collect();
        let rules: Vec<_> = rules(app)
            .into_iter()
            .map(|(key, rule, origin)| serde_json::json!({ "key": key, "rule": rule, "from": origin.shown(&app.paths) }))
            .collect();
        let all = serde_json::json!({
            "settings": rows, "rules": rules, "channels": channels, "ignored": ignored,
        });
        print_json(&all)?;
        return Ok(Outcome::Done);
    }
    if args.why {
        return why(app);
    }
    let paint = Paint::stdout();
    let mut rows: Vec<Vec<String>> = settings
        .map(|(key, origin)| {
            let from = origin.shown(&app.paths);
            let from = if *origin == SettingOrigin::Default { paint.dim(&from) } else { from };
            vec![key.name.to_owned(), (key.get)(&resolved.config), from, paint.dim(key.help)]
        })
        .collect();
    for (key, rule, origin) in rules(app) {
        rows.push(vec![key, rule, origin.shown(&app.paths), paint.dim("a rule that answers for you")]);
    }
    for ((path, name), origin) in resolved.config.channels.iter().zip(&resolved.channel_origins) {
        let key = format!("channels.\"{}\"", app.paths.short(path));
        rows.push(vec![key, name.clone(), origin.shown(&app.paths), String::new()]);
    }
    if let Some((dir, name)) = &resolved.config.project_channel {
        let from = app.paths.short(&dir.join(crate::config::PROJECT_FILE));
        rows.push(vec!["channel".into(), name.clone(), from, String::new()]);
    }
    let mut out =
        table_ranked(paint, &[("SETTING", 0), ("VALUE", 0), ("FROM", 1), ("WHAT IT DOES", 2)], &rows);
    if !resolved.ignored.is_empty() {
        out.push_str("\nThis has no effect here:\n");
        for ignored in &resolved.ignored {
            let place = format!("{}:{}", app.paths.short(&ignored.path), ignored.line);
            let _ = writeln!(out, "   {place}  {}: {}", plain_line(&ignored.what, 200), ignored.why.as_str());
        }
        out.push_str(trust_hint(resolved));
    }
    let _ = writeln!(
        out,
        "\nYours: {}; a project's: {} in its folder; or a variable, like {}.",
        app.paths.short(&app.paths.config),
        crate::config::PROJECT_FILE,
        KEYS[2].env_name(),
    );
    print(&out)?;
    Ok(Outcome::Done)
}

/// Changes the user's own file. Works even if the configuration is invalid, so that `edit` can fix it.
pub(super) fn change(command: &ConfigCommand) -> anyhow::Result<Outcome> {
    let paths = Paths::from_env()?;
    if let Some(outcome) = refuse_agent(&Store::new(&paths), "change settings") {
        return Ok(outcome);
    }
    let (path, text) = edit::read(&paths)?;
    let key = match command {
        ConfigCommand::Edit => return edit_by_hand(&paths, &path, &text),
        ConfigCommand::Set { key, value } => {
            let after = edit::set(&text, key, value, &paths)?;
            edit::write(&path, &after)?;
            key
        }
        ConfigCommand::Unset { key } => {
            if !KEYS.iter().any(|known| known.name == key) && !edit::is_rules(key) {
                match nearest(key, KEYS.iter().map(|known| known.name)) {
                    Some(meant) => bail!("{key:?} is not a setting; did you mean {meant}?"),
                    None => bail!("{key:?} is not a setting; `baton config` lists them"),
                }
            }
            let Some(after) = edit::unset(&text, key, &paths)? else {
                print(&format!(
                    "{key} is not set in {}; nothing was changed.\n",
                    paths.short(&paths.config)
                ))?;
                return Ok(Outcome::Nothing);
            };
            edit::write(&path, &after)?;
            key
        }
    };
    // A variable or this project may still override it here.
    let app = App::new(None)?;
    let Some(at) = KEYS.iter().position(|known| known.name == key) else {
        let set: Vec<String> =
            rules(&app).into_iter().filter(|(name, ..)| name == key).map(|(_, rule, _)| rule).collect();
        let now = if set.is_empty() { "holds no rule".to_owned() } else { format!("is {}", set.join(", ")) };
        print(&format!("{key} {now} now ({}).\n", paths.short(&paths.config)))?;
        return Ok(Outcome::Done);
    };
    let (value, origin) = ((KEYS[at].get)(&app.resolved.config), &app.resolved.origins[at]);
    let is_ours = matches!(origin, SettingOrigin::Default)
        || matches!(origin, SettingOrigin::File { path, .. } if *path == paths.config);
    let but = if is_ours { "" } else { ", which overrides your own file here" };
    print(&format!("{key} is {value} now ({}{but}).\n", origin.shown(&app.paths)))?;
    Ok(Outcome::Done)
}

/// Opens a copy in the user's editor, which replaces the file only if it is valid.
fn edit_by_hand(paths: &Paths, path: &Path, text: &str) -> anyhow::Result<Outcome> {
    let dir = fs::temporary_dir("baton-config-")?;
    let copy = dir.join("config.toml");
    fs::replace(&copy, text.as_bytes(), fs::PRIVATE, fs::Sync::No)?;
    let edited = loop {
        if let Err(e) = editor::open(&copy) {
            break Err(e.context("nothing was changed"));
        }
        let now = String::from_utf8_lossy(&fs::read(&copy, 1 << 20)?.unwrap_or_default()).into_owned();
        let Err(e) = edit::check(&now, paths) else { break Ok(now) };
        eprintln!("baton: {e}");
        if !std::io::stdin().is_terminal() || !yes_or_no("Edit it again?")? {
            break Err(anyhow::anyhow!("nothing was changed"));
        }
    };
    let _ = std::fs::remove_dir_all(&dir);
    let edited = edited?;
    if edited == text {
        print("Nothing was changed.\n")?;
        return Ok(Outcome::Nothing);
    }
    edit::write(path, &edited)?;
    print(&format!("{} is changed and takes effect now.\n", paths.short(&paths.config)))?;
    Ok(Outcome::Done)
}

/// The settings that differ from the defaults, and those that an untrusted file would set.
fn why(app: &App) -> anyhow::Result<Outcome> {
    let resolved = &app.resolved;
    let set = KEYS.iter().zip(&resolved.origins).filter(|(_, origin)| **origin != SettingOrigin::Default);
    let mut rows: Vec<Vec<String>> = set
        .map(|(key, origin)| vec![key.name.to_owned(), (key.get)(&resolved.config), origin.shown(&app.paths)])
        .collect();
    rows.extend(rules(app).into_iter().map(|(key, rule, origin)| vec![key, rule, origin.shown(&app.paths)]));
    for ((path, name), origin) in resolved.config.channels.iter().zip(&resolved.channel_origins) {
        rows.push(vec![
            format!("channels.\"{}\"", app.paths.short(path)),
            name.clone(),
            origin.shown(&app.paths),
        ]);
    }
    if let Some((dir, name)) = &resolved.config.project_channel {
        let from = app.paths.short(&dir.join(crate::config::PROJECT_FILE));
        rows.push(vec!["channel".to_owned(), name.clone(), from]);
    }
    for ignored in &resolved.ignored {
        let place = format!("{}:{}", app.paths.short(&ignored.path), ignored.line);
        rows.push(vec![
            plain_line(&ignored.what, 200),
            String::new(),
            format!("{}: {place}", ignored.why.as_str()),
        ]);
    }
    if rows.is_empty() {
        print("Every setting has its default.\n")?;
        return Ok(Outcome::Done);
    }
    let mut out = table_ranked(Paint::stdout(), &[("SETTING", 0), ("VALUE", 0), ("WHY", 0)], &rows);
    out.push_str(trust_hint(resolved));
    print(&out)?;
    Ok(Outcome::Done)
}

/// The hint if a folder's settings are ignored because it is not trusted.
fn trust_hint(resolved: &ResolvedConfig) -> &'static str {
    if resolved.ignored.iter().any(|ignored| ignored.why == IgnoredBecause::NotTrusted) {
        "\nUntrusted settings have no effect; `baton trust` accepts this folder.\n"
    } else {
        ""
    }
}

/// Each rule of `[approvals]` with its key and origin.
fn rules(app: &App) -> Vec<(String, String, &SettingOrigin)> {
    let resolved = &app.resolved;
    let rules = resolved.config.approvals.rules.0.iter().zip(&resolved.rule_origins);
    let row = |((whose, decision, rule), origin): (&(RuleScope, Decision, Rule), _)| {
        let list = match decision {
            Decision::Allow => "allow",
            Decision::Deny => "deny",
        };
        let key = match whose {
            RuleScope::Everybody => format!("approvals.{list}"),
            RuleScope::Agent(agent) => format!("approvals.agents.{agent}.{list}"),
            RuleScope::Tree(agent) => format!("approvals.trees.{agent}.{list}"),
        };
        (key, rule.to_string(), origin)
    };
    rules.map(row).collect()
}
