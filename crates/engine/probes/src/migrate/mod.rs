//! `migrate`: checks that the threads with the highest priorities always run.

mod priority_check;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_model::{
    Arguments, Chart, Delay, Nanos, Parameter, Policy, Scheduling, Typed, parameters,
};
use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait, Wake};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::entry::Measure;
use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::run::{Terms, end_of};
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, SelfCost,
    WorkerSpec,
};
use priority_check::{Life, PriorityCheck, Segment};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "migrate",
    summary: "whether the N highest-priority threads of N+1 run on N CPUs",
    unit: "ns",
    documentation: include_str!("migrate.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for real-time priorities (required)",
    replaces: "rt-migrate-test",
    chart: Chart::Latency,
    explained: Ok(Delay::Timer),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Migrate::new(arguments).prepare(plan, resources),
};

parameters! {
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from the start of one round to the next",
        Nanos::from_millis(1)..=Nanos::from_secs(60),
    ).short('i').or("20ms");
    // The CPUs run nothing else during this time.
    RUN: Nanos = Typed::duration(
        "run",
        "Length of a round: the threads spin until its end",
        Nanos::from_micros(100)..=Nanos::from_millis(50),
    ).or("2ms");
    TOLERANCE: Nanos = Typed::duration(
        "tolerance",
        "Longest accepted run of a lower-priority thread while a higher one waits",
        Nanos::ZERO..=Nanos::from_millis(50),
    ).or("200us");
}

/// The clock of the rounds and of the samples; it is consistent across CPUs.
const CLOCK: Clock = Clock::Monotonic;

/// The shortest time in which a CPU can switch to another task and back.
const SHORTEST_SWITCH: u64 = 5_000;

/// The maximum lead of a thread over the check. It is limited because the report of a round takes
/// some 300 bytes, and shorter intervals have more rounds.
const AHEAD: Nanos = Nanos::from_secs(2);

/// Interval at which the rounds are checked.
const TURN: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Migrate {
    interval: Nanos,
    run: Nanos,
    tolerance: Nanos,
}

/// A probe that is ready to start.
struct Run {
    probe: Migrate,
    terms: Terms,
    /// Scheduling of each thread, lowest priority first.
    ranks: Vec<Scheduling>,
}

impl Migrate {
    fn new(arguments: &Arguments) -> Self {
        Self {
            interval: INTERVAL.value_in(arguments),
            run: RUN.value_in(arguments),
            tolerance: TOLERANCE.value_in(arguments),
        }
    }
}

/// Returns priorities for one more thread than there are CPUs, lowest first.
fn ranks(cpus: usize, highest: Scheduling) -> Result<Vec<Scheduling>, ProbeError> {
    if !matches!(highest.policy, Policy::Fifo | Policy::RoundRobin) {
        return Err(ProbeError::Unfit(format!(
            "the probe needs priorities, but policy {} has no priorities: use fifo or rr",
            highest.policy
        )));
    }
    let ranks: Vec<Scheduling> = (0..=cpus)
        .rev()
        .filter_map(|below| {
            let below = u8::try_from(below).ok()?;
            let priority = highest.priority.checked_sub(below).filter(|p| *p > 0)?;
            Some(Scheduling {
                policy: highest.policy,
                priority,
            })
        })
        .collect();
    if ranks.len() <= cpus {
        return Err(ProbeError::Unfit(format!(
            "{cpus} CPUs need {} priorities, but there are only {} from {} down: use a higher \
             --priority, or fewer --cpus",
            cpus + 1,
            highest.priority,
            highest.priority
        )));
    }
    Ok(ranks)
}

impl Probe for Migrate {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        let ranks = ranks(plan.cpus.len(), plan.scheduling)?;
        if self.run.0 > self.interval.0 / 2 {
            return Err(ProbeError::Unfit(format!(
                "a round of {} is longer than half of the interval of {}: use a shorter round or \
                 a longer interval, so that other threads on these CPUs can run",
                self.run, self.interval
            )));
        }
        if let Some(duration) = plan.duration
            && duration < self.interval
        {
            return Err(ProbeError::Unfit(format!(
                "an interval of {} is longer than the run of {duration}",
                self.interval
            )));
        }
        let highest = ranks.len() - 1;
        let workers = ranks.iter().enumerate().skip(1);
        let workers = workers.map(|(rank, scheduling)| WorkerSpec {
            label: Some(if rank == highest {
                "highest".to_owned()
            } else {
                format!("{} below the highest", highest - rank)
            }),
            cpu: None,
            from_cpu: None,
            scheduling: *scheduling,
            rate_hz: 1_000_000_000_u64.div_ceil(self.interval.0),
        });
        let workers: Vec<_> = workers.collect();
        let run = Run {
            terms: Terms::from_plan(plan),
            ranks,
            probe: self,
        };
        Ok(Ready {
            // A thread waits for all threads of higher rank, so the workers cannot be compared with
            // each other.
            alike: false,
            ..plan.ready(workers, run)
        })
    }
}

