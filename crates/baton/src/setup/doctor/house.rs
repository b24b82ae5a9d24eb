//! Our own state: program, configuration, folders, locks, clock, and leftovers of crashed runs.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::setup::doctor::{Finding, Scene};
use crate::setup::install::record::InstallRecord;
use crate::setup::install::{files, is_installed, version};
use crate::sys::lock::{Lock, LockError};
use crate::sys::watch::Watch;
use crate::sys::{fs, process};

pub(super) fn program(scene: &Scene) -> Vec<Finding> {
    let mut findings = Vec::new();
    let here = concat!("baton ", env!("CARGO_PKG_VERSION"));
    match InstallRecord::read(&scene.paths.state) {
        Err(e) => findings.push(Finding::fail(format!("{e:#}"), "move it away and run `baton install`")),
        Ok(InstallRecord { binary: None, .. }) if !is_installed(&scene.paths, &scene.cwd) => {
            findings.push(Finding::fail(
                format!("{here} is not installed: no client calls it, so nothing is measured or handed over"),
                "run `baton install`; it shows what it will change and asks first",
            ));
        }
        Ok(InstallRecord { binary: None, .. }) => findings.push(Finding::ok(here)),
        Ok(InstallRecord { binary: Some(path), .. }) => findings.extend(installed(scene, here, &path)),
    }
    findings.push(match version::on_path("tmux").and_then(|tmux| version::answer(&tmux, &["-V"])) {
        Some(version) => Finding::ok(version.trim().to_owned()),
        None => Finding::note("tmux is not here; it is needed only for agents in panes of their own"),
    });
    findings
}

fn installed(scene: &Scene, here: &str, path: &Path) -> Vec<Finding> {
    let shown = scene.short(path);
    if !version::is_program(path) {
        return vec![Finding::fail(
            format!("{shown}, which the hooks call, is not there"),
            "run `baton install`",
        )];
    }
    let same = || {
        Some(std::fs::canonicalize(path).ok()? == std::fs::canonicalize(std::env::current_exe().ok()?).ok()?)
    };
    let mut findings = vec![if same() == Some(true) {
        Finding::ok(format!("{here} in {shown}"))
    } else {
        match version::answer(path, &["--version"]) {
            Some(said) if said.trim() == here => Finding::ok(format!("{here}, the same version as {shown}")),
            said => Finding::warn(
                format!("The hooks call {shown} ({}), this is {here}", said.unwrap_or_default().trim()),
                "run `baton install` with the one you want",
            ),
        }
    }];
    match version::on_path("baton") {
        Some(first) if std::fs::canonicalize(&first).ok() == std::fs::canonicalize(path).ok() => {}
        Some(first) => findings.push(Finding::warn(
            format!("`baton` on the PATH is {}, not the installed one", scene.short(&first)),
            "remove it, or put the installed one's folder first",
        )),
        None => findings.push(Finding::warn(
            "`baton` is not on the PATH, where agents look for it",
            format!(
                "add {} to it in your shell's profile",
                path.parent().map(|d| scene.short(d)).unwrap_or_default()
            ),
        )),
    }
    findings
}

pub(super) fn configuration(scene: &Scene) -> Vec<Finding> {
    vec![match &scene.config_error {
        Some(e) => Finding::fail(
            format!("The configuration is wrong, so hooks use the defaults: {e}"),
            "fix that line",
        ),
        None => Finding::ok("The configuration can be read"),
    }]
}

