//! Rules for real-time threads.
//!
//! **For:** judging what a program's real-time threads were seen to do ([`judge`]), by a
//! table of rules ([`RULES`]), each with its reason, its source and its remedy.
//!
//! **Knows:** which waits are suitable for real-time threads, and what violates a rule.
//!
//! **Must not know:** how acts are collected, /proc, terminals. Nothing here makes a
//! system call.
//!
//! A rule whose facts were not observed is *unknown*, with the reason; it is never reported as
//! clean.

mod calls;
mod judge;
mod page;
mod process;
mod rules;
mod unseen;
mod waits;

pub use judge::judge;
pub use page::page;
pub use rules::{RULES, Rule};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
