//! Which conversations a command refers to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use crate::config::Config;
use crate::history::Row;
use crate::project::channel;
use crate::sys::paths::Paths;

pub(crate) struct SearchScope<'a> {
    paths: &'a Paths,
    config: &'a Config,
    filter: ProjectFilter,
    /// Whether a working directory belongs to the scope; finding out means checking every folder above it.
    known: RefCell<HashMap<String, bool>>,
}

/// Which projects count.
pub(crate) enum ProjectFilter {
    All,
    /// Of this folder and those below it.
    Folder(PathBuf),
    /// Of a project with this name.
    Named(String),
    Channel {
        name: String,
        /// Its name in messages.
        called: String,
    },
}

impl<'a> SearchScope<'a> {
    pub(crate) fn new(paths: &'a Paths, config: &'a Config, filter: ProjectFilter) -> Self {
        Self { paths, config, filter, known: RefCell::default() }
    }

    pub(crate) fn contains(&self, row: &Row) -> bool {
        let recorded = row.record.as_ref().map(|record| record.channel.as_str());
        match &self.filter {
            ProjectFilter::All => true,
            ProjectFilter::Channel { name, .. } if recorded.is_some() => recorded == Some(name),
            ProjectFilter::Named(name) if recorded == Some(name) => true,
            _ => self.contains_folder(&row.facts.cwd),
        }
    }

    fn contains_folder(&self, cwd: &str) -> bool {
        if cwd.is_empty() {
            return matches!(self.filter, ProjectFilter::All);
        }
        if let Some(known) = self.known.borrow().get(cwd) {
            return *known;
        }
        let folder = PathBuf::from(cwd);
        let channel =
            || channel::of(&folder, None, None, self.config, self.paths).ok().map(|c| c.name.to_string());
        let contained = match &self.filter {
            ProjectFilter::All => true,
            ProjectFilter::Folder(above) => channel::real(&folder).starts_with(above),
            ProjectFilter::Named(name) => {
                folder.file_name().is_some_and(|n| n == name.as_str()) || channel().as_ref() == Some(name)
            }
            ProjectFilter::Channel { name, .. } => channel().as_ref() == Some(name),
        };
        self.known.borrow_mut().insert(cwd.to_owned(), contained);
        contained
    }

    /// What a message calls it.
    pub(crate) fn name(&self) -> String {
        match &self.filter {
            ProjectFilter::All => "any project".to_owned(),
            ProjectFilter::Folder(folder) => self.paths.short(folder),
            ProjectFilter::Named(name) => format!("project {name}"),
            ProjectFilter::Channel { called, .. } => called.clone(),
        }
    }
}
