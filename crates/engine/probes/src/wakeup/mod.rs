//! `wakeup`: from one thread's post to another's wake-up.

mod child_process;
mod cross_process;
mod mechanisms;
mod pair;
mod parameters;
mod places;
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
use self::mechanisms::{BareFutex, Condition, Mutexes, Pipe, Signal, Socket, barrier};
use self::parameters::PARAMETERS;
use self::places::{Place, Together};
use self::run::Run;
use self::shared_state::Numbers;
use self::timed_queue::{Patience, TimedQueue};
use crate::entry::Probe;
use crate::{Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "wakeup",
    summary: "from one thread's post to another's wake-up, between all CPUs",
    unit: "ns",
    documentation: "\
Two threads for each pair of CPUs, one bound to each; also both to the same CPU. \
The one sleeps to an absolute time, reads the clock and posts, in the way that \
`--via` names. The other waits in that way; once it is awake it reads the clock \
and records the difference, then it waits again. The latency holds the post's own \
system call, the wake-up, an interrupt to the other CPU and that CPU's idle exit \
where they differ, the scheduler's decision and switch, the return to user space, \
what the library does before it returns (a mutex is taken, a condition variable's \
mutex is taken again), and one reading of the clock. It does not hold the poster's \
own timer: how late that is does not show.

The waiting thread says that it waits just before it does. A post is made only \
after it has said so and half an interval has passed since the last one, so that it \
is blocked and not on its way there. Where that is not so, or the poster's time has \
passed before it ran, the exchange is counted as missed: recorded, missed and \
warm-up add up to the exchanges that came due, counted by the clock.

Only one exchange is under way at any time: the pairs take turns of up to 1000 \
exchanges, a quarter of their share of the run, one after the other and round after \
round. So a pair does not disturb another, and what changes during the run meets all. \
The first exchange of a turn finds both threads as they were left a round ago, \
with colder caches than the others. The warm-up counts for each pair from its own \
first exchange.

With `--threads` there are so many pairs, which run at the same time as those of \
rt-tests do: both threads of a pair on one CPU, or with `--unbound` on any. Each has an \
interval of its own (`--distance`), and may have a lower priority than the one before.

With a real-time policy the poster has the next lower priority: on the same CPU the \
thread that is woken runs at once, and the latency is that of the switch. At priority \
1, or without such a policy, it may have to wait until the poster sleeps.

The ways: with `mutex` and `mutex-pi` the poster holds two mutexes and lets go of \
the one that the other thread waits for; what is measured is from before the \
unlock to after the lock. `condvar` is lock, count, unlock, notify. With `barrier` \
the waiting thread has come first and the poster comes last. With `pipe` and \
`socket` one byte is written and read, with `mq` a message of 8 bytes. With `signal` it is tgkill and sigwaitinfo. \
With `--timeout` a message is waited for with mq_timedreceive; `--force-timeout` sends \
each so much later, and the thread that waits gives up and waits again. \
The set of `sem-sysv` is removed at the end; after a kill -9 it stays (`ipcs -s`, `ipcrm`), \
but for `--processes`.

With `--processes` the posting thread of each pair is in a process of its own: the \
wake-up goes from one address space to another, and on one CPU the switch changes it \
(the kernel loads another page table, and the processor may have to fill its \
translations again). It is this program once more; what the two tell each other is in \
memory that both have mapped, and the futex of `--via futex` is in it and not private. The table \
`partners` says what these processes used while they posted. Each is of the same policy \
as the thread would be, with its memory locked likewise, and ends with the program, \
however that ends. A mutex, a condition variable, a barrier and a POSIX semaphore stay \
within one process.

ptsematest, svsematest and pmqtest take their time stamps in the same places, in \
microseconds. Their two threads have the same priority, so that on one CPU their \
figure also holds the sender's way from its post to its next wait, which ours does \
not. And their sender has not just slept, but was woken by the receiver: with warm \
caches the same exchange takes a half to two thirds of the time. `--warm` is their \
way: an exchange that is not measured goes before each that is.

Sources: futex(2), pthread_mutexattr_setprotocol(3), pthread_cond_wait(3), \
pthread_barrier_wait(3), sem_overview(7), semop(2), pipe(7), eventfd(2), \
mq_overview(7), unix(7).",
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without, it runs as other",
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
    places: Vec<Place>,
    /// The CPUs of pairs that are not bound.
    cpus: Vec<u32>,
    duration: Option<Nanos>,
}

