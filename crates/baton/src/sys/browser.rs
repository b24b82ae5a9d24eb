//! The user's own browser.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

const PATIENCE: Duration = Duration::from_secs(2);

/// Opens an address, by `$BROWSER` if that is set. Returns when it has started.
pub(crate) fn open(address: &str) -> anyhow::Result<()> {
    let named = std::env::var("BROWSER").ok().filter(|value| !value.trim().is_empty());
    let mut command = match &named {
        // As with an editor, a shell interprets the variable, because it may contain arguments.
        Some(browser) => {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &format!("{browser} \"$1\""), "sh"]);
            command
        }
        None if cfg!(target_os = "macos") => Command::new("open"),
        None => {
            let has_screen =
                ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
            ensure!(has_screen, "there is no screen here");
            Command::new("xdg-open")
        }
    };
    let quiet = command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut started = quiet.spawn().context("could not start a browser")?;
    // A browser that cannot start fails at once. One that keeps running is open.
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(ended) = started.try_wait().context("could not wait for the browser")? {
            ensure!(ended.success(), "the browser did not start ({ended})");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
