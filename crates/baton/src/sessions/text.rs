//! Pieces of one text that many share: five thousand rows of a cache own no memory of their own.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A piece of a text that is kept as long as any piece of it.
#[derive(Clone, Default)]
pub struct Text {
    whole: Option<Arc<String>>,
    start: u32,
    end: u32,
}

impl Text {
    /// The part of `whole` at `range`; beyond four gigabytes there is nothing.
    pub fn part(whole: &Arc<String>, range: Range<usize>) -> Self {
        match (u32::try_from(range.start), u32::try_from(range.end)) {
            (Ok(start), Ok(end)) if start < end => Self { whole: Some(Arc::clone(whole)), start, end },
            _ => Self::default(),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        let len = text.len();
        Self::part(&Arc::new(text), 0..len)
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        let whole = self.whole.as_deref().map_or("", String::as_str);
        whole.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

/// As of any text, so that a piece is found by what it says.
impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl std::borrow::Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}
