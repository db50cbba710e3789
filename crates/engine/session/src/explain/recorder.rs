//! The recorder of events: the kernel's tracer, our BPF programs, or the switches of single threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_model::{Nanos, TraceEvent};
use punctual_trace::{
    ClockMap, Description, Flight, Followed, JobRecorder, Stage, StopHandle, TraceError,
    TraceSlice, WatchError,
};

use super::switch_recorder::SwitchRecorder;
use crate::switches::missing_events;

/// The recorder of events.
pub(super) enum Recorder {
    /// A trace instance.
    Tracer(Box<Flight>),
    /// BPF programs, for jobs.
    Programs(Box<JobRecorder>),
    /// Context switches of the watched threads only.
    Switches(SwitchRecorder),
}

impl Recorder {
    /// Returns the clock of the events' times.
    pub(super) const fn clock(&self) -> ClockMap {
        match self {
            Self::Tracer(flight) => flight.clock(),
            // Their times are those of CLOCK_MONOTONIC.
            Self::Programs(_) | Self::Switches(_) => ClockMap {
                offset_ns: 0,
                error: Nanos::ZERO,
            },
        }
    }

    pub(super) fn stop_handle(&self) -> Option<Arc<StopHandle>> {
        match self {
            Self::Tracer(flight) => Some(flight.stop_handle()),
            Self::Programs(_) | Self::Switches(_) => None,
        }
    }

    pub(super) fn switch(&mut self, on: bool) -> Result<(), TraceError> {
        match self {
            Self::Tracer(flight) => flight.switch(on),
            Self::Programs(_) | Self::Switches(_) => Ok(()),
        }
    }

    /// Sets the watched threads of the kernel's tracer. BPF programs get theirs from the
    /// observation instead.
    pub(super) fn watch(&mut self, tids: &[u32]) -> Result<(), TraceError> {
        match self {
            Self::Tracer(flight) => flight.watch(tids),
            Self::Programs(_) => Ok(()),
            Self::Switches(switches) => {
                switches.watch(tids);
                Ok(())
            }
        }
    }

    pub(super) fn take_out_until(&mut self, until: Nanos) -> Result<(), TraceError> {
        match self {
            Self::Tracer(flight) => flight.take_out_until(until),
            Self::Programs(_) | Self::Switches(_) => Ok(()),
        }
    }

    pub(super) fn slice_for(
        &mut self,
        tid: u32,
        cpu: Option<u32>,
        from: Nanos,
        to: Nanos,
    ) -> TraceSlice {
        match self {
            Self::Tracer(flight) => flight.slice_for(tid, cpu, from, to),
            Self::Programs(programs) => programs.slice(from, to, programs.stage_of(from, to)),
            Self::Switches(_) => TraceSlice::default(),
        }
    }

    /// Returns the events of all CPUs. `stage` is that of the job.
    pub(super) fn cut_all(&mut self, from: Nanos, to: Nanos, stage: Stage) -> TraceSlice {
        match self {
            Self::Tracer(flight) => flight.slice_all(from, to),
            Self::Programs(programs) => programs.slice(from, to, stage),
            Self::Switches(_) => TraceSlice::default(),
        }
    }

    /// Returns the stage of an interval. The tracer records everything all the time.
    pub(super) fn stage_of(&self, from: Nanos, to: Nanos) -> Stage {
        match self {
            Self::Tracer(_) | Self::Switches(_) => Stage::Full,
            Self::Programs(programs) => programs.stage_of(from, to),
        }
    }

    /// Returns the watched threads among these; BPF programs only.
    pub(super) fn watched_of(&self, events: &[TraceEvent]) -> Vec<u32> {
        let Self::Programs(programs) = self else {
            return Vec::new();
        };
        let tasks = events.iter().flat_map(|event| event.kind.tasks());
        let tids: BTreeSet<u32> = tasks.flatten().map(|task| task.pid).collect();
        let watched = programs.watched().iter().copied();
        watched.filter(|tid| tids.contains(tid)).collect()
    }

    pub(super) fn recorded(&self) -> Vec<String> {
        match self {
            Self::Tracer(flight) => flight.recorded(),
            Self::Programs(programs) => programs.recorded(),
            Self::Switches(_) => Vec::new(),
        }
    }

    pub(super) fn missing(&self, stage: Stage) -> Vec<String> {
        match self {
            Self::Tracer(flight) => flight.missing(),
            Self::Programs(programs) => programs.missing(stage),
            Self::Switches(_) => missing_events(),
        }
    }

    /// Describes the recorder's pages; `None` if it writes none.
    pub(super) fn describe(&self) -> Result<Option<Description>, TraceError> {
        match self {
            Self::Tracer(flight) => flight.describe().map(Some),
            Self::Programs(_) | Self::Switches(_) => Ok(None),
        }
    }

    /// Adds warnings for the reader of the recording.
    pub(super) fn warnings(&self) -> Vec<String> {
        match self {
            Self::Tracer(flight) => {
                let not = flight.not_recorded().iter().filter(|not| not.matters);
                let not = not.map(|not| {
                    format!(
                        "{} was not recorded ({}), so {} is unknown",
                        not.name, not.why, not.provides
                    )
                });
                let clock = (!flight.has_same_clock()).then(|| {
                    format!(
                        "the trace and the probe use different clocks: the times of the trace are \
                         accurate to {}",
                        flight.clock().error
                    )
                });
                not.chain(flight.warnings().iter().cloned())
                    .chain(clock)
                    .chain(flight.reset_by_others())
                    .collect()
            }
            Self::Programs(programs) => {
                let unseen = programs.unseen().iter();
                let unseen = unseen.map(|(event, why)| format!("{event} is not recorded: {why}"));
                let dropped = Some(programs.stacks_dropped()).filter(|dropped| *dropped > 0);
                let dropped = dropped.map(|dropped| {
                    format!(
                        "{} not recorded, to limit the cost: the threads sleep more often than \
                         200 times in 100 ms",
                        punctual_model::counted(dropped, "user-space stack", "user-space stacks")
                    )
                });
                unseen.chain(dropped).collect()
            }
            Self::Switches(switches) => switches.warnings(),
        }
    }

    pub(super) fn stop(self) -> Result<(), TraceError> {
        match self {
            Self::Tracer(flight) => flight.stop(),
            Self::Programs(_) | Self::Switches(_) => Ok(()),
        }
    }
}

/// Access to the stream of the watched threads. If BPF programs record the events, the recorder
/// itself is this stream.
impl super::Explainer {
    pub(crate) fn programs(&mut self) -> Option<&mut JobRecorder> {
        match &mut self.flight {
            Recorder::Tracer(_) | Recorder::Switches(_) => None,
            Recorder::Programs(programs) => Some(programs),
        }
    }

    /// Replaces the threads and waits that the programs follow.
    pub(crate) fn follow(&mut self, followed: &Followed) -> Result<(), WatchError> {
        match &mut self.flight {
            Recorder::Tracer(_) | Recorder::Switches(_) => Ok(()),
            Recorder::Programs(programs) => programs.follow(followed),
        }
    }
}
