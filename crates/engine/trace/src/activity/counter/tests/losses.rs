//! No matter which events are lost, no run time and no delay is invented.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const CPUS: usize = 2;
const KINDS: u32 = 4;

/// The true times, by the time of the start, which is different for each activity.
#[derive(Debug, Default)]
struct Truth {
    runs: BTreeMap<u64, u64>,
    delays: BTreeMap<u64, u64>,
}

/// The softirqs of one CPU, as `__do_softirq` runs them.
#[derive(Debug, Default)]
struct Softirqs {
    /// Pending softirqs, with the time of their first request.
    pending: BTreeMap<u32, u64>,
    /// The rest of the copied set.
    copied: Option<BTreeMap<u32, u64>>,
    running: Option<(u32, u64)>,
}

/// The work of a worker: its number, the time of its request, and its start.
type Taken = (u64, u64, Option<u64>);

#[derive(Debug, Default)]
struct Machine {
    time: u64,
    truth: Truth,
    events: Vec<Streamed>,
    softirqs: [Softirqs; CPUS],
    interrupts: [Vec<(u32, u64)>; CPUS],
    /// Requests of works that no worker has taken.
    queued: BTreeMap<u64, u64>,
    workers: [Option<Taken>; CPUS],
    /// Works that were queued again between being taken and being started.
    raced: BTreeSet<u64>,
}

impl Machine {
    fn emit(&mut self, cpu: usize, kind: EventKind) {
        let flags = match self.softirqs[cpu].copied {
            Some(_) => TraceEvent::SOFTIRQ,
            None => 0,
        };
        let pid = 10 + cpu as u32;
        self.events
            .push(flagged(self.time, cpu as u32, pid, flags, kind));
    }

    fn softirq(&mut self, what: u8, cpu: usize, vec: u32) {
        let (time, state) = (self.time, &mut self.softirqs[cpu]);
        if what == 0 {
            state.pending.entry(vec).or_insert(time);
            self.emit(cpu, raise(vec));
            return;
        }
        if let Some((vec, start)) = state.running.take() {
            self.truth.runs.insert(start, time - start);
            self.emit(cpu, softirq_end(vec));
            return;
        }
        match state.copied.as_mut().map(BTreeMap::pop_first) {
            Some(Some((vec, since))) => {
                state.running = Some((vec, time));
                self.truth.delays.insert(time, time - since);
                self.emit(cpu, softirq(vec));
            }
            _ if state.pending.is_empty() => state.copied = None,
            _ => state.copied = Some(std::mem::take(&mut state.pending)),
        }
    }

    fn interrupt(&mut self, what: u8, cpu: usize, number: u32) {
        let open = &mut self.interrupts[cpu];
        if what == 0 && open.iter().all(|(other, _)| *other != number) {
            open.push((number, self.time));
            self.emit(cpu, irq(number));
        } else if let Some((number, start)) = open.pop() {
            self.truth.runs.insert(start, self.time - start);
            self.emit(cpu, irq_end(number));
        }
    }

    /// If `at_once`, a worker that takes a request also starts it, so that it is not queued again
    /// in between.
    fn work(&mut self, what: u8, cpu: usize, number: u32, at_once: bool) {
        let number = u64::from(number);
        if what == 0 {
            let is_taken = |it: &Taken| it.0 == number && it.2.is_none();
            let races = self.workers.iter().flatten().any(is_taken);
            // This happens at most once to each work.
            if !self.queued.contains_key(&number) && (!races || self.raced.insert(number)) {
                self.queued.insert(number, self.time);
                self.emit(cpu, queue(number));
            }
            return;
        }
        match self.workers[cpu] {
            None => {
                let others = self.workers;
                let is_free = |work: &u64| others.iter().flatten().all(|other| other.0 != *work);
                let Some(taken) = self.queued.keys().copied().find(is_free) else {
                    return;
                };
                let since = self.queued.remove(&taken).unwrap();
                self.workers[cpu] = Some((taken, since, None));
                if at_once {
                    self.work(1, cpu, 0, true);
                }
            }
            Some((taken, since, None)) => {
                self.truth.delays.insert(self.time, self.time - since);
                self.workers[cpu] = Some((taken, since, Some(self.time)));
                self.emit(cpu, work(taken));
            }
            Some((taken, _, Some(start))) => {
                self.truth.runs.insert(start, self.time - start);
                self.workers[cpu] = None;
                self.emit(cpu, work_end(taken));
            }
        }
    }
}

