//! Scheduled measurements over years, as given by a plan.
//!
//! **For:** the plan of a machine ([`read_plan`]), the schedule of its series, the service that
//! measures them ([`Service`]), windows that count all wake-ups, and the unit file. Each slot ends
//! as a recording, or as a row with the reason why it was not measured.
//!
//! **Knows:** sessions, the store, calendars and clocks.
//!
//! **Must not know:** the terminal, the format of reports, trends.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod ageing;
mod clock;
mod flight;
mod lease;
mod notify;
mod plan;
mod read;
mod run;
mod schedule;
mod service;
mod slot_process;
mod snapshot;
mod watch;

pub use ageing::Ageing;
pub use clock::{Clock, SystemClock};
pub use flight::{FlightRecorder, FlightTrace};
pub use lease::{LeaseError, Serving, ask, only_service, process_serving, serving};
pub use notify::Notify;
pub use plan::{
    FlightPlan, Measured, Plan, PlanText, Push, Retention, SeriesPlan, SlotRequest, WatchPlan,
};
pub use read::{PlanError, read_plan};
pub use run::SessionRunner;
pub use schedule::{due_between, next_due};
pub use service::{Machine, Runner, Service, SlotEnd, epoch_of};
pub use slot_process::{ProcessRunner, SERVICE_ENDED, SlotProcessError, SlotTask, wait_for_killed};
pub use snapshot::{Answering, StoredSnapshot, await_kept};
pub use watch::{WATCH_SERIES, Watching};
