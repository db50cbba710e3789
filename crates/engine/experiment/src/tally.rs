//! Counts late slots while a block is measured.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_host::{Host, ThermalZone};
use punctual_model::{Nanos, Recording, Sample};
use punctual_session::{Snapshot, Watcher};

use crate::error::TrialError;

/// Interval at which temperatures are read.
const LOOK: Duration = Duration::from_secs(1);

/// Late wake-ups of all threads within this time count as one, because wake-ups with a common cause
/// cluster.
pub(crate) const SLOT: Nanos = Nanos::from_millis(10);

/// Maximum number of samples that are kept. If there are more, those with the largest latencies are
/// kept. A block with that many late samples is late throughout.
const MOST: usize = 200_000;

/// Maximum number of slots that one sample may cover.
const LONGEST: u64 = 100_000;

/// The samples of a block that may count as late.
#[derive(Debug, Default)]
pub(crate) struct LateCandidates {
    /// Latency and expected wake-up time of each sample. The sample with the smallest latency is
    /// removed first.
    latest: BinaryHeap<Reverse<(u64, u64)>>,
    span: Option<(u64, u64)>,
}

impl LateCandidates {
    pub(crate) fn add(&mut self, sample: Sample, floor: Nanos) {
        let expected = sample.expected.0;
        let (first, last) = self.span.unwrap_or((expected, expected));
        self.span = Some((first.min(expected), last.max(expected)));
        let latency = sample.latency.non_negative().unwrap_or_default();
        if latency > floor {
            self.latest.push(Reverse((latency.0, expected)));
            if self.latest.len() > MOST {
                self.latest.pop();
            }
        }
    }

    /// Returns the time from the first to the last sample.
    pub(crate) fn measured(&self) -> Nanos {
        self.span
            .map_or(Nanos::ZERO, |(first, last)| Nanos(last - first))
    }

    /// Returns the slots with a wake-up that was late by more than `threshold`. Slots are numbered
    /// from the first sample. A late wake-up counts in each slot from its expected time until it
    /// occurred.
    pub(crate) fn slots(&self, threshold: Nanos) -> BTreeSet<u64> {
        let first = self.span.map_or(0, |(first, _)| first);
        let late = self.latest.iter().map(|Reverse(one)| *one);
        late.filter(|(latency, _)| *latency > threshold.0)
            .flat_map(|(latency, expected)| covered(first, latency, expected))
            .collect()
    }

    /// Returns the numbers of late slots in the first and in the second half.
    pub(crate) fn halves(&self, threshold: Nanos) -> [u64; 2] {
        let half = self.measured().0 / 2 / SLOT.0;
        let slots = self.slots(threshold);
        let first = slots.iter().filter(|slot| **slot < half).count() as u64;
        [first, slots.len() as u64 - first]
    }

    /// Returns the number of late slots in each tenth.
    pub(crate) fn tenths(&self, threshold: Nanos) -> [u64; 10] {
        let mut counts = [0; 10];
        let all = (self.measured().0 / SLOT.0).max(1);
        for slot in self.slots(threshold) {
            counts[(slot * 10 / all).min(9) as usize] += 1;
        }
        counts
    }

    /// Returns the largest threshold that is exceeded in at least `count` slots, rounded down to
    /// two digits.
    pub(crate) fn threshold_for(&self, count: u64) -> Option<Nanos> {
        let first = self.span.map_or(0, |(first, _)| first);
        let mut all: Vec<(u64, u64)> = self.latest.iter().map(|Reverse(one)| *one).collect();
        all.sort_unstable_by_key(|one| Reverse(*one));
        let mut slots = BTreeSet::new();
        for (latency, expected) in all {
            slots.extend(covered(first, latency, expected));
            if slots.len() as u64 >= count {
                return Some(two_digits_below(latency)).filter(|below| *below > Nanos::ZERO);
            }
        }
        None
    }
}

fn covered(first: u64, latency: u64, expected: u64) -> impl Iterator<Item = u64> {
    let from = expected.saturating_sub(first) / SLOT.0;
    from..=from + (latency / SLOT.0).min(LONGEST)
}

/// Returns the largest number below `number` that has only two significant digits.
fn two_digits_below(number: u64) -> Nanos {
    let below = number.saturating_sub(1);
    let digits = below.checked_ilog10().unwrap_or(0);
    let unit = 10u64.pow(digits.saturating_sub(1));
    Nanos(below / unit * unit)
}

/// Collects samples, and forwards all calls to the inner watcher.
pub(crate) struct Tally<'a> {
    pub(crate) seen: LateCandidates,
    pub(crate) recording: Option<punctual_model::RecordingId>,
    /// Samples with at most this latency are never late.
    floor: Nanos,
    inner: &'a mut dyn Watcher,
    heat: Heat<'a>,
}

/// Ends a block if the machine gets too hot.
pub(crate) struct Heat<'a> {
    pub(crate) host: &'a Host,
    /// This is set when the machine is too hot.
    pub(crate) stop: &'a AtomicBool,
    looked: Option<Instant>,
    hot: Option<ThermalZone>,
}

