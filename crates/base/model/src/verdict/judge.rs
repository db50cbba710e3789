//! Judges a measurement by its limits.

use super::grounds::{Grounds, Single, missed_unknown, undecided};
use super::length::length;
use super::machine::Proof;
use super::{LimitResult, Outcome, Verdict};
use crate::histogram::rank_of;
use crate::{Due, Limit, Metric, Nanos, Requirement, ThreadRecord, grouped, percent};

/// Minimum number of periods that must be expected above a percentile for it to be judged.
const LEAST_ABOVE: f64 = 10.0;

impl Requirement {
    /// Judges threads without other data, such as their measuring time.
    pub fn judge(&self, threads: &[ThreadRecord]) -> Verdict {
        self.judge_by(&Grounds {
            threads,
            ..Grounds::default()
        })
    }

    /// Judges a measurement.
    pub(crate) fn judge_by(&self, grounds: &Grounds<'_>) -> Verdict {
        let due: Vec<Due> = grounds.threads.iter().map(ThreadRecord::due).collect();
        let claim = self.confidence.map(|confidence| Proof {
            error: 1.0 - confidence,
            threads: due.len(),
        });
        let judge = |limit: &Limit| limit.judge(claim, grounds, &due);
        let mut limits: Vec<LimitResult> = self.limits.iter().map(judge).collect();
        limits.extend(break_result(claim, grounds, &due));
        (limits.iter_mut()).for_each(|result| grounds.suspend(&due, result));
        let outcome = Outcome::new(&limits, claim.is_some());
        let claim_of = |result: &LimitResult| {
            let place = result.thread.unwrap_or_default() as usize;
            result.claim(self.confidence, grounds.measured(place), grounds.threads)
        };
        let claims: Vec<super::Claim> = limits.iter().map(claim_of).collect();
        let ground = self.confidence.map_or_else(String::new, |confidence| {
            let mut conditions = claims.iter().filter(|claim| claim.decides);
            let condition = conditions.find_map(|claim| claim.condition.as_deref());
            let condition = condition.map_or_else(String::new, |text| format!(", {text}"));
            format!(" ({} confidence{condition})", percent(confidence))
        });
        Verdict {
            outcome,
            sentence: sentence(outcome, &limits, grounds.threads, &ground),
            claims,
            bound: grounds.bound(&due),
            limits,
        }
    }
}

impl Limit {
    fn judge(self, claim: Option<Proof>, grounds: &Grounds<'_>, due: &[Due]) -> LimitResult {
        // A warn level is a question about the run, whatever is asked about the machine.
        let claim = claim.filter(|_| self.metric != Metric::Warn);
        let judge = |place: usize| {
            let fact = self.judge_run(grounds, place, &due[place]);
            match claim {
                Some(claim) => claim.judge(self, fact, grounds, place, &due[place]),
                None => fact,
            }
        };
        let singles: Vec<Single> = (0..due.len()).map(judge).collect();
        let largest = (0..singles.len()).max_by_key(|place| {
            // If several threads are equal, take the first.
            (singles[*place].order(), std::cmp::Reverse(*place))
        });
        let nothing = Single::nothing();
        let single = largest.map_or(&nothing, |largest| &singles[largest]);
        LimitResult {
            limit: self,
            measured: single.measured,
            thread: largest.map(|place| place as u32),
            held: single.held,
            periods: largest.map(|place| due[place].periods()),
            lacking: single.lacking.clone(),
            above: single.above,
        }
    }

    /// Judges whether one thread met the limit in this run. This is a fact, without statistics.
    fn judge_run(self, grounds: &Grounds<'_>, place: usize, due: &Due) -> Single {
        if due.periods() == 0 {
            return Single::nothing();
        }
        match self.metric {
            Metric::Max | Metric::Warn => self.judge_max(grounds, due),
            Metric::Percentile(percent) => self.judge_percentile(percent, grounds, place, due),
            Metric::Missed => {
                let missed = grounds.threads[place].accounting.missed;
                let held = (missed > self.at_most || !grounds.missed_unknown)
                    .then_some(missed <= self.at_most);
                Single::new(missed, held, missed_unknown)
            }
            Metric::Misses { periods, budget } => {
                self.judge_windows(grounds, place, due, periods, budget)
            }
            Metric::Break => {
                let max = due.max().map_or(0, |max| max.0);
                Single::new(max, Some(max <= self.at_most), String::new)
            }
        }
    }

    /// Judges the worst window of consecutive due periods.
    fn judge_windows(
        self,
        grounds: &Grounds<'_>,
        place: usize,
        due: &Due,
        periods: u32,
        budget: Nanos,
    ) -> Single {
        let mut windows = grounds.threads[place].windows.iter();
        let counted = windows.find(|one| one.limit.periods() == periods && one.budget_ns == budget);
        let Some(counted) = counted else {
            return Single::nothing().with_ground(None, || {
                "the late periods in windows were not counted".to_owned()
            });
        };
        let is_short = due.periods() < periods.into();
        let held = if counted.worst > self.at_most {
            Some(false)
        } else {
            (!is_short && !grounds.missed_unknown).then_some(true)
        };
        Single::new(counted.worst, held, || {
            if is_short {
                format!(
                    "a window has {} periods, but only {} were due",
                    grouped(periods.into()),
                    grouped(due.periods())
                )
            } else {
                missed_unknown()
            }
        })
    }

