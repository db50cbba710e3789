//! Finds the samples of a worker above the threshold.

use punctual_model::{Delay, Nanos};
use punctual_rt::Tid;

use super::worker::{Worker, number};
use crate::explain::RawOutlier;

/// Finds outliers, and keeps them until they are explained.
#[derive(Default)]
pub(super) struct OutlierFinder {
    /// Threshold for outliers; `None` if nothing requires them.
    threshold: Option<Nanos>,
    /// Late thread, and time span of the samples, if the worker specifies them.
    spans: Option<(Option<Tid>, Delay)>,
    /// Period of the worker, if it specifies one.
    period: Option<Nanos>,
    found: Vec<RawOutlier>,
    /// Number of outliers that are not time spans of a thread.
    beyond: u64,
}

impl OutlierFinder {
    /// Reports samples above this threshold from now on.
    pub(super) const fn note_above(&mut self, threshold: Nanos) {
        self.threshold = Some(threshold);
    }

    /// Sets the late thread, if there is one, and the time span of the samples.
    pub(super) const fn set_spans(&mut self, tid: Option<Tid>, delay: Delay) {
        self.spans = Some((tid, delay));
    }

    /// Sets the period of the worker.
    pub(super) const fn set_period(&mut self, period: Nanos) {
        self.period = Some(period);
    }

    /// Returns the late thread that the worker specified.
    pub(super) fn late_thread(&self) -> Option<Tid> {
        self.spans.and_then(|(tid, _)| tid)
    }

    /// Keeps a sample if it is an outlier and the late thread is known.
    pub(super) fn check(&mut self, worker: &Worker, expected: Nanos, latency: Nanos) {
        if self.threshold.is_none_or(|threshold| latency <= threshold) {
            return;
        }
        self.beyond += u64::from(matches!(self.spans, Some((None, _))));
        if let Some(tid) = self.spans.map_or(worker.tid, |(tid, _)| tid) {
            self.found.push(RawOutlier {
                thread: worker.thread,
                tid: number(tid),
                delay: self.spans.map(|(_, delay)| delay),
                cpu: worker.cpu,
                scheduling: worker.scheduling,
                expected,
                latency,
                story_from: expected,
                period: self.period.filter(|_| self.spans.is_none()),
            });
        }
    }

    /// Returns the outliers since the last call.
    pub(super) fn take(&mut self) -> Vec<RawOutlier> {
        std::mem::take(&mut self.found)
    }

    /// Returns the number of outliers since the last call that cannot be explained.
    pub(super) const fn take_beyond(&mut self) -> u64 {
        std::mem::replace(&mut self.beyond, 0)
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Policy, Scheduling};

    use super::*;

    fn worker(tid: Option<i32>) -> Worker {
        Worker {
            thread: 2,
            cpu: Some(1),
            scheduling: Scheduling {
                policy: Policy::Fifo,
                priority: 80,
            },
            tid: tid.and_then(Tid::from_raw),
            partner: None,
        }
    }

    fn tids(finder: &mut OutlierFinder) -> Vec<(u32, Nanos)> {
        let found = finder.take().into_iter();
        found.map(|one| (one.tid, one.latency)).collect()
    }

    #[test]
    fn sample_at_threshold_is_no_outlier() {
        let mut finder = OutlierFinder::default();
        finder.check(&worker(Some(7)), Nanos(0), Nanos(900));
        assert_eq!(tids(&mut finder), []);
        finder.note_above(Nanos(100));
        for latency in [99, 100, 101] {
            finder.check(&worker(Some(7)), Nanos(0), Nanos(latency));
        }
        assert_eq!(tids(&mut finder), [(7, Nanos(101))]);
        assert_eq!(tids(&mut finder), []);
    }

    #[test]
    fn specified_thread_is_the_late_one() {
        let mut finder = OutlierFinder::default();
        finder.note_above(Nanos(100));
        finder.set_spans(Tid::from_raw(9), Delay::Wakeup);
        finder.check(&worker(Some(7)), Nanos(0), Nanos(200));
        assert_eq!(tids(&mut finder), [(9, Nanos(200))]);
        assert_eq!(finder.take_beyond(), 0);
    }

    #[test]
    fn outlier_without_thread_is_only_counted() {
        let mut finder = OutlierFinder::default();
        finder.note_above(Nanos(100));
        finder.set_spans(None, Delay::Wakeup);
        finder.check(&worker(Some(7)), Nanos(0), Nanos(200));
        assert_eq!(tids(&mut finder), []);
        assert_eq!((finder.take_beyond(), finder.take_beyond()), (1, 0));
    }

    #[test]
    fn unknown_thread_has_no_outliers() {
        let mut finder = OutlierFinder::default();
        finder.note_above(Nanos(100));
        finder.check(&worker(None), Nanos(0), Nanos(200));
        assert_eq!((tids(&mut finder), finder.take_beyond()), (vec![], 0));
    }
}
