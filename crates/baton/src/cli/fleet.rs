//! `baton fleet`: found one, join it, see who is in it.

use std::fmt::Write as _;

use baton_core::fleet::presence::{Presence, SharedAgent};
use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::{FleetArgs, FleetCommand};
use crate::cli::ui::{Paint, age, local, print, print_json, table};
use crate::cli::{App, Outcome};
use crate::fleet::config::{Membership, shown};
use crate::fleet::outbox::Outbox;
use crate::fleet::post::fresh_roll;
use crate::fleet::roll::{LinkState, LinkView, MachineView, Roll};
use crate::views::agent;

pub(super) fn run(app: &App, args: &FleetArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        FleetCommand::Status { json } => status(app, *json),
        FleetCommand::Machines { json } => machines(app, *json),
        command => verbs::run(app, command),
    }
}

/// This machine's place in its fleet; prints a message if it has none.
fn membership(app: &App) -> anyhow::Result<Option<Membership>> {
    let membership = Membership::read(&app.paths.state)?;
    if membership.is_none() {
        eprintln!("baton: this machine is not in a fleet; `baton help fleet` says how to start or join one");
    }
    Ok(membership)
}

fn status(app: &App, as_json: bool) -> anyhow::Result<Outcome> {
    let Some(membership) = membership(app)? else { return Ok(Outcome::Nothing) };
    let state = &app.paths.state;
    let (roll, link) = (fresh_roll(state)?, LinkView::read(state)?);
    let backlog = Outbox::of(state).backlog()?;
    // What the daemon last wrote is only current while it runs.
    let is_served = crate::daemon::RunDir::new(state).is_locked();
    let link = link.filter(|_| is_served);
    if as_json {
        print_json(&json!({
            "fleet": membership.fleet, "machine": membership.name, "database": shown(&membership.url), "link": link,
            "behind": { "parcels": backlog.parcels, "bytes": backlog.bytes, "since": backlog.since },
            "news": roll.as_ref().map(|roll| roll.at), "machines": roll.map(|roll| roll.machines),
        }))?;
        return Ok(Outcome::Done);
    }
    let now = Timestamp::now();
    let mut out =
        format!("{} in fleet {}, at {}\n", membership.name, membership.fleet, shown(&membership.url));
    match &link {
        None => out.push_str("No daemon runs, so nothing is exchanged; `baton serve --detach` starts one.\n"),
        Some(link) => {
            let word = match link.state {
                LinkState::Connected => "Connected",
                LinkState::Away => "The database is away",
                LinkState::Fenced => "Silent: another copy of this machine's files has taken its place",
                LinkState::Revoked => "Revoked",
            };
            let why =
                link.why.as_deref().map(|why| format!(": {}", plain_line(why, 200))).unwrap_or_default();
            let _ = writeln!(out, "{word} since {}{why}", local(link.since));
            if let Some(at) = link.restored {
                let _ = writeln!(
                    out,
                    "At {} the database was older than before, as after a restore; the missing data was sent again.",
                    local(at)
                );
            }
            if link.stuck > 0 {
                let _ = writeln!(
                    out,
                    "{} envelopes have come and cannot be stored here yet; `baton log --faults` says why.",
                    link.stuck
                );
            }
            if link.refused > 0 {
                let _ =
                    writeln!(out, "{} envelopes were rejected; `baton log --faults` says why.", link.refused);
            }
        }
    }
    match backlog.since {
        Some(since) => {
            let _ = writeln!(out, "Behind by {} messages since {}.", backlog.parcels, local(since));
        }
        None => out.push_str("Nothing waits to be sent.\n"),
    }
    if let Some(roll) = roll {
        let awake = roll.machines.iter().filter(|m| m.presence == Presence::Awake).count();
        let there = roll.machines.iter().filter(|m| m.presence != Presence::Gone).count();
        let _ = writeln!(out, "{awake} of {there} machines are awake; this is {} old.", age(roll.at, now));
    }
    print(&out)?;
    Ok(Outcome::Done)
}

