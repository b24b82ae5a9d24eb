//! A list that keeps its newest entries and counts the ones it dropped, so that memory is bounded and nothing
//! disappears silently.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capped<T> {
    pub items: VecDeque<T>,
    pub dropped: u64,
}

impl<T> Default for Capped<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), dropped: 0 }
    }
}

impl<T> Capped<T> {
    pub fn push(&mut self, item: T, cap: usize) {
        if self.items.len() >= cap {
            self.items.pop_front();
            self.dropped += 1;
        }
        self.items.push_back(item);
    }

    /// Keeps the newest `cap`.
    pub fn cut(&mut self, cap: usize) {
        let old = self.items.len().saturating_sub(cap);
        self.items.drain(..old);
        self.dropped += old as u64;
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.items.iter()
    }

    pub fn last(&self) -> Option<&T> {
        self.items.back()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