    fn judge_max(self, grounds: &Grounds<'_>, due: &Due) -> Single {
        let Some(Nanos(max)) = due.max() else {
            return Single::nothing();
        };
        let possible = due.max_at_most().is_some_and(|most| most.0 <= self.at_most);
        let held = if max > self.at_most {
            Some(false)
        } else {
            (possible && undecided(due) == 0).then_some(true)
        };
        let single = Single::new(max, held, || {
            if possible {
                latency_unknown(grounds, due)
            } else {
                in_one_bucket()
            }
        });
        Single {
            above: Some(due.above_limit(Nanos(self.at_most)).at_least),
            ..single
        }
    }

    /// Judges by the count above the exact limit, never by the end of a bucket. The percentile
    /// meets the limit if no more periods exceed the limit than the rank of the percentile allows.
    fn judge_percentile(
        self,
        percent: f64,
        grounds: &Grounds<'_>,
        place: usize,
        due: &Due,
    ) -> Single {
        let limit = Nanos(self.at_most);
        let share_above = (100.0 - percent) / 100.0;
        let (Some(bounds), Some(rank)) = (
            due.quantile(percent / 100.0),
            rank_of(percent / 100.0, due.periods()),
        ) else {
            return Single::nothing();
        };
        let above = due.above_limit(limit);
        let may_exceed = due.periods() - rank;
        let expected = due.periods() as f64 * share_above;
        let is_long_enough = expected >= LEAST_ABOVE * (1.0 - 1e-9);
        // Whether the number of periods above the limit is too high even for a run of sufficient
        // length.
        let are_many = above.at_least as f64 > LEAST_ABOVE;
        let held = if above.at_least > may_exceed {
            (is_long_enough || are_many).then_some(false)
        } else {
            let possible = above.at_most <= may_exceed && is_long_enough;
            (possible && !grounds.missed_unknown).then_some(true)
        };
        // The percentile that is shown has an error of up to 1%. Do not show a value above the
        // limit if the limit was met.
        let measured = match held {
            Some(true) => bounds.at_least.min(limit),
            _ => bounds.at_least,
        };
        let single = Single::new(measured.0, held, || match () {
            () if !is_long_enough => too_few(due.periods(), share_above, grounds.measured(place)),
            () if grounds.missed_unknown => missed_unknown(),
            () if undecided(due) == 0 => in_one_bucket(),
            () => latency_unknown(grounds, due),
        });
        Single {
            above: Some(above.at_least),
            ..single
        }
    }
}

/// Returns the result of the break threshold, which is a separate requirement.
fn break_result(claim: Option<Proof>, grounds: &Grounds<'_>, due: &[Due]) -> Option<LimitResult> {
    let (value, crossed) = grounds.break_value?;
    let limit = Limit {
        metric: Metric::Break,
        at_most: value.0,
    };
    let mut result = limit.judge(claim, grounds, due);
    if crossed {
        result.held = Some(false);
    }
    Some(result)
}

fn in_one_bucket() -> String {
    "one histogram bucket contains values on both sides of the limit".to_owned()
}

fn latency_unknown(grounds: &Grounds<'_>, due: &Due) -> String {
    let periods = |count: u64| match count {
        1 => "1 missed period".to_owned(),
        count => format!("{} missed periods", grouped(count)),
    };
    let quantity = grounds.quantity.unwrap_or("latency");
    let unknown =
        (due.unknown() > 0).then(|| format!("{} of unknown {quantity}", periods(due.unknown())));
    let lack = grounds.threads.iter().find_map(|thread| thread.open);
    let lack = lack.map_or("a wake-up", |open| open.lack());
    let open = due.open_at_least().map(|late| {
        format!(
            "{} without {lack}, late by at least {late}",
            periods(due.open())
        )
    });
    let all: Vec<String> = unknown.into_iter().chain(open).collect();
    all.join(", ")
}

/// Returns `needs 10,000,000 due periods, 2,700 measured: measure for 2 h 47 min`.
fn too_few(periods: u64, share_above: f64, measured: Option<Nanos>) -> String {
    let exact = LEAST_ABOVE / share_above;
    // 10 / 0.001 is 10000.000000000001 in floating point, but must count as 10000.
    let needed = (exact * (1.0 - 1e-9)).ceil();
    let mut text = format!(
        "needs {} due periods, {} measured",
        grouped(needed as u64),
        grouped(periods)
    );
    if let Some(measured) = measured {
        let seconds = measured.as_secs_f64() / periods.max(1) as f64 * needed;
        text.push_str(&format!(": measure for {}", length(seconds)));
    }
    text
}

/// Returns the verdict in one sentence. `ground` is the confidence of a statement about the machine,
/// and its condition.
fn sentence(
    outcome: Outcome,
    limits: &[LimitResult],
    threads: &[ThreadRecord],
    ground: &str,
) -> String {
    let list = |held: Option<bool>| {
        limits
            .iter()
            .filter(|result| result.held == held && !result.is_warn_level())
            .map(|result| result.sentence(threads))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let warned = limits
        .iter()
        .filter(|result| result.is_reached_warn_level());
    let warned: String = warned
        .map(|result| format!("; warning: {}", result.sentence(threads)))
        .collect();
    let answer = match outcome {
        Outcome::NoRequirement => "measured; no requirement was given".to_owned(),
        Outcome::Met => format!("requirement met in this run: {}", list(Some(true))),
        Outcome::Exceeded => format!("requirement exceeded in this run: {}", list(Some(false))),
        Outcome::NotDecidable => format!("requirement not decidable: {}", list(None)),
        Outcome::Held => format!("requirement held: {}", list(Some(true))) + ground,
        Outcome::Broken => format!("requirement broken: {}", list(Some(false))) + ground,
        Outcome::NotProven => format!("requirement not proven: {}", list(None)) + ground,
    };
    answer + &warned
}
