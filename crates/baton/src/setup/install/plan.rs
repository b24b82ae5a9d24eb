//! Plans an install before anything is changed, and carries it out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::project::gitignore;
use crate::setup::delegate;
use crate::setup::install::files::{self, Binary, Edit};
use crate::setup::install::ours::{self, HookProgram};
use crate::setup::install::plugin::{self, PluginFile};
use crate::setup::install::record::{self, EditedFile, EditedFileKind, Install, InstallRecord};
use crate::setup::install::settings::{self, Undo, WantedEntries};
use crate::setup::install::{
    InstallOptions, InstallScope, edits_diff, folder, has_hooks, lock, mark_own_hooks, user_hooks, version,
};
use crate::sys::fs;
use crate::sys::hash::sha256;
use crate::sys::paths::Paths;
use crate::views::diff;

/// The plan of an install.
#[derive(Debug)]
pub(crate) struct InstallPlan {
    pub binary: Binary,
    pub folder: PluginFolder,
    pub edits: Vec<Edit>,
    /// The status line that ours will run too, and its key.
    pub delegate: Option<(String, String)>,
    pub sm: Option<PathBuf>,
    pub hooks_in: Hooks,
    /// What the user should know before saying yes.
    pub notes: Vec<String>,
    record: InstallRecord,
    record_before: InstallRecord,
    originals: Vec<Vec<u8>>,
    /// Hooks move from the settings to the folder: remove them from the one before adding them to the other.
    settings_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hooks {
    Folder,
    Settings,
    /// The user's own install already covers this project.
    Elsewhere,
}

/// What happens to the plugin folder.
#[derive(Debug)]
pub(crate) enum PluginFolder {
    Leave,
    Put { dir: PathBuf, files: Vec<PluginFile> },
    Remove { dir: PathBuf },
}

/// Plans everything and changes nothing.
pub(crate) fn plan(paths: &Paths, options: &InstallOptions) -> anyhow::Result<InstallPlan> {
    let record_before = InstallRecord::read(&paths.state)?;
    let binary = Binary::plan(&options.bin_dir)?;
    let client = version::client();
    let mut notes = Vec::new();
    let hooks_in = hooks_in(paths, options, client.as_ref(), &mut notes);
    refuse_twice(paths, options, hooks_in, &record_before)?;
    let program = if options.scope.is_shared() {
        HookProgram::OnPath
    } else {
        let path = binary
            .to
            .to_str()
            .context("the path of the installed binary is not valid UTF-8; choose --bin-dir")?;
        HookProgram::At(path.to_owned())
    };

    let path = options.scope.settings(paths);
    let old =
        record_before.find(options.scope.project(), options.scope.is_shared()).cloned().unwrap_or_default();
    let mut install = Install {
        project: options.scope.project().map(Path::to_owned),
        shared: options.scope.is_shared(),
        hooks: hooks_in != Hooks::Elsewhere,
        folders: old.folders.clone(),
        ..Install::default()
    };
    let mut plan = InstallPlan {
        binary,
        folder: PluginFolder::Leave,
        edits: Vec::new(),
        delegate: None,
        sm: None,
        hooks_in,
        notes,
        record: record_before.clone(),
        record_before,
        originals: Vec::new(),
        settings_first: false,
    };

    let dir = folder(paths);
    if options.scope == InstallScope::User {
        plan.folder = plan_folder(&dir, hooks_in, &program, options.commands)?;
        if hooks_in == Hooks::Folder {
            add_folders(&mut install, &dir);
            install.folder = Some(dir);
            plan.settings_first = has_hooks(&path);
        }
    }
    plan.edit_settings(paths, options, &path, &program, old.touched(&files::real(&path)?), &mut install)?;
    if let Some(project) = options.scope.project()
        && project.join(".git").exists()
    {
        plan.edit_gitignore(&project.join(".gitignore"), &old, &mut install)?;
    }
    for edit in &plan.edits {
        edit.check()?;
    }
    if options.sm {
        plan.link_sm(&options.bin_dir);
    }
    plan.record.set(install);
    env!("CARGO_PKG_VERSION").clone_into(&mut plan.record.baton);
    if plan.record.binary.as_ref() != Some(&plan.binary.to) {
        let ours = paths.home.join(".local/bin");
        plan.record.binary_is_theirs = !plan.binary.copy && plan.binary.to.parent() != Some(&ours);
    }
    plan.record.binary = Some(plan.binary.to.clone());
    plan.record.sm = plan.sm.clone().or(plan.record.sm.take());
    Ok(plan)
}

fn hooks_in(
    paths: &Paths,
    options: &InstallOptions,
    client: Option<&version::Client>,
    notes: &mut Vec<String>,
) -> Hooks {
    if let InstallScope::Project { shared, .. } = options.scope {
        if !shared && user_hooks(&paths.claude) {
            notes.push("Your own install serves this project too, so no hooks are added to it.".to_owned());
            return Hooks::Elsewhere;
        }
        return Hooks::Settings;
    }
    if options.settings {
        return Hooks::Settings;
    }
    match client.and_then(|c| c.version) {
        Some(version) if version < version::PLUGIN_FOLDERS => {
            notes.push(format!(
                "Claude Code {version} is too old for plugin folders (known to load from {} on), so the hooks go into settings.json.",
                version::PLUGIN_FOLDERS
            ));
            Hooks::Settings
        }
        Some(_) => Hooks::Folder,
        None => {
            notes.push(
                "No `claude` that reports its version is on the PATH; a recent one is assumed.".to_owned(),
            );
            Hooks::Folder
        }
    }
}

/// No hook may run twice: neither from two files of one project nor from a project's and the user's.
fn refuse_twice(
    paths: &Paths,
    options: &InstallOptions,
    hooks_in: Hooks,
    record: &InstallRecord,
) -> anyhow::Result<()> {
    match &options.scope {
        InstallScope::User => {
            let projects: Vec<String> = record
                .installs
                .iter()
                .filter(|i| i.hooks && !i.shared)
                .filter_map(|i| i.project.as_ref())
                .filter(|dir| has_hooks(&dir.join(".claude/settings.local.json")))
                .map(|dir| paths.short(dir))
                .collect();
            if !projects.is_empty() {
                bail!(
                    "hooks of baton are installed in {}, where they would run twice; \
                     run `baton uninstall --project` there first",
                    projects.join(", ")
                );
            }
        }
        InstallScope::Project { dir, shared } if hooks_in == Hooks::Settings => {
            let other = InstallScope::Project { dir: dir.clone(), shared: !shared }.settings(paths);
            if has_hooks(&other) {
                let flag = if *shared { "" } else { " --shared" };
                bail!(
                    "{} has hooks of baton already, and they would run twice; \
                     run `baton uninstall --project{flag}` first",
                    paths.short(&other)
                );
            }
        }
        InstallScope::Project { .. } => {}
    }
    Ok(())
}

fn plan_folder(
    dir: &Path,
    hooks_in: Hooks,
    program: &HookProgram,
    commands: bool,
) -> anyhow::Result<PluginFolder> {
    let there = std::fs::symlink_metadata(dir).is_ok();
    let ours = plugin::read_stamp(dir).is_some();
    if hooks_in != Hooks::Folder {
        return Ok(if ours { PluginFolder::Remove { dir: dir.to_owned() } } else { PluginFolder::Leave });
    }
    if there && !ours {
        bail!("{} is not a folder of baton's; move it away and try again", dir.display());
    }
    let files = plugin::files(program, env!("CARGO_PKG_VERSION"), commands, dir);
    Ok(if files::folder_holds(dir, &files) {
        PluginFolder::Leave
    } else {
        PluginFolder::Put { dir: dir.to_owned(), files }
    })
}

fn add_folders(install: &mut Install, path: &Path) {
    for dir in files::missing_folders(path) {
        if !install.folders.contains(&dir) {
            install.folders.push(dir);
        }
    }
}

/// The file without our entries: the kept original, else the current file with them removed.
struct Base {
    bytes: Option<Vec<u8>>,
    /// Hashes of our own writes that started from exactly this base.
    written: Vec<String>,
}

fn base(state: &Path, path: &Path, now: Option<&[u8]>, old: Option<&EditedFile>) -> anyhow::Result<Base> {
    let Some(now) = now else { return Ok(Base { bytes: None, written: Vec::new() }) };
    let hash = sha256(now);
    if let Some(old) = old
        && old.written.contains(&hash)
    {
        match &old.original {
            None => return Ok(Base { bytes: None, written: old.written.clone() }),
            Some(kept) => {
                if let Some(bytes) = record::original(state, kept) {
                    return Ok(Base { bytes: Some(bytes), written: old.written.clone() });
                }
            }
        }
    }
    let story = || format!("{} was left alone", path.display());
    let has_ours = settings::look(now).with_context(story)?.has_ours();
    let bytes = if has_ours {
        settings::remove(now, &old.map(|o| o.undo.clone()).unwrap_or_default()).with_context(story)?
    } else {
        now.to_vec()
    };
    Ok(Base { bytes: Some(bytes), written: Vec::new() })
}

impl InstallPlan {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        !self.binary.copy
            && matches!(self.folder, PluginFolder::Leave)
            && self.edits.iter().all(|e| !e.is_needed())
            && self.sm.is_none()
            && self.record == self.record_before
    }

