//! Gives an agent a fresh context: requested, journaled, and carried out by one of the actuators.
//!
//! `pending` carries out an agent's handoff, however its turn ended; `request` records that an agent wants a fresh
//! context and whether it may have one; `journal` records each step before it is taken; `actuators` has a folder for
//! each way to a fresh context; `verbs` has the actions of people on agents.

pub(crate) mod actuators;
pub(crate) mod journal;
pub(crate) mod pending;
pub(crate) mod request;
pub(crate) mod verbs;