impl Measure for Run {
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let Migrate {
            interval,
            run,
            tolerance,
        } = self.probe;
        let threads = self.ranks.len();
        let begun = Arc::new(AtomicU64::new(0));
        let lost = Arc::new(AtomicU64::new(0));
        let mut group = ThreadGroup::new(control);
        let mut reports = Vec::with_capacity(threads);
        let held = (AHEAD.0 / interval.0).max(8);
        // The lowest thread has no worker.
        let recorders = [None].into_iter().chain(recorders.into_iter().map(Some));
        for (rank, (scheduling, recorder)) in self.ranks.iter().zip(recorders).enumerate() {
            let (sender, receiver) = RingBuffer::new(held as usize);
            reports.push(receiver);
            let mut worker = Worker {
                recorder,
                sender,
                lost: Arc::clone(&lost),
                // All threads are awake by the middle of the round.
                offset: Nanos(run.0 * rank as u64 / (2 * threads as u64)),
                run,
                interval,
            };
            let begun = Arc::clone(&begun);
            let duration = self.terms.duration;
            group.spawn(
                measuring_thread(&format!("migrate/{rank}"), &self.terms.cpus, *scheduling),
                |_| Ok(SelfCost::measure(CLOCK)),
                move |cost, control, start| {
                    let first = Nanos(start.as_nanos());
                    begun.store(first.0, Ordering::Relaxed);
                    let end = end_of(first, duration);
                    let expected = worker.rounds(first, end, control)?;
                    let recorder = worker.recorder.take();
                    Ok(recorder.map(|recorder| recorder.finish(expected, cost)))
                },
            )?;
        }
        group.go();
        // Whether a round is in the warm-up is decided by its start. Until the first thread reports
        // its start, no round can be checked.
        let mut judge = None;
        let mut turn = || {
            let first = Nanos(begun.load(Ordering::Relaxed));
            if first > Nanos::ZERO {
                let judge = judge.get_or_insert_with(|| {
                    PriorityCheck::new(threads, tolerance, first + self.terms.warm_up)
                });
                listen(&mut reports, judge);
            }
        };
        group.attend(TURN, &mut turn);
        // Process the reports that arrived last.
        turn();
        let mut measured = Measured {
            workers: group.join()?.into_iter().flatten().collect(),
            tables: Vec::new(),
            warnings: Vec::new(),
        };
        if let Some(judge) = judge {
            let start = Nanos(begun.load(Ordering::Relaxed));
            measured.tables = judge.tables(start, |rank| self.ranks[rank].priority.into());
            measured
                .warnings
                .extend(unjudged(&judge, lost.load(Ordering::Relaxed)));
        }
        Ok(measured)
    }
}

/// Returns a warning about rounds that could not be checked.
fn unjudged(judge: &PriorityCheck, lost: u64) -> Option<String> {
    let rounds = judge.not_judged();
    (rounds > 0).then(|| {
        format!(
            "{rounds} rounds could not be judged: a thread was switched out too often, or its \
             report was lost ({lost} times)"
        )
    })
}

/// Takes the reports of the threads, and checks them.
fn listen(reports: &mut [Consumer<Life>], judge: &mut PriorityCheck) {
    for (rank, receiver) in reports.iter_mut().enumerate() {
        while let Ok(life) = receiver.pop() {
            judge.add(rank, life);
        }
    }
    judge.judge();
}

/// A measuring thread.
struct Worker {
    recorder: Option<Recorder>,
    sender: Producer<Life>,
    lost: Arc<AtomicU64>,
    /// Time from the start of a round to the wake-up of this thread.
    offset: Nanos,
    run: Nanos,
    interval: Nanos,
}

impl Worker {
    /// Runs the rounds. Returns how many came due.
    fn rounds(&mut self, first: Nanos, end: Nanos, control: &Control) -> Result<u64, ProbeError> {
        let mut sleep = Nanosleep::new(CLOCK)?;
        if let Some(recorder) = &mut self.recorder {
            // A round belongs to the warm-up either as a whole or not at all. So the warm-up of
            // this thread begins later by its offset, as its rounds do.
            recorder.start_late(first, first + self.offset);
        }
        let mut start = first;
        let mut round = 0;
        while start + self.run <= end && !control.stopping() {
            let due = start + self.offset;
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            let now = Nanos(CLOCK.now().as_nanos());
            let until = start + self.run;
            let mut life = Life::new(
                round,
                Segment {
                    from: due.0,
                    to: until.0,
                },
            );
            if now < until {
                if let Some(recorder) = &mut self.recorder {
                    recorder.sample(due, now.signed_sub(due));
                }
                spin(&mut life, now.0, until.0, control);
                if control.stopping() {
                    // The sample of this round has been recorded, so the round counts as expected.
                    round += 1;
                    break;
                }
            } else if let Some(recorder) = &mut self.recorder {
                recorder.missed(due, 1, self.interval);
            }
            // The thread did not run at all in this round. The check needs to know this too.
            if self.sender.push(life).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            start += self.interval;
            round += 1;
        }
        Ok(round)
    }
}

/// Spins until this time, and records when the thread ran. This is the hot path: it makes a system
/// call only after a gap.
fn spin(life: &mut Life, from: u64, until: u64, control: &Control) {
    let switches = || punctual_rt::thread_usage().involuntary_switches;
    let mut switched = switches();
    let mut begun = from;
    let mut last = from;
    while last < until && !control.stopping() {
        let now = CLOCK.now().as_nanos();
        if now.saturating_sub(last) > SHORTEST_SWITCH {
            let count = switches();
            if count != switched {
                switched = count;
                life.ran(begun, last);
                begun = now;
            }
        }
        last = now;
    }
    // The time after the end of the round does not count.
    if begun < until {
        life.ran(begun, last.min(until));
    }
}

#[cfg(test)]
mod tests;
