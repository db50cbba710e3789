//! Hardware counters of a job, compared with the usual job of the same thread.

use serde::{Deserialize, Serialize};

use crate::{Nanos, grouped};

/// A performance counter of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Cycles during which the processor was not halted.
    Cycles,
    /// Completed instructions.
    Instructions,
    /// Misses in the last level of cache.
    LlcMisses,
}

impl Counter {
    /// All counters.
    pub const ALL: [Self; 3] = [Self::Cycles, Self::Instructions, Self::LlcMisses];

    /// Returns the counter at an index of [`ALL`](Self::ALL).
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// Returns its index in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The value of a counter of one thread at one time. It rises only while the thread runs and the
/// processor has room for the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterReading {
    /// When it was read, on CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The thread.
    pub tid: u32,
    /// The counter.
    pub counter: Counter,
    /// Its value.
    pub value: u64,
    /// How long the thread has run since the counter was opened.
    pub enabled: Nanos,
    /// How long the processor counted. Less than `enabled` if several users share its counters.
    pub running: Nanos,
}

/// The counters over one job. A counter is null if it did not count during all of the job's time on
/// a CPU, or if the processor lacks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCounts {
    /// Completed instructions, in the program and in the kernel.
    pub instructions: Option<u64>,
    /// Cycles.
    pub cycles: Option<u64>,
    /// Misses in the last level of cache.
    pub llc_misses: Option<u64>,
    /// The time on a CPU, in ns, during which the cycles were counted.
    pub on_cpu_ns: Option<Nanos>,
}

impl JobCounts {
    /// Returns the mean frequency while the thread ran, in MHz.
    pub fn frequency_mhz(&self) -> Option<u64> {
        let (cycles, time) = (self.cycles?, self.on_cpu_ns?);
        let mhz = (u128::from(cycles) * 1_000).checked_div(u128::from(time.0))?;
        u64::try_from(mhz).ok()
    }
}

/// The counters of a slow job, and the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterComparison {
    /// The counters of the slow job.
    pub slow: JobCounts,
    /// The median of each counter over the earlier jobs of the thread.
    pub median: JobCounts,
    /// Number of these jobs.
    pub jobs: u64,
}

/// Information from hardware counters about a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HardwareCounters {
    /// The comparison with the usual job.
    Compared(CounterComparison),
    /// There is none, for this reason.
    Unknown(String),
}

impl std::fmt::Display for HardwareCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Compared(comparison) => comparison.fmt(f),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

impl std::fmt::Display for CounterComparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { slow, median, jobs } = self;
        let [instructions, cycles, misses] = [
            ("instructions", slow.instructions, median.instructions),
            ("cycles", slow.cycles, median.cycles),
            ("LLC misses", slow.llc_misses, median.llc_misses),
        ]
        .map(|(name, slow, median)| compared(name, slow, median));
        write!(f, "{instructions}, {cycles}, {misses}")?;
        match (slow.frequency_mhz(), median.frequency_mhz()) {
            (Some(slow), Some(median)) if is_same(slow, median) => write!(f, ", at {slow} MHz")?,
            (Some(slow), Some(median)) => write!(f, ", at {slow} MHz instead of {median} MHz")?,
            _ => write!(f, ", frequency unknown")?,
        }
        let jobs = grouped(*jobs);
        write!(f, " (compared with the median of {jobs} earlier jobs)")
    }
}

/// Two counts that differ by at most 5% are called the same: two equal jobs differ by interrupts.
fn is_same(slow: u64, median: u64) -> bool {
    u128::from(slow.abs_diff(median)) * 20 <= u128::from(median)
}

