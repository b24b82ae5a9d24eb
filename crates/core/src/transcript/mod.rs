//! Transcripts: what a conversation left on disk.

pub mod tail;
