//! Evidence from the process of a job: stacks of its waits, stops by its runtime, and hardware
//! counters of its thread.

use std::collections::BTreeMap;
use std::ffi::OsString;

use punctual_host::Host;
use punctual_model::{HardwareCounters, Nanos, Window};
use punctual_trace::WaitRecord;

use super::go_stops::GoStops;
use super::wait_stacks::UserCode;

/// Sources of this evidence.
pub(super) struct JobEvidence {
    code: UserCode,
    go_stops: GoStops,
    /// Hardware counters of jobs that are explained next, by thread and release.
    counters: BTreeMap<(u32, Nanos), HardwareCounters>,
}

impl JobEvidence {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            code: UserCode::new(host),
            go_stops: GoStops::new(host),
            counters: BTreeMap::new(),
        }
    }

    /// Sets the command of a process that reads the program files of other users.
    pub(super) fn read_symbols_with(&mut self, reader: Option<Vec<OsString>>) {
        self.code.reader = reader;
    }

    /// Also records stops by the runtime of the Go programs among these threads. Returns warnings.
    pub(super) fn watch_runtimes(&mut self, tids: &[u32]) -> Vec<String> {
        self.go_stops.watch(tids, self.code.reader.as_ref())
    }

    /// Sets the hardware counters of a job that is explained next.
    pub(super) fn counted(&mut self, job: (u32, Nanos), counters: HardwareCounters) {
        self.counters.insert(job, counters);
    }

    /// Drops the counters of jobs that were not explained.
    pub(super) fn clear_counters(&mut self) {
        self.counters.clear();
    }

    /// Adds the evidence to the window of a job.
    pub(super) fn add_to(&mut self, window: &mut Window, stacks: &[WaitRecord]) {
        let (tid, span) = (window.victim.tid, (window.expected, window.actual));
        window.evidence.waits = self.code.waits(tid, span, &window.events, stacks);
        window.evidence.stops = self.go_stops.of(tid, span);
        window.evidence.counters = self.counters.remove(&(tid, window.expected));
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::FromJson;

    use super::*;

    /// The window of a job of thread 7.
    fn window(release: u64) -> Window {
        let json = format!(
            r#"{{
                "victim": {{"tid": 7, "comm": "job", "scheduling": null, "cpu": 0}},
                "delay": "job", "expected_ns": {release}, "actual_ns": 900, "events": [],
                "lost": 0, "missing_events": [], "clock_error_ns": 0
            }}"#
        );
        Window::from_json(json.as_bytes()).unwrap()
    }

    fn unknown(why: &str) -> HardwareCounters {
        HardwareCounters::Unknown(why.to_owned())
    }

    #[test]
    fn counters_belong_to_one_job() {
        let mut evidence = JobEvidence::new(&Host::new("/nonexistent"));
        evidence.counted((7, Nanos(100)), unknown("first"));
        evidence.counted((7, Nanos(200)), unknown("second"));
        evidence.counted((8, Nanos(100)), unknown("of another thread"));
        let mut first = window(100);
        evidence.add_to(&mut first, &[]);
        assert_eq!(first.evidence.counters, Some(unknown("first")));
        assert!(first.evidence.waits.is_empty() && first.evidence.stops.is_empty());
        evidence.clear_counters();
        let mut second = window(200);
        evidence.add_to(&mut second, &[]);
        assert_eq!(second.evidence.counters, None);
    }
}
