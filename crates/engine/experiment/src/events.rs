//! Records late periods while a run is in progress.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_model::{
    LateSeconds, Looks, LoopRequirement, MissLimit, Nanos, Rate, Recording, Sample, Windows,
};
use punctual_session::{Snapshot, Watcher};

/// Interval at which the rate is evaluated in a run that ends as soon as the result is decided.
const LOOK: Duration = Duration::from_secs(1);

/// Interval between progress lines when the output is not a terminal.
const SAY: Duration = Duration::from_secs(60);

/// The late periods of one condition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    /// Number of late periods on all threads.
    pub(crate) late: u64,
    /// Number of these that were missed.
    pub(crate) missed: u64,
    /// Largest number of consecutive late periods of a thread.
    pub(crate) longest_series: u64,
    /// The seconds with a late period on any thread.
    pub(crate) seconds: LateSeconds,
    /// The seconds in which a late period violated a window, and the worst window.
    violated: LateSeconds,
    windows: Windows,
    /// Due time of the first period that has been seen.
    start: Option<Nanos>,
}

/// The last late periods of one thread, by their number. The number of a period is its due time
/// divided by the length of a period.
#[derive(Clone, Debug, Default)]
struct Row {
    last: Option<u64>,
    /// Number of consecutive late periods up to the last one.
    series: u64,
    /// The late periods in the last window.
    window: VecDeque<u64>,
}

impl Row {
    /// Adds a late period. Returns the length of its series, and the number of late periods in the
    /// window that ends with it.
    fn add(&mut self, period: u64, limit: Option<MissLimit>) -> (u64, u64) {
        let follows = self.last.is_some_and(|last| last + 1 == period);
        self.series = if follows { self.series + 1 } else { 1 };
        self.last = Some(period);
        if let Some(limit) = limit {
            let first = (period + 1).saturating_sub(u64::from(limit.periods()));
            while self.window.front().is_some_and(|late| *late < first) {
                self.window.pop_front();
            }
            self.window.push_back(period);
        }
        (self.series, self.window.len() as u64)
    }
}

impl Noted {
    /// Adds a sample. If a wake-up is late by more than a period, the periods that were missed
    /// after it are late too.
    fn add(&mut self, row: &mut Row, sample: Sample, asked: &LoopRequirement) {
        let start = *self.start.get_or_insert(sample.expected);
        let period = asked.period_ns.0.max(1);
        let latency = sample.latency.non_negative().unwrap_or_default();
        if latency <= asked.budget_ns && latency < asked.period_ns {
            return;
        }
        let missed = latency.0 / period;
        self.missed = self.missed.saturating_add(missed);
        let number = sample.expected.0 / period;
        for after in 0..=missed {
            let due = Nanos(sample.expected.0.saturating_add(after * period)).saturating_sub(start);
            self.add_late(row, number + after, due, asked.misses);
        }
    }

    /// Returns the late periods of a thread, by their number since the start.
    #[cfg(test)]
    pub(crate) fn of_periods(late: impl Iterator<Item = u64>, asked: &LoopRequirement) -> Self {
        let (mut noted, mut row) = (Self::default(), Row::default());
        for number in late {
            let due = Nanos(number * asked.period_ns.0);
            noted.add_late(&mut row, number, due, asked.misses);
        }
        noted
    }

    fn add_late(&mut self, row: &mut Row, period: u64, due: Nanos, limit: Option<MissLimit>) {
        self.late += 1;
        self.seconds.add(due);
        let (series, in_window) = row.add(period, limit);
        self.longest_series = self.longest_series.max(series);
        self.windows.worst = self.windows.worst.max(in_window);
        if limit.is_some_and(|limit| in_window > u64::from(limit.late())) {
            self.violated.add(due);
            self.windows.first_violated_ns.get_or_insert(due);
        }
    }

    /// Adds the last periods of a run, for which a thread never woke up.
    pub(crate) fn add_open(&mut self, asked: &LoopRequirement, measured: Nanos, periods: u64) {
        let period = asked.period_ns.0.max(1);
        let all = measured.0 / period;
        let mut row = Row::default();
        for number in all.saturating_sub(periods)..all {
            self.add_late(&mut row, number, Nanos(number * period), asked.misses);
        }
        self.missed = self.missed.saturating_add(periods);
    }

    /// Returns the windows, if the number of late periods in them is limited.
    pub(crate) fn windows(&self, asked: &LoopRequirement) -> Option<Windows> {
        asked.misses.map(|_| Windows {
            violated_seconds: self.violated.count(),
            ..self.windows
        })
    }