/// A step: the number of the action, the CPU, the source, the time since the last step, and whether
/// its events are seen.
type Step = (u8, usize, u32, u64, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let seen = proptest::bool::weighted(0.95);
    let step = (0u8..3, 0..CPUS, 0..KINDS, 1u64..5_000, seen);
    proptest::collection::vec(step, 0..300)
}

/// Returns what the machine did, and the events that were seen. Others are gaps.
fn play(steps: &[Step], act: impl Fn(&mut Machine, u8, usize, u32)) -> (Truth, Vec<Streamed>) {
    let mut machine = Machine::default();
    let mut all = Vec::new();
    for (what, cpu, number, after, is_seen) in steps {
        machine.time += after;
        act(&mut machine, *what, *cpu, *number);
        all.extend(machine.events.drain(..).map(|event| (*is_seen, event)));
    }
    let mut events = Vec::new();
    // For each CPU: whether events are missing, and the time of the last event before them.
    let mut missing = [(false, 0); CPUS];
    for (is_seen, item) in all {
        let Streamed::Event(event) = &item else {
            continue;
        };
        let (time, cpu) = (event.time.0, event.cpu as usize);
        if !is_seen {
            missing[cpu].0 = true;
            continue;
        }
        if let (true, from) = std::mem::replace(&mut missing[cpu], (false, time)) {
            events.push(gap(cpu as u32, from, time));
        }
        events.push(item);
    }
    events.sort_by_key(Streamed::time);
    (machine.truth, events)
}

fn check(
    kind: ActivityKind,
    truth: &Truth,
    events: &[Streamed],
) -> Result<Activities, TestCaseError> {
    let seen = seen(kind, events);
    let sum = |of: fn(&ActivityRow) -> u64| seen.rows.iter().map(of).sum::<u64>();
    prop_assert_eq!(sum(|row| row.run.count), seen.longest.len() as u64);
    prop_assert_eq!(sum(|row| row.delay.count), seen.most_delayed.len() as u64);
    for one in seen.longest.iter().chain(&seen.most_delayed) {
        let start = &one.start_ns.0;
        if let Some(run) = one.run_ns {
            prop_assert_eq!(truth.runs.get(start), Some(&run.0), "{:?}", one);
        }
        if let Some(delay) = one.delay_ns {
            prop_assert_eq!(truth.delays.get(start), Some(&delay.0), "{:?}", one);
        }
    }
    Ok(seen)
}

fn complete(steps: &[Step]) -> Vec<Step> {
    let seen = |step: &Step| (step.0, step.1, step.2, step.3, true);
    steps.iter().map(seen).collect()
}

proptest! {
    #[test]
    fn softirqs_with_losses_are_never_invented(steps in steps()) {
        let act = Machine::softirq;
        let (truth, events) = play(&steps, act);
        check(ActivityKind::Softirq, &truth, &events)?;
        let (truth, events) = play(&complete(&steps), act);
        let seen = check(ActivityKind::Softirq, &truth, &events)?;
        prop_assert_eq!(seen.longest.len(), truth.runs.len());
        let some_known = truth.delays.len() < 60 || !seen.most_delayed.is_empty();
        prop_assert!(some_known, "{:?}", truth);
    }

    #[test]
    fn interrupts_with_losses_are_never_invented(steps in steps()) {
        let act = Machine::interrupt;
        let (truth, events) = play(&steps, act);
        check(ActivityKind::Irq, &truth, &events)?;
        let (truth, events) = play(&complete(&steps), act);
        let seen = check(ActivityKind::Irq, &truth, &events)?;
        prop_assert_eq!(seen.longest.len(), truth.runs.len());
    }

    #[test]
    fn works_with_losses_are_never_invented(steps in steps()) {
        let at_once = |machine: &mut Machine, what, cpu, number| {
            machine.work(what, cpu, number, true);
        };
        let (truth, events) = play(&steps, at_once);
        check(ActivityKind::Work, &truth, &events)?;
        let (truth, events) = play(&complete(&steps), at_once);
        let seen = check(ActivityKind::Work, &truth, &events)?;
        prop_assert_eq!(seen.longest.len(), truth.runs.len());
        prop_assert_eq!(seen.most_delayed.len(), truth.delays.len());
        let later = |machine: &mut Machine, what, cpu, number| {
            machine.work(what, cpu, number, false);
        };
        let (truth, events) = play(&complete(&steps), later);
        check(ActivityKind::Work, &truth, &events)?;
    }
}