fn machines(app: &App, as_json: bool) -> anyhow::Result<Outcome> {
    if membership(app)?.is_none() {
        return Ok(Outcome::Nothing);
    }
    let Some(roll) = fresh_roll(&app.paths.state)? else {
        eprintln!("baton: nothing was heard of other machines yet; `baton fleet status` says why");
        return Ok(Outcome::Nothing);
    };
    let (paint, now) = (Paint::stdout(), Timestamp::now());
    say_how_old(app, Some(&roll), now)?;
    if as_json {
        print_json(&roll)?;
        return Ok(Outcome::Done);
    }
    let row = |machine: &MachineView| {
        vec![
            machine.name.to_string(),
            word(machine.presence, paint),
            machine.heard.map_or_else(|| "never".to_owned(), |at| age(at, now)),
            machine.agents.len().to_string(),
            machine.doubt.as_deref().map(|why| plain_line(why, 60)).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = roll.machines.iter().map(row).collect();
    print(&table(paint, &["MACHINE", "STATE", "HEARD", "AGENTS", "DOUBT"], &rows))?;
    Ok(Outcome::Done)
}

/// Says how old the figures are if the database does not answer.
fn say_how_old(app: &App, roll: Option<&Roll>, now: Timestamp) -> anyhow::Result<()> {
    let away = LinkView::read(&app.paths.state)?.filter(|link| link.state != LinkState::Connected);
    if let (Some(link), Some(roll)) = (away, roll) {
        eprintln!(
            "baton: this is {} old: the database is away since {}; `baton fleet status` says why",
            age(roll.at, now),
            local(link.since)
        );
    }
    Ok(())
}

fn word(presence: Presence, paint: Paint) -> String {
    match presence {
        Presence::Awake => "awake".to_owned(),
        Presence::Asleep => paint.yellow("asleep"),
        Presence::Gone => paint.dim("gone"),
    }
}

/// The agents of all machines: the present state of those here, the last known state of the others.
pub(super) fn agents(app: &App, as_json: bool) -> anyhow::Result<Outcome> {
    let Some(membership) = membership(app)? else { return Ok(Outcome::Nothing) };
    let (store, now) = (app.store(), Timestamp::now());
    let thresholds = baton_core::level::Thresholds::default();
    let here: Vec<SharedAgent> = agent::all(&store, false, |_| thresholds)
        .into_iter()
        .map(|view| SharedAgent {
            name: view.id,
            provider: view.provider,
            project: view.project,
            state: view.state,
            level: view.level.as_str().to_owned(),
            used_percentage: view.used_percentage,
        })
        .collect();
    let roll = fresh_roll(&app.paths.state)?;
    say_how_old(app, roll.as_ref(), now)?;
    let mut machines = roll.map_or_else(Vec::new, |roll| roll.machines);
    machines.retain(|machine| machine.name != membership.name);
    let own = MachineView {
        name: membership.name,
        presence: Presence::Awake,
        heard: Some(now),
        agents: here,
        doubt: None,
    };
    let all = std::iter::once(own).chain(machines).filter(|m| m.presence != Presence::Gone);
    let rows: Vec<(MachineView, SharedAgent)> =
        all.flat_map(|m| m.agents.clone().into_iter().map(move |agent| (m.clone(), agent))).collect();
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(machine, agent)| {
                let mut row = json!(agent);
                row["machine"] = json!(machine.name);
                row["presence"] = json!(machine.presence);
                row["heard"] = json!(machine.heard);
                row
            })
            .collect();
        print_json(&rows)?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if rows.is_empty() {
        print("No machine of the fleet shows an agent.\n")?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let row = |(machine, agent): &(MachineView, SharedAgent)| {
        let used = agent.used_percentage.map(|used| format!("{used} %")).unwrap_or_default();
        vec![
            format!("{}@{}", plain_line(&agent.name, 60), machine.name),
            plain_line(&agent.state, 20),
            used,
            plain_line(&agent.provider, 12),
            plain_line(&agent.project, 30),
            word(machine.presence, paint),
            machine.heard.map_or_else(|| "never".to_owned(), |at| age(at, now)),
        ]
    };
    let cells: Vec<_> = rows.iter().map(row).collect();
    print(&table(paint, &["AGENT", "STATE", "USED", "PROVIDER", "PROJECT", "MACHINE", "HEARD"], &cells))?;
    Ok(Outcome::Done)
}

#[cfg(not(feature = "fleet"))]
mod verbs {
    use crate::cli::args::FleetCommand;
    use crate::cli::{App, Outcome};

    #[expect(clippy::unnecessary_wraps, reason = "the verbs of the feature may fail")]
    pub(super) fn run(_: &App, _: &FleetCommand) -> anyhow::Result<Outcome> {
        eprintln!("baton: this program was built without the feature `fleet`; install one that has it");
        Ok(Outcome::Failed)
    }
}

#[cfg(feature = "fleet")]
mod verbs {
    use baton_core::fleet::MachineName;
    use baton_core::ids::ChannelName;
    use jiff::Timestamp;
    use serde_json::json;

    use crate::cli::args::FleetCommand;
    use crate::cli::fleet::membership;
    use crate::cli::ui::{Paint, print, print_json, print_raw};
    use crate::cli::{App, Outcome};
    use crate::fleet::admin::{self, block_on};
    use crate::fleet::arrive;
    use crate::fleet::config::{Admin, Membership, shown};
    use crate::fleet::inspect::inspect;
    use crate::fleet::keys::Invitation;
    use crate::fleet::{folder, handoffs, wake};
    use crate::sys::fs;

    pub(super) fn run(app: &App, command: &FleetCommand) -> anyhow::Result<Outcome> {
        let doing = match command {
            FleetCommand::Init { .. } => "found a fleet",
            FleetCommand::Join { .. } => "join a fleet",
            FleetCommand::Leave { .. } => "leave the fleet",
            FleetCommand::Invite { .. } => "invite a machine",
            FleetCommand::Revoke { .. } => "revoke a machine",
            FleetCommand::Take { .. } => "choose the folder of a handoff",
            _ => "remove a machine's data",
        };
        if !matches!(command, FleetCommand::Doctor { .. })
            && let Some(outcome) = app.refuse_agent(doing)
        {
            return Ok(outcome);
        }
        match command {
            FleetCommand::Init { url } => init(app, url),
            FleetCommand::Join { code, name } => join(app, code, name.as_ref()),
            FleetCommand::Invite { name } => invite(app, name),
            FleetCommand::Leave { dissolve } => leave(app, *dissolve),
            FleetCommand::Revoke { name } => revoke(app, name),
            FleetCommand::Purge { name, json } => match (name, &app.channel_flag) {
                (Some(name), None) => purge(app, name, *json),
                (None, Some(channel)) => purge_channel(app, &ChannelName::new(channel.as_str())?, *json),
                _ => {
                    eprintln!("baton: say whose data is to be removed: a machine, or --channel CHANNEL");
                    Ok(Outcome::Usage)
                }
            },
            FleetCommand::Take { handoff, into } => {
                let (store, config) = (app.store(), &app.resolved.config);
                let into = app.cwd.join(into);
                anyhow::ensure!(into.is_dir(), "{} is not a folder", into.display());
                let said = arrive::take(&store, &app.paths, config, handoff, &into)?;
                print(&format!("{handoff}: {said}.\n"))?;
                Ok(Outcome::Done)
            }
            FleetCommand::Doctor { json } => doctor(app, *json),
            FleetCommand::Status { .. } | FleetCommand::Machines { .. } => Ok(Outcome::Done),
        }
    }

    fn init(app: &App, url: &str) -> anyhow::Result<Outcome> {
        let founded = block_on(admin::init(&app.paths.state, url))?;
        let schema = match founded.before {
            0 => "The schema `baton` was made",
            _ => "The schema `baton` is up to date",
        };
        let fleet = &founded.fleet;
        let then = if founded.is_new {
            let path = app.paths.short(&Admin::path(&app.paths.state));
            format!(
                "; fleet {fleet} is founded. Its key is in {path}: keep a copy of that file.\n\
                 Next: `baton fleet join URL` with the same URL makes this machine its first.\n"
            )
        } else {
            format!("; it holds fleet {fleet}.\n")
        };
        print(&format!("{schema} in {}{then}", shown(url)))?;
        Ok(Outcome::Done)
    }

    /// The founder's record; prints a message if this machine is not the founder.
    fn founder(app: &App) -> anyhow::Result<Option<Admin>> {
        let admin = Admin::read(&app.paths.state)?;
        if admin.is_none() {
            eprintln!(
                "baton: only the machine that founded the fleet can do that: it has the fleet's key, fleet/admin.json \
                 in its state folder"
            );
        }
        Ok(admin)
    }

    fn join(app: &App, code: &str, name: Option<&MachineName>) -> anyhow::Result<Outcome> {
        let state = &app.paths.state;
        if let Some(known) = Membership::read(state)? {
            eprintln!(
                "baton: this machine is {} in a fleet already; `baton fleet leave` leaves it",
                known.name
            );
            return Ok(Outcome::Failed);
        }
        let (url, invitation) = if let Some(read) = Invitation::from_code(code) {
            read.map_err(|_| anyhow::anyhow!("this is not a code of `baton fleet invite`; copy all of it"))?
        } else {
            let Some(admin) = Admin::read(state)? else {
                eprintln!(
                    "baton: a URL alone does not prove this machine to the others; run `baton fleet invite NAME` on \
                     the machine that founded the fleet, and join with the code that it prints"
                );
                return Ok(Outcome::Failed);
            };
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let Some(name) = name.cloned().or_else(|| MachineName::near(&host)) else {
                eprintln!("baton: give this machine a name with --name");
                return Ok(Outcome::Usage);
            };
            let admin = Admin { url: code.to_owned(), ..admin };
            let code = block_on(admin::invite(&admin, &name))?;
            Invitation::from_code(&code).ok_or_else(|| anyhow::anyhow!("the invitation cannot be read"))??
        };
        if let Some(name) = name.filter(|name| **name != invitation.name) {
            eprintln!("baton: this code is for {}, not for {name}", invitation.name);
            return Ok(Outcome::Failed);
        }
        let membership = block_on(admin::join(state, &url, &invitation))?;
        let started = crate::daemon::client::ensure(&app.paths, &[]);
        call_daemon(app);
        print(&format!("This machine is {} in fleet {} now.\n", membership.name, membership.fleet))?;
        if let Err(e) = started {
            eprintln!("baton: it takes part once a daemon runs: {e:#}");
        }
        Ok(Outcome::Done)
    }

    /// A daemon that runs already looks again when something disappears from its folder.
    fn call_daemon(app: &App) {
        let mark = app.paths.state.join("run/joined");
        if fs::create(&mark, b"", fs::PRIVATE, fs::Sync::No).is_ok() {
            let _ = fs::remove(&mark);
        }
    }

    fn invite(app: &App, name: &MachineName) -> anyhow::Result<Outcome> {
        let Some(admin) = founder(app)? else { return Ok(Outcome::Failed) };
        let code = block_on(admin::invite(&admin, name))?;
        eprintln!(
            "Run this on {name} within a day; the code works once, and whoever has it first is {name}:\n"
        );
        print_raw(&format!("baton fleet join '{code}'\n"))?;
        Ok(Outcome::Done)
    }

    fn leave(app: &App, dissolve: bool) -> anyhow::Result<Outcome> {
        let state = &app.paths.state;
        if dissolve && let Some(admin) = Admin::read(state)? {
            fs::set_aside(&Admin::path(state), &stamp())?;
            print(&format!("The key of fleet {} was set aside.\n", admin.fleet))?;
        }
        let Some(membership) = membership(app)? else {
            return Ok(if dissolve { Outcome::Done } else { Outcome::Nothing });
        };
        let told = block_on(admin::leave(&membership));
        fs::remove(&Membership::path(state))?;
        wake(state);
        handoffs::leave(state)?;
        let of_that_fleet = [
            "outbox",
            "inbound",
            "known",
            "shelves",
            "coming",
            "watermark.json",
            "machines.json",
            "link.json",
        ];
        for name in of_that_fleet {
            let path = folder(state).join(name);
            if path.exists() {
                fs::set_aside(&path, &stamp())?;
            }
        }
        print(&format!("{} has left the fleet.\n", membership.name))?;
        if let Err(e) = told {
            eprintln!(
                "baton: the database could not be told ({e:#}); the others see it as asleep. `baton fleet revoke {}` on \
                 the founding machine ends that",
                membership.name
            );
        }
        Ok(Outcome::Done)
    }

    fn stamp() -> String {
        Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string()
    }

    fn revoke(app: &App, name: &MachineName) -> anyhow::Result<Outcome> {
        let Some(admin) = founder(app)? else { return Ok(Outcome::Failed) };
        block_on(admin::revoke(&app.paths.state, &admin, name))?;
        print(&format!("{name} is revoked: it can no longer read or write anything.\n"))?;
        Ok(Outcome::Done)
    }

    fn purge(app: &App, name: &MachineName, as_json: bool) -> anyhow::Result<Outcome> {
        let Some(admin) = founder(app)? else { return Ok(Outcome::Failed) };
        let purged = block_on(admin::purge(&admin, name))?;
        let rest: i64 = purged.left.iter().map(|(_, n)| n).sum();
        if as_json {
            let left: serde_json::Map<_, _> =
                purged.left.iter().map(|(table, n)| ((*table).to_owned(), json!(n))).collect();
            print_json(&json!({ "machine": name, "removed": purged.removed, "left": left }))?;
        } else {
            let tables: Vec<String> = purged.left.iter().map(|(table, n)| format!("{table} {n}")).collect();
            print(&format!(
                "{} rows of {name} were removed. Counted afterwards: {}. The audit keeps its names.\n",
                purged.removed,
                tables.join(", ")
            ))?;
        }
        Ok(if rest == 0 { Outcome::Done } else { Outcome::Failed })
    }

    fn purge_channel(app: &App, channel: &ChannelName, as_json: bool) -> anyhow::Result<Outcome> {
        let Some(membership) = membership(app)? else { return Ok(Outcome::Nothing) };
        if app.resolved.config.fleet.share.iter().any(|shared| shared == channel.as_str()) {
            eprintln!(
                "baton: {channel} is shared, so others would fetch it again; take it out of `fleet.share` first: \
                 `baton config set fleet.share …`"
            );
            return Ok(Outcome::Failed);
        }
        let purged = block_on(admin::purge_channel(&app.paths.state, &membership, channel))?;
        if as_json {
            print_json(&json!({
                "channel": channel, "parcels": purged.parcels, "removed": purged.removed,
                "left": { "messages": purged.left }, "told": purged.told,
            }))?;
        } else {
            print(&format!(
                "{} parcels of {channel} were removed here and {} envelopes in the database. Counted afterwards: \
                 messages {}. {} machines are told to remove what they fetched; `baton log` says when they did.\n",
                purged.parcels, purged.removed, purged.left, purged.told
            ))?;
        }
        Ok(if purged.left == 0 { Outcome::Done } else { Outcome::Failed })
    }

    fn doctor(app: &App, as_json: bool) -> anyhow::Result<Outcome> {
        let Some(membership) = membership(app)? else { return Ok(Outcome::Nothing) };
        let findings = block_on(async { Ok(inspect(&membership).await) })?;
        let is_good = findings.iter().all(|finding| finding.is_good);
        if as_json {
            let rows: Vec<_> =
                findings.iter().map(|f| json!({ "good": f.is_good, "text": f.text })).collect();
            print_json(&rows)?;
        } else {
            let paint = Paint::stdout();
            let line = |good: bool, text: &str| {
                format!("{} {text}\n", if good { "ok  ".to_owned() } else { paint.yellow("LOOK") })
            };
            print(&findings.iter().map(|f| line(f.is_good, &f.text)).collect::<String>())?;
        }
        Ok(if is_good { Outcome::Done } else { Outcome::Failed })
    }
}
