//! Arranges measurements so that their results are statistically sound.
//!
//! **For:** the check-up of a machine ([`check`]): an audit, a short probe that looks for time
//! taken by firmware or a hypervisor, the timer probe without and with load, and a verdict on the
//! rate of misses, with its confidence. Also experiments ([`run`]): blocks of measurements under
//! several conditions in random order, and the differences between these conditions.
//!
//! **Knows:** `session` and its dependencies, the audit, the statistics of rates, the settings of
//! `tune`.
//!
//! **Must not know:** the terminal or the layout of a report. `session` remains responsible for a
//! single measurement.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod analysis;
mod application;
mod block_store;
mod boots;
mod candidates;
mod check;
mod command;
mod conditions;
mod error;
mod events;
mod hunt;
mod improve;
mod judge;
mod lengths;
mod numbers;
mod order;
mod own;
mod pilot;
mod plots;
mod request;
mod sides;
mod tally;
mod trial;
mod wording;

pub use analysis::times;
pub use application::check_application;
pub use boots::{BootRequest, BootStep, of_boots, run_boots, undo_boots};
pub use candidates::{candidates, rehearse};
pub use check::{Around, Checked, check};
pub use command::DEADLINE;
pub use error::TrialError;
pub use hunt::{HuntError, HuntRequest, Hunted, hunt};
pub use improve::{
    ApplicationSearch, improve, improve_application, intended, plan_stages, profile, unfinished,
};
pub use lengths::{TIMES_WASH_OUT, least_rounds, shortest_time};
pub use numbers::{Meter, NumbersBench, NumbersRequest, NumbersRun, run_numbers};
pub use own::OwnExperiments;
pub use pilot::sentence as pilot_sentence;
pub use request::{CheckError, CheckRequest};
pub use trial::{Bench, Progress, draft, run};