impl<'a> Heat<'a> {
    pub(crate) fn new(host: &'a Host, stop: &'a AtomicBool) -> Self {
        Self {
            host,
            stop,
            looked: None,
            hot: None,
        }
    }

    /// Checks the temperatures, at most once a second.
    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        self.hot = self
            .host
            .thermal_zones()
            .into_iter()
            .find(ThermalZone::is_hot);
        if self.hot.is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Fails if the machine got too hot.
    pub(crate) fn check(mut self) -> Result<(), TrialError> {
        self.looked = None;
        if self.hot.is_none() {
            self.look();
        }
        let Some(zone) = self.hot else {
            return Ok(());
        };
        Err(TrialError::Hot {
            at: zone.milli_celsius / 1_000,
            limit: zone.trip_milli_celsius.unwrap_or(zone.milli_celsius) / 1_000,
            zone: zone.name,
        })
    }
}

impl<'a> Tally<'a> {
    pub(crate) fn new(floor: Nanos, inner: &'a mut dyn Watcher, heat: Heat<'a>) -> Self {
        Self {
            seen: LateCandidates::default(),
            recording: None,
            floor,
            inner,
            heat,
        }
    }

    /// Returns the samples, unless the machine got too hot.
    pub(crate) fn end(self) -> Result<LateCandidates, TrialError> {
        self.heat.check()?;
        Ok(self.seen)
    }
}

impl Watcher for Tally<'_> {
    fn begin(&mut self, recording: &Recording) {
        self.recording = Some(recording.id);
        self.inner.begin(recording);
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        self.heat.look();
        self.inner.progress(snapshot);
    }

    fn end(&mut self) {
        self.inner.end();
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn samples(&mut self, thread: u32, samples: &[Sample]) {
        for sample in samples {
            self.seen.add(*sample, self.floor);
        }
        self.inner.samples(thread, samples);
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::SignedNanos;

    use super::*;

    #[test]
    fn overheating_ends_the_block() {
        let folder = tempfile::tempdir().unwrap();
        let zone = folder.path().join("sys/class/thermal/thermal_zone0");
        std::fs::create_dir_all(&zone).unwrap();
        for (name, text) in [
            ("type", "soc"),
            ("temp", "70000"),
            ("trip_point_0_type", "passive"),
            ("trip_point_0_temp", "80000"),
        ] {
            std::fs::write(zone.join(name), text).unwrap();
        }
        let host = Host::new(folder.path());
        let stop = AtomicBool::new(false);
        let mut cool = Heat::new(&host, &stop);
        cool.look();
        assert!(!stop.load(Ordering::Relaxed));
        cool.check().unwrap();
        std::fs::write(zone.join("temp"), "81000").unwrap();
        let mut hot = Heat::new(&host, &stop);
        hot.look();
        assert!(stop.load(Ordering::Relaxed));
        let error = hot.check().unwrap_err().to_string();
        assert!(
            error.contains("soc (0) has reached its limit (81 of 80 °C)"),
            "{error}"
        );
    }

    fn seen(samples: &[(u64, i64)]) -> LateCandidates {
        let mut seen = LateCandidates::default();
        for (ms, micros) in samples {
            let sample = Sample {
                expected: Nanos::from_millis(1_000 + ms),
                latency: SignedNanos(micros * 1_000),
            };
            seen.add(sample, Nanos::ZERO);
        }
        seen
    }

    #[test]
    fn slot_lateness_counts_once_and_monotonically() {
        let few = seen(&[(0, 5), (21, 60), (23, 70), (95, 80), (100, -3)]);
        assert_eq!(few.slots(Nanos(50_000)).len(), 2);
        assert_eq!(few.halves(Nanos(50_000)), [1, 1]);
        assert_eq!(few.measured(), Nanos::from_millis(100));
        // In the first case, every wake-up is late. In the second, a single wake-up is late by 35
        // ms.
        let all: Vec<(u64, i64)> = (0..100).map(|ms| (ms, 60)).collect();
        assert_eq!(seen(&all).slots(Nanos(50_000)).len(), 10);
        assert_eq!(
            seen(&[(0, 1), (10, 35_000), (99, 1)])
                .slots(Nanos(50_000))
                .len(),
            4
        );
        assert_eq!(seen(&[]).halves(Nanos(1)), [0, 0]);
    }

    #[test]
    fn proposed_threshold_is_crossed_often_enough() {
        let samples: Vec<(u64, i64)> = (0..100).map(|n| (n * 10, 10 + n as i64)).collect();
        let seen = seen(&samples);
        let found = seen.threshold_for(10).unwrap();
        assert_eq!(found, Nanos(99_000));
        assert!(seen.slots(found).len() >= 10);
        assert_eq!(seen.threshold_for(101), None);
        assert_eq!(two_digits_below(123_456), Nanos(120_000));
        assert_eq!(two_digits_below(0), Nanos(0));
    }
}
