//! Measurements in an order that proves something.
//!
//! **For:** the check-up of a machine ([`check`]): audit, a short look for time that
//! firmware or a hypervisor takes, the timer probe without load and under load, and a
//! verdict on the rate of misses with what it is worth.
//!
//! **Knows:** `session` and what it needs, the audit, the statistics of rates.
//!
//! **Must not know:** the terminal, how a report looks. `session` stays one measurement.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod check;
mod conditions;
mod events;
mod judge;
mod request;

pub use check::{Around, Checked, check};
pub use request::{CheckError, CheckRequest};
