//! `inversion`: how long a high-priority thread waits for a lock held by a low-priority one, while
//! a middle one spins.

mod threads;

use std::sync::Arc;

use punctual_model::{
    Arguments, Cell, Chart, Delay, Nanos, Parameter, Scheduling, Table, Typed, parameters,
};
use punctual_rt::{Error, Mutex, Protocol};

use self::threads::{Shared, Times, Waits, high, low, middle};
use crate::entry::Measure;
use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::run::Terms;
use crate::thread_group::ThreadGroup;
use crate::{Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "inversion",
    summary: "how long a high-priority thread waits for a low-priority thread's lock",
    unit: "ns",
    documentation: include_str!("inversion.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time priority of at least 3 (required)",
    replaces: "pi_stress",
    chart: Chart::Latency,
    explained: Ok(Delay::Step),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Inversion::new(arguments).prepare(plan, resources),
};

parameters! {
    LOCK: &'static str = Typed::choice(
        "lock",
        "Which lock",
        &[
            ("both", "the two in turn"),
            ("plain", "a mutex without priority inheritance"),
            ("inherit", "a mutex with priority inheritance"),
        ],
    ).or("both");
    HOLD: Nanos = Typed::duration(
        "hold",
        "CPU time during which the low-priority thread holds the lock",
        Nanos::from_micros(1)..=Nanos::from_millis(20),
    ).or("100us");
    // During this time, no task of normal priority runs on the CPU, not even the one that handles
    // Ctrl-C.
    SPIN: Nanos = Typed::duration(
        "spin",
        "Time during which the middle-priority thread occupies the CPU",
        Nanos::from_micros(1)..=Nanos::from_millis(50),
    ).or("2ms");
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from one cycle to the next; at least twice the sum of hold and spin",
        Nanos::from_micros(500)..=Nanos::from_secs(10),
    ).short('i').or("20ms");
}

/// The lowest possible priority of the high thread. The two other threads need lower priorities.
const LOWEST: u8 = 3;

#[derive(Debug)]
struct Inversion {
    locks: &'static [(Protocol, &'static str)],
    hold: Nanos,
    spin: Nanos,
    interval: Nanos,
}

/// A probe that is ready to start.
struct Run {
    probe: Inversion,
    terms: Terms,
}

const LOCKS: &[(Protocol, &str)] = &[(Protocol::Plain, "plain"), (Protocol::Inherit, "inherit")];

impl Inversion {
    fn new(arguments: &Arguments) -> Self {
        Self {
            locks: match LOCK.value_in(arguments) {
                "plain" => &LOCKS[..1],
                "inherit" => &LOCKS[1..],
                _ => LOCKS,
            },
            hold: HOLD.value_in(arguments),
            spin: SPIN.value_in(arguments),
            interval: INTERVAL.value_in(arguments),
        }
    }

    /// Returns the longest wait of the high thread that is expected if there are no other
    /// disturbances.
    fn bound(&self, protocol: Protocol) -> Nanos {
        match protocol {
            Protocol::Plain => self.hold + self.spin,
            Protocol::Inherit => self.hold,
        }
    }

    fn check(&self, plan: &Plan) -> Result<(), ProbeError> {
        let Scheduling { policy, priority } = plan.scheduling;
        let fixed = matches!(
            policy,
            punctual_model::Policy::Fifo | punctual_model::Policy::RoundRobin
        );
        if !fixed {
            return Err(ProbeError::Unfit(format!(
                "policy {policy} has no priority inversion, because the kernel lets each of its \
                 threads run regularly. Use --policy fifo, with the required privilege \
                 (CAP_SYS_NICE, or RLIMIT_RTPRIO of at least {LOWEST})"
            )));
        }
        if priority < LOWEST {
            return Err(ProbeError::Unfit(format!(
                "the inversion probe needs two priorities below the waiting thread: use \
                 --priority {LOWEST} or higher instead of {priority}"
            )));
        }
        let busy = self.hold + self.spin;
        if self.interval.0 / 2 < busy.0 {
            return Err(ProbeError::Unfit(format!(
                "hold and spin use {busy} of every {}: set an interval of at least {} to leave \
                 half of the CPU time to the rest of the system",
                self.interval,
                Nanos(busy.0 * 2)
            )));
        }
        if let Some(duration) = plan.duration
            && duration.0 / self.interval.0 < self.locks.len() as u64
        {
            return Err(ProbeError::Unfit(format!(
                "a run of {duration} is too short for one cycle of {} for each lock: measure \
                 longer",
                self.interval
            )));
        }
        Ok(())
    }
}

