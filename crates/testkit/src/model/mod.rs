//! A scripted model on loopback, so that the real clients can be driven without a login.
//!
//! A test defines what the model answers ([`Script`], [`text`], [`tool`], …), starts a [`ScriptedModel`], points a
//! client at its address and then asserts on what the model received ([`Request`]). It speaks the Messages API of
//! Claude Code and the Responses API of Codex.

mod anthropic;
mod http;
mod kind;
mod openai;
mod request;
mod script;
mod server;

pub use kind::Kind;
pub use request::{Message, Protocol, Request};
pub use script::{Gate, Script, Turn, Usage, error, shell, text, too_long, tool};
pub use server::ScriptedModel;
