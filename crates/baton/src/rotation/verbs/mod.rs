//! The actions of the user on an agent, or of an agent on itself and those below it. The command line and the API both
//! call these, so that they cannot differ.

mod cancel;
mod retire;
mod rotate;
pub(crate) mod spawn;
mod undo;

use baton_core::agent::Agent;

use crate::sessions::caller::{self, Caller};
use crate::store::Store;
use crate::store::handoffs::StoreError;
use crate::store::record::RecordError;
use crate::sys::fs::FileError;

pub(crate) use cancel::cancel;
pub(crate) use retire::retire;
pub(crate) use rotate::rotate;
pub(crate) use undo::undo;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerbRefusal {
    /// The caller has no right to do this.
    #[error("{0}")]
    Forbidden(String),
    /// There is nothing to act on.
    #[error("{0}")]
    Nothing(String),
    /// Not possible in the current state.
    #[error("{0}")]
    Conflict(String),
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for VerbRefusal {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for VerbRefusal {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<FileError> for VerbRefusal {
    fn from(error: FileError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<RecordError> for VerbRefusal {
    fn from(error: RecordError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<StoreError> for VerbRefusal {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// Refuses an agent that is neither `agent` itself nor above it.
fn permit(store: &Store, caller: &Caller, doing: &str, agent: &Agent) -> Result<(), VerbRefusal> {
    if caller::may_direct(store, caller, agent)? {
        return Ok(());
    }
    Err(VerbRefusal::Forbidden(caller::stranger(caller, doing, &agent.id)))
}
