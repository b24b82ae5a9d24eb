//! A client's environment in a test: a home, a project, a folder of programs and a folder for temporary files, all
//! below one folder that is removed with the test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::Launch;

pub struct ClientHome {
    /// `None` if somebody else owns the folder.
    _root: Option<TempDir>,
    path: PathBuf,
    home: PathBuf,
    project: PathBuf,
}

impl ClientHome {
    pub fn new() -> Result<Self> {
        let root = tempfile::Builder::new().prefix("baton-place-").tempdir();
        let root = root.context("making a place for a client")?;
        // The clients compare paths with the resolved working directory.
        let path = root.path().canonicalize().context("resolving the place of a client")?;
        for folder in ["home", "project", "bin", "tmp"] {
            fs::create_dir(path.join(folder)).with_context(|| format!("making the folder {folder}"))?;
        }
        let (home, project) = (path.join("home"), path.join("project"));
        Ok(ClientHome { _root: Some(root), path, home, project })
    }

    /// A place in an existing home, so that the client shares it with scripted agents.
    pub fn in_home(home: &Path, project: &Path) -> Result<Self> {
        let [home, project] = [home, project].map(Path::canonicalize);
        let (home, project) =
            (home.context("resolving the home")?, project.context("resolving the project")?);
        for folder in ["bin", "tmp"] {
            fs::create_dir_all(home.join(folder)).with_context(|| format!("making the folder {folder}"))?;
        }
        Ok(ClientHome { _root: None, path: home.clone(), home, project })
    }

    pub fn home(&self) -> PathBuf {
        self.home.clone()
    }

    pub fn project(&self) -> PathBuf {
        self.project.clone()
    }

    /// First on the `PATH` of everything started here.
    pub fn bin(&self) -> PathBuf {
        self.path.join("bin")
    }

    /// Writes a file below the home, with the folders it needs.
    pub fn write_home(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        write(&self.home().join(path), content.as_ref())
    }

    /// Writes a file below the project, with the folders it needs.
    pub fn write_project(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        write(&self.project().join(path), content.as_ref())
    }

    /// Makes a program available here under a name.
    pub fn link(&self, name: &str, program: &Path) -> Result<()> {
        let link = self.bin().join(name);
        if link.read_link().is_ok_and(|target| target == program) {
            return Ok(());
        }
        symlink(program, &link).with_context(|| format!("linking {name} to {}", program.display()))
    }

    /// Makes the project a git repository with one commit.
    pub fn git_init(&self) -> Result<()> {
        let steps: [&[&str]; 2] = [
            &["init", "-q", "-b", "main"],
            &[
                "-c",
                "user.name=test",
                "-c",
                "user.email=test@localhost",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "start",
            ],
        ];
        for args in steps {
            let mut git = Command::new("git");
            git.args(args).current_dir(self.project()).env_clear().envs(&self.launch("git").env);
            let output = git.output().context("starting git")?;
            ensure!(
                output.status.success(),
                "git {}: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }

    /// Prepares a program to run in the project with only this environment. Starts nothing yet.
    pub fn launch(&self, program: impl Into<PathBuf>) -> Launch {
        let path =
            format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", self.bin().display());
        Launch::new(program, self.project())
            .env("PATH", path)
            .env("HOME", self.home())
            .env("TMPDIR", self.path.join("tmp"))
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("SHELL", "/bin/bash")
    }
}

fn write(path: &Path, content: &[u8]) -> Result<PathBuf> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.to_owned())
}