    fn edit_settings(
        &mut self,
        paths: &Paths,
        options: &InstallOptions,
        path: &Path,
        program: &HookProgram,
        old: Option<&EditedFile>,
        install: &mut Install,
    ) -> anyhow::Result<()> {
        let real = files::real(path)?;
        let now = fs::read(&real, 16 << 20)?;
        let base = base(&paths.state, path, now.as_deref(), old)?;
        let story = || format!("{} was left alone", path.display());
        let plain = base.bytes.clone().unwrap_or_default();
        // A team's file must not decide each member's status line.
        let statusline =
            options.statusline && !options.scope.is_shared() && self.hooks_in != Hooks::Elsewhere;
        let wanted = WantedEntries {
            hooks: (self.hooks_in == Hooks::Settings).then(|| program.hooks()),
            statusline: if statusline {
                Some(self.statusline(paths, options, program, &plain)?)
            } else {
                None
            },
            rules: options.rules.clone(),
            denied: options.denied.clone(),
        };
        let (after, undo) = if plain.iter().all(u8::is_ascii_whitespace) && base.bytes.is_none() {
            settings::add(b"{}\n", &wanted)
        } else {
            settings::add(&plain, &wanted)
        }
        .with_context(story)?;
        let unchanged = now.as_deref().is_some_and(|now| settings::holds(now, &wanted) == Ok(true));
        let nothing = wanted == WantedEntries::NOTHING;
        let after = match (&now, unchanged) {
            _ if nothing => base.bytes.clone(),
            (Some(now), true) => Some(now.clone()),
            _ => Some(after),
        };
        if let Some(after) = after.as_ref().filter(|_| !nothing && after != base.bytes) {
            let mut written = base.written;
            written.retain(|hash| *hash != sha256(after));
            written.push(sha256(after));
            // The last few are enough to recognise our write after an interrupted install.
            let from = written.len().saturating_sub(4);
            written.drain(..from);
            let original = base.bytes.as_deref().map(sha256);
            self.originals.extend(base.bytes);
            if now.is_none() {
                add_folders(install, &real);
            }
            install.files.push(EditedFile {
                path: real.clone(),
                kind: EditedFileKind::Settings,
                original,
                written,
                undo,
            });
        }
        self.edits.push(Edit { path: real, before: now, after });
        Ok(())
    }

