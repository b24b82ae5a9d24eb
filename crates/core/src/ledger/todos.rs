//! The plan and the todos with their status, from whichever tool kept them.

use serde::{Deserialize, Serialize};

use super::text;
use crate::transcript::{Origin, Todo, TodoStatus};

const KEPT: usize = 200;
const CHARS: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The tool's own number, when it gives one.
    pub id: Option<String>,
    pub text: String,
    pub status: TodoStatus,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Todos {
    pub tasks: Vec<Task>,
    pub dropped: u64,
}

impl Todos {
    /// The tool wrote the whole list: it replaces the tasks that have no number.
    pub(crate) fn replace(&mut self, todos: &[Todo<'_>], origin: &Origin) {
        self.tasks.retain(|task| task.id.is_some());
        for todo in todos {
            self.add(None, &todo.text, todo.status, origin);
        }
    }

    pub fn add(&mut self, id: Option<&str>, text: &str, status: TodoStatus, origin: &Origin) {
        if self.tasks.len() >= KEPT {
            let old = self.tasks.iter().position(|t| !t.open()).unwrap_or(0);
            self.tasks.remove(old);
            self.dropped += 1;
        }
        // A numbering that begins again replaces the old list.
        if let Some(id) = id {
            self.tasks.retain(|task| task.id.as_deref() != Some(id));
        }
        self.tasks.push(Task {
            id: id.map(str::to_owned),
            text: text::clip_lines(text, CHARS).to_owned(),
            status,
            origin: origin.clone(),
        });
    }

    pub(crate) fn update(
        &mut self,
        id: &str,
        status: Option<TodoStatus>,
        subject: Option<&str>,
        origin: &Origin,
    ) {
        if let Some(task) = self.tasks.iter_mut().rev().find(|t| t.id.as_deref() == Some(id)) {
            task.status = status.unwrap_or(task.status);
            if let Some(subject) = subject {
                subject.clone_into(&mut task.text);
            }
            task.origin = origin.clone();
        }
    }

    pub fn open(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.open())
    }

    pub fn done(&self) -> impl DoubleEndedIterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.status == TodoStatus::Completed)
    }
}

impl Task {
    pub(crate) fn open(&self) -> bool {
        matches!(self.status, TodoStatus::Pending | TodoStatus::InProgress)
    }
}
