//! Files created, edited, deleted and read, with the kind of change and how often.

use serde::{Deserialize, Serialize};

use crate::transcript::{Origin, Touch};

const KEPT: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub path: String,
    pub created: bool,
    pub deleted: bool,
    pub edits: u32,
    pub reads: u32,
    /// Compactions before the last change (or the last read, if there was no change).
    pub stretch: u32,
    pub origin: Origin,
}

impl File {
    pub fn changed(&self) -> bool {
        self.created || self.deleted || self.edits > 0
    }
}

/// Files in the order of their last touch, the newest at the end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Files {
    pub files: Vec<File>,
    pub dropped: u64,
}

impl Files {
    pub fn touch(&mut self, touch: Touch, path: &str, stretch: u32, origin: &Origin) {
        let known = self.files.iter().rposition(|file| file.path == path);
        let mut file = match known {
            Some(at) => self.files.remove(at),
            None => File {
                path: path.to_owned(),
                created: false,
                deleted: false,
                edits: 0,
                reads: 0,
                stretch,
                origin: origin.clone(),
            },
        };
        let changed = file.changed();
        match touch {
            Touch::Created => {
                // Written again after it was there: an edit of a file we know.
                if file.changed() && !file.deleted {
                    file.edits += 1;
                } else {
                    file.created = true;
                }
                file.deleted = false;
            }
            Touch::Edited => {
                file.edits += 1;
                file.deleted = false;
            }
            Touch::Deleted => file.deleted = true,
            Touch::Read => file.reads += 1,
        }
        if touch != Touch::Read || !changed {
            file.stretch = stretch;
            file.origin = origin.clone();
        }
        self.files.push(file);
        if self.files.len() > KEPT {
            // A file that was only read is the cheapest to forget.
            let old = self.files.iter().position(|f| !f.changed()).unwrap_or(0);
            self.files.remove(old);
            self.dropped += 1;
        }
    }

    /// Changed files, the most recently touched first.
    pub fn changed(&self) -> impl Iterator<Item = &File> {
        self.files.iter().rev().filter(|file| file.changed())
    }

    /// Files that were only read, the most recent first.
    pub fn read_only(&self) -> impl Iterator<Item = &File> {
        self.files.iter().rev().filter(|file| !file.changed())
    }
}
