//! Records late periods while a run is in progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_model::{Episodes, Looks, LoopRequirement, Nanos, Rate, Recording, Sample};
use punctual_session::{Snapshot, Watcher};

/// Maximum number of late periods that are recorded per condition. Any others are only counted.
const MOST: usize = 1_000_000;

/// Interval at which the rate is evaluated in a run that ends as soon as the result is decided.
const LOOK: Duration = Duration::from_secs(1);

/// Interval between progress lines when the output is not a terminal.
const SAY: Duration = Duration::from_secs(60);

/// The late periods of one condition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    /// The numbers of the late periods. The number of a period is its expected wake-up time on
    /// CLOCK_MONOTONIC divided by the length of a period.
    pub(crate) late: Vec<u64>,
    /// Number of late periods that were not recorded.
    pub(crate) beyond: u64,
    /// The first and the last period that have been seen.
    pub(crate) span: Option<(u64, u64)>,
}

impl Noted {
    /// Adds a sample. If a wake-up is late by more than a period, the periods that were missed
    /// after it are late too.
    fn add(&mut self, sample: Sample, period: Nanos, budget: Nanos) {
        let number = sample.expected.0 / period.0.max(1);
        let (first, last) = self.span.unwrap_or((number, number));
        self.span = Some((first.min(number), last.max(number)));
        let latency = sample.latency.non_negative().unwrap_or_default();
        if latency <= budget && latency < period {
            return;
        }
        let missed = (latency.0 / period.0.max(1)).min(MOST as u64);
        for late in number..=number + missed {
            if self.late.len() < MOST {
                self.late.push(late)
            } else {
                self.beyond += 1
            }
        }
    }

    /// Returns the rate of episodes of late periods during the measured time.
    pub(crate) fn rate(&self, asked: &LoopRequirement, measured: Nanos) -> Rate {
        let time = |number: u64| Nanos(number.saturating_mul(asked.period_ns.0));
        let late: Vec<Nanos> = self.late.iter().map(|number| time(*number)).collect();
        let start = self.span.map_or(Nanos::ZERO, |(first, _)| time(first));
        let episodes = Episodes::new(&late, asked.episode_gap_ns);
        Rate::from_times(&episodes.begins(start), measured, asked.episode_gap_ns)
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
        let allowed = self.asked.max_misses_per_day;
        if let Some(until) = &mut self.until
            && until.looks.look(&rate, allowed)
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
        let needed = looks.and_then(|looks| looks.needed(rate, self.asked.max_misses_per_day));
        let left = match (needed, rate.doubt()) {
            (_, Some(doubt)) => format!("; {}", doubt.sentence("episodes")),
            (Some(needed), None) => format!(
                "; {:.0} more minutes prove the requirement if no miss occurs",
                needed.saturating_sub(rate.measured).as_secs_f64() / 60.0
            ),
            (None, None) => String::new(),
        };
        format!(
            "{}: {:.0} s measured, {} of misses{left}",
            self.names[condition],
            rate.measured.as_secs_f64(),
            crate::wording::episodes(&punctual_model::grouped(rate.events))
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
        if let Some(noted) = condition.and_then(|place| self.noted.get_mut(place)) {
            for sample in samples {
                noted.add(*sample, self.asked.period_ns, self.asked.budget_ns);
            }
        }
        self.inner.samples(thread, samples);
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::SignedNanos;

    use super::*;

    #[test]
    fn final_wake_up_makes_missed_periods_late() {
        let mut noted = Noted::default();
        let sample = |ms: u64, latency: i64| Sample {
            expected: Nanos::from_millis(ms),
            latency: SignedNanos(latency),
        };
        for (ms, latency) in [
            (10, 5_000),
            (11, -200),
            (12, 150_000),
            (13, 3_400_000),
            (17, 9_000),
        ] {
            noted.add(sample(ms, latency), Nanos::from_millis(1), Nanos(100_000));
        }
        assert_eq!(noted.late, [12, 13, 14, 15, 16]);
        let asked = LoopRequirement {
            period_ns: Nanos::from_millis(1),
            budget_ns: Nanos(100_000),
            max_misses_per_day: 10.0,
            episode_gap_ns: Nanos::from_millis(3),
        };
        let measured = Nanos::from_millis(8);
        assert_eq!(
            (noted.span, noted.rate(&asked, measured).events),
            (Some((10, 17)), 1)
        );
        // A missed period counts as late no matter how large the budget is.
        noted.add(
            sample(30, 1_200_000),
            Nanos::from_millis(1),
            Nanos::from_secs(1),
        );
        assert_eq!(noted.late.last(), Some(&31));
    }
}
