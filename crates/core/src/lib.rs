//! What baton decides, as pure functions of values.
//!
//! Nothing in this crate reads a file, a clock, the environment or the network: state and time come in as
//! arguments, decisions go out as values. The binary in `crates/baton` carries them out.
//!
//! # The domain
//!
//! A **provider** (Claude Code, …) runs **sessions**: conversations, each with an id and a transcript. A long-lived
//! worker is an **agent** ([`agent`]); its life is the chain of its sessions. A provider's report about its context is
//! a **reading** ([`reading`]), which with the thresholds gives a **level** ([`level`]). We tell the agent about a
//! level once per **cycle** ([`latch`], [`say`]), before the client compacts ([`compaction`]).
//!
//! A **handoff** ([`handoff`]) carries the work over: the agent's own words if there are any, and always the **ledger**
//! ([`ledger`]), the facts that the transcript ([`transcript`]) proves. It belongs to a **channel** ([`channel`]), is
//! claimed by one session and consumed once. It contains no secrets ([`redact`]) and no control characters ([`plain`]).
//!
//! A **rotation** ([`rotation`]) leads from one context to the next: handoff sealed, fresh context, handoff loaded.
//! [`pending`] says what an unsealed handoff waits for, [`launch`] how a client is restarted, [`limit`] when a usage
//! limit ends.
//!
//! Agents and their user write **messages** ([`message`]) to each other; all instances of a workflow see its newest
//! **checkpoint** ([`checkpoint`]).
//!
//! Machines that share a database are a **fleet** ([`fleet`]).
//!
//! # The way in
//!
//! [`wire`] is exactly what a provider sends; [`event`] is what it means to us; [`session`] is what we remember.
//! [`statusline`] is the line that people see all day, with its [`forecast`]; [`need`] says what an agent wants a
//! person for, [`levels`] how full it was over time.

pub mod agent;
pub mod approval;
#[cfg(test)]
mod chance;
pub mod channel;
pub mod checkpoint;
pub mod compaction;
pub mod companion;
pub mod event;
pub mod fence;
pub mod fleet;
pub mod forecast;
pub mod gauge;
pub mod halt;
pub mod handoff;
pub mod ids;
pub mod latch;
pub mod launch;
pub mod ledger;
pub mod level;
pub mod levels;
pub mod limit;
pub mod marks;
pub mod message;
pub mod nearest;
pub mod need;
pub mod nesting;
pub mod notice;
pub mod pane;
pub mod pending;
pub mod plain;
pub mod process;
pub mod prompt;
pub mod reading;
pub mod redact;
pub mod reminder;
pub mod rotation;
pub mod say;
pub mod scan;
pub mod search;
pub mod session;
pub mod speaker;
pub mod statusline;
pub mod transcript;
pub mod turn;
pub mod wire;
