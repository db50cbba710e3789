//! What is measured: one file per probe, one line each in [`PROBES`].
//!
//! **For:** the measuring threads and their loops, and what they record into
//! ([`Recorder`]).
//!
//! **Knows:** `rt` (threads, waits, clocks), `host` (what the kernel counts,
//! and its limits) and `model` (histograms, accounts).
//!
//! **Must not know:** the store, the terminal, any file. A probe writes samples
//! to a bounded ring with a drop counter and to its own histogram, nothing
//! else; the session does the rest.
//!
//! Invariant of each hot path (between a thread's wake-up and its next wait):
//! no allocation, no lock, no logging, no floating point, no system call other
//! than the probe's own wait.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod clock;
mod control;
mod deadline;
mod entry;
mod fault;
mod hardware;
mod inversion;
mod irq_load;
mod kernel_thread;
mod migrate;
mod partner_error;
mod policy;
mod provider_error;
mod recorder;
mod resources;
mod signal;
mod socket;
mod switch;
#[cfg(test)]
mod testing;
mod thread_group;
mod timer;
mod tracer;
mod usage;
mod wakeup;

pub use control::{Broke, Control, Entered, Gate, OnBreak, Opening};
pub use entry::{
    AddressError, LaneSpec, Measured, Plan, ProbeEntry, ProbeError, Ready, Run, usual_warm_up,
};
pub use partner_error::PartnerError;
pub use policy::rt_policy;
pub use provider_error::ProviderError;
pub use recorder::{
    Event, Lane, LaneOutcome, LaneReader, LaneSettings, Recorder, SelfCost, WORST_KEPT,
};
pub use resources::{Resources, Settings, SettingsError};
pub use socket::server as echo;
pub use tracer::{
    HardwareTracer, KernelGap, NoisePlan, NoiseTracer, TracerError, TracerPlan, UserTimer,
};
pub use wakeup::serve_partner;

/// All probes. A new one is a file with its entry, and a line here.
pub const PROBES: &[ProbeEntry] = &[
    timer::ENTRY,
    signal::ENTRY,
    hardware::ENTRY,
    clock::ENTRY,
    socket::ENTRY,
    wakeup::ENTRY,
    inversion::ENTRY,
    fault::ENTRY,
    switch::ENTRY,
    migrate::ENTRY,
    deadline::ENTRY,
    irq_load::ENTRY,
];

/// The probe of that name.
///
/// # Errors
/// There is none; the error lists those there are.
pub fn probe(name: &str) -> Result<&'static ProbeEntry, ProbeError> {
    let found = PROBES.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| ProbeError::NoSuchProbe {
        name: name.to_owned(),
        known: PROBES.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
    })
}
