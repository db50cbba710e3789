//! `wakeup`: the time from the post of one thread to the wake-up of another.

mod child_process;
mod cross_process;
mod locations;
mod mechanisms;
mod pair;
mod parameters;
mod run;
mod schedule;
mod shared_state;
mod timed_queue;

use std::ffi::OsString;
use std::sync::Arc;

use punctual_model::{Arguments, Chart, Delay, Nanos};
use punctual_rt::{EventFd, MessageQueue, Protocol, Semaphore, SharedNumbers, SystemVSemaphore};

pub use self::cross_process::serve_partner;

use self::cross_process::SharedFutexes;
use self::locations::{Location, Together};
use self::mechanisms::{BareFutex, Condition, Mutexes, Pipe, Signal, Socket, barrier};
use self::parameters::PARAMETERS;
use self::run::Run;
use self::shared_state::Numbers;
use self::timed_queue::{Patience, TimedQueue};
use crate::entry::Measure;
use crate::entry::Probe;
use crate::run::Terms;
use crate::{Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "wakeup",
    summary: "time from one thread's post to another thread's wake-up",
    unit: "ns",
    documentation: include_str!("wakeup.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without it, the policy is other",
    replaces: "ptsematest, svsematest, pmqtest, sigwaittest",
    chart: Chart::Matrix,
    explained: Ok(Delay::Call),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Wakeup::new(arguments).prepare(plan, resources),
};

#[derive(Debug)]
struct Wakeup {
    via: &'static str,
    interval: Nanos,
    pairs: &'static str,
    together: Option<Together>,
    warm: bool,
    timeout: Option<Nanos>,
    force_timeout: Option<Nanos>,
    processes: bool,
    wakeups: Option<u64>,
}

/// A probe that is ready to start.
struct ReadyPairs {
    probe: Wakeup,
    /// The command that starts this program for posting threads in separate processes, if
    /// requested.
    partner: Option<Vec<OsString>>,
    locations: Vec<Location>,
    terms: Terms,
}

impl ReadyPairs {
    /// Returns how long to wait for a message, which is until it is late by `timeout`. The wait can
    /// begin up to an interval before the message is due. Messages are sent later than due by
    /// `forced`.
    fn patience(&self, timeout: Nanos, forced: Option<Nanos>) -> Patience {
        let due = |place: &Location| match forced {
            None => place.offset + place.interval,
            Some(late) => place.offset.max(place.interval).saturating_sub(late),
        };
        let due = self.locations.iter().map(due).max().unwrap_or(Nanos::ZERO);
        match forced {
            None => Patience::once(due, timeout),
            Some(_) => Patience::retrying(due, timeout),
        }
    }
}

impl Wakeup {
    fn new(arguments: &Arguments) -> Self {
        let force_timeout = parameters::FORCE_TIMEOUT.value_in(arguments);
        Self {
            via: parameters::VIA.value_in(arguments),
            interval: parameters::INTERVAL.value_in(arguments),
            pairs: parameters::PAIRS.value_in(arguments),
            together: parameters::THREADS
                .value_in(arguments)
                .map(|threads| Together {
                    threads,
                    unbound: parameters::UNBOUND.value_in(arguments),
                    distance: parameters::DISTANCE.value_in(arguments),
                    later: force_timeout.unwrap_or_default(),
                    priority_spread: parameters::PRIORITY_SPREAD.value_in(arguments),
                }),
            warm: parameters::WARM.value_in(arguments),
            timeout: parameters::TIMEOUT.value_in(arguments),
            force_timeout,
            processes: parameters::PROCESSES.value_in(arguments),
            wakeups: parameters::WAKEUPS.value_in(arguments),
        }
    }
}

/// The maximum number of processes of posting threads. Each is another instance of this program.
const PROCESSES_MAX: usize = 64;

impl Wakeup {
    /// Returns the command that starts the processes of the posting threads, if they are separate.
    ///
    /// # Errors
    /// Returns an error if separate processes are impossible.
    fn partner(
        &self,
        pairs: usize,
        resources: &dyn Resources,
    ) -> Result<Option<Vec<OsString>>, ProbeError> {
        let why = match resources.partner() {
            _ if !self.processes => return Ok(None),
            _ if !cross_process::WAYS.contains(&self.via) => {
                cross_process::ways_there_are(self.via)
            }
            _ if pairs > PROCESSES_MAX => format!(
                "--processes would start {pairs}, but at most {PROCESSES_MAX} are supported: \
                 choose fewer CPUs with --cpus, or other --pairs"
            ),
            None => "--processes starts this program again, but its file cannot be found: was it \
                     deleted or moved?"
                .to_owned(),
            Some(command) => return Ok(Some(command.to_vec())),
        };
        Err(ProbeError::Unfit(why))
    }
}

impl Probe for Wakeup {
    fn prepare(self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        let places = match self.together {
            Some(together) => locations::together(together, self.interval, plan)?,
            None => locations::in_turns(self.pairs, self.interval, plan)?,
        };
        let partner = self.partner(places.len(), resources)?;
        if self.warm && !places.iter().all(Location::returns_at_once) {
            return Err(ProbeError::Unfit(format!(
                "--warm requires the waiting thread to run and wait again before the post returns: \
                 use --pairs same or --threads, and a real-time priority above 1 for each pair \
                 (requested: --pairs {}, {})",
                self.pairs, plan.scheduling
            )));
        }
        if self.timeout.is_some() && (self.via != "mq" || self.together.is_none()) {
            return Err(ProbeError::Unfit(
                "--timeout applies only to message queues and to pairs that run simultaneously: \
                 add --via mq and --threads"
                    .to_owned(),
            ));
        }
        if self.force_timeout.is_some() && self.timeout.is_none() {
            return Err(ProbeError::Unfit(
                "--force-timeout forces the timeout of --timeout: add --timeout".to_owned(),
            ));
        }
        let turns = places.first().map_or(1, |place| place.turns);
        let share = plan.duration.map(|all| Nanos(all.0 / turns.max(1)));
        let workers: Vec<_> = places.iter().map(Location::worker).collect();
        let run = ReadyPairs {
            partner,
            locations: places,
            terms: Terms::from_plan(plan),
            probe: self,
        };
        Ok(Ready {
            warm_up: plan.warm_up_of(share),
            ..plan.ready(workers, run)
        })
    }
}

impl Measure for ReadyPairs {
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let run = Run {
            plan: &self,
            control,
        };
        let plain = || Mutexes::new(Protocol::Plain);
        let inherit = || Mutexes::new(Protocol::Inherit);
        match self.probe.via {
            "mutex" => run.measure(recorders, plain),
            "mutex-pi" => run.measure(recorders, inherit),
            "condvar" => run.measure(recorders, Condition::new),
            "barrier" => run.measure(recorders, barrier),
            "sem" => run.measure(recorders, || Semaphore::new(0)),
            "sem-sysv" => run.measure(recorders, SystemVSemaphore::new),
            "pipe" => run.measure(recorders, Pipe::new),
            "eventfd" => run.measure(recorders, EventFd::new),
            "mq" => match self.probe.timeout {
                Some(timeout) => {
                    let patience = self.patience(timeout, self.probe.force_timeout);
                    run.measure(recorders, || TimedQueue::new(4, patience))
                }
                None => run.measure(recorders, || MessageQueue::new(4)),
            },
            "socket" => run.measure(recorders, Socket::new),
            "signal" => run.measure(recorders, || Ok(Signal::default())),
            _ if self.partner.is_some() => run.measure_with(recorders, |numbers| match numbers {
                Numbers::Shared(numbers) => Ok(SharedFutexes(Arc::clone(numbers))),
                Numbers::Own(_) => SharedNumbers::new().map(|own| SharedFutexes(Arc::new(own))),
            }),
            _ => run.measure(recorders, || Ok(BareFutex::default())),
        }
    }
}

#[cfg(test)]
mod tests;
