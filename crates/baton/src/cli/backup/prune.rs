//! `baton backup prune`: removes what exceeds the configured age or size, oldest first, and names it.
//!
//! Mirrored conversations and the projects' raw backups have the same limits, applied to each kind separately.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use serde_json::json;

use crate::cli::backup::{all, is_live};
use crate::cli::ui::{print, print_json, size};
use crate::cli::{App, Outcome};
use crate::project::memory::MemoryDir;
use crate::project::memory::raw::{self, RawBackup};
use crate::store::Store;
use crate::store::mirror::MirroredSession;

pub(super) struct PruneOptions {
    pub dry_run: bool,
    /// 0: forever.
    pub keep_days: u64,
    /// 0: no limit.
    pub max_mb: u64,
}

/// The result for one kind.
struct PrunePlan<T> {
    /// Each with the reason.
    gone: Vec<(T, String)>,
    spared: usize,
    /// The remaining bytes.
    kept: u64,
}

impl PruneOptions {
    /// Chooses from `things`, which come with age and size, newest first. Only candidates for removal are passed to
    /// `is_exempt`.
    fn choose<T>(
        &self,
        mut things: Vec<(Option<SystemTime>, u64, T)>,
        is_exempt: impl Fn(&T) -> bool,
    ) -> PrunePlan<T> {
        let long = Duration::from_secs(self.keep_days.saturating_mul(24 * 3600));
        let oldest_kept = SystemTime::now().checked_sub(long).filter(|_| self.keep_days > 0);
        let most = self.max_mb.saturating_mul(1_000_000);
        let mut pruned = PrunePlan { gone: Vec::new(), spared: 0, kept: things.iter().map(|t| t.1).sum() };
        while let Some((modified, stored, thing)) = things.pop() {
            let old = modified.zip(oldest_kept).is_some_and(|(at, kept)| at < kept);
            let over = self.max_mb > 0 && pruned.kept > most;
            if !old && !over {
                continue;
            }
            if is_exempt(&thing) {
                pruned.spared += 1;
                continue;
            }
            pruned.kept -= stored;
            let why = if old {
                format!("older than {} days", self.keep_days)
            } else {
                format!("more than {} MB", self.max_mb)
            };
            pruned.gone.push((thing, why));
        }
        pruned
    }
}

pub(super) fn run(app: &App, store: &Store, wish: &PruneOptions, json: bool) -> anyhow::Result<Outcome> {
    let places = raw::places(&app.paths, &app.resolved.config, &app.cwd)
        .context("nothing was removed, because it is unknown which backups are pending in projects")?;
    let found = all(store).into_iter().map(|m| (m.modified(), m.stored(), m)).collect();
    // A conversation too long to be copied into its project has only the mirror as its backup.
    let waits = |m: &MirroredSession| {
        places.iter().any(|place| raw::waits_in(place, &store.mirror().folder(&m.session)))
    };
    let sessions = wish.choose(found, |m| m.pinned || is_live(store, &m.session) || waits(m));
    let mut found: Vec<_> = places
        .iter()
        .flat_map(|place| {
            raw::all(place).into_iter().map(move |raw| (Some(raw.modified), raw.stored, (place, raw)))
        })
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| b.2.1.path.cmp(&a.2.1.path)));
    let pinned = |raw: &RawBackup| raw.session.as_ref().is_some_and(|id| store.mirror().is_pinned(id));
    let mut raws = wish.choose(found, |(_, raw)| raw.waits || pinned(raw));
    if !wish.dry_run {
        for (m, _) in &sessions.gone {
            store.mirror().remove(&m.session)?;
        }
        remove(&mut raws);
    }
    let freed: u64 = sessions.gone.iter().map(|(m, _)| m.stored()).sum();
    let raw_freed: u64 = raws.gone.iter().map(|((_, raw), _)| raw.stored).sum();
    if json {
        let removed: Vec<_> = sessions
            .gone
            .iter()
            .map(|(m, why)| json!({ "session": m.session, "why": why, "stored": m.stored() }))
            .collect();
        let backups: Vec<_> = raws
            .gone
            .iter()
            .map(|((_, raw), why)| json!({ "path": raw.path, "session": raw.session, "why": why, "stored": raw.stored }))
            .collect();
        print_json(
            &json!({ "dry_run": wish.dry_run, "removed": removed, "freed": freed, "kept": sessions.kept,
            "spared": sessions.spared, "raw": { "removed": backups, "freed": raw_freed, "kept": raws.kept,
            "spared": raws.spared } }),
        )?;
        return Ok(Outcome::Done);
    }
    print(&told(app, wish, &sessions, freed, &raws, raw_freed))?;
    Ok(Outcome::Done)
}

/// Removes the files. Reports and keeps those that cannot be removed or have become pending.
fn remove(raws: &mut PrunePlan<(&MemoryDir, RawBackup)>) {
    let (kept, spared) = (&mut raws.kept, &mut raws.spared);
    raws.gone.retain(|((place, raw), _)| {
        let gone = raw::remove(place, raw).unwrap_or_else(|e| {
            eprintln!("baton: {} stays: {e}", raw.path.display());
            false
        });
        if !gone {
            *kept += raw.stored;
            *spared += 1;
        }
        gone
    });
}

fn told(
    app: &App,
    wish: &PruneOptions,
    sessions: &PrunePlan<MirroredSession>,
    freed: u64,
    raws: &PrunePlan<(&MemoryDir, RawBackup)>,
    raw_freed: u64,
) -> String {
    let mut out = String::new();
    let did = if wish.dry_run { "would be removed" } else { "removed" };
    for (m, why) in &sessions.gone {
        let _ = writeln!(out, "{}  {}  {why}", m.session, size(m.stored()));
    }
    let (count, kept) = (sessions.gone.len(), size(sessions.kept));
    let _ = writeln!(out, "{count} sessions {did}, {}; {kept} stay", size(freed));
    if sessions.spared > 0 {
        let _ = writeln!(
            out,
            "{} that are pinned, still running or wait to be read were spared",
            sessions.spared
        );
    }
    for ((_, raw), why) in &raws.gone {
        let _ = writeln!(out, "{}  {}  {why}", app.paths.short(&raw.path), size(raw.stored));
    }
    if !raws.gone.is_empty() || raws.kept > 0 {
        let (count, kept) = (raws.gone.len(), size(raws.kept));
        let _ = writeln!(out, "{count} raw backups in projects {did}, {}; {kept} stay", size(raw_freed));
    }
    if raws.spared > 0 {
        let _ = writeln!(out, "{} that wait or belong to pinned sessions were spared", raws.spared);
    }
    out
}
