//! `baton top`: the screen that people leave open.
//!
//! [`model`], [`update`] and [`render`] are pure: an event and a model give a model and effects, a model gives cells.
//! This module carries out the effects. The screen sleeps until a key, an event of the daemon or a signal wakes it, or
//! until an age on it has to change.

mod dialogs;
mod input;
mod keys;
mod layout;
mod model;
mod render;
#[cfg(test)]
mod samples;
mod source;
mod terminal;
#[cfg(test)]
mod tests;
mod tree;
mod update;

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR2, SIGWINCH};
use signal_hook::low_level::emulate_default_handler;

use crate::config::Config;
use crate::store::Store;
use crate::sys::editor;
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::paths::Paths;
use crate::sys::poll::{self, PollFd, PollFlags};

use input::Keyboard;
use model::{Link, Model};
use source::{DataSource, Outbox};
use terminal::TerminalScreen;
use update::{ScreenEffect, ScreenEvent, Want};

/// How long to wait for the rest of a sequence. An Escape that nothing follows is the key itself.
const ESCAPE: Duration = Duration::from_millis(40);

/// Options of the screen.
pub(crate) struct ScreenOptions {
    /// Read the files instead of asking the daemon.
    pub files: bool,
    pub all: bool,
    pub is_installed: bool,
}

/// Shows the screen until the user leaves it.
pub(crate) fn run(paths: &Paths, config: &Config, options: &ScreenOptions) -> anyhow::Result<()> {
    terminal::survive_panics();
    let (events, inbox) = channel();
    let (bell, woken) = UnixStream::pair().context("could not make a socket for the screen's events")?;
    bell.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let out = Outbox::new(events, bell);
    let signals = signals(&out)?;
    let store = Store::new(paths);
    let source = DataSource {
        paths: paths.clone(),
        store: store.clone(),
        config: config.clone(),
        files: options.files,
        all: options.all,
    };
    let wanted = source.start(&out).context("could not start the threads of the screen")?;
    let (width, height) = terminal::dimensions();
    let link = if options.files { Link::Files } else { Link::Connecting };
    let mut model = Model::new(width, height, terminal::look(), link, Timestamp::now());
    model.cwd = std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default();
    model.is_installed = options.is_installed;
    let screen = TerminalScreen::enter().context("could not take over the terminal")?;
    let keyboard = Keyboard::default();
    let mut top = Top { model, screen, keyboard, inbox, woken, out, wanted, signals, store };
    let signal = top.show()?;
    drop(top);
    if let Some(signal) = signal {
        emulate_default_handler(signal).context("could not end as the signal asks")?;
    }
    Ok(())
}

/// Delivers signals as events. While another program has the terminal, they end us at once.
fn signals(out: &Outbox) -> anyhow::Result<Receiver<i32>> {
    let mut wanted = vec![SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGWINCH];
    if cfg!(debug_assertions) {
        wanted.push(SIGUSR2);
    }
    let mut signals = signal_hook::iterator::Signals::new(wanted).context("could not listen for signals")?;
    let (caught, receiver) = channel();
    let out = out.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGWINCH {
                let (width, height) = terminal::dimensions();
                out.send(ScreenEvent::Resize(width, height));
                continue;
            }
            if !terminal::is_ours() {
                let _ = emulate_default_handler(signal);
            }
            let _ = caught.send(signal);
            out.send(ScreenEvent::Tick);
        }
    })?;
    Ok(receiver)
}

struct Top {
    model: Model,
    screen: TerminalScreen,
    keyboard: Keyboard,
    inbox: Receiver<ScreenEvent>,
    /// Readable when something is in the inbox.
    woken: UnixStream,
    out: Outbox,
    wanted: Sender<(Want, String)>,
    signals: Receiver<i32>,
    store: Store,
}