    /// Returns the rate of the seconds that the requirement limits.
    pub(crate) fn rate(&self, asked: &LoopRequirement, measured: Nanos) -> Rate {
        self.limited(asked).rate(measured)
    }

    /// Returns the seconds that the requirement limits.
    pub(crate) const fn limited(&self, asked: &LoopRequirement) -> &LateSeconds {
        match asked.misses {
            None => &self.seconds,
            Some(_) => &self.violated,
        }
    }
}

/// Decides when a run may end.
pub(crate) struct UntilProven<'a> {
    pub(crate) looks: Looks,
    /// This is set when the result is decided.
    pub(crate) stop: &'a AtomicBool,
}

/// Records late periods by condition, and forwards all calls to the inner watcher.
pub(crate) struct Events<'a> {
    asked: &'a LoopRequirement,
    /// The names of the conditions, in the order in which they are measured.
    pub(crate) names: Vec<String>,
    pub(crate) noted: Vec<Noted>,
    /// The condition of each thread.
    of_thread: Vec<usize>,
    /// The last late periods of each thread.
    rows: Vec<Row>,
    pub(crate) until: Option<UntilProven<'a>>,
    inner: &'a mut dyn Watcher,
    say: &'a dyn Fn(&str),
    looked: Instant,
    said: Instant,
}

impl<'a> Events<'a> {
    pub(crate) fn new(
        asked: &'a LoopRequirement,
        names: Vec<String>,
        until: Option<UntilProven<'a>>,
        inner: &'a mut dyn Watcher,
        say: &'a dyn Fn(&str),
    ) -> Self {
        Self {
            asked,
            noted: vec![Noted::default(); names.len()],
            names,
            of_thread: Vec::new(),
            rows: Vec::new(),
            until,
            inner,
            say,
            looked: Instant::now(),
            said: Instant::now(),
        }
    }

    /// Evaluates the late periods of the last condition that have occurred so far.
    fn look(&mut self, snapshot: &Snapshot) {
        let Some(last) = self.noted.len().checked_sub(1) else {
            return;
        };
        let workers = (snapshot.workers.iter().zip(&self.of_thread))
            .filter(|(_, condition)| **condition == last)
            .map(|(worker, _)| worker.accounting.recorded + worker.accounting.missed);
        let Some(periods) = workers.min().filter(|periods| *periods > 0) else {
            return;
        };
        let measured = Nanos(self.asked.period_ns.0.saturating_mul(periods));
        let rate = self.noted[last].rate(self.asked, measured);
        if let Some(until) = &mut self.until
            && until.looks.look(&rate, Some(&rate))
        {
            until.stop.store(true, Ordering::Relaxed);
        }
        if self.said.elapsed() >= SAY {
            self.said = Instant::now();
            (self.say)(&self.line(&rate, last));
        }
    }

    /// Formats the progress line.
    fn line(&self, rate: &Rate, condition: usize) -> String {
        let looks = self.until.as_ref().map(|until| until.looks);
        let needed = looks.and_then(|looks| looks.needed(rate));
        let left = match (needed, rate.doubt()) {
            (_, Some(doubt)) => format!("; {}", doubt.sentence(self.asked.unit())),
            (Some(needed), None) => format!(
                "; {:.0} more minutes prove the requirement if no period is late",
                needed.saturating_sub(rate.measured).as_secs_f64() / 60.0
            ),
            (None, None) => String::new(),
        };
        format!(
            "{}: {:.0} s measured, {} {}{left}",
            self.names[condition],
            rate.measured.as_secs_f64(),
            punctual_model::grouped(rate.events),
            self.asked.unit()
        )
    }
}

