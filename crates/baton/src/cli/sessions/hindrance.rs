//! Why a conversation cannot be resumed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use baton_core::plain::plain_line;

use crate::cli::App;
use crate::cli::sessions::list::end_of;
use crate::history::Row;
use crate::history::catalogue::ConversationState;
use crate::providers;

/// The longest folder name shown.
const NAME: usize = 60;

/// Checks each folder once, because thousands of conversations share a few folders.
pub(super) struct Hindrances<'a> {
    app: &'a App,
    folders: RefCell<HashMap<String, Rc<Folder>>>,
}

/// A working directory of conversations.
pub(super) struct Folder {
    /// The name for people.
    pub name: String,
    /// Where the client looks for its conversations; `None` if the folder is gone.
    transcripts: Option<PathBuf>,
}

impl<'a> Hindrances<'a> {
    pub(super) fn new(app: &'a App) -> Self {
        Self { app, folders: RefCell::default() }
    }

    /// Why `row` cannot be resumed as it is, if so. `state` is the row's.
    pub(super) fn of(&self, row: &Row, state: &ConversationState<'_>) -> Option<String> {
        if let ConversationState::Running(pid) = state {
            return Some(format!("it runs now, in process {pid}"));
        }
        if !row.facts.cwd.starts_with('/') {
            return Some("its transcript does not name its folder".to_owned());
        }
        let folder = self.folder(row);
        let Some(transcripts) = &folder.transcripts else {
            return Some(format!("its folder {} is gone", self.app.paths.short(&row.cwd())));
        };
        // A conversation that only the mirror has is restored before it is resumed.
        let is_there = row.source.mirrored
            || !row.source.dialect.is_kept_by_project()
            || row.source.path.parent() == Some(transcripts);
        (!is_there).then(|| format!("the client looks for it in {}", self.app.paths.short(transcripts)))
    }

    pub(super) fn folder(&self, row: &Row) -> Rc<Folder> {
        let cwd = &row.facts.cwd;
        if let Some(known) = self.folders.borrow().get(cwd) {
            return Rc::clone(known);
        }
        let real = std::fs::canonicalize(cwd).ok().filter(|p| p.is_dir());
        let folder = Rc::new(Folder {
            name: end_of(&plain_line(&self.app.paths.short(&row.cwd()), 400), NAME),
            transcripts: real.map(|real| providers::claude_folder(&self.app.paths, &real)),
        });
        self.folders.borrow_mut().insert(cwd.clone(), Rc::clone(&folder));
        folder
    }
}
