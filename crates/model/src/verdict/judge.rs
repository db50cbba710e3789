//! From what was measured to the verdict.

use super::{Bound, LimitResult, Outcome, Verdict};
use crate::poisson::poisson_at_least;
use crate::{
    Due, Limit, Metric, Nanos, Requirement, Series, Suspension, ThreadRecord, WorstSample, grouped,
};

/// A percentile is judged where at least so many periods are expected above it.
const LEAST_ABOVE: f64 = 10.0;

/// A limit is taken for broken where chance would do it as rarely as this.
const CHANCE: f64 = 0.05;

/// What a requirement is judged by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grounds<'a> {
    pub(crate) threads: &'a [ThreadRecord],
    /// How long each was measured; empty where that is not known.
    pub(crate) measured: Vec<Option<Nanos>>,
    pub(crate) series: Option<&'a Series>,
    /// Whether missed periods are not counted.
    pub(crate) missed_unknown: bool,
    /// Whether the threads measure the same.
    pub(crate) alike: bool,
    /// The break value, and whether it ended the run.
    pub(crate) break_value: Option<(Nanos, bool)>,
    /// When nothing could be measured.
    pub(crate) suspensions: &'a [Suspension],
    pub(crate) worst: &'a [WorstSample],
}

impl Grounds<'_> {
    /// The largest latency above `limit` outside all suspensions.
    fn above_outside(&self, limit: Nanos) -> Option<&WorstSample> {
        let above = self.worst.iter().filter(|sample| sample.latency_ns > limit);
        let outside = above.filter(|sample| !sample.is_suspended(self.suspensions));
        outside.max_by_key(|sample| sample.latency_ns)
    }

    /// Takes back what a suspension leaves open: what was stopped held nothing, and
    /// only the largest latencies tell whether they are of that time.
    fn suspend(&self, due: &[Due], result: &mut LimitResult) {
        let Some(longest) = self.suspensions.iter().max_by_key(|one| one.length_ns) else {
            return;
        };
        let broken = result.held == Some(false);
        if broken
            && matches!(result.limit.metric, Metric::Max | Metric::Break)
            && let Some(sample) = self.above_outside(Nanos(result.limit.at_most))
        {
            result.measured = Some(sample.latency_ns.0);
            result.thread = Some(sample.thread);
            result.periods = due.get(sample.thread as usize).map(Due::periods);
            return;
        }
        if result.held.is_some() {
            (result.held, result.lacking) = (None, Some(longest.lacking()));
        }
    }

    fn measured(&self, place: usize) -> Option<Nanos> {
        self.measured.get(place).copied().flatten()
    }

    /// How many episodes above `limit` there were at the least: rows of the time
    /// series that follow each other count as one.
    fn episodes_above(&self, place: usize, limit: Nanos) -> u64 {
        let series = self.series.map_or(&[][..], |series| &series.rows);
        let length = self.series.map_or(Nanos::ZERO, |series| series.interval_ns);
        let mut last_end = None;
        let mut episodes = 0;
        for row in series.iter().filter(|row| row.thread as usize == place) {
            if row.histogram.iter().any(|(lower, _, _)| lower > limit.0) {
                episodes += u64::from(last_end != Some(row.start_ns));
                last_end = Some(Nanos(row.start_ns.0.saturating_add(length.0)));
            }
        }
        episodes.max(1)
    }

    /// How often the largest latency of all threads is exceeded at most; of the
    /// thread with the largest, where they are not alike.
    fn bound(&self, due: &[Due]) -> Option<Bound> {
        let worst = (0..due.len()).max_by_key(|place| due[*place].max())?;
        let max = due[worst].max()?;
        if !self.alike && due.len() > 1 {
            let title = self.threads[worst].title();
            let unknown = undecided(&due[worst]);
            return Bound::of(max, self.measured(worst)?, unknown, Some(title));
        }
        let with_periods = (0..due.len()).filter(|place| due[*place].periods() > 0);
        let times: Option<Vec<Nanos>> = with_periods.map(|place| self.measured(place)).collect();
        let unknown = due.iter().map(undecided).fold(0, u64::saturating_add);
        Bound::of(max, times?.into_iter().min()?, unknown, None)
    }
}

