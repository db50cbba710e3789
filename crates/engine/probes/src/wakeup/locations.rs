//! The pairs of threads: their CPUs, times and priorities.

use punctual_model::{CpuSet, Nanos, Policy, Scheduling};

use crate::{Plan, ProbeError, WorkerSpec};

/// The maximum number of CPUs in a full matrix. 16 CPUs form 256 pairs, which have 512 threads. In
/// ten seconds, at an interval of 1 ms, each pair has some 40 exchanges.
const MATRIX_MAX: usize = 16;

/// The maximum number of pairs of any kind.
pub(super) const PAIRS_MAX: usize = MATRIX_MAX * MATRIX_MAX;

/// A pair of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    /// The CPU of the posting thread; `None` for any of the measured CPUs.
    pub(super) from: Option<u32>,
    /// The CPU of the waiting thread.
    pub(super) to: Option<u32>,
    /// The scheduling of the waiting thread.
    pub(super) scheduling: Scheduling,
    /// The time from one exchange to the next, which may be that of another pair.
    pub(super) interval: Nanos,
    /// The index of this pair among the pairs that take turns.
    pub(super) turn: u64,
    /// The number of pairs that take turns.
    pub(super) turns: u64,
    /// Delay of the start of this pair after the common start.
    pub(super) offset: Nanos,
    /// A label, if the CPUs do not identify the pair.
    pub(super) label: Option<String>,
    /// The name for the threads of the pair.
    pub(super) name: String,
}

/// Pairs that run at the same time instead of taking turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Together {
    pub(super) threads: u64,
    pub(super) unbound: bool,
    pub(super) distance: Nanos,
    /// Additional delay between two posts, on top of the interval.
    pub(super) later: Nanos,
    pub(super) priority_spread: bool,
}

impl Location {
    /// Returns the worker of this pair.
    pub(super) fn worker(&self) -> WorkerSpec {
        WorkerSpec {
            label: self.label.clone(),
            cpu: self.to,
            from_cpu: self.from,
            scheduling: self.scheduling,
            rate_hz: 1_000_000_000 / self.interval.0 / self.turns.max(1) + 1,
        }
    }

    /// Returns whether the waiting thread can run and wait again while the other thread is still
    /// posting.
    pub(super) fn returns_at_once(&self) -> bool {
        let Scheduling { policy, priority } = self.scheduling;
        self.to.is_some() && self.from == self.to && policy.is_real_time() && priority > 1
    }
}

/// Returns the pairs of CPUs that are selected by `pairs`. The pairs run one after another.
pub(super) fn in_turns(
    pairs: &str,
    interval: Nanos,
    plan: &Plan,
) -> Result<Vec<Location>, ProbeError> {
    let ends = choose(pairs, &plan.cpus)?;
    let turns = ends.len() as u64;
    if let Some(duration) = plan.duration
        && duration.0 / interval.0 < turns
    {
        return Err(ProbeError::Unfit(format!(
            "{turns} pairs with one exchange every {interval} need more time than the run of \
             {duration}: measure longer, or use fewer CPUs"
        )));
    }
    let places = (0..).zip(ends).map(|(turn, (from, to))| Location {
        from: Some(from),
        to: Some(to),
        scheduling: plan.scheduling,
        interval,
        turn,
        turns,
        offset: Nanos::ZERO,
        label: None,
        name: format!("{from}-{to}"),
    });
    Ok(places.collect())
}

pub(super) fn choose(pairs: &str, cpus: &CpuSet) -> Result<Vec<(u32, u32)>, ProbeError> {
    let cpus: Vec<u32> = cpus.iter().collect();
    let pairs: Vec<(u32, u32)> = match pairs {
        "same" => cpus.iter().map(|cpu| (*cpu, *cpu)).collect(),
        "neighbours" => {
            let next = cpus.iter().cycle().skip(1);
            cpus.iter().copied().zip(next.copied()).collect()
        }
        _ if cpus.len() > MATRIX_MAX => {
            return Err(ProbeError::Unfit(format!(
                "a matrix of {} CPUs has {} pairs, more than {PAIRS_MAX}: choose at most \
                 {MATRIX_MAX} CPUs with --cpus, or use --pairs same or --pairs neighbours",
                cpus.len(),
                cpus.len() * cpus.len()
            )));
        }
        _ => cpus
            .iter()
            .flat_map(|from| cpus.iter().map(|to| (*from, *to)))
            .collect(),
    };
    if pairs.len() > PAIRS_MAX {
        return Err(ProbeError::Unfit(format!(
            "{} CPUs form more than {PAIRS_MAX} pairs: choose fewer CPUs with --cpus",
            pairs.len()
        )));
    }
    Ok(pairs)
}

/// Returns the requested number of pairs, which are assigned to the CPUs in turn and run at the
/// same time. Their starts are spread over the interval.
pub(super) fn together(
    asked: Together,
    interval: Nanos,
    plan: &Plan,
) -> Result<Vec<Location>, ProbeError> {
    let cpus: Vec<u32> = plan.cpus.iter().collect();
    if cpus.is_empty() {
        return Err(ProbeError::NoCpu { probe: "wakeup" });
    }
    let shared = asked.threads > cpus.len() as u64;
    let places = (0..asked.threads).zip(cpus.iter().cycle());
    let places: Vec<Location> = places
        .map(|(number, cpu)| {
            let cpu = (!asked.unbound).then_some(*cpu);
            Location {
                from: cpu,
                to: cpu,
                scheduling: if asked.priority_spread {
                    lowered(plan.scheduling, number)
                } else {
                    plan.scheduling
                },
                interval: interval + Nanos(asked.distance.0.saturating_mul(number)) + asked.later,
                turn: 0,
                turns: 1,
                offset: Nanos(interval.0 / asked.threads * number) + asked.later,
                label: match cpu {
                    None => Some(format!("pair {number}")),
                    Some(cpu) if shared => Some(format!("pair {number}, CPU {cpu}")),
                    Some(_) => None,
                },
                name: number.to_string(),
            }
        })
        .collect();
    if let (Some(duration), Some(last)) = (plan.duration, places.last())
        && !plan.may_be_empty
        && (last.interval + last.offset).saturating_sub(asked.later) > duration
    {
        return Err(ProbeError::Unfit(format!(
            "the last of {} pairs begins after {} and has an interval of {}, which exceeds the \
             run of {duration}",
            asked.threads, last.offset, last.interval
        )));
    }
    Ok(places)
}

/// Lowers the priority by this much, but not below 1.
fn lowered(first: Scheduling, by: u64) -> Scheduling {
    let by = u8::try_from(by).unwrap_or(u8::MAX);
    match first.policy {
        Policy::Fifo | Policy::RoundRobin => Scheduling {
            priority: first.priority.saturating_sub(by).max(1),
            ..first
        },
        _ => first,
    }
}