impl Probe for Inversion {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        self.check(plan)?;
        let rate_hz = 1_000_000_000 / self.interval.0 + 1;
        let workers = plan
            .cpus
            .iter()
            .flat_map(|cpu| self.locks.iter().map(move |(_, name)| (cpu, name)))
            .map(|(cpu, name)| plan.worker(Some(format!("{name}, CPU {cpu}")), cpu, rate_hz));
        let workers: Vec<_> = workers.collect();
        let alike = self.locks.len() == 1;
        let run = Run {
            terms: Terms::from_plan(plan),
            probe: self,
        };
        Ok(Ready {
            alike,
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
        let times = Times {
            hold: self.probe.hold,
            spin: self.probe.spin,
            interval: self.probe.interval,
            duration: self.terms.duration,
        };
        let mut group = ThreadGroup::new(control);
        let mut recorders = recorders.into_iter();
        for cpu in &self.terms.cpus {
            let recorders = recorders.by_ref().take(self.probe.locks.len()).collect();
            let shared = Arc::new(Shared::new(self.mutexes()?)?);
            start(
                &mut group,
                *cpu,
                self.terms.scheduling,
                &shared,
                recorders,
                times,
            )?;
        }
        group.go();
        let waits = group.join()?.into_iter().flatten().collect();
        Ok(self.measured(waits))
    }
}

/// Starts the three threads of one CPU.
fn start(
    group: &mut ThreadGroup<Vec<Waits>>,
    cpu: u32,
    scheduling: Scheduling,
    shared: &Arc<Shared>,
    recorders: Vec<Recorder>,
    times: Times,
) -> Result<(), ProbeError> {
    let builder = |name: &str, below: u8| {
        let scheduling = Scheduling {
            priority: scheduling.priority.saturating_sub(below),
            ..scheduling
        };
        measuring_thread(&format!("{name}/{cpu}"), &[cpu], scheduling)
    };
    group.spawn_member(builder("high", 0), {
        let shared = Arc::clone(shared);
        move |member| high(&shared, recorders, &times, member)
    })?;
    group.spawn_member(builder("middle", 1), {
        let shared = Arc::clone(shared);
        move |member| middle(&shared, &times, member).map(|()| None)
    })?;
    group.spawn_member(builder("low", 2), {
        let shared = Arc::clone(shared);
        move |member| low(&shared, &times, member).map(|()| None)
    })
}

impl Run {
    fn mutexes(&self) -> Result<Vec<Mutex<()>>, Error> {
        let locks = self.probe.locks.iter();
        locks.map(|(lock, _)| Mutex::new((), *lock)).collect()
    }

    fn measured(&self, waits: Vec<Waits>) -> Measured {
        let mut table = Table::new(
            "bounds",
            "Waits for the lock, expected and measured",
            &[
                ("cpu", "CPU"),
                ("lock", "lock"),
                ("bound_ns", "bound"),
                ("p50_ns", "median"),
                ("max_ns", "max"),
                ("beyond_ns", "beyond bound"),
                ("overtaken", "overtaken"),
                ("undisturbed", "undisturbed"),
            ],
        );
        let mut warnings = Vec::new();
        let mut workers = Vec::with_capacity(waits.len());
        let places = self
            .terms
            .cpus
            .iter()
            .flat_map(|cpu| self.probe.locks.iter().map(move |lock| (cpu, lock)));
        for (wait, (cpu, (protocol, name))) in waits.into_iter().zip(places) {
            let bound = self.probe.bound(*protocol);
            let max = wait.worker.histogram.max();
            table.push([
                Cell::from(u64::from(*cpu)),
                (*name).into(),
                bound.into(),
                wait.worker.histogram.quantile(0.5).into(),
                max.into(),
                max.map(|max| max - bound).into(),
                wait.overtaken.into(),
                wait.undisturbed.into(),
            ]);
            let (unlike, what) = match protocol {
                Protocol::Plain => (wait.undisturbed, "did not run before"),
                Protocol::Inherit => (wait.overtaken, "ran before"),
            };
            if unlike > 0 {
                warnings.push(format!(
                    "CPU {cpu}, {name}: in {unlike} of {} cycles, the middle thread {what} the \
                     high-priority thread had its lock, which this kind of lock does not allow. \
                     Was the CPU throttled, or shared with other real-time threads?",
                    wait.overtaken + wait.undisturbed
                ));
            }
            workers.push(wait.worker);
        }
        Measured {
            workers,
            tables: vec![table],
            warnings,
        }
    }
}

#[cfg(test)]
mod tests;