impl Requirement {
    /// Judges threads of which nothing else is known: not for how long they
    /// measured, nor when.
    pub fn judge(&self, threads: &[ThreadRecord]) -> Verdict {
        self.judge_by(&Grounds {
            threads,
            ..Grounds::default()
        })
    }

    /// Judges what was measured.
    pub(crate) fn judge_by(&self, grounds: &Grounds<'_>) -> Verdict {
        let due: Vec<Due> = grounds.threads.iter().map(ThreadRecord::due).collect();
        let mut limits: Vec<LimitResult> = self
            .limits
            .iter()
            .map(|limit| limit.judge(grounds, &due))
            .collect();
        limits.extend(break_result(grounds, &due));
        (limits.iter_mut()).for_each(|result| grounds.suspend(&due, result));
        let any = |held: Option<bool>| limits.iter().any(|result| result.held == held);
        let outcome = if limits.is_empty() {
            Outcome::NoRequirement
        } else if any(Some(false)) {
            // A limit known to be broken stays broken, whatever else is unknown.
            Outcome::Broken
        } else if any(None) {
            Outcome::NotProven
        } else {
            Outcome::Held
        };
        Verdict {
            outcome,
            sentence: sentence(outcome, &limits, grounds.threads),
            bound: grounds.bound(&due),
            limits,
        }
    }
}

/// A limit on one thread.
struct Single {
    measured: Option<u64>,
    held: Option<bool>,
    lacking: Option<String>,
}

impl Single {
    fn nothing() -> Self {
        Self {
            measured: None,
            held: None,
            lacking: None,
        }
    }

    fn of(measured: u64, held: Option<bool>, lacking: impl FnOnce() -> String) -> Self {
        Self {
            measured: Some(measured),
            held,
            lacking: held.is_none().then(lacking),
        }
    }

    /// Broken comes before not proven, and that before held; then the larger.
    fn order(&self) -> (u8, Option<u64>) {
        let class = match self.held {
            Some(false) => 2,
            None => 1,
            Some(true) => 0,
        };
        (class, self.measured)
    }
}

impl Limit {
    fn judge(self, grounds: &Grounds<'_>, due: &[Due]) -> LimitResult {
        let singles: Vec<Single> = (0..due.len())
            .map(|place| self.judge_one(grounds, place, &due[place]))
            .collect();
        let worst = (0..singles.len()).max_by_key(|place| {
            // The first of several that are equal.
            (singles[*place].order(), std::cmp::Reverse(*place))
        });
        let nothing = Single::nothing();
        let single = worst.map_or(&nothing, |worst| &singles[worst]);
        LimitResult {
            limit: self,
            measured: single.measured,
            thread: worst.map(|place| place as u32),
            held: single.held,
            periods: worst.map(|place| due[place].periods()),
            lacking: single.lacking.clone(),
        }
    }

    fn judge_one(self, grounds: &Grounds<'_>, place: usize, due: &Due) -> Single {
        if due.periods() == 0 {
            return Single::nothing();
        }
        match self.metric {
            Metric::Max => self.judge_max(due),
            Metric::Percentile(percent) => self.judge_percentile(percent, grounds, place, due),
            Metric::Missed => {
                let missed = grounds.threads[place].accounting.missed;
                let held = (missed > self.at_most || !grounds.missed_unknown)
                    .then_some(missed <= self.at_most);
                Single::of(missed, held, missed_unknown)
            }
            Metric::Break => {
                let max = due.max().map_or(0, |max| max.0);
                Single::of(max, Some(max <= self.at_most), String::new)
            }
        }
    }

    fn judge_max(self, due: &Due) -> Single {
        let Some(Nanos(max)) = due.max() else {
            return Single::nothing();
        };
        let held = match max > self.at_most {
            true => Some(false),
            false => (undecided(due) == 0).then_some(true),
        };
        Single::of(max, held, || latency_unknown(due))
    }