impl Top {
    /// Runs until the user leaves or a signal asks us to end; returns that signal.
    fn show(&mut self) -> anyhow::Result<Option<i32>> {
        let mut dirty = true;
        let mut drawn = Instant::now();
        loop {
            if std::mem::take(&mut dirty) {
                self.screen.draw(&self.model).context("could not draw on the terminal")?;
                drawn = Instant::now();
            }
            let tick = Duration::from_secs(self.model.next_tick()).saturating_sub(drawn.elapsed());
            let is_waiting = self.keyboard.is_waiting();
            let typed = self.wait(if is_waiting { tick.min(ESCAPE) } else { tick })?;
            if let Ok(signal) = self.signals.try_recv() {
                // For the test that a panic restores the terminal.
                assert!(signal != SIGUSR2, "asked to panic");
                return Ok(Some(signal));
            }
            let mut events: Vec<ScreenEvent> = self.inbox.try_iter().collect();
            if typed {
                events.extend(self.read_keys()?);
            } else if is_waiting {
                events.extend(self.keyboard.settle());
            }
            if events.is_empty() && drawn.elapsed() >= tick {
                events.push(ScreenEvent::Tick);
            }
            for event in events {
                dirty = true;
                for effect in self.model.update(event, Timestamp::now()) {
                    if self.carry_out(effect)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Sleeps until something arrives or the time is up. Returns `true` if there is input.
    fn wait(&mut self, limit: Duration) -> anyhow::Result<bool> {
        let stdin = std::io::stdin();
        let mut fds = [
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.woken.as_fd(), PollFlags::IN),
        ];
        poll::wait(&mut fds, Some(limit)).context("could not wait for keys and events")?;
        let mut rung = [0; 64];
        while matches!(rustix::io::read(&self.woken, &mut rung), Ok(n) if n == rung.len()) {}
        let input = fds[0].revents();
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        anyhow::ensure!(!input.intersects(gone), "the terminal is gone");
        Ok(!input.is_empty())
    }

    /// Reads what was typed and clicked since the last call.
    fn read_keys(&mut self) -> anyhow::Result<Vec<ScreenEvent>> {
        let mut bytes = [0; 4096];
        match rustix::io::read(std::io::stdin(), &mut bytes) {
            Ok(0) => anyhow::bail!("the terminal is gone"),
            Ok(n) => Ok(self.keyboard.feed(&bytes[..n])),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Vec::new()),
            Err(e) => Err(e).context("could not read the keyboard"),
        }
    }

    /// Returns `true` if the user leaves.
    fn carry_out(&mut self, effect: ScreenEffect) -> anyhow::Result<bool> {
        match effect {
            ScreenEffect::Quit => return Ok(true),
            ScreenEffect::Read(want, agent) => drop(self.wanted.send((want, agent))),
            ScreenEffect::Run(command) => self.in_background(command),
            ScreenEffect::Foreground(command) => {
                let run = self.screen.lend(|| foreground(&command))?;
                let (ok, said) = run.unwrap_or_else(|e| (false, format!("{e:#}")));
                if !ok || !said.is_empty() {
                    self.out.send(ScreenEvent::Ran { command, ok, said });
                }
                let (width, height) = terminal::dimensions();
                self.out.send(ScreenEvent::Resize(width, height));
            }
            ScreenEffect::Edit { agent, text } => {
                let path = self.store.state.join(format!("run/message-{}.md", std::process::id()));
                let edited = self.screen.lend(|| edit(&path, &text))?;
                if edited.is_ok() {
                    let _ = fs::remove(&path);
                }
                match edited {
                    Ok(text) if text.trim().is_empty() => {}
                    Ok(text) => self.in_background(keys::words(&["send", &agent, "--", text.trim_end()])),
                    // The text stays in the file that the message names.
                    Err(e) => {
                        let command = keys::words(&["send", &agent]);
                        self.out.send(ScreenEvent::Ran { command, ok: false, said: format!("{e:#}") });
                    }
                }
            }
            ScreenEffect::Copy(text) => self.screen.copy(&text)?,
            ScreenEffect::Suspend => {
                self.screen.lend(|| emulate_default_handler(signal_hook::consts::SIGTSTP))??;
                let (width, height) = terminal::dimensions();
                self.out.send(ScreenEvent::Resize(width, height));
            }
        }
        Ok(false)
    }

    /// Runs one of our own commands. Its output arrives as an event.
    fn in_background(&self, command: Vec<String>) {
        let out = self.out.clone();
        std::thread::spawn(move || {
            let ran = ourselves()
                .and_then(|mut ours| {
                    Ok(ours.args(keys::by_the_screen(&command)).stdin(Stdio::null()).output()?)
                })
                .map(|output| {
                    let said = if output.status.success() { output.stdout } else { output.stderr };
                    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
                });
            let (ok, said) = ran.unwrap_or_else(|e| (false, format!("{e:#}")));
            out.send(ScreenEvent::Ran { command, ok, said: baton_core::plain::plain(&said).into_owned() });
        });
    }
}

fn ourselves() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("could not find our own program")?))
}

/// Runs one of our own commands on the terminal. Its errors are shown afterwards.
fn foreground(command: &[String]) -> anyhow::Result<(bool, String)> {
    let child = ourselves()?.args(command).stderr(Stdio::piped()).spawn().context("could not start it")?;
    let output = child.wait_with_output()?;
    let said = baton_core::plain::plain(&String::from_utf8_lossy(&output.stderr)).trim().to_owned();
    Ok((output.status.success() || output.status.signal().is_some(), said))
}

/// The text as the user left it in their editor.
fn edit(path: &std::path::Path, text: &str) -> anyhow::Result<String> {
    if let Some(dir) = path.parent() {
        fs::private_dir(dir)?;
    }
    fs::replace(path, text.as_bytes(), PRIVATE, Sync::No)?;
    editor::open(path).with_context(|| format!("nothing was sent; the text is in {}", path.display()))?;
    Ok(std::fs::read_to_string(path)?)
}
