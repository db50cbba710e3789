//! Counters of the machine that serve as evidence for outliers.

use punctual_host::{Host, OwnThread};
use punctual_model::{Evidence, HostFacts, Nanos, TraceEvent};
use punctual_trace::StealRecorder;

use super::quota::QuotaHistory;
use super::raw_outlier::RawOutlier;
use super::theft::TheftWatch;

/// Reads the counters around each outlier.
pub(super) struct EvidenceSources {
    /// `None` until the run begins.
    theft: Option<TheftWatch>,
    /// `None` if the kernel does not accept BPF programs.
    steal: Option<StealRecorder>,
    quotas: QuotaHistory,
    /// Threads of this program.
    observer: Vec<u32>,
}

impl EvidenceSources {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            theft: None,
            steal: None,
            quotas: QuotaHistory::begin(host, &[]),
            observer: Vec::new(),
        }
    }

    /// Reads the initial values of the counters of these CPUs.
    pub(super) fn begin(&mut self, host: &Host, facts: &HostFacts, cpus: &[u32]) {
        self.theft = Some(TheftWatch::begin(host, facts, cpus));
    }

    /// Sets the late threads, whose control groups are checked.
    pub(super) fn late_are(&mut self, host: &Host, tids: &[u32]) {
        self.quotas = QuotaHistory::begin(host, tids);
    }

    /// Sets the threads of this program.
    pub(super) fn observed_by(&mut self, own: &[OwnThread]) {
        self.observer = own.iter().map(|own| own.tid.unsigned_abs()).collect();
    }

    /// Also records steal time in ns, if this is possible.
    pub(super) fn count_steal(&mut self, steal: Option<StealRecorder>) {
        self.steal = steal;
    }

    /// Turns the recording of steal time on or off. If that fails, ends it and returns a warning.
    pub(super) fn switch_steal(&mut self, on: bool) -> Option<String> {
        let error = self.steal.as_mut()?.switch(on).err()?;
        self.steal = None;
        Some(format!(
            "{error}: the resolution of steal time is only 10 ms"
        ))
    }

    /// Returns whether the counters must be read often to tell when they increased.
    pub(super) fn needs_turns(&self) -> bool {
        let steal = self.theft.as_ref().is_some_and(TheftWatch::counts_steal);
        self.quotas.has_groups() || (steal && self.steal.is_none())
    }

    /// Reads the counters of control groups.
    pub(super) fn look_at_quotas(&mut self) {
        self.quotas.look();
    }

    /// Reads the other counters if they are due.
    pub(super) fn look(&mut self) {
        self.theft.iter_mut().for_each(TheftWatch::look);
    }

    /// Reads the other counters after an outlier that ended at `end`.
    pub(super) fn look_after(&mut self, end: Nanos) {
        if let Some(theft) = &mut self.theft {
            theft.look_after(end, self.steal.as_ref());
        }
    }

    /// Returns the evidence for an outlier on `cpu` and its events.
    pub(super) fn of(
        &mut self,
        outlier: &RawOutlier,
        cpu: u32,
        actual: Nanos,
        events: &[TraceEvent],
    ) -> Evidence {
        let throttles = self.quotas.between(outlier.expected, actual);
        let in_group = self.quotas.inside(&throttles, events);
        let around = (outlier.story_from, actual);
        let theft = self.theft.as_mut();
        let counted = theft.map(|theft| theft.evidence(cpu, around, events, self.steal.as_ref()));
        Evidence {
            throttles,
            in_group,
            quotas_known: true,
            sched_ext: self.quotas.sched_ext(),
            observer: self.observer.clone(),
            ..counted.unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Policy, Scheduling};

    use super::*;

    #[test]
    fn evidence_before_the_run_names_the_observer() {
        let host = Host::new("/nonexistent");
        let mut sources = EvidenceSources::new(&host);
        sources.observed_by(&[OwnThread {
            tid: 42,
            name: "observer".to_owned(),
            cpu: 0,
        }]);
        sources.look_at_quotas();
        sources.look();
        sources.look_after(Nanos(300));
        let outlier = RawOutlier {
            thread: 0,
            tid: 7,
            cpu: Some(1),
            scheduling: Scheduling {
                policy: Policy::Other,
                priority: 0,
            },
            expected: Nanos(100),
            latency: Nanos(200),
            story_from: Nanos(100),
            delay: None,
            period: None,
        };
        let evidence = sources.of(&outlier, 1, Nanos(300), &[]);
        assert_eq!(evidence.observer, [42]);
        assert!(evidence.quotas_known && evidence.throttles.is_empty());
        assert!(evidence.stolen.is_empty() && evidence.smi.is_none());
    }

    #[test]
    fn missing_recorder_of_steal_is_no_warning() {
        let mut sources = EvidenceSources::new(&Host::new("/nonexistent"));
        sources.count_steal(None);
        assert_eq!(sources.switch_steal(true), None);
    }
}
