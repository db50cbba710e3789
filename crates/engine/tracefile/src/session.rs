//! Identity of a trace among those that trace-cmd recorded together, on a host and in its guests.

use std::collections::{BTreeMap, BTreeSet};

/// The recording session that a trace belongs to, as far as the file states it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSession {
    /// ID of this trace (the option TRACEID).
    pub id: Option<u64>,
    /// ID of the trace of the host, in the trace of a guest (the option TIME_SHIFT).
    pub host: Option<u64>,
    /// CPUs of the guest with a measured difference to the clock of the host.
    pub shifted: BTreeSet<u32>,
    /// The guests that were recorded together with this trace (the option GUEST).
    pub guests: Vec<Guest>,
    /// Calibration of the time-stamp counter (the option TSC2NSEC): multiplier and shift.
    pub calibration: Option<(u32, u32)>,
    /// Number that is added to all times, in ns (the options DATE and OFFSET).
    pub offset_ns: i64,
}

/// A virtual machine, as the trace of its host describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// ID of its trace.
    pub id: u64,
    /// ID of the host's thread for each virtual CPU.
    pub vcpus: BTreeMap<u32, u32>,
}
