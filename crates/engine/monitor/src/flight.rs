//! A flight recorder between the runs of a plan: a ring buffer of trace events, saved when a user
//! reports an incident.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_host::Host;
use punctual_model::Nanos;
use punctual_trace::{Drained, Flight, Level, Plan, TraceError, Tracefs, trace_dat};

use crate::clock::{Clock, SystemClock};
use crate::plan::FlightPlan;

/// Minimum buffer size per CPU, in bytes.
const LEAST: usize = 64 << 10;

/// A running recorder. Dropping it ends the recording.
pub struct FlightRecorder {
    last: Nanos,
    state: Mutex<State>,
}

struct State {
    flight: Flight,
    /// Time on CLOCK_MONOTONIC since which the recording has not been interrupted.
    since: Nanos,
}

/// A snapshot of a recorder.
pub struct FlightTrace {
    /// The events as a `trace.dat` file.
    pub file: Vec<u8>,
    /// Time span before the snapshot in which no event is missing.
    pub covers: Nanos,
}

impl FlightRecorder {
    /// Starts a recorder in a separate trace instance.
    ///
    /// # Errors
    /// Returns an error if tracefs is missing or the kernel rejects a step.
    pub fn arm(host: &Host, plan: FlightPlan) -> Result<Self, TraceError> {
        let tracefs = Tracefs::find(host.root())?;
        let cpus = host.present().map_or(1, |cpus| cpus.len()).max(1);
        let bytes = usize::try_from(plan.memory).unwrap_or(usize::MAX) / cpus;
        let plan_of_instance = Plan {
            level: Level::Default,
            bytes_per_cpu: bytes.max(LEAST),
        };
        let mut flight = tracefs.arm(plan_of_instance, host.own_process(), None)?;
        flight.switch(true)?;
        Ok(Self {
            last: plan.last,
            state: Mutex::new(State {
                flight,
                since: SystemClock.awake(),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops recording, because tracing would disturb a measurement.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the change.
    pub fn pause(&self) -> Result<(), TraceError> {
        self.state().flight.switch(false)
    }

    /// Resumes recording.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the change.
    pub fn resume(&self) -> Result<(), TraceError> {
        let mut state = self.state();
        state.flight.switch(true)?;
        state.since = SystemClock.awake();
        Ok(())
    }

    /// Reads the latest events and removes them from the buffer. The recorder then continues.
    ///
    /// # Errors
    /// Returns an error if the events cannot be read.
    pub fn take(&self) -> Result<FlightTrace, TraceError> {
        let mut state = self.state();
        let now = SystemClock.awake();
        let from = now.saturating_sub(self.last);
        let Drained { pages, whole_from } = state.flight.drain(from)?;
        let description = state.flight.describe()?;
        let whole = from.max(state.since).max(whole_from.unwrap_or_default());
        state.since = now;
        drop(state);
        Ok(FlightTrace {
            file: trace_dat(&description, &[pages], &[], &BTreeMap::new())?,
            covers: now.saturating_sub(whole),
        })
    }
}