impl Watcher for Events<'_> {
    fn begin(&mut self, recording: &Recording) {
        let place = |title: String| {
            let of = |name: &String| title.starts_with(&format!("{name}: "));
            self.names.iter().position(of).unwrap_or(0)
        };
        self.of_thread = (recording.threads.iter())
            .map(|thread| place(thread.title()))
            .collect();
        self.rows = vec![Row::default(); self.of_thread.len()];
        self.inner.begin(recording);
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.look(snapshot);
        }
        self.inner.progress(snapshot);
    }

    fn end(&mut self) {
        self.inner.end();
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn samples(&mut self, thread: u32, samples: &[Sample]) {
        let condition = self.of_thread.get(thread as usize).copied();
        let noted = condition.and_then(|place| self.noted.get_mut(place));
        if let (Some(noted), Some(row)) = (noted, self.rows.get_mut(thread as usize)) {
            for sample in samples {
                noted.add(row, *sample, self.asked);
            }
        }
        self.inner.samples(thread, samples);
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::SignedNanos;

    use super::*;

    fn asked(budget: Nanos, misses: Option<&str>) -> LoopRequirement {
        LoopRequirement {
            period_ns: Nanos::from_millis(1),
            budget_ns: budget,
            jobs: false,
            max_late_seconds_per_day: Some(10.0),
            misses: misses.map(|text| text.parse().unwrap()),
            max_misses_per_day: None,
            sample: None,
        }
    }

    fn sample(ms: u64, latency: i64) -> Sample {
        Sample {
            expected: Nanos::from_millis(ms),
            latency: SignedNanos(latency),
        }
    }

    #[test]
    fn final_wake_up_makes_missed_periods_late() {
        let (mut noted, mut row) = (Noted::default(), Row::default());
        let strict = asked(Nanos(100_000), None);
        for (ms, latency) in [
            (10, 5_000),
            (11, -200),
            (12, 150_000),
            (13, 3_400_000),
            (17, 9_000),
        ] {
            noted.add(&mut row, sample(ms, latency), &strict);
        }
        // Periods 12 to 16 are late.
        assert_eq!((noted.late, noted.missed, noted.longest_series), (5, 3, 5));
        // A missed period counts as late no matter how large the budget is.
        let lax = asked(Nanos::from_secs(1), None);
        noted.add(&mut row, sample(2_030, 1_200_000), &lax);
        assert_eq!((noted.late, noted.longest_series), (7, 5));
        assert_eq!(noted.seconds.seconds(), [0, 2]);
    }

    /// A loop that is always late has as many late seconds as the run has seconds, on any number
    /// of threads.
    #[test]
    fn constant_lateness_makes_each_second_late() {
        let strict = asked(Nanos(100_000), Some("2/10"));
        let mut noted = Noted::default();
        for _ in 0..2 {
            let mut row = Row::default();
            for ms in 0..60_000 {
                noted.add(&mut row, sample(5_000 + ms, 200_000), &strict);
            }
        }
        assert_eq!((noted.late, noted.longest_series), (120_000, 60_000));
        assert_eq!(noted.seconds.count(), 60);
        let windows = noted.windows(&strict).unwrap();
        assert_eq!((windows.worst, windows.violated_seconds), (10, 60));
        assert_eq!(windows.first_violated_ns, Some(Nanos::from_millis(2)));
    }

    /// Compares the windows with a count of each window.
    #[test]
    fn windows_are_those_of_the_definition() {
        let mut random = fastrand::Rng::with_seed(3);
        for limit in ["0/1", "1/2", "2/5", "3/40"] {
            let asked = asked(Nanos(100_000), Some(limit));
            let limit = asked.misses.unwrap();
            let late: Vec<bool> = (0..3_000).map(|_| random.u64(..7) == 0).collect();
            let (mut noted, mut row) = (Noted::default(), Row::default());
            for (ms, late) in (0..).zip(&late) {
                let latency = if *late { 200_000 } else { 5_000 };
                noted.add(&mut row, sample(ms, latency), &asked);
            }
            let count = |end: usize| {
                let first = (end + 1).saturating_sub(limit.periods() as usize);
                late[first..=end].iter().filter(|late| **late).count() as u64
            };
            let worst = (0..late.len()).map(count).max().unwrap();
            let violated = (0..late.len()).find(|end| count(*end) > u64::from(limit.late()));
            let found = noted.windows(&asked).unwrap();
            assert_eq!(found.worst, worst, "{limit}");
            let violated = violated.map(|ms| Nanos::from_millis(ms as u64));
            assert_eq!(found.first_violated_ns, violated, "{limit}");
        }
    }

    #[test]
    fn periods_without_wake_up_are_late_at_the_end() {
        let strict = asked(Nanos(100_000), None);
        let mut noted = Noted::default();
        noted.add_open(&strict, Nanos::from_secs(60), 2_500);
        assert_eq!((noted.late, noted.longest_series), (2_500, 2_500));
        assert_eq!(noted.seconds.seconds(), [57, 58, 59]);
        // More open periods than the run has.
        noted.add_open(&strict, Nanos::from_secs(1), u64::MAX);
        assert_eq!(noted.seconds.seconds(), [0, 57, 58, 59]);
    }
}
