//! `wakeup`: from one thread's post to another's wake-up.

mod pair;
mod parameters;
mod places;
mod turns;
mod ways;

use std::sync::Arc;
use std::time::Duration;

use punctual_model::{Arguments, Chart, Delay, Nanos, Policy, Scheduling};
use punctual_rt::{EventFd, MessageQueue, Protocol, Semaphore, SystemVSemaphore, ThreadBuilder};

use self::pair::{Pair, Surroundings, poster, waiter};
use self::parameters::PARAMETERS;
use self::places::{Place, Together};
use self::turns::Turns;
use self::ways::{BareFutex, Condition, Mutexes, Pipe, Signal, Socket, TimedQueue, Way, barrier};
use crate::crew::Crew;
use crate::{
    Control, LaneOutcome, Measured, Plan, Prepared, Probe, ProbeEntry, ProbeError, Recorder,
    rt_policy,
};

/// All about this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "wakeup",
    summary: "from one thread's post to another's wake-up, from each CPU to each",
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
With `--timeout` a message is waited for with mq_timedreceive. \
The set of `sem-sysv` is removed at the end; after a kill -9 it stays (`ipcs -s`, `ipcrm`).

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
    explained: Some(Delay::Call),
    parameters: PARAMETERS,
    build: |arguments| Box::new(Wakeup::new(arguments)),
};

/// Stack that is touched before the start; the loops use far less.
const STACK_PREFAULT: usize = 32 * 1024;

#[derive(Debug)]
struct Wakeup {
    via: &'static str,
    interval: Nanos,
    pairs: &'static str,
    together: Option<Together>,
    warm: bool,
    timeout: Option<Nanos>,
    wakeups: Option<u64>,
    plan: Option<WakeupPlan>,
}

#[derive(Clone, Debug)]
struct WakeupPlan {
    places: Vec<Place>,
    /// Those of pairs that are not bound.
    cpus: Vec<u32>,
    duration: Option<Nanos>,
}

impl WakeupPlan {
    /// How long to wait for a message that is `timeout` late: the waiting thread
    /// comes to its wait up to an interval before the message is due.
    fn patience(&self, timeout: Nanos) -> Duration {
        let due = self
            .places
            .iter()
            .map(|place| place.offset + place.interval);
        let due = due.max().unwrap_or(Nanos::ZERO);
        Duration::from_nanos(due.0.saturating_add(timeout.0))
    }
}

impl Wakeup {
    fn new(arguments: &Arguments) -> Self {
        let duration = |name| arguments.duration(name).unwrap_or_default();
        Self {
            via: arguments.choice("via").unwrap_or("futex"),
            interval: arguments
                .duration("interval")
                .unwrap_or(Nanos::from_millis(1)),
            pairs: arguments.choice("pairs").unwrap_or("all"),
            together: arguments.count("threads").map(|threads| Together {
                threads,
                unbound: arguments.flag("unbound"),
                distance: duration("distance"),
                priority_spread: arguments.flag("priority-spread"),
            }),
            warm: arguments.flag("warm"),
            timeout: arguments.duration("timeout"),
            wakeups: arguments.count("wakeups"),
            plan: None,
        }
    }
}

