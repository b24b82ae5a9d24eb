//! Whose conversations are meant.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use crate::config::Config;
use crate::history::Row;
use crate::project::channel;
use crate::sys::paths::Paths;

pub(crate) struct Scope<'a> {
    paths: &'a Paths,
    config: &'a Config,
    whose: Whose,
    /// Whether a working directory belongs: to find out costs a look at every folder above it.
    known: RefCell<HashMap<String, bool>>,
}

pub(crate) enum Whose {
    All,
    /// Of this folder and those below it.
    Folder(PathBuf),
    /// Of a project with this name.
    Named(String),
    Channel {
        name: String,
        /// What a message calls it.
        called: String,
    },
}

impl<'a> Scope<'a> {
    pub(crate) fn new(paths: &'a Paths, config: &'a Config, whose: Whose) -> Self {
        Self { paths, config, whose, known: RefCell::default() }
    }

    pub(crate) fn contains(&self, row: &Row) -> bool {
        let recorded = row.record.as_ref().map(|record| record.channel.as_str());
        match &self.whose {
            Whose::All => true,
            Whose::Channel { name, .. } if recorded.is_some() => recorded == Some(name),
            Whose::Named(name) if recorded == Some(name) => true,
            _ => self.contains_folder(&row.facts.cwd),
        }
    }

    fn contains_folder(&self, cwd: &str) -> bool {
        if cwd.is_empty() {
            return matches!(self.whose, Whose::All);
        }
        if let Some(known) = self.known.borrow().get(cwd) {
            return *known;
        }
        let folder = PathBuf::from(cwd);
        let channel =
            || channel::of(&folder, None, None, self.config, self.paths).ok().map(|c| c.name.to_string());
        let contained = match &self.whose {
            Whose::All => true,
            Whose::Folder(above) => channel::real(&folder).starts_with(above),
            Whose::Named(name) => {
                folder.file_name().is_some_and(|n| n == name.as_str()) || channel().as_ref() == Some(name)
            }
            Whose::Channel { name, .. } => channel().as_ref() == Some(name),
        };
        self.known.borrow_mut().insert(cwd.to_owned(), contained);
        contained
    }

    /// What a message calls it.
    pub(crate) fn name(&self) -> String {
        match &self.whose {
            Whose::All => "any project".to_owned(),
            Whose::Folder(folder) => self.paths.short(folder),
            Whose::Named(name) => format!("project {name}"),
            Whose::Channel { called, .. } => called.clone(),
        }
    }
}
