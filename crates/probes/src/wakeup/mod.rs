//! `wakeup`: from one thread's post to another's wake-up.

mod pair;
mod turns;
mod ways;

use std::sync::Arc;

use punctual_model::{
    Arguments, Chart, CpuSet, Nanos, Parameter, ParameterKind, Policy, Scheduling,
};
use punctual_rt::{EventFd, MessageQueue, Protocol, Semaphore, SystemVSemaphore, ThreadBuilder};

use self::pair::{Pair, Surroundings, poster, waiter};
use self::turns::Turns;
use self::ways::{BareFutex, Condition, Mutexes, Pipe, Socket, Way, barrier};
use crate::crew::Crew;
use crate::{
    Control, LaneOutcome, LaneSpec, Measured, Plan, Prepared, Probe, ProbeEntry, ProbeError,
    Recorder, rt_policy,
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

With a real-time policy the poster has the next lower priority: on the same CPU the \
thread that is woken runs at once, and the latency is that of the switch. At priority \
1, or without such a policy, it may have to wait until the poster sleeps.

The ways: with `mutex` and `mutex-pi` the poster holds two mutexes and lets go of \
the one that the other thread waits for; what is measured is from before the \
unlock to after the lock. `condvar` is lock, count, unlock, notify. With `barrier` \
the waiting thread has come first and the poster comes last. With `pipe` and \
`socket` one byte is written and read, with `mq` a message of 8 bytes. The set of \
`sem-sysv` is removed at the end; after a kill -9 it stays (`ipcs -s`, `ipcrm`).

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
    replaces: "ptsematest, svsematest, pmqtest",
    chart: Chart::Matrix,
    parameters: PARAMETERS,
    build: |arguments| Box::new(Wakeup::new(arguments)),
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "via",
        short: None,
        kind: ParameterKind::Choice(&[
            ("futex", "futex(2), what the locks of the C library wait in"),
            (
                "mutex",
                "a pthread mutex, unlocked by the one, locked by the other",
            ),
            ("mutex-pi", "the same with priority inheritance"),
            ("condvar", "a condition variable with its mutex"),
            ("barrier", "a pthread barrier of two"),
            ("sem", "a POSIX semaphore"),
            ("sem-sysv", "a System V semaphore"),
            ("pipe", "a byte through a pipe"),
            ("eventfd", "an eventfd counter"),
            ("mq", "a POSIX message queue"),
            ("socket", "a byte through a pair of Unix stream sockets"),
        ]),
        default: Some("futex"),
        help: "What the one thread wakes the other with",
    },
    Parameter {
        name: "interval",
        short: Some('i'),
        kind: ParameterKind::Duration {
            // Two wake-ups and two switches have to fit in with room to spare.
            min: Nanos::from_micros(50),
            max: Nanos::from_secs(10),
        },
        default: Some("1ms"),
        help: "Time from one exchange to the next, of whichever pair",
    },
    Parameter {
        name: "pairs",
        short: None,
        kind: ParameterKind::Choice(&[
            ("all", "from each CPU to each, itself included"),
            ("same", "from each CPU to itself"),
            (
                "neighbours",
                "from each CPU to the next, from the last to the first",
            ),
        ]),
        default: Some("all"),
        help: "Between which of the CPUs",
    },
    Parameter {
        name: "warm",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Let an exchange that is not measured go before each, as rt-tests do; with --pairs same and a real-time priority above 1",
    },
];

/// Stack that is touched before the start; the loops use far less.
const STACK_PREFAULT: usize = 32 * 1024;

/// CPUs of a whole matrix: 16 are 256 pairs, which is 512 threads, and in ten
/// seconds at an interval of 1 ms some 40 exchanges each.
const MATRIX_MAX: usize = 16;

/// Pairs of any kind.
const PAIRS_MAX: usize = MATRIX_MAX * MATRIX_MAX;

#[derive(Debug)]
struct Wakeup {
    via: &'static str,
    interval: Nanos,
    pairs: &'static str,
    warm: bool,
    plan: Option<WakeupPlan>,
}

#[derive(Clone, Debug)]
struct WakeupPlan {
    /// (from, to)
    pairs: Vec<(u32, u32)>,
    scheduling: Scheduling,
    duration: Option<Nanos>,
}

impl Wakeup {
    fn new(arguments: &Arguments) -> Self {
        Self {
            via: arguments.choice("via").unwrap_or("futex"),
            interval: arguments
                .duration("interval")
                .unwrap_or(Nanos::from_millis(1)),
            pairs: arguments.choice("pairs").unwrap_or("all"),
            warm: arguments.flag("warm"),
            plan: None,
        }
    }

