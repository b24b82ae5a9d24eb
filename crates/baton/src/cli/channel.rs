//! `baton channel [PATH] [--why]`.

use crate::cli::args::ChannelArgs;
use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome};

pub(super) fn run(app: &App, args: &ChannelArgs) -> anyhow::Result<Outcome> {
    let dir = match &args.path {
        Some(path) => app.cwd.join(path),
        None => app.cwd.clone(),
    };
    // Another folder may have its own settings.
    let channel = if args.path.is_some() {
        App::at(dir.clone(), app.channel_flag.clone())?.channel_of(&dir)?
    } else {
        app.channel_of(&dir)?
    };
    if args.json {
        print_json(&serde_json::json!({ "channel": channel.name, "why": channel.why.to_string() }))?;
    } else if args.why {
        print(&format!("{}  ({})\n", channel.name, channel.why))?;
    } else {
        print(&format!("{}\n", channel.name))?;
    }
    Ok(Outcome::Done)
}
