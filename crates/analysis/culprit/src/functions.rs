//! Names the kernel function that took most of a share.
//!
//! A run of a function counts only while its thread was current on the CPU that mattered. So it does not
//! count while the function slept or was preempted. A function that was running before a handler began
//! is the interrupted code and says nothing about the handler.

use std::collections::BTreeMap;

use punctual_model::cause::{LongFunction, Role, Source};
use punctual_model::{EventKind, FunctionRun, Nanos, Share, Text, TraceEvent, Window};

use crate::cause_span::CauseSpan;

/// A function is named if it took at least the time of the share divided by this number.
const WORTH_A_NAME: u64 = 10;

/// Spans of time in order, which do not overlap.
type Times = Vec<(Nanos, Nanos)>;

/// Adds to each share the function that took most of its time.
pub(crate) fn name_functions(window: &Window, spans: &[CauseSpan], shares: &mut [Share]) {
    let runs = &window.evidence.functions;
    if runs.is_empty() {
        return;
    }
    let running = Running::new(window);
    for share in shares
        .iter_mut()
        .filter(|share| is_of_others(&share.cause.source))
    {
        let own = stretches(spans, &share.cause.source);
        let by_name = times_by_name(runs, &own, &share.cause.source, &running);
        let least = FunctionRun::LEAST.max(Nanos(share.ns.0.div_ceil(WORTH_A_NAME)));
        share.cause.function = longest(&by_name, least);
    }
}

/// Returns whether other code than the victim's has the CPU. The time of the victim's own code is not
/// explained by functions, nor that of a thread that the sleeping victim waits for.
const fn is_of_others(source: &Source) -> bool {
    match source {
        Source::Thread { role, .. } => !matches!(role, Role::Waker | Role::LockHolder),
        Source::TimerLate
        | Source::IrqsOff(_)
        | Source::PreemptOff(_)
        | Source::Gap
        | Source::Scheduling
        | Source::Undecided { .. }
        | Source::Unexplained(_) => true,
        _ => is_handler(source),
    }
}

const fn is_handler(source: &Source) -> bool {
    matches!(
        source,
        Source::Vector(_) | Source::Irq { .. } | Source::Softirq(_) | Source::Nmi
    )
}

/// A time while one source had a CPU.
struct Stretch {
    cpu: u32,
    from: Nanos,
    to: Nanos,
}

/// Returns the times of a source. Adjacent segments with different details are one stretch.
fn stretches(spans: &[CauseSpan], source: &Source) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for span in spans.iter().filter(|span| span.cause.source == *source) {
        match all.last_mut() {
            Some(last) if last.to == span.from && last.cpu == span.cpu => last.to = span.to,
            _ => all.push(Stretch {
                cpu: span.cpu,
                from: span.from,
                to: span.to,
            }),
        }
    }
    all
}

/// The time of a function within a share.
#[derive(Debug, Default)]
struct Held {
    times: Times,
    /// Duration of its shortest run there, which distinguishes a function from its callers.
    shortest: Nanos,
}

/// Returns the times of each function. The time of a function that calls itself counts once.
fn times_by_name<'a>(
    runs: &'a [FunctionRun],
    own: &[Stretch],
    source: &Source,
    running: &Running,
) -> BTreeMap<&'a Text, Held> {
    let mut by_name: BTreeMap<&Text, Held> = BTreeMap::new();
    for run in runs {
        let Some((begin, end)) = run.span() else {
            continue;
        };
        let own = own.iter().filter(|stretch| stretch.cpu == run.cpu);
        for stretch in own.filter(|stretch| !is_handler(source) || begin >= stretch.from) {
            let (from, to) = (begin.max(stretch.from), end.min(stretch.to));
            if from >= to {
                continue;
            }
            let times = running.times_of(run, from, to);
            if times.is_empty() {
                continue;
            }
            let held = by_name.entry(&run.function).or_insert(Held {
                times: Vec::new(),
                shortest: run.took,
            });
            held.times.extend(times);
            held.shortest = held.shortest.min(run.took);
        }
    }
    for held in by_name.values_mut() {
        held.times = united(std::mem::take(&mut held.times));
    }
    by_name
}