/// Private folders must be ours alone and writable.
pub(super) fn folders(scene: &Scene) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (dir, what) in [(&scene.paths.state, "State"), (&scene.config.handoff.dir, "Handoffs")] {
        let Ok(meta) = std::fs::metadata(dir) else { continue };
        let shown = scene.short(dir);
        if !meta.is_dir() {
            findings.push(Finding::fail(format!("{shown} is not a folder"), "move it away"));
            continue;
        }
        let me = rustix::process::geteuid().as_raw();
        if meta.uid() != me {
            findings
                .push(Finding::fail(format!("{shown} belongs to another user"), "give it back with `chown`"));
            continue;
        }
        let mode = meta.permissions().mode() & 0o777;
        let is_open = mode & 0o077 != 0;
        if is_open {
            let path = dir.clone();
            let what = format!("Others can look into {shown} (mode {mode:03o})");
            findings.push(
                Finding::warn(what, format!("`chmod 700 {shown}`, or `baton doctor --fix`")).fixed_by(
                    move || {
                        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))
                            .map_err(|e| fs::FileError::new("change the mode of", &path, e).into())
                    },
                ),
            );
        }
        let probe = dir.join(format!(".probe.{}.0.tmp", std::process::id()));
        match fs::create(&probe, b"", fs::PRIVATE, fs::Sync::No).and_then(|_| fs::remove(&probe)) {
            Ok(()) if !is_open => {
                findings.push(Finding::ok(format!("{what} in {shown}, private and writable")));
            }
            Ok(()) => {}
            Err(e) => {
                findings.push(Finding::fail(e.to_string(), "fix that; nothing can be kept until then"));
            }
        }
    }
    if findings.is_empty() {
        findings.push(Finding::note("Nothing has been kept yet"));
    }
    findings
}

/// On some network file systems locks have no effect.
pub(super) fn locks(scene: &Scene) -> Vec<Finding> {
    [&scene.paths.state, &scene.config.handoff.dir]
        .into_iter()
        .filter(|dir| dir.is_dir())
        .map(|dir| {
            let shown = scene.short(dir);
            let path = dir.join(format!(".lock-probe.{}", std::process::id()));
            let first = Lock::acquire(&path, Duration::ZERO);
            let second = Lock::acquire(&path, Duration::ZERO);
            let finding = match (&first, &second) {
                (Ok(_), Err(LockError::Held { .. })) => Finding::ok(format!("Locks work in {shown}")),
                (Ok(_), _) => Finding::fail(
                    format!("Locks do not hold in {shown}: two agents could take one handoff"),
                    "put it on a local disk (BATON_STATE_DIR, handoff.dir)",
                ),
                (Err(e), _) => Finding::fail(e.to_string(), "fix that; nothing can be changed until then"),
            };
            drop((first, second));
            let _ = std::fs::remove_file(&path);
            finding
        })
        .collect()
}

/// A clock that was set back makes the past look newer than the present.
pub(super) fn clock(scene: &Scene) -> Vec<Finding> {
    let newest = ["install.json", "compaction.json", "log", "sessions"]
        .iter()
        .filter_map(|name| std::fs::metadata(scene.paths.state.join(name)).ok()?.modified().ok())
        .filter_map(|time| Timestamp::try_from(time).ok())
        .max();
    let ahead = newest.map_or(SignedDuration::ZERO, |newest| newest.duration_since(scene.now));
    vec![if ahead > SignedDuration::from_mins(1) {
        Finding::warn(
            format!("The clock is {} min behind what has been written already", ahead.as_mins()),
            "set it right; until then the order and the expiry of handoffs are off",
        )
    } else {
        Finding::ok("The clock agrees with what has been written")
    }]
}

/// The names of the daemon's sockets, without their ending.
const DAEMON_SOCKETS: [&str; 3] = ["daemon", "panes", "fleet"];

