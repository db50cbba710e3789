//! The measurements. Each probe has one file or folder in this crate and one entry in [`PROBES`].
//!
//! **For:** the measuring threads and their loops, and the [`Recorder`] for their samples.
//!
//! **Knows:** `rt` (threads, waits, clocks), `host` (the kernel's counters and limits) and `model`
//! (histograms, accounting).
//!
//! **Must not know:** the store, the terminal, any file. A probe writes samples only to a bounded
//! ring with a drop counter and to its own histogram; the session does the rest.
//!
//! Invariant of each hot path (between a thread's wake-up and its next wait):
//! no allocation, no lock, no logging, no floating point, no system call other
//! than the probe's own wait. The exception is what a probe measures, such as the
//! floating-point work of `work`, and the counters that it reads before and after.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod address;
mod clock;
mod control;
mod deadline;
mod entry;
mod fault;
mod gpio;
mod handover;
mod hardware;
mod inversion;
mod irq_load;
mod kernel_thread;
mod migrate;
mod monotonic;
mod network;
mod partner_error;
mod policy;
mod provider_error;
mod recorder;
mod resources;
mod run;
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
mod work;

pub use control::{Broke, Control, Entered, Gate, OnBreak, Opening};
pub use entry::{
    AddressError, Measured, Plan, ProbeEntry, ProbeError, Ready, Run, WorkerSpec, usual_warm_up,
};
pub use partner_error::PartnerError;
pub use policy::rt_policy;
pub use provider_error::ProviderError;
pub use recorder::{
    Event, Recorder, RecorderSlot, SelfCost, WORST_KEPT, WorkerOutcome, WorkerReader,
    WorkerSettings,
};
pub use resources::{Iterations, Resources, Settings, SettingsError};
pub use socket::server as echo;
pub use tracer::{
    HardwareTracer, KernelGap, NoisePlan, NoiseTracer, TracerError, TracerPlan, UserTimer,
};
pub use wakeup::serve_partner;

/// All probes. To add one, create a file with its entry, and list the entry here.
pub const PROBES: &[ProbeEntry] = &[
    timer::ENTRY,
    signal::ENTRY,
    hardware::ENTRY,
    clock::ENTRY,
    socket::ENTRY,
    network::ENTRY,
    gpio::ENTRY,
    wakeup::ENTRY,
    inversion::ENTRY,
    fault::ENTRY,
    switch::ENTRY,
    migrate::ENTRY,
    deadline::ENTRY,
    irq_load::ENTRY,
    work::ENTRY,
];

/// Returns the probe with this name.
///
/// # Errors
/// If there is none; the error lists the existing ones.
pub fn probe(name: &str) -> Result<&'static ProbeEntry, ProbeError> {
    let found = PROBES.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| ProbeError::NoSuchProbe {
        name: name.to_owned(),
        known: PROBES.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
    })
}