impl Probe for Wakeup {
    fn prepare(&mut self, plan: &Plan) -> Result<Prepared, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        let places = match self.together {
            Some(together) => places::together(together, self.interval, plan)?,
            None => places::in_turns(self.pairs, self.interval, plan)?,
        };
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
        let turns = places.first().map_or(1, |place| place.turns);
        let share = plan.duration.map(|all| Nanos(all.0 / turns.max(1)));
        let prepared = Prepared {
            lanes: places.iter().map(Place::lane).collect(),
            duration: plan.duration,
            warm_up: plan.warm_up_of(share),
        };
        self.plan = Some(WakeupPlan {
            places,
            cpus: plan.cpus.iter().collect(),
            duration: plan.duration,
        });
        Ok(prepared)
    }

    fn run(
        &mut self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let plan = self
            .plan
            .as_ref()
            .ok_or_else(|| ProbeError::not_prepared(ENTRY.name))?;
        let run = Run {
            plan,
            warm: self.warm,
            wakeups: self.wakeups.unwrap_or(u64::MAX),
            control,
        };
        let plain = || Mutexes::new(Protocol::Plain);
        let inherit = || Mutexes::new(Protocol::Inherit);
        match self.via {
            "mutex" => run.measure(recorders, plain),
            "mutex-pi" => run.measure(recorders, inherit),
            "condvar" => run.measure(recorders, Condition::new),
            "barrier" => run.measure(recorders, barrier),
            "sem" => run.measure(recorders, || Semaphore::new(0)),
            "sem-sysv" => run.measure(recorders, SystemVSemaphore::new),
            "pipe" => run.measure(recorders, Pipe::new),
            "eventfd" => run.measure(recorders, EventFd::new),
            "mq" => match self.timeout {
                Some(timeout) => {
                    let patience = plan.patience(timeout);
                    run.measure(recorders, || TimedQueue::new(4, patience))
                }
                None => run.measure(recorders, || MessageQueue::new(4)),
            },
            "socket" => run.measure(recorders, Socket::new),
            "signal" => run.measure(recorders, || Ok(Signal::default())),
            _ => run.measure(recorders, || Ok(BareFutex::default())),
        }
    }
}

/// One run, whatever the way.
struct Run<'a> {
    plan: &'a WakeupPlan,
    warm: bool,
    wakeups: u64,
    control: &'a Arc<Control>,
}

impl Run<'_> {
    fn measure<W: Way>(
        &self,
        recorders: Vec<Recorder>,
        make: impl Fn() -> Result<W, punctual_rt::Error>,
    ) -> Result<Measured, ProbeError> {
        let mut crew = Crew::new(self.control);
        for (number, recorder) in recorders.into_iter().enumerate() {
            let pair = Arc::new(Pair::new(make()?));
            self.start(&mut crew, number, &pair, recorder)?;
        }
        crew.go();
        Ok(Measured {
            lanes: crew.join()?,
            tables: Vec::new(),
            warnings: Vec::new(),
        })
    }

    fn surroundings(&self, place: &Place) -> Surroundings {
        Surroundings {
            turns: Turns {
                start: Nanos::ZERO,
                interval: place.interval,
                pairs: place.turns,
                length: Turns::length(self.plan.duration, place.interval, place.turns),
                end: Nanos::ZERO,
            },
            warm: self.warm,
            wakeups: self.wakeups,
            duration: self.plan.duration,
            offset: place.offset,
            pair: place.turn,
        }
    }

    /// Starts the two threads of a pair. The one that waits comes first: the
    /// other one would wait for it at its end.
    fn start<W: Way>(
        &self,
        crew: &mut Crew<LaneOutcome>,
        number: usize,
        pair: &Arc<Pair<W>>,
        recorder: Recorder,
    ) -> Result<(), ProbeError> {
        let place = &self.plan.places[number];
        let builder = |name: &str, cpu: &Option<u32>, scheduling: Scheduling| {
            ThreadBuilder::new(&format!("{name}/{}", place.name))
                .cpus(match cpu {
                    Some(cpu) => std::slice::from_ref(cpu),
                    None => &self.plan.cpus,
                })
                .policy(rt_policy(scheduling))
                .prefault_stack(STACK_PREFAULT)
        };
        let surroundings = self.surroundings(place);
        crew.enlist(builder("wait", &place.to, place.scheduling), {
            let pair = Arc::clone(pair);
            move |member| waiter(&pair, recorder, &surroundings, member)
        })?;
        crew.enlist(builder("post", &place.from, below(place.scheduling)), {
            let pair = Arc::clone(pair);
            move |member| poster(&pair, &surroundings, member).map(|()| None)
        })
    }
}

/// The poster's policy: one priority lower, where there is one, so that the
/// thread that is woken on the same CPU runs at once.
fn below(scheduling: Scheduling) -> Scheduling {
    match scheduling.policy {
        Policy::Fifo | Policy::RoundRobin => Scheduling {
            priority: scheduling.priority.saturating_sub(1).max(1),
            ..scheduling
        },
        _ => scheduling,
    }
}

#[cfg(test)]
mod tests;