/// Supervisors of agents and the daemon. None is needed for correctness.
pub(super) fn listeners(scene: &Scene) -> Vec<Finding> {
    let run = scene.paths.state.join("run");
    let is_socket = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let sockets: Vec<PathBuf> =
        std::fs::read_dir(&run).into_iter().flatten().flatten().map(|e| e.path()).filter(is_socket).collect();
    let answers = |path: &PathBuf| {
        UnixStream::connect(path).is_ok()
            || UnixDatagram::unbound().is_ok_and(|socket| socket.connect(path).is_ok())
    };
    let (live, dead): (Vec<PathBuf>, Vec<PathBuf>) = sockets.into_iter().partition(answers);
    // The daemon has several; every other one is an agent's supervisor.
    let is_daemons = |path: &&PathBuf| {
        path.file_stem().and_then(|name| name.to_str()).is_some_and(|name| DAEMON_SOCKETS.contains(&name))
    };
    let daemons = live.iter().filter(is_daemons).count();
    let mut findings = vec![match (daemons > 0, live.len() - daemons) {
        (false, 0) => Finding::note("No daemon or supervisor is running; the hooks work without one"),
        (true, 0) => Finding::ok("The daemon is running"),
        (false, 1) => Finding::ok("1 supervisor is running, and no daemon; the hooks work without one"),
        (false, n) => {
            Finding::ok(format!("{n} supervisors are running, and no daemon; the hooks work without one"))
        }
        (true, 1) => Finding::ok("The daemon and 1 supervisor are running"),
        (true, n) => Finding::ok(format!("The daemon and {n} supervisors are running")),
    }];
    if !dead.is_empty() {
        let names: Vec<String> = dead.iter().map(|p| scene.short(p)).collect();
        let what = format!("Nobody listens any more at {}", names.join(", "));
        let fix = move || dead.iter().try_for_each(|path| Ok(fs::remove(path)?));
        findings.push(Finding::warn(what, "`baton doctor --fix` removes them").fixed_by(fix));
    }
    if cfg!(target_os = "linux") && Watch::new().is_ok_and(|watch| !watch.wakes()) {
        findings.push(Finding::warn(
            "No inotify instance is free, so baton looks for changes twice a second instead of being woken",
            "allow more of them: `sudo sysctl fs.inotify.max_user_instances=1024`",
        ));
    }
    findings
}

/// Temporary files and folders whose process is gone.
pub(super) fn leftovers(scene: &Scene) -> Vec<Finding> {
    let mut found: Vec<PathBuf> = files::leftovers(&scene.paths.claude);
    let bin = scene.paths.home.join(".local/bin");
    for dir in [&scene.paths.claude, &scene.paths.state, &scene.config.handoff.dir, &bin] {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        found.extend(entries.filter_map(|entry| {
            let pid = fs::temp_owner(entry.file_name().to_str()?)?;
            (!process::pid_exists(pid)).then(|| entry.path())
        }));
    }
    found.extend(old_outputs(&scene.paths.state.join("delegates")));
    found.sort();
    found.dedup();
    if found.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = found.iter().map(|p| scene.short(p)).collect();
    let what = format!("Left behind by runs that were killed: {}", names.join(", "));
    let finding = Finding::warn(what, "`baton doctor --fix` removes them").fixed_by(move || {
        for path in &found {
            let is_dir = std::fs::symlink_metadata(path).is_ok_and(|m| m.is_dir());
            let done = if is_dir { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            done.map_err(|e| fs::FileError::new("remove", path, e))?;
        }
        Ok(())
    });
    vec![finding]
}

/// Outputs of a delegated status line for sessions that have not asked for a week.
fn old_outputs(dir: &Path) -> Vec<PathBuf> {
    let week = Duration::from_hours(7 * 24);
    let is_old = |path: &PathBuf| {
        // The command itself has no extension; keep it.
        path.extension().is_some()
            && std::fs::metadata(path)
                .and_then(|m| m.modified())
                .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > week))
    };
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).filter(is_old).collect()
}

/// Unreadable files that were set aside. Their bytes are kept, in case somebody needs them.
pub(super) fn set_aside(scene: &Scene) -> Vec<Finding> {
    let state = &scene.store.state;
    let folders =
        ["", "agents", "sessions", "rotations", "companions", "processes"].map(|name| state.join(name));
    let mut found: Vec<PathBuf> = folders
        .iter()
        .chain([&scene.config.handoff.dir])
        .flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".damaged-")))
        .collect();
    found.sort();
    found
        .into_iter()
        .map(|path| {
            Finding::warn(
                format!("{} could not be understood and was set aside", scene.short(&path)),
                "check whether you need anything in it, then delete it",
            )
        })
        .collect()
}
