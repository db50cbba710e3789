//! `signal`: the time from sending a signal to handling it, in a ring of threads.

mod ring;

use std::sync::Arc;
use std::time::Duration;

use punctual_model::{
    Arguments, Cell, Chart, Delay, Histogram, Nanos, Parameter, Scheduling, Table, Typed,
    parameters,
};
use punctual_rt::SignalWay;

use self::ring::{Pace, Ring, follow, lead};
use crate::entry::Measure;
use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, WorkerSpec,
};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "signal",
    summary: "time from sending to handling a signal, between threads",
    unit: "ns",
    documentation: include_str!("signal.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without it, the policy is other",
    replaces: "signaltest, sigwaittest",
    chart: Chart::Latency,
    explained: Ok(Delay::Call),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Signal::new(arguments).prepare(plan, resources),
};

parameters! {
    THREADS: u64 = Typed::count(
        "threads",
        "Threads of the ring",
        2..=64,
    ).or("2");
    VIA: &'static str = Typed::choice(
        "via",
        "How a thread receives its signal",
        &[
            ("sigwait", "the thread waits in sigwaitinfo"),
            ("handler", "a signal handler, while the thread waits in sigsuspend"),
            ("signalfd", "the thread reads from a signalfd"),
        ],
    ).or("sigwait");
    PLACEMENT: &'static str = Typed::choice(
        "placement",
        "CPUs of the threads",
        &[
            ("spread", "distributed over the measured CPUs in turn"),
            ("same", "all on the first measured CPU"),
        ],
    ).or("spread");
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from the start of one round to the next",
        Nanos::from_micros(50)..=Nanos::from_secs(10),
    ).short('i').or("1ms");
    BURST: u64 = Typed::count(
        "burst",
        "Consecutive rounds at each interval; signaltest uses 16",
        1..=1_000,
    ).or("1");
    ROUNDS: bool = Typed::flag(
        "rounds",
        "Record whole rounds for the first thread, like signaltest",
    );
    WAKEUPS: Option<u64> = Typed::count(
        Parameter::WAKEUPS,
        "Stop when the first thread has this many samples",
        1..=1_000_000_000_000,
    ).of_older_tools();
}

/// Interval at which the wait of the first thread is checked. It is far shorter than the timeout of
/// the wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Signal {
    threads: usize,
    way: SignalWay,
    same: bool,
    interval: Nanos,
    burst: u64,
    whole: bool,
    wakeups: u64,
}

/// A probe that is ready to start.
struct Run {
    pace: Pace,
    way: SignalWay,
    /// The CPU of each thread.
    cpus: Vec<u32>,
    scheduling: Scheduling,
}

impl Signal {
    fn new(arguments: &Arguments) -> Self {
        Self {
            threads: THREADS.value_in(arguments) as usize,
            way: match VIA.value_in(arguments) {
                "handler" => SignalWay::Handler,
                "signalfd" => SignalWay::Descriptor,
                _ => SignalWay::Wait,
            },
            same: PLACEMENT.value_in(arguments) == "same",
            burst: BURST.value_in(arguments),
            whole: ROUNDS.value_in(arguments),
            wakeups: WAKEUPS.value_in(arguments).unwrap_or(u64::MAX),
            interval: INTERVAL.value_in(arguments),
        }
    }
}

impl Probe for Signal {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        if let Some(duration) = plan.duration
            && self.interval > duration
        {
            return Err(ProbeError::IntervalTooLong {
                interval: self.interval,
                duration,
            });
        }
        let used = if self.same { 1 } else { plan.cpus.len() };
        let used: Vec<u32> = plan.cpus.iter().take(used).collect();
        let cpus: Vec<u32> = used.iter().copied().cycle().take(self.threads).collect();
        if cpus.len() < self.threads {
            return Err(ProbeError::NoCpu { probe: ENTRY.name });
        }
        let workers = (0..self.threads).map(|place| {
            let from = (place + self.threads - 1) % self.threads;
            let whole = self.whole && place == 0;
            WorkerSpec {
                label: Some(if whole {
                    "whole rounds".to_owned()
                } else {
                    format!("thread {from} to {place}")
                }),
                cpu: Some(cpus[place]),
                from_cpu: (!whole).then_some(cpus[from]),
                scheduling: plan.scheduling,
                rate_hz: 1_000_000_000 * self.burst / self.interval.0 + 1,
            }
        });
        let workers: Vec<_> = workers.collect();
        let run = Run {
            pace: Pace {
                interval: self.interval,
                burst: self.burst,
                duration: plan.duration,
                whole: self.whole,
                wakeups: self.wakeups,
            },
            way: self.way,
            cpus,
            scheduling: plan.scheduling,
        };
        Ok(Ready {
            alike: !self.whole,
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
        // The handler is needed for interrupting a round that does not return.
        punctual_rt::interrupt::install_interrupt_handler()?;
        let ring = Arc::new(Ring::new(self.cpus.len(), self.way, self.pace));
        let mut group = ThreadGroup::new(control);
        for (place, (recorder, cpu)) in recorders.into_iter().zip(&self.cpus).enumerate() {
            let builder = measuring_thread(&format!("signal/{place}"), &[*cpu], self.scheduling);
            let ring = Arc::clone(&ring);
            group.spawn_member(builder, move |member| match place {
                0 => lead(&ring, recorder, member),
                _ => follow(&ring, place, recorder, member),
            })?;
        }
        // The thread IDs must be known before the threads begin. They are set only here.
        let _ = ring.threads.set(group.tids());
        group.go();
        group.attend(LOOK_EVERY, || ring.look());
        let brought = group.join()?;
        let (workers, rounds): (Vec<_>, Vec<_>) = (brought.into_iter())
            .map(|brought| (brought.worker, brought.rounds))
            .unzip();
        Ok(Measured {
            workers,
            tables: (rounds.iter().flatten())
                .map(|rounds| table(rounds, self.cpus.len()))
                .collect(),
            warnings: Vec::new(),
        })
    }
}

/// Creates the table of whole rounds, which are what the older tool measures.
fn table(rounds: &Histogram, hops: usize) -> Table {
    let mut table = Table::new(
        "rounds",
        "Whole rounds, from the first signal until the signal returns to the first thread",
        &[
            ("hops", "hops"),
            ("rounds", "rounds"),
            ("min_ns", "min"),
            ("mean_ns", "mean"),
            ("p50_ns", "median"),
            ("p99_ns", "99%"),
            ("max_ns", "max"),
        ],
    );
    table.push([
        Cell::from(hops as u64),
        rounds.recorded().into(),
        rounds.min().into(),
        rounds.mean().into(),
        rounds.quantile(0.5).into(),
        rounds.quantile(0.99).into(),
        rounds.max().into(),
    ]);
    table
}

#[cfg(test)]
mod tests;
