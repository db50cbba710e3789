//! The lines that the tools print during and after the measurement.

use std::fmt;

use punctual_formats::mean_us;
use punctual_model::{Nanos, Recording, SignedNanos, ThreadRecord};
use punctual_session::{Snapshot, WorkerView};
use serde::Serialize;

/// The unit of a tool's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Whole microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl Unit {
    /// Returns one unit in ns.
    pub(crate) fn one(self) -> Nanos {
        match self {
            Self::Micros => Nanos::from_micros(1),
            Self::Nanos => Nanos(1),
        }
    }

    /// Converts a time to this unit. Rounds towards zero, like a division in C.
    pub(crate) fn convert(self, time: SignedNanos) -> i64 {
        time.0 / self.one().0 as i64
    }

    /// Converts a time to this unit, rounded down.
    pub(crate) fn whole(self, time: Nanos) -> u64 {
        time.0 / self.one().0
    }

    /// Converts a limit in this unit to the latency above which a run ends; `None` if the limit is
    /// 0.
    pub(crate) fn break_above(self, limit: u64) -> Option<Nanos> {
        (limit > 0).then(|| self.above(limit))
    }

    /// Returns the largest latency for which `latency > limit` is false in a tool that counts in
    /// this unit.
    pub(crate) fn above(self, limit: u64) -> Nanos {
        let one = self.one().0;
        Nanos(limit.saturating_add(1).saturating_mul(one) - 1)
    }
}

/// The figures of one thread, as in a `T:` line of cyclictest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadLine {
    /// Index of the thread.
    pub(crate) index: usize,
    /// Thread ID; 0 before the thread has started.
    pub(crate) tid: i32,
    /// Priority.
    pub(crate) priority: u8,
    /// Interval in µs.
    pub(crate) interval_us: u64,
    /// Number of samples.
    pub(crate) cycles: u64,
    /// Smallest sample; 1000000 before the first sample.
    pub(crate) min: i64,
    /// Latest sample.
    pub(crate) act: i64,
    /// Mean, rounded down.
    pub(crate) avg: u64,
    /// Largest sample.
    pub(crate) max: u64,
    /// Unit of these figures.
    pub(crate) unit: Unit,
    /// SMIs of its CPU, if they are counted.
    pub(crate) smis: Option<u64>,
}

/// The initial minimum of the tools.
pub(crate) const NO_MINIMUM: u64 = 1_000_000;

impl ThreadLine {
    /// Creates the line of a thread that has no samples yet.
    pub(crate) fn new(place: usize, priority: u8, interval_us: u64, unit: Unit) -> Self {
        Self {
            index: place,
            tid: 0,
            priority,
            interval_us,
            cycles: 0,
            min: NO_MINIMUM as i64,
            act: 0,
            avg: 0,
            max: 0,
            unit,
            smis: None,
        }
    }

    /// Updates the line during the run.
    pub(crate) fn update(&mut self, worker: &WorkerView) {
        let unit = self.unit;
        self.tid = worker.tid.map_or(0, punctual_rt::Tid::as_raw);
        self.cycles = worker.accounting.recorded;
        self.min = worker.min.map_or(self.min, |min| unit.whole(min) as i64);
        self.act = worker.last.map_or(0, |last| unit.convert(last));
        self.avg = worker.mean.map_or(0, |mean| unit.whole(mean));
        self.max = worker.max.map_or(0, |max| unit.whole(max));
    }

    /// Sets the figures from the recording, which has all samples.
    pub(crate) fn settle(&mut self, recording: &Recording) {
        let Some(thread) = recording.threads.get(self.index) else {
            return;
        };
        let histogram = &thread.histogram;
        let whole = |time: Option<Nanos>| time.map_or(0, |time| self.unit.whole(time));
        let (mean, max) = (whole(histogram.mean()), whole(histogram.max()));
        self.min = histogram
            .min()
            .map_or(self.min, |min| self.unit.whole(min) as i64);
        self.cycles = thread.accounting.recorded;
        (self.avg, self.max) = (mean, max);
    }
}