    fn judge_percentile(
        self,
        percent: f64,
        grounds: &Grounds<'_>,
        place: usize,
        due: &Due,
    ) -> Single {
        let Some(bounds) = due.quantile(percent / 100.0) else {
            return Single::nothing();
        };
        let limit = Nanos(self.at_most);
        let share_above = (100.0 - percent) / 100.0;
        let expected = due.periods() as f64 * share_above;
        let measured = bounds.at_least.0;
        if expected < LEAST_ABOVE * (1.0 - 1e-9) {
            let above = due.above(limit);
            let episodes = grounds.episodes_above(place, limit).min(above);
            // More above than a run that is long enough may have, or more
            // episodes than chance makes of so rare ones.
            let broken = above as f64 > LEAST_ABOVE
                || (above > 0 && poisson_at_least(episodes, expected) <= CHANCE);
            return Single::of(measured, broken.then_some(false), || {
                too_few(due.periods(), share_above, grounds.measured(place))
            });
        }
        let possible = bounds.at_most.is_some_and(|at_most| at_most <= limit);
        let held = match bounds.at_least > limit {
            true => Some(false),
            false => (possible && !grounds.missed_unknown).then_some(true),
        };
        Single::of(measured, held, || match possible {
            true => missed_unknown(),
            false => latency_unknown(due),
        })
    }
}

/// The break value is a requirement of its own.
fn break_result(grounds: &Grounds<'_>, due: &[Due]) -> Option<LimitResult> {
    let (value, crossed) = grounds.break_value?;
    let limit = Limit {
        metric: Metric::Break,
        at_most: value.0,
    };
    let mut result = limit.judge(grounds, due);
    if crossed {
        result.held = Some(false);
    }
    Some(result)
}

fn missed_unknown() -> String {
    "how many periods were missed is not known".to_owned()
}

/// How many may be later than all that is known.
fn undecided(due: &Due) -> u64 {
    due.unknown().saturating_add(due.open())
}

fn latency_unknown(due: &Due) -> String {
    let periods = |count: u64| match count {
        1 => "1 missed period".to_owned(),
        count => format!("{} missed periods", grouped(count)),
    };
    let unknown =
        (due.unknown() > 0).then(|| format!("{} of unknown latency", periods(due.unknown())));
    let open = due.open_at_least().map(|late| {
        format!(
            "{} without a wake-up at the end of the run, late by at least {late}",
            periods(due.open())
        )
    });
    let all: Vec<String> = unknown.into_iter().chain(open).collect();
    all.join(", ")
}

/// `10,000,000 due periods needed, 2,700 measured: measure 2 h 47 min`.
fn too_few(periods: u64, share_above: f64, measured: Option<Nanos>) -> String {
    let exact = LEAST_ABOVE / share_above;
    // 10 / 0.001 is 10000.000000000001 in floating point.
    let needed = (exact * (1.0 - 1e-9)).ceil();
    let mut text = format!(
        "{} due periods needed, {} measured",
        grouped(needed as u64),
        grouped(periods)
    );
    if let Some(measured) = measured {
        let seconds = measured.as_secs_f64() / periods.max(1) as f64 * needed;
        text.push_str(&format!(": measure {}", length(seconds)));
    }
    text
}

/// `43 min`, `2 h 47 min`; rounded up, for it is advice on how long to measure.
fn length(seconds: f64) -> String {
    // A run is never exactly as long as it was to be.
    let seconds = (seconds * (1.0 - 1e-3)).ceil() as u64;
    let minutes = seconds.div_ceil(60);
    let hours = minutes.div_ceil(60);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{minutes} min"),
        7_200..172_800 => match minutes % 60 {
            0 => format!("{} h", minutes / 60),
            rest => format!("{} h {rest} min", minutes / 60),
        },
        _ => format!("{} days", grouped(hours.div_ceil(24))),
    }
}

fn sentence(outcome: Outcome, limits: &[LimitResult], threads: &[ThreadRecord]) -> String {
    let list = |held: Option<bool>| {
        limits
            .iter()
            .filter(|result| result.held == held)
            .map(|result| result.sentence(threads))
            .collect::<Vec<_>>()
            .join("; ")
    };
    match outcome {
        Outcome::NoRequirement => "measured; no requirement was given".to_owned(),
        Outcome::Held => format!("requirement held: {}", list(Some(true))),
        Outcome::Broken => format!("requirement broken: {}", list(Some(false))),
        Outcome::NotProven => format!("requirement not proven: {}", list(None)),
    }
}
