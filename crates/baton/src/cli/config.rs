//! `baton config`: every setting, its value and where it came from.

use std::fmt::Write as _;

use super::screen::{Paint, print, print_json, table};
use super::{App, Outcome, args::ConfigArgs};
use crate::config::{KEYS, Origin};

pub fn run(app: &App, args: &ConfigArgs) -> anyhow::Result<Outcome> {
    let resolved = &app.resolved;
    let settings = KEYS.iter().zip(&resolved.origins);
    if args.json {
        let rows: Vec<_> = settings
            .map(|(key, origin)| {
                serde_json::json!({
                    "key": key.name, "value": (key.get)(&resolved.config), "from": show(app, origin),
                    "env": key.env_name(), "help": key.help,
                })
            })
            .collect();
        let channels: Vec<_> = resolved
            .config
            .channels
            .iter()
            .zip(&resolved.channel_origins)
            .map(|((path, name), origin)| {
                serde_json::json!({ "path": path, "channel": name, "from": show(app, origin) })
            })
            .collect();
        print_json(&serde_json::json!({ "settings": rows, "channels": channels }))?;
        return Ok(Outcome::Done);
    }
    let paint = Paint::stdout();
    let mut rows: Vec<Vec<String>> = settings
        .map(|(key, origin)| {
            let from = show(app, origin);
            let from = if *origin == Origin::Default { paint.dim(&from) } else { from };
            vec![key.name.to_owned(), (key.get)(&resolved.config), from, paint.dim(key.help)]
        })
        .collect();
    for ((path, name), origin) in resolved.config.channels.iter().zip(&resolved.channel_origins) {
        let key = format!("channels.\"{}\"", app.paths.short(path));
        rows.push(vec![key, name.clone(), show(app, origin), String::new()]);
    }
    if let Some((dir, name)) = &resolved.config.project_channel {
        let from = app.paths.short(&dir.join(crate::config::PROJECT_FILE));
        rows.push(vec!["channel".into(), name.clone(), from, String::new()]);
    }
    let mut out = table(paint, &["SETTING", "VALUE", "FROM", ""], &rows);
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

fn show(app: &App, origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File { path, line } => format!("{}:{line}", app.paths.short(path)),
        Origin::Env(name) => name.clone(),
    }
}
