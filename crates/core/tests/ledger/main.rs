//! What a transcript proves, and how it is packed: the specification, on handmade transcripts.

mod authors;
mod claude;
mod codex;
mod facts;
mod garbage;
mod incremental;
mod languages;
mod packing;
mod rendering;
mod verifying;
