//! The time window of one late reaction.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Delay, EventNames, Evidence, HostSpan, Nanos, Segment, ThreadActivity, TraceEvent, Victim,
};

/// The data of one late reaction: the thread, the expected and actual times, and the kernel events
/// in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The thread that was late.
    pub victim: Victim,
    /// Start and end points of the latency.
    pub delay: Delay,
    /// Expected time, on CLOCK_MONOTONIC.
    #[serde(rename = "expected_ns")]
    pub expected: Nanos,
    /// Actual time, on CLOCK_MONOTONIC. Not before `expected`.
    #[serde(rename = "actual_ns")]
    pub actual: Nanos,
    /// The events in chronological order: all events on the victim's CPU, and events on other CPUs
    /// that name the victim or a thread it waits for. Includes some events before `expected`, at
    /// least the last switch, which shows what was running.
    pub events: Vec<TraceEvent>,
    /// Number of events that were overwritten or dropped between the first event and `actual`.
    pub lost: u64,
    /// Number of events in the middle that were used for the explanation but are not stored
    /// ([`Window::shortened`]).
    #[serde(default)]
    pub left_out: u64,
    /// Names ([`crate::event_names`]) of events that were not recorded, because the kernel lacks
    /// them or the user did not request them. The information they provide is unknown.
    pub missing_events: Vec<String>,
    /// For a job in the light stage of `explain --pid`: the watched threads in the events. The
    /// switches, sleeps and wake-ups of these threads are complete. System calls, page faults,
    /// interrupts and the activity of other threads were not recorded. Null in the full stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light_stage: Option<Vec<u32>>,
    /// Largest possible difference between the clocks of events and of the probe.
    #[serde(rename = "clock_error_ns")]
    pub clock_error: Nanos,
    /// Names of the kernel addresses in the events, if known.
    #[serde(default)]
    pub symbols: BTreeMap<u64, String>,
    /// Names of the system calls in the events. The numbers differ between architectures.
    #[serde(default)]
    pub calls: BTreeMap<i64, String>,
    /// Evidence from counters rather than events.
    #[serde(default)]
    pub evidence: Evidence,
    /// Activity of the virtual CPUs, according to a trace of their host. Empty if there is none. For
    /// time without a span, the trace does not show whether the CPU ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<HostSpan>,
    /// The causes that the analysis found, each with its span of time, in chronological order.
    /// Empty before the analysis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
    /// For a job: the activity of each thread involved, beginning with the job's thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<ThreadActivity>,
}

impl Window {
    /// Maximum number of events that are stored for a window, which take about 40 KiB when
    /// compressed.
    pub const KEPT_EVENTS: usize = 4_000;

    /// Returns the window with at most [`KEPT_EVENTS`](Self::KEPT_EVENTS) events. Events in the
    /// middle are dropped and counted. Segments, the host's spans and each thread's activity have the
    /// same limit.
    pub fn shortened(mut self) -> Self {
        self.left_out += drop_middle(&mut self.events) as u64;
        drop_middle(&mut self.segments);
        drop_middle(&mut self.host);
        drop_middle(&mut self.activity);
        for thread in &mut self.activity {
            drop_middle(&mut thread.spans);
        }
        self
    }

    /// Returns whether the segments are in order, do not overlap, and are within the latency. The
    /// analysis guarantees this, but a window from a delivery or a file may be damaged.
    pub fn segments_fit(&self) -> bool {
        let mut at = self.expected;
        let in_order = self.segments.iter().all(|segment| {
            let fits = segment.from >= at && segment.to > segment.from;
            at = segment.to;
            fits
        });
        in_order && (at <= self.actual || self.segments.is_empty())
    }

    /// Returns the latency.
    pub fn latency(&self) -> Nanos {
        self.actual - self.expected
    }

    /// Returns whether the window could contain an event of this name.
    pub fn has(&self, event: &str) -> bool {
        !self.missing_events.iter().any(|missing| missing == event)
    }
}

/// Removes the items beyond [`Window::KEPT_EVENTS`] from the middle of the list, and returns their
/// number.
fn drop_middle<T>(items: &mut Vec<T>) -> usize {
    let beyond = items.len().saturating_sub(Window::KEPT_EVENTS);
    let half = Window::KEPT_EVENTS / 2;
    if beyond > 0 {
        items.drain(half..half + beyond);
    }
    beyond
}

impl EventNames for Window {
    fn call(&self, id: i64) -> String {
        self.calls
            .get(&id)
            .cloned()
            .unwrap_or_else(|| format!("system call {id}"))
    }

    fn symbol(&self, address: u64) -> String {
        self.symbols
            .get(&address)
            .cloned()
            .unwrap_or_else(|| format!("{address:#x}"))
    }
}
