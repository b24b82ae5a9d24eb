//! A handoff carries the work over from one context to the next.
//!
//! It is a document with a header ([`document`]), named by a [`HandoffId`], whose state is kept by its channel's
//! [`manifest`]. Its life:
//!
//! ```text
//!            seal                    claim (SessionStart)          first sign of life
//!   (none) ───────▶ active ────────────────────────────▶ claimed ─────────────────────▶ consumed
//!                    │  ▲                                   │
//!                    │  └──────── session ended or died ────┘
//!                    ├── older than the expiry ──▶ expired
//!                    └── cleared, or replaced by a newer one ──▶ cleared
//! ```
//!
//! A claim is not a separate state on disk: the handoff stays `active` and carries who claimed it.

pub mod attach;
pub mod carried;
pub mod document;
mod entries;
mod entry;
pub mod frame;
mod id;
pub mod manifest;
pub mod pack;
mod read_back;
pub mod render;
pub mod verify;

pub use carried::Carried;
pub use document::Header;
pub use entry::{Claim, Entry, Kind, Status};
pub use id::HandoffId;
pub use manifest::{Claimant, Manifest, Refusal};