impl ReadyPairs {
    /// Returns how long to wait for a message that is `timeout` late. The wait can begin up to an
    /// interval before the message is due. Messages are sent `forced` later than due.
    fn patience(&self, timeout: Nanos, forced: Option<Nanos>) -> Patience {
        let due = |place: &Place| match forced {
            None => place.offset + place.interval,
            Some(late) => place.offset.max(place.interval).saturating_sub(late),
        };
        let due = self.places.iter().map(due).max().unwrap_or(Nanos::ZERO);
        match forced {
            None => Patience::once(due, timeout),
            Some(_) => Patience::again_and_again(due, timeout),
        }
    }
}

impl Wakeup {
    fn new(arguments: &Arguments) -> Self {
        let force_timeout = parameters::FORCE_TIMEOUT.of(arguments);
        Self {
            via: parameters::VIA.of(arguments),
            interval: parameters::INTERVAL.of(arguments),
            pairs: parameters::PAIRS.of(arguments),
            together: parameters::THREADS.of(arguments).map(|threads| Together {
                threads,
                unbound: parameters::UNBOUND.of(arguments),
                distance: parameters::DISTANCE.of(arguments),
                later: force_timeout.unwrap_or_default(),
                priority_spread: parameters::PRIORITY_SPREAD.of(arguments),
            }),
            warm: parameters::WARM.of(arguments),
            timeout: parameters::TIMEOUT.of(arguments),
            force_timeout,
            processes: parameters::PROCESSES.of(arguments),
            wakeups: parameters::WAKEUPS.of(arguments),
        }
    }
}

/// The most processes of posting threads; each is another instance of this program.
const PROCESSES_MAX: usize = 64;

impl Wakeup {
    /// Returns the command that starts the processes of the posting threads, if they are separate.
    ///
    /// # Errors
    /// If separate processes are impossible.
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
                "--processes would start {pairs}, more than {PROCESSES_MAX}: choose fewer CPUs \
                 with --cpus, or other --pairs"
            ),
            None => {
                "--processes starts this program again, which cannot be found any more: was it \
                     deleted or moved?"
                    .to_owned()
            }
            Some(command) => return Ok(Some(command.to_vec())),
        };
        Err(ProbeError::Unfit(why))
    }
}

impl Probe for Wakeup {
    fn prepare(self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        let places = match self.together {
            Some(together) => places::together(together, self.interval, plan)?,
            None => places::in_turns(self.pairs, self.interval, plan)?,
        };
        let partner = self.partner(places.len(), resources)?;
        if self.warm && !places.iter().all(Place::returns_at_once) {
            return Err(ProbeError::Unfit(format!(
                "--warm needs the waiting thread to come and go within the post: give --pairs same \
                 or --threads, and a real-time priority above 1 for each pair (here --pairs {}, {})",
                self.pairs, plan.scheduling
            )));
        }
        if self.timeout.is_some() && (self.via != "mq" || self.together.is_none()) {
            return Err(ProbeError::Unfit(
                "--timeout is about message queues, and pairs that do not wait for each other's \
                 turns: give --via mq and --threads"
                    .to_owned(),
            ));
        }
        if self.force_timeout.is_some() && self.timeout.is_none() {
            return Err(ProbeError::Unfit(
                "--force-timeout needs the --timeout that it is to force".to_owned(),
            ));
        }
        let turns = places.first().map_or(1, |place| place.turns);
        let share = plan.duration.map(|all| Nanos(all.0 / turns.max(1)));
        let lanes: Vec<_> = places.iter().map(Place::lane).collect();
        let run = ReadyPairs {
            partner,
            places,
            cpus: plan.cpus.iter().collect(),
            duration: plan.duration,
            probe: self,
        };
        Ok(Ready {
            warm_up: plan.warm_up_of(share),
            ..plan.ready(lanes, move |recorders, control| {
                run.measure(recorders, control)
            })
        })
    }
}

impl ReadyPairs {
    fn measure(
        &self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let run = Run {
            plan: self,
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