    /// The command of our entry, which delegates to an existing status line.
    fn statusline(
        &mut self,
        paths: &Paths,
        options: &InstallOptions,
        program: &HookProgram,
        base: &[u8],
    ) -> anyhow::Result<String> {
        let in_file = |path: &Path| -> anyhow::Result<Option<String>> {
            let Some(bytes) = fs::read(&files::real(path)?, 16 << 20)? else { return Ok(None) };
            let found = settings::look(&bytes).with_context(|| format!("read {}", paths.short(path)))?;
            Ok(found.statusline)
        };
        let own = if base.is_empty() { None } else { settings::look(base)?.statusline };
        let previous = match (own, options.scope.project()) {
            // A project's status line hides the ones behind it; the nearest of those is what the user saw.
            (None, Some(dir)) => {
                let shared = InstallScope::Project { dir: dir.to_owned(), shared: true }.settings(paths);
                match in_file(&shared)? {
                    None => in_file(&InstallScope::User.settings(paths))?,
                    shared => shared,
                }
            }
            (own, _) => own,
        };
        let Some(previous) = previous.filter(|command| !ours::is_statusline(command)) else {
            return Ok(program.statusline(None));
        };
        let key = options.scope.key();
        let command = program.statusline(Some(&key));
        self.delegate = Some((key, previous));
        Ok(command)
    }