fn compared(name: &str, slow: Option<u64>, median: Option<u64>) -> String {
    let (Some(slow), Some(median)) = (slow, median) else {
        return format!("{name} unknown");
    };
    let ratio = slow as f64 / median as f64;
    match () {
        () if is_same(slow, median) => format!("same {name} ({})", grouped(slow)),
        () if median == 0 => format!("{} {name} instead of 0", grouped(slow)),
        () if ratio >= 10.0 => format!("{ratio:.0} times the {name}"),
        () if ratio >= 1.0 => format!("{ratio:.1} times the {name}"),
        () => format!("{ratio:.2} times the {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(instructions: u64, cycles: u64, misses: u64, micros: u64) -> JobCounts {
        JobCounts {
            instructions: Some(instructions),
            cycles: Some(cycles),
            llc_misses: Some(misses),
            on_cpu_ns: Some(Nanos::from_micros(micros)),
        }
    }

    fn sentence(slow: JobCounts, median: JobCounts) -> String {
        let jobs = 1_200;
        CounterComparison { slow, median, jobs }.to_string()
    }

    #[test]
    fn cache_misses_and_frequency_are_told_apart() {
        let usual = counts(1_000_000, 1_000_000, 250, 500);
        assert_eq!(
            sentence(counts(1_010_000, 3_100_000, 10_000, 1_550), usual),
            "same instructions (1,010,000), 3.1 times the cycles, 40 times the LLC misses, at 2000 \
             MHz (compared with the median of 1,200 earlier jobs)"
        );
        assert_eq!(
            sentence(counts(1_000_000, 1_000_000, 250, 1_000), usual),
            "same instructions (1,000,000), same cycles (1,000,000), same LLC misses (250), at 1000 \
             MHz instead of 2000 MHz (compared with the median of 1,200 earlier jobs)"
        );
        assert_eq!(
            sentence(
                counts(500_000, 2_000_000, 7, 1_000),
                counts(1_000_000, 1_000_000, 0, 500)
            ),
            "0.50 times the instructions, 2.0 times the cycles, 7 LLC misses instead of 0, at 2000 \
             MHz (compared with the median of 1,200 earlier jobs)"
        );
    }

    #[test]
    fn uncounted_values_are_unknown() {
        let usual = counts(0, 0, 0, 0);
        assert_eq!(
            sentence(JobCounts::default(), usual),
            "instructions unknown, cycles unknown, LLC misses unknown, frequency unknown (compared with \
             the median of 1,200 earlier jobs)"
        );
        assert_eq!(usual.frequency_mhz(), None);
        assert_eq!(counts(0, u64::MAX, 0, 0).frequency_mhz(), None);
        let text = sentence(counts(0, 0, 0, 0), usual);
        assert!(
            text.starts_with("same instructions (0), same cycles (0)"),
            "{text}"
        );
    }

    #[test]
    fn counters_have_an_index() {
        for (index, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter.index(), index);
            assert_eq!(Counter::from_index(index), Some(counter));
        }
        assert_eq!(Counter::from_index(Counter::ALL.len()), None);
    }

    #[test]
    fn missing_comparison_says_why() {
        let unknown = HardwareCounters::Unknown("no counter is free".to_owned());
        assert_eq!(unknown.to_string(), "unknown: no counter is free");
        let usual = counts(1_000, 2_000, 3, 1);
        let comparison = CounterComparison {
            slow: usual,
            median: usual,
            jobs: 1,
        };
        let text = HardwareCounters::Compared(comparison).to_string();
        assert_eq!(text, comparison.to_string());
        assert!(
            text.starts_with("same instructions (1,000), same cycles (2,000)"),
            "{text}"
        );
    }

    /// 5% is called the same, and more is not.
    #[test]
    fn counts_differ_from_five_percent_on() {
        for (slow, text) in [
            (950, "same x (950)"),
            (1_050, "same x (1,050)"),
            (1_051, "1.1 times the x"),
            (949, "0.95 times the x"),
            (9_990, "10.0 times the x"),
            (10_000, "10 times the x"),
        ] {
            assert_eq!(compared("x", Some(slow), Some(1_000)), text);
        }
        assert_eq!(compared("x", Some(1), None), "x unknown");
        assert_eq!(compared("x", None, Some(1)), "x unknown");
    }
}
