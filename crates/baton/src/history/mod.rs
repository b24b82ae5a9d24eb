//! Past conversations of every client: found where the clients keep them, listed by the two ends of their transcripts,
//! searched in full.
//!
//! `sources` finds transcripts, `ends` reads their two ends, `facts` has what a listing shows of them. `records`,
//! `links` and `mirrors` add what baton itself knows. `catalogue` joins all of it into one row per conversation and
//! remembers it in the `cache`. `search` and `scan` read transcripts whole, those in a `scope`; `excerpt` displays a
//! hit.

mod cache;
pub(crate) mod catalogue;
pub(crate) mod conversation;
pub(crate) mod ends;
pub(crate) mod excerpt;
mod facts;
pub(crate) mod links;
pub(crate) mod mirrors;
pub(crate) mod moment;
mod records;
pub(crate) mod scan;
pub(crate) mod scope;
pub(crate) mod search;
pub(crate) mod sources;

pub(crate) use catalogue::{Catalogue, Row};
pub(crate) use sources::TranscriptFile;
