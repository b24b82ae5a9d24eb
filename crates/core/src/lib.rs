//! What baton decides, as pure functions of values.
//!
//! Nothing in this crate reads a file, a clock, the environment or the network: state and time come in as
//! arguments, decisions go out as values. The binary in `crates/baton` carries them out.
//!
//! # The domain
//!
//! A **provider** (Claude Code, …) runs **sessions**: conversations with an id and a transcript each. A long-lived
//! worker is an **agent** ([`agent`]); the chain of sessions it has had is its life. What a provider says of its
//! context is a **reading** ([`reading`]); from it and the thresholds follows a **level** ([`level`]); what the agent is
//! told at a level is said once per **cycle** ([`latch`], [`say`]), before the client compacts ([`compaction`]).
//!
//! A **handoff** ([`handoff`]) carries the work over: the agent's own words when there are some, and always the
//! **ledger** ([`ledger`]), the facts that the transcript ([`transcript`]) proves. It belongs to a **channel**
//! ([`channel`]), is claimed by one session and consumed once. Secrets ([`redact`]) and control characters ([`plain`])
//! do not get in.
//!
//! A **rotation** ([`rotation`]) is the way from one context to the next: handoff sealed, fresh context, handoff
//! loaded. How a client is started again is in [`launch`], when a usage limit ends in [`limit`].
//!
//! Agents and their user write **messages** ([`message`]) to each other; all instances of a workflow see its newest
//! **checkpoint** ([`checkpoint`]).
//!
//! # The way in
//!
//! [`wire`] is what a provider sends, exactly; [`event`] is what that means to us; [`session`] is what is remembered.
//! [`statusline`] is the one line that people see all day, with its [`forecast`].

pub mod agent;
pub mod channel;
pub mod checkpoint;
pub mod compaction;
pub mod companion;
pub mod event;
pub mod forecast;
pub mod handoff;
pub mod ids;
pub mod latch;
pub mod launch;
pub mod ledger;
pub mod level;
pub mod limit;
pub mod message;
pub mod notice;
pub mod pane;
pub mod plain;
pub mod process;
pub mod reading;
pub mod redact;
pub mod rotation;
pub mod say;
pub mod scan;
pub mod search;
pub mod session;
pub mod statusline;
pub mod transcript;
pub mod wire;
