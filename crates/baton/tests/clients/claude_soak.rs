//! The soak with two real clients in it, one of them the parent of the other: ten scripted agents and two of Claude Code, with
//! the mod, in one home under the faults of `soak`, and companions that are killed.

use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use baton_testkit::clients::claude::Claude;
use baton_testkit::clients::{ClientHome, Launch};
use baton_testkit::model::{Script, ScriptedModel, Turn, error, shell, text};
use baton_testkit::rng::Rng;

use crate::BATON;
use crate::soak::{RealClients, Soak, ran_inside};
use crate::world::World;

const NAMES: [&str; 2] = ["lead", "worker"];

struct TwoClaudes {
    launch: Launch,
    model: ScriptedModel,
    is_calm: Arc<AtomicBool>,
}

/// Work, handoffs, errors of every kind, silence and short usage limits.
fn answer(rng: &mut Rng, n: u64) -> Turn {
    // The client would try again by itself for minutes.
    let fails = |status: u16| error(status).header("x-should-retry", "false");
    match rng.pick(0..20) {
        0..=1 => shell(format!("printf '# H\n\n## Next\nGo on after DOC-real-{n}.\n' | baton handoff -"))
            .usage(60_000),
        2..=4 => shell("sleep 0.3; true").usage(30_000),
        5 => fails(400),
        6 => fails(403),
        7 => fails(500),
        8 => fails(529),
        9 => fails(429).message("You have reached your usage limit, which resets in 4 seconds"),
        10 => text("Slow.").usage(25_000).delay(Duration::from_secs(5)),
        _ => text("On it.").usage(20_000),
    }
}

impl TwoClaudes {
    fn settle(world: &World, rng: &mut Rng) -> Result<Option<Self>> {
        let place = ClientHome::in_home(world.home.path(), &world.home.project())?;
        place.link("baton", BATON.as_ref())?;
        let is_calm = Arc::new(AtomicBool::new(false));
        let (calm, dice) = (Arc::clone(&is_calm), Mutex::new((rng.fork(), 0)));
        let script = Script::new().otherwise(text("On it.").usage(20_000)).react(move |_| {
            let mut dice = dice.lock().unwrap();
            dice.1 += 1;
            let n = dice.1;
            (!calm.load(Ordering::Relaxed)).then(|| answer(&mut dice.0, n))
        });
        let model = ScriptedModel::start(script)?;
        let Some(client) = Claude::new(&place, &model)? else { return Ok(None) };
        let settings = serde_json::json!({ "permissions": { "allow": ["Bash"] } });
        place.write_home(".claude/settings.json", settings.to_string())?;
        let mut launch = client
            .launch()
            .env("TMUX_TMPDIR", world.home.path())
            .env("TZ", "UTC")
            .env("BATON_PANES_ATTEND", "false");
        launch.program = BATON.into();
        launch.args.clear();
        Ok(Some(Self { launch, model, is_calm }))
    }
}

impl RealClients for TwoClaudes {
    fn agents(&self) -> &[&str] {
        &NAMES
    }

    fn command(&self, args: &[&str]) -> Command {
        self.launch.clone().args(args).command()
    }

    fn spawn_args(&self, agent: &str) -> Vec<String> {
        let parent: &[&str] = if agent == NAMES[1] { &["--parent", NAMES[0]] } else { &[] };
        let words = [
            &["spawn", agent, "--provider", "claude", "--prompt", "Begin."],
            parent,
            &["--", "--permission-mode", "default"],
        ];
        words.concat().into_iter().map(str::to_owned).collect()
    }

    fn was_shown(&self, text: &str) -> bool {
        self.model.requests().iter().any(|request| request.text().contains(text))
    }

    fn calm_down(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }
}

#[test]
fn soak_with_two_real_clients_comes_to_rest_and_nothing_is_lost_or_came_twice() {
    if ran_inside() {
        return;
    }
    let mut is_missing = false;
    let settle = |world: &World, rng: &mut Rng| {
        let real = TwoClaudes::settle(world, rng).unwrap();
        is_missing = real.is_none();
        real.map(|real| Box::new(real) as Box<dyn RealClients>)
    };
    let Some(mut soak) = Soak::new(settle) else { return };
    if is_missing {
        return;
    }
    soak.run();
}
