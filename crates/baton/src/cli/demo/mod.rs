//! `baton demo`: shows what baton does in about fifteen seconds, with everything real but the agent.

mod stage;
mod story;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::cli::Outcome;
use crate::cli::args::DemoArgs;
use crate::cli::demo::stage::Stage;
use crate::cli::demo::story::Story;
use crate::cli::ui::{Paint, print};
use crate::providers;

const FIRST: &str = "session_expiry fails. Find out why. The public API must stay as it is.";
const SECOND: &str = "Now fix it.";
/// Longer than anything in the demo takes, even on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) fn run(args: &DemoArgs) -> anyhow::Result<Outcome> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let paint = Paint::stdout();
    let (pace, rest) = if args.fast { (0, 0) } else { (900, 1_200) };
    let mut stage = Stage::new(args.keep)?;
    print(&format!(
        "\n{} The agent is scripted; the supervisor, the hooks and the store are the real\nones, in a home of their \
         own. Nothing of yours is touched.\n",
        paint.bold("baton demo.")
    ))?;
    let mut story = Story::new(paint, Duration::from_millis(rest));
    stage.start(FIRST, pace)?;
    play(&mut stage, &mut story, &interrupted)?;
    if interrupted.load(Ordering::Relaxed) {
        return Ok(Outcome::Failed);
    }
    print(&epilogue(&stage, &story, paint, args.keep))?;
    Ok(Outcome::Done)
}

/// Narrates until the fresh agent is done.
fn play(stage: &mut Stage, story: &mut Story, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let mut last = Instant::now();
    let mut asked_to_fix = false;
    while !interrupted.load(Ordering::Relaxed) {
        let news = stage.news();
        if !news.is_empty() {
            last = Instant::now();
        }
        for event in &news {
            let told = story.tell(event);
            let mut part = Some(&told);
            while let Some(told) = part {
                std::thread::sleep(told.rest);
                print(&told.text)?;
                part = told.then.as_deref();
            }
            if story.over {
                stage.say("/exit")?;
                return finish(stage);
            }
            if told.turn_over && !asked_to_fix {
                asked_to_fix = true;
                stage.say(SECOND)?;
            }
        }
        if stage.has_ended()?.is_some() {
            bail!("the story broke off: {}", stage.complaints().trim());
        }
        if last.elapsed() > PATIENCE {
            bail!(
                "the demo came to a halt: nothing happened for {} s. {}\n`baton demo --keep` leaves its files to look at",
                PATIENCE.as_secs(),
                stage.complaints().trim()
            );
        }
        // People do not notice a shorter interval.
        std::thread::sleep(Duration::from_millis(15));
    }
    Ok(())
}

fn finish(stage: &mut Stage) -> anyhow::Result<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = stage.has_ended()? {
            if !status.success() {
                bail!("the agent ended with {status}: {}", stage.complaints().trim());
            }
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(15));
    }
    bail!("the agent did not end")
}

/// Where everything is, and how to do it with a real agent.
fn epilogue(stage: &Stage, story: &Story, paint: Paint, keep: bool) -> String {
    let home = stage.home();
    let id = story.handoff.as_deref().unwrap_or("HO-…");
    let rows = [
        (format!(".claude/handoff/archive/{id}.md"), "the handoff: plain text, yours to read"),
        (".claude/projects/".to_owned(), "both conversations; nothing was thrown away"),
        (".local/state/baton/rotations/".to_owned(), "the rotation, each step written before it was taken"),
        (".local/state/baton/log/".to_owned(), "everything that happened"),
    ];
    let where_to = if keep { home.display().to_string() } else { "the demo's home, ~".to_owned() };
    let mut out = vec![
        format!("\n{} {}", paint.yellow("5"), paint.bold("What is left, as plain files.")),
        format!("   {}\n", paint.dim(&format!("in {where_to}"))),
    ];
    for (path, what) in &rows {
        out.push(format!("   {path}\n      {}", paint.dim(what)));
    }
    out.push(if keep {
        format!("\n   Remove it with: rm -r {}", home.display())
    } else {
        format!("\n   {}", paint.dim("It has been removed; `baton demo --keep` keeps it to look at."))
    });
    out.push(format!("\n{}", paint.bold("Now with a real agent, in one of your projects:")));
    let missing = Some(providers::usual()).filter(|p| p.locate().is_none());
    out.extend(missing.map(|provider| format!("   {}", provider.install)));
    out.push("   baton run claude\n\n".to_owned());
    out.join("\n")
}