    fn choose(&self, cpus: &CpuSet) -> Result<Vec<(u32, u32)>, ProbeError> {
        let cpus: Vec<u32> = cpus.iter().collect();
        let pairs: Vec<(u32, u32)> = match self.pairs {
            "same" => cpus.iter().map(|cpu| (*cpu, *cpu)).collect(),
            "neighbours" => {
                let next = cpus.iter().cycle().skip(1);
                cpus.iter().copied().zip(next.copied()).collect()
            }
            _ if cpus.len() > MATRIX_MAX => {
                return Err(ProbeError::Unfit(format!(
                    "a matrix of {} CPUs has {} pairs, more than {PAIRS_MAX}: choose up to \
                     {MATRIX_MAX} with --cpus, or --pairs same or --pairs neighbours",
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
                "{} CPUs are more than {PAIRS_MAX} pairs: choose some of them with --cpus",
                pairs.len()
            )));
        }
        Ok(pairs)
    }
}

impl Probe for Wakeup {
    fn prepare(&mut self, plan: &Plan) -> Result<Prepared, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        let first_to_run = plan.scheduling.policy.is_real_time() && plan.scheduling.priority > 1;
        if self.warm && !(self.pairs == "same" && first_to_run) {
            return Err(ProbeError::Unfit(format!(
                "--warm needs the waiting thread to come and go within the post: give --pairs same \
                 and a real-time priority above 1 (here --pairs {}, {})",
                self.pairs, plan.scheduling
            )));
        }
        let pairs = self.choose(&plan.cpus)?;
        let count = pairs.len() as u64;
        if let Some(duration) = plan.duration
            && duration.0 / self.interval.0 < count
        {
            return Err(ProbeError::Unfit(format!(
                "{count} pairs with an exchange every {} do not all have one in a run of \
                 {duration}: measure longer, or fewer CPUs",
                self.interval
            )));
        }
        let share = plan.duration.map(|all| Nanos(all.0 / count.max(1)));
        let lanes = pairs
            .iter()
            .map(|(from, to)| LaneSpec {
                label: None,
                cpu: Some(*to),
                from_cpu: Some(*from),
                scheduling: plan.scheduling,
                rate_hz: 1_000_000_000 / self.interval.0 / count.max(1) + 1,
            })
            .collect();
        self.plan = Some(WakeupPlan {
            pairs,
            scheduling: plan.scheduling,
            duration: plan.duration,
        });
        Ok(Prepared {
            lanes,
            duration: plan.duration,
            warm_up: plan.warm_up_of(share),
        })
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
            interval: self.interval,
            warm: self.warm,
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
            "mq" => run.measure(recorders, || MessageQueue::new(4)),
            "socket" => run.measure(recorders, Socket::new),
            _ => run.measure(recorders, || Ok(BareFutex::default())),
        }
    }
}

/// One run, whatever the way.
struct Run<'a> {
    plan: &'a WakeupPlan,
    interval: Nanos,
    warm: bool,
    control: &'a Arc<Control>,
}

impl Run<'_> {
    fn measure<W: Way>(
        &self,
        recorders: Vec<Recorder>,
        make: impl Fn() -> Result<W, punctual_rt::Error>,
    ) -> Result<Measured, ProbeError> {
        let mut crew = Crew::new(self.control);
        for (place, recorder) in recorders.into_iter().enumerate() {
            let pair = Arc::new(Pair::new(make()?));
            self.start(&mut crew, place, &pair, recorder)?;
        }
        crew.go();
        Ok(Measured {
            lanes: crew.join()?,
            tables: Vec::new(),
            warnings: Vec::new(),
        })
    }

    fn surroundings(&self, place: usize) -> Surroundings {
        let pairs = self.plan.pairs.len() as u64;
        Surroundings {
            turns: Turns {
                start: Nanos::ZERO,
                interval: self.interval,
                pairs,
                length: Turns::length(self.plan.duration, self.interval, pairs),
                end: Nanos::ZERO,
            },
            warm: self.warm,
            duration: self.plan.duration,
            pair: place as u64,
        }
    }

    /// Starts the two threads of the pair at `place`. The one that waits comes
    /// first: the other one would wait for it at its end.
    fn start<W: Way>(
        &self,
        crew: &mut Crew<LaneOutcome>,
        place: usize,
        pair: &Arc<Pair<W>>,
        recorder: Recorder,
    ) -> Result<(), ProbeError> {
        let (from, to) = self.plan.pairs[place];
        let builder = |name: &str, cpu: u32, scheduling: Scheduling| {
            ThreadBuilder::new(&format!("{name}/{from}-{to}"))
                .cpus(&[cpu])
                .policy(rt_policy(scheduling))
                .prefault_stack(STACK_PREFAULT)
        };
        let (scheduling, surroundings) = (self.plan.scheduling, self.surroundings(place));
        crew.enlist(builder("wait", to, scheduling), {
            let pair = Arc::clone(pair);
            move |member| waiter(&pair, recorder, &surroundings, member)
        })?;
        crew.enlist(builder("post", from, below(scheduling)), {
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