    fn edit_gitignore(&mut self, path: &Path, old: &Install, install: &mut Install) -> anyhow::Result<()> {
        let real = files::real(path)?;
        let now = fs::read(&real, 16 << 20)?;
        let plain = now.clone().unwrap_or_default();
        let after = gitignore::add(&plain);
        match old.touched(&real) {
            Some(touched) if after == plain => install.files.push(touched.clone()),
            _ if after == plain => {}
            _ => {
                self.originals.extend(now.clone());
                install.files.push(EditedFile {
                    path: real.clone(),
                    kind: EditedFileKind::Gitignore,
                    original: now.as_deref().map(sha256),
                    written: vec![sha256(&after)],
                    undo: Undo::default(),
                });
            }
        }
        if after != plain {
            self.edits.push(Edit { path: real, before: now, after: Some(after) });
        }
        Ok(())
    }

    fn link_sm(&mut self, bin_dir: &Path) {
        let link = bin_dir.join("sm");
        if std::fs::read_link(&link).is_ok_and(|to| to == Path::new("baton")) {
            return;
        }
        let foreign =
            version::on_path("sm").or_else(|| std::fs::symlink_metadata(&link).is_ok().then(|| link.clone()));
        match foreign {
            Some(path) => self.notes.push(format!(
                "{} is another program of that name, so no link `sm` is made; `baton` does the same.",
                path.display()
            )),
            None => self.sm = Some(link),
        }
    }

    /// The whole change as a diff.
    pub(crate) fn diff(&self, paths: &Paths) -> String {
        let mut out = String::new();
        let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|b| String::from_utf8_lossy(b).into_owned());
        match &self.folder {
            PluginFolder::Put { dir, files } => {
                // The stamp is noise to a reader.
                for file in files.iter().filter(|f| f.path != plugin::STAMP) {
                    let path = dir.join(file.path);
                    let before = fs::read(&path, 16 << 20).ok().flatten();
                    out += &diff::unified(&paths.short(&path), text(&before).as_deref(), Some(&file.text));
                }
            }
            PluginFolder::Remove { dir } => {
                for name in plugin::read_stamp(dir)
                    .map(|s| s.files.into_keys().collect::<Vec<_>>())
                    .unwrap_or_default()
                {
                    let before = fs::read(&dir.join(&name), 16 << 20).ok().flatten();
                    out += &diff::unified(&paths.short(&dir.join(&name)), text(&before).as_deref(), None);
                }
            }
            PluginFolder::Leave => {}
        }
        out + &edits_diff(paths, &self.edits)
    }

    /// Carries the plan out, each step atomically.
    pub(crate) fn carry_out(&self, paths: &Paths) -> anyhow::Result<()> {
        let _lock = lock(paths)?;
        if InstallRecord::read(&paths.state)? != self.record_before {
            bail!("another install or uninstall changed something meanwhile; run this again");
        }
        self.binary.carry_out()?;
        if let Some((key, command)) = &self.delegate {
            delegate::remember(&paths.state, key, command)?;
        }
        for bytes in &self.originals {
            record::keep_original(&paths.state, bytes)?;
        }
        if self.record != self.record_before {
            self.record.write(&paths.state)?;
        }
        if let Some(user) = self.record.find(None, false) {
            mark_own_hooks(&paths.state, user.hooks && user.folder.is_none())?;
        }
        if self.settings_first {
            self.carry_out_edits()?;
        }
        match &self.folder {
            PluginFolder::Leave => {}
            PluginFolder::Put { dir, files } => files::put_folder(dir, files)?,
            PluginFolder::Remove { dir } => drop(files::remove_folder(dir)?),
        }
        if !self.settings_first {
            self.carry_out_edits()?;
        }
        if let Some(link) = &self.sm {
            std::os::unix::fs::symlink("baton", link)
                .map_err(|e| fs::FileError::new("create the link", link, e))?;
        }
        self.record.sweep_originals(&paths.state);
        Ok(())
    }

    fn carry_out_edits(&self) -> anyhow::Result<()> {
        self.edits.iter().try_for_each(Edit::carry_out)
    }
}
