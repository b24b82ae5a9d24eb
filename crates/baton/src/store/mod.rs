//! What baton keeps, as files that anybody can read. Every change is whole or has not happened.

pub mod handoffs;