/// Returns the innermost of the functions that took more than half of the time of the one that took
/// the most, and at least the time `least`.
fn longest(by_name: &BTreeMap<&Text, Held>, least: Nanos) -> Option<LongFunction> {
    let top = by_name
        .values()
        .max_by_key(|held| (length(&held.times), std::cmp::Reverse(held.shortest)))?;
    let most = length(&top.times);
    let within = by_name.iter().filter_map(|(name, held)| {
        let ns = common(&held.times, &top.times);
        (ns.0 > most.0 / 2 && ns >= least).then_some((name, ns, held.shortest))
    });
    let (name, ns, _) = within.min_by_key(|(_, ns, shortest)| (*ns, *shortest))?;
    Some(LongFunction {
        function: (*name).clone(),
        ns,
    })
}

fn length(times: &Times) -> Nanos {
    Nanos(times.iter().map(|(from, to)| (*to - *from).0).sum())
}

fn united(mut times: Times) -> Times {
    times.sort_unstable();
    let mut united: Times = Vec::new();
    for (from, to) in times {
        match united.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => united.push((from, to)),
        }
    }
    united
}

/// Returns the length of the time that is in both.
fn common(one: &Times, other: &Times) -> Nanos {
    let (mut a, mut b, mut sum) = (one.iter().peekable(), other.iter().peekable(), 0);
    while let (Some((a_from, a_to)), Some((b_from, b_to))) = (a.peek(), b.peek()) {
        sum += (*a_to.min(b_to)).saturating_sub(*a_from.max(b_from)).0;
        if a_to <= b_to {
            a.next();
        } else {
            b.next();
        }
    }
    Nanos(sum)
}

/// The thread that was current on each CPU, as far as the events agree on it.
struct Running {
    /// For each CPU, spans with a known thread, in order.
    cpus: BTreeMap<u32, Vec<(Nanos, Nanos, u32)>>,
    /// Whether the thread is not examined, because a tracer states the whole latency: the thread of
    /// such a section does not change.
    is_stated: bool,
}

impl Running {
    fn new(window: &Window) -> Self {
        let mut cpus: BTreeMap<u32, Vec<(Nanos, Nanos, u32)>> = BTreeMap::new();
        let mut last: BTreeMap<u32, (Nanos, Option<u32>)> = BTreeMap::new();
        for event in &window.events {
            let before = last.insert(event.cpu, (event.time, Some(after(event))));
            let (from, known) = before.unwrap_or((Nanos::ZERO, None));
            if known.is_none_or(|known| known == event.pid) {
                let spans = cpus.entry(event.cpu).or_default();
                match spans.last_mut() {
                    Some((_, to, pid)) if *to == from && *pid == event.pid => *to = event.time,
                    _ => spans.push((from, event.time, event.pid)),
                }
            }
        }
        for (cpu, (from, pid)) in last {
            if let Some(pid) = pid {
                let spans = cpus.entry(cpu).or_default();
                spans.push((from, Nanos(u64::MAX), pid));
            }
        }
        Self {
            cpus,
            is_stated: !window.evidence.stated.is_empty(),
        }
    }

    /// Returns the times between `from` and `to` while the run's thread was current.
    fn times_of(&self, run: &FunctionRun, from: Nanos, to: Nanos) -> Times {
        if self.is_stated {
            return vec![(from, to)];
        }
        let spans = self.cpus.get(&run.cpu).map_or(&[][..], |spans| spans);
        let first = spans.partition_point(|(_, end, _)| *end <= from);
        spans[first..]
            .iter()
            .take_while(|(begin, ..)| *begin < to)
            .filter(|(.., pid)| run.pid == Some(*pid))
            .map(|(begin, end, _)| (from.max(*begin), to.min(*end)))
            .collect()
    }
}

/// Returns the thread that is current after an event.
const fn after(event: &TraceEvent) -> u32 {
    match &event.kind {
        EventKind::Switch { next, .. } => next.pid,
        _ => event.pid,
    }
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