/// Updates all lines.
pub(crate) fn update(lines: &mut [ThreadLine], snapshot: &Snapshot) {
    for (line, worker) in lines.iter_mut().zip(&snapshot.workers) {
        line.update(worker);
    }
}

/// Figures of a thread in whole µs, in the order of the JSON keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Number of samples on which the other figures are based. Early samples are reported under the
    /// key `punctual`.
    pub(crate) cycles: u64,
    /// Smallest sample; 1000000 if there are no samples.
    pub(crate) min: u64,
    /// Largest sample.
    pub(crate) max: u64,
    /// Mean, with decimals; at most `max`.
    pub(crate) avg: f64,
}

impl Figures {
    /// Returns the figures of a thread of a recording.
    pub(crate) fn from_thread(thread: &ThreadRecord) -> Self {
        let histogram = &thread.histogram;
        Self {
            cycles: histogram.count(),
            min: histogram.min().map_or(NO_MINIMUM, Nanos::whole_micros),
            max: histogram.max().map_or(0, Nanos::whole_micros),
            avg: mean_us(histogram),
        }
    }
}

impl ThreadLine {
    /// Formats a line that several tools print. `middle` is the part between the thread and its
    /// cycles, which differs between the tools.
    pub(crate) fn with_middle(&self, middle: fmt::Arguments<'_>) -> String {
        let Self {
            index: place,
            tid,
            cycles,
            min,
            act,
            avg,
            max,
            unit,
            ..
        } = self;
        let width = match unit {
            Unit::Micros => 5,
            Unit::Nanos => 8,
        };
        format!(
            "T:{place:2} ({tid:5}) {middle} C:{cycles:7} Min:{min:7} Act:{act:width$} \
             Avg:{avg:width$} Max:{max:8}"
        )
    }
}

/// Equivalent of `print_stat` in `src/cyclictest/cyclictest.c`.
impl fmt::Display for ThreadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            priority,
            interval_us,
            smis,
            ..
        } = self;
        f.write_str(&self.with_middle(format_args!("P:{priority:2} I:{interval_us}")))?;
        match smis {
            Some(smis) => write!(f, " SMI:{smis:8}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that cyclictest 2.4 and 2.10 have printed.
    #[test]
    fn lines_are_the_originals() {
        let line = |unit| ThreadLine {
            tid: 11_363,
            cycles: 99_959,
            min: 4,
            act: 6,
            avg: 6,
            max: 1_923,
            ..ThreadLine::new(0, 95, 200, unit)
        };
        assert_eq!(
            line(Unit::Micros).to_string(),
            "T: 0 (11363) P:95 I:200 C:  99959 Min:      4 Act:    6 Avg:    6 Max:    1923"
        );
        assert_eq!(
            ThreadLine::new(1, 95, 700, Unit::Micros).to_string(),
            "T: 1 (    0) P:95 I:700 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0"
        );
        let smis = ThreadLine {
            smis: Some(12),
            ..ThreadLine::new(0, 0, 1_000, Unit::Micros)
        };
        assert!(smis.to_string().ends_with(" Max:       0 SMI:      12"));
        let nanos = ThreadLine {
            tid: 10_161,
            cycles: 20,
            min: 90_054,
            act: 108_529,
            avg: 106_930,
            max: 136_626,
            ..ThreadLine::new(0, 0, 1_000, Unit::Nanos)
        };
        assert_eq!(
            nanos.to_string(),
            "T: 0 (10161) P: 0 I:1000 C:     20 Min:  90054 Act:  108529 Avg:  106930 Max:  136626"
        );
    }

    #[test]
    fn limit_crossing_matches_the_original() {
        assert_eq!(Unit::Micros.above(50), Nanos(50_999));
        assert_eq!(Unit::Nanos.above(50), Nanos(50));
        assert_eq!(Unit::Micros.convert(SignedNanos(-1_999)), -1);
    }
}
