//! `timer`: how late a periodic thread wakes.

use std::sync::Arc;

use punctual_model::{
    Arguments, Chart, Nanos, Parameter, ParameterKind, Policy, Scheduling, SignedNanos,
};
use punctual_rt::{
    Clock, Instant, Nanosleep, PeriodicWait, SignalTimer, ThreadBuilder, TimerFd, Wake,
};

use crate::crew::Crew;
use crate::{
    Control, LaneOutcome, LaneSpec, Measured, Plan, Prepared, Probe, ProbeEntry, ProbeError,
    Recorder, SelfCost, rt_policy, usual_warm_up,
};

/// All about this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "timer",
    summary: "how late a periodic thread wakes",
    unit: "ns",
    documentation: "\
One thread per measured CPU, bound to it. Each sleeps to an absolute time, reads \
the clock, records actual minus expected, and sleeps to the next multiple of the \
interval. The latency holds all that lies between the timer's due time and the \
first instruction of the thread: idle exit, interrupt entry, the timer interrupt \
itself, other interrupts and softirqs, the scheduler's decision and switch, the \
return to user space, and one reading of the clock. It holds nothing of the \
recording: that happens after the clock was read.

A period that passes while the thread is still late for an earlier one has no \
sample of its own. It is counted as missed: recorded, missed and warm-up add up \
to the periods that came due, counted by the clock.

The threads' first due times are spread evenly over one interval, so that the \
CPUs do not wake in the same instant; `--aligned` makes them do so, `--full-second` \
at the next full second of the clock.

With `--threads` their number is another than that of the CPUs, which they share \
in turn; `--unbound` leaves each of them on all these CPUs, `--distance` gives each \
a longer interval than the one before, `--priority-spread` a lower priority. \
`--wait relative` sleeps for the interval, counted from a reading of the clock \
just before: such a loop drifts, and misses no period because it has none. On \
`--clock realtime` a step of the wall clock is a latency.

Sources: clock_nanosleep(2), timerfd_create(2), timer_create(2), sigwaitinfo(2).",
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without, it runs as other",
    replaces: "cyclictest, jitterdebugger",
    chart: Chart::Latency,
    parameters: PARAMETERS,
    build: |arguments| Box::new(Timer::new(arguments)),
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "interval",
        short: Some('i'),
        kind: ParameterKind::Duration {
            // Below, most machines do nothing but wake up; a FIFO thread that
            // never sleeps would starve its CPU.
            min: Nanos::from_micros(20),
            max: Nanos::from_secs(3_600),
        },
        default: Some("1ms"),
        help: "Time from one wake-up to the next",
    },
    Parameter {
        name: "loops",
        short: Some('l'),
        kind: ParameterKind::Count {
            min: 1,
            max: 1_000_000_000_000,
        },
        default: None,
        help: "Stop after this many periods per thread, warm-up not counted (instead of --duration)",
    },
    Parameter {
        name: "wait",
        short: None,
        kind: ParameterKind::Choice(&[
            ("nanosleep", "clock_nanosleep to an absolute time"),
            ("timerfd", "read from a periodic timerfd"),
            (
                "signal",
                "a periodic POSIX timer's signal, taken with sigwaitinfo",
            ),
            ("relative", "clock_nanosleep for the interval, from now"),
        ]),
        default: Some("nanosleep"),
        help: "How the thread waits",
    },
    Parameter {
        name: "aligned",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Wake all CPUs at the same instant, instead of spread over the interval",
    },
    Parameter {
        name: "full-second",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Begin at the next full second of the clock, all CPUs at the same instant",
    },
    Parameter {
        name: "offset",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::ZERO,
            max: Nanos::from_secs(3_600),
        },
        default: Some("0s"),
        help: "Begin this much later; with --aligned each thread by this much later than the one before",
    },
    Parameter {
        name: "threads",
        short: None,
        kind: ParameterKind::Count {
            min: 1,
            max: 4_096,
        },
        default: None,
        help: "How many threads, on the CPUs in turn, instead of one for each",
    },
    Parameter {
        name: "unbound",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Let each thread run on all of the CPUs, instead of binding it to one",
    },
    Parameter {
        name: "distance",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::ZERO,
            max: Nanos::from_secs(3_600),
        },
        default: Some("0s"),
        help: "Each thread's interval is longer by this than that of the one before",
    },
    Parameter {
        name: "priority-spread",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Each thread's priority is lower by one than that of the one before",
    },
    Parameter {
        name: "wakeups",
        short: None,
        kind: ParameterKind::Count {
            min: 1,
            max: 1_000_000_000_000,
        },
        default: None,
        help: "Stop all threads as soon as one of them has this many samples; missed periods do not count, as they do for --loops",
    },
    Parameter {
        name: "clock",
        short: None,
        kind: ParameterKind::Choice(&[
            ("monotonic", "CLOCK_MONOTONIC"),
            ("realtime", "CLOCK_REALTIME, the time on the wall"),
        ]),
        default: Some("monotonic"),
        help: "The clock of the sleeps and of the latencies",
    },
];

/// The clock by which samples are placed in time.
const CLOCK: Clock = Clock::Monotonic;

/// Stack that is touched before the start; the loop uses far less.
const STACK_PREFAULT: usize = 64 * 1024;

#[derive(Debug)]
struct Timer {
    interval: Nanos,
    loops: Option<u64>,
    wakeups: Option<u64>,
    wait: &'static str,
    begin: Begin,
    threads: Option<u64>,
    unbound: bool,
    distance: Nanos,
    priority_spread: bool,
    clock: Clock,
    plan: Option<TimerPlan>,
}

/// When the threads begin.
#[derive(Clone, Copy, Debug)]
struct Begin {
    aligned: bool,
    full_second: bool,
    offset: Nanos,
}

#[derive(Clone, Debug)]
struct TimerPlan {
    cpus: Vec<u32>,
    lanes: Vec<LaneSpec>,
    duration: Option<Nanos>,
}

impl Timer {
    fn new(arguments: &Arguments) -> Self {
        Self {
            interval: arguments
                .duration("interval")
                .unwrap_or(Nanos::from_millis(1)),
            loops: arguments.count("loops"),
            wakeups: arguments.count("wakeups"),
            wait: arguments.choice("wait").unwrap_or("nanosleep"),
            begin: Begin {
                aligned: arguments.flag("aligned"),
                full_second: arguments.flag("full-second"),
                offset: arguments.duration("offset").unwrap_or_default(),
            },
            threads: arguments.count("threads"),
            unbound: arguments.flag("unbound"),
            distance: arguments.duration("distance").unwrap_or_default(),
            priority_spread: arguments.flag("priority-spread"),
            clock: match arguments.choice("clock") {
                Some("realtime") => Clock::Realtime,
                _ => Clock::Monotonic,
            },
            plan: None,
        }
    }

    /// How long the run is, and how much of it is warm-up.
    fn times(&self, plan: &Plan) -> (Option<Nanos>, Nanos) {
        match self.loops {
            None => {
                let warm_up = plan.warm_up.unwrap_or_else(|| usual_warm_up(plan.duration));
                (plan.duration, warm_up)
            }
            Some(loops) => {
                let measured = Nanos(self.interval.0.saturating_mul(loops));
                // A ninth of what is measured is a tenth of the whole; whole
                // periods of it, so that exactly `loops` are left.
                let usual = usual_warm_up(Some(Nanos(measured.0.saturating_mul(10) / 9)));
                let periods = plan.warm_up.unwrap_or(usual).0.div_ceil(self.interval.0);
                let warm_up = Nanos(periods.saturating_mul(self.interval.0));
                (Some(measured + warm_up), warm_up)
            }
        }
    }

    /// The interval of the thread at this place.
    fn interval_of(&self, place: u64) -> Nanos {
        let more = self.distance.0.saturating_mul(place);
        Nanos(self.interval.0.saturating_add(more))
    }

    fn lanes(&self, plan: &Plan) -> Vec<LaneSpec> {
        let cpus: Vec<u32> = plan.cpus.iter().collect();
        let threads = self.threads.unwrap_or(cpus.len() as u64);
        let shared = threads > cpus.len() as u64;
        (0..threads)
            .zip(cpus.iter().cycle())
            .map(|(place, cpu)| {
                let cpu = (!self.unbound).then_some(*cpu);
                LaneSpec {
                    label: match cpu {
                        None => Some(format!("thread {place}")),
                        Some(cpu) if shared => Some(format!("thread {place}, CPU {cpu}")),
                        Some(_) => None,
                    },
                    cpu,
                    from_cpu: None,
                    scheduling: self.scheduling_of(place, plan.scheduling),
                    rate_hz: 1_000_000_000 / self.interval_of(place).0,
                }
            })
            .collect()
    }

    fn scheduling_of(&self, place: u64, first: Scheduling) -> Scheduling {
        if !self.priority_spread || first.priority == 0 {
            return first;
        }
        match u64::from(first.priority).saturating_sub(place) {
            // There is no lower one that is real-time.
            0 => Scheduling {
                policy: Policy::Other,
                priority: 0,
            },
            priority => Scheduling {
                priority: priority as u8,
                ..first
            },
        }
    }

    /// What does not fit together, or not into the run.
    fn check(&self, plan: &Plan, duration: Option<Nanos>) -> Result<(), ProbeError> {
        let unfit = |text: String| Err(ProbeError::Unfit(text));
        if self.loops.is_some() && plan.duration_asked {
            return unfit(
                "--loops and --duration both say how long to measure: give one of them".to_owned(),
            );
        }
        if let Some(duration) = duration
            && self.interval > duration
        {
            return unfit(format!(
                "the interval of {} is longer than the run of {duration}: nothing would be measured",
                self.interval
            ));
        }
        if plan.scheduling.policy == Policy::Deadline {
            return unfit(
                "the timer probe binds each thread to a CPU, which SCHED_DEADLINE does not \
                 allow: use --policy fifo, rr or other"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

impl Probe for Timer {
    fn prepare(&mut self, plan: &Plan) -> Result<Prepared, ProbeError> {
        let (duration, warm_up) = self.times(plan);
        self.check(plan, duration)?;
        let lanes = self.lanes(plan);
        self.plan = Some(TimerPlan {
            cpus: plan.cpus.iter().collect(),
            lanes: lanes.clone(),
            duration,
        });
        Ok(Prepared {
            lanes,
            duration,
            warm_up,
        })
    }

    fn run(
        &mut self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let plan = self
            .plan
            .clone()
            .ok_or_else(|| ProbeError::Unfit("the timer probe was not prepared".to_owned()))?;
        let mut crew = Crew::new(control);
        let spread = self.interval.0 / recorders.len().max(1) as u64;
        // Read once for all: they are to begin at the same instant of it.
        let ahead = Nanos(self.clock.now().as_nanos()).signed_sub(Nanos(CLOCK.now().as_nanos()));
        for (place, (recorder, lane)) in (0..).zip(recorders.into_iter().zip(&plan.lanes)) {
            let worker = Worker {
                recorder,
                cost: SelfCost::default(),
                wait: self.wait,
                clock: self.clock,
                ahead,
                interval: self.interval_of(place),
                begin: self.begin,
                place,
                spread,
                duration: plan.duration,
                wakeups: self.wakeups.unwrap_or(u64::MAX),
            };
            let builder = ThreadBuilder::new(&match lane.cpu {
                Some(cpu) if lane.label.is_none() => format!("timer/{cpu}"),
                _ => format!("timer/{place}"),
            })
            .cpus(match &lane.cpu {
                Some(cpu) => std::slice::from_ref(cpu),
                None => &plan.cpus,
            })
            .policy(rt_policy(lane.scheduling))
            .prefault_stack(STACK_PREFAULT);
            crew.spawn(builder, |_| Ok(worker.ready()), Worker::run)?;
        }
        crew.go();
        Ok(Measured {
            lanes: crew.join()?,
            tables: Vec::new(),
            warnings: Vec::new(),
        })
    }
}

impl Begin {
    /// The first due time of the thread at `place`, where all may begin at
    /// `start`.
    fn first(self, start: Nanos, place: u64, spread: u64) -> Nanos {
        const SECOND: u64 = 1_000_000_000;
        /// The next second is that after it, where it is almost there.
        const ALMOST: u64 = 100_000_000;
        let offset = self.offset.0;
        let by_place = |each: u64| Nanos(each.saturating_mul(place));
        if self.full_second {
            let second = (start.0 + ALMOST).div_ceil(SECOND) * SECOND;
            return Nanos(second + offset);
        }
        match self.aligned {
            true => start + by_place(offset),
            false => start + Nanos(offset) + by_place(spread),
        }
    }
}

/// What one measuring thread takes with it.
struct Worker {
    recorder: Recorder,
    cost: SelfCost,
    wait: &'static str,
    clock: Clock,
    /// How far `clock` is ahead of [`CLOCK`].
    ahead: SignedNanos,
    interval: Nanos,
    begin: Begin,
    place: u64,
    spread: u64,
    duration: Option<Nanos>,
    wakeups: u64,
}

/// The periods of one thread.
#[derive(Clone, Copy)]
struct Schedule {
    first: Nanos,
    interval: Nanos,
    /// No period begins at or after this.
    end: Nanos,
    clock: Clock,
    /// How far `clock` is ahead of [`CLOCK`].
    ahead: SignedNanos,
    /// The run ends at this many samples.
    wakeups: u64,
}

impl Schedule {
    /// The same time on [`CLOCK`].
    #[inline]
    fn placed(&self, due: Nanos) -> Nanos {
        Nanos(due.0.saturating_add_signed(self.ahead.0.saturating_neg()))
    }
}

impl Worker {
    /// On its own CPU, before the start.
    fn ready(self) -> Self {
        Self {
            cost: SelfCost::measure(self.clock),
            ..self
        }
    }

    fn run(mut self, control: &Control, start: Instant) -> Result<LaneOutcome, ProbeError> {
        let start = Nanos(start.as_nanos().saturating_add_signed(self.ahead.0));
        let first = self.begin.first(start, self.place, self.spread);
        let end = |duration| first + duration;
        let schedule = Schedule {
            first,
            interval: self.interval,
            end: self.duration.map_or(Nanos(u64::MAX), end),
            clock: self.clock,
            ahead: self.ahead,
            wakeups: self.wakeups,
        };
        self.recorder.start(schedule.placed(first));
        let expected = self.measure(schedule, control)?;
        Ok(self.recorder.finish(expected, self.cost))
    }

    fn measure(
        &mut self,
        schedule: Schedule,
        control: &Control,
    ) -> Result<u64, punctual_rt::Error> {
        let first = Instant::from_nanos(schedule.first.0);
        let interval = schedule.interval.into();
        let recorder = &mut self.recorder;
        match self.wait {
            "timerfd" => {
                let mut wait = TimerFd::new(self.clock, first, interval)?;
                turn(&mut wait, schedule, recorder, control)
            }
            "signal" => {
                let mut wait = SignalTimer::new(self.clock, first, interval)?;
                turn(&mut wait, schedule, recorder, control)
            }
            "relative" => drift(Nanosleep::new(self.clock)?, schedule, recorder, control),
            _ => {
                let mut wait = Nanosleep::new(self.clock)?;
                turn(&mut wait, schedule, recorder, control)
            }
        }
    }
}

/// The measuring loop: sleep to the next absolute time, read the clock, record.
/// Returns how many periods came due, by the clock.
fn turn<W: PeriodicWait>(
    wait: &mut W,
    schedule: Schedule,
    recorder: &mut Recorder,
    control: &Control,
) -> Result<u64, punctual_rt::Error> {
    let Schedule {
        first,
        interval,
        end,
        clock,
        ..
    } = schedule;
    let mut due = first;
    let mut left = schedule.wakeups;
    while due < end && !control.stopping() {
        if wait.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
            continue;
        }
        let now = Nanos(clock.now().as_nanos());
        recorder.sample(schedule.placed(due), now.signed_sub(due));
        due += interval;
        left -= 1;
        if left == 0 {
            control.stop();
            break;
        }
        if now >= due {
            due += overrun(now, due, &schedule, recorder);
        }
    }
    Ok((due - first).0 / interval.0)
}

/// The same with sleeps from now on: each turn begins anew, so that none is
/// missed, and as many come due as are made.
fn drift(
    mut wait: Nanosleep,
    schedule: Schedule,
    recorder: &mut Recorder,
    control: &Control,
) -> Result<u64, punctual_rt::Error> {
    let Schedule {
        first,
        interval,
        end,
        clock,
        ..
    } = schedule;
    let sleep = interval.into();
    while !control.stopping() && wait.wait_until(Instant::from_nanos(first.0))? != Wake::Due {}
    let mut turns = 0;
    while !control.stopping() {
        let before = Nanos(clock.now().as_nanos());
        if before >= end {
            break;
        }
        if wait.sleep_for(sleep)? == Wake::Interrupted {
            continue;
        }
        let now = Nanos(clock.now().as_nanos());
        let due = before + interval;
        recorder.sample(schedule.placed(due), now.signed_sub(due));
        turns += 1;
        if turns == schedule.wakeups {
            control.stop();
        }
    }
    Ok(turns)
}

/// Counts the periods from `due` on that have passed by `now`, and returns how
/// much time they cover. Rare, so the division is kept out of the loop.
#[cold]
fn overrun(now: Nanos, due: Nanos, schedule: &Schedule, recorder: &mut Recorder) -> Nanos {
    let interval = schedule.interval;
    // Periods at or after the end are not part of the run.
    let left = (schedule.end - due).0.div_ceil(interval.0);
    let passed = ((now - due).0 / interval.0 + 1).min(left);
    recorder.missed(schedule.placed(due), passed, interval);
    Nanos(passed.saturating_mul(interval.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lane, LaneReader, LaneSettings};
    use punctual_model::{Accounting, CpuSet};
    use std::time::Duration;

    fn arguments(given: &[(&'static str, &'static str)]) -> Arguments {
        Arguments::check(PARAMETERS, given.iter().copied()).unwrap()
    }

    fn plan(duration: Nanos) -> Plan {
        let cpu = punctual_rt::affinity::current().unwrap()[0];
        Plan {
            cpus: CpuSet::from_iter([cpu]),
            scheduling: Scheduling {
                policy: Policy::Other,
                priority: 0,
            },
            duration: Some(duration),
            duration_asked: false,
            warm_up: None,
        }
    }

    fn lane(warm_up: Nanos, control: &Arc<Control>) -> (Recorder, LaneReader) {
        let settings = LaneSettings {
            warm_up,
            break_above: None,
            rate_hz: 1_000,
        };
        Lane::open(settings, control)
    }

    fn measure(given: &[(&'static str, &'static str)], duration: Nanos) -> Accounting {
        let mut timer = Timer::new(&arguments(given));
        let prepared = timer.prepare(&plan(duration)).unwrap();
        assert_eq!(prepared.lanes.len(), 1);
        let control = Arc::new(Control::new());
        let (recorder, _reader) = lane(prepared.warm_up, &control);
        let measured = timer.run(vec![recorder], &control).unwrap();
        let outcome = &measured.lanes[0];
        assert!(outcome.accounting.balances(), "{:?}", outcome.accounting);
        assert_eq!(outcome.histogram.recorded(), outcome.accounting.recorded);
        assert!(outcome.cost.clock_read <= outcome.cost.turn + Nanos::from_micros(10));
        outcome.accounting
    }

    #[test]
    fn each_way_to_wait_accounts_for_every_period() {
        for wait in ["nanosleep", "timerfd", "signal"] {
            let accounting = measure(&[("wait", wait)], Nanos::from_millis(300));
            assert_eq!(accounting.expected, 300, "{wait}");
            assert_eq!(accounting.warm_up, 30, "{wait}");
            assert!(accounting.recorded > 0, "{wait}");
            assert_eq!(accounting.early, 0, "{wait}");
        }
    }

    #[test]
    fn loops_are_what_is_left_after_the_warm_up() {
        let accounting = measure(&[("loops", "200")], Nanos::from_secs(3_600));
        assert_eq!(accounting.recorded + accounting.missed, 200);
        assert_eq!(accounting.warm_up, 23);
    }

    #[test]
    fn a_stop_ends_a_long_sleep() {
        punctual_rt::interrupt::install_interrupt_handler().unwrap();
        let mut timer = Timer::new(&arguments(&[("interval", "1h")]));
        timer.prepare(&plan(Nanos::from_secs(7_200))).unwrap();
        let control = Arc::new(Control::new());
        let (recorder, _reader) = lane(Nanos::ZERO, &control);
        let stopper = std::thread::spawn({
            let control = Arc::clone(&control);
            move || {
                // Again and again, until the test is over: it may not sleep yet.
                for _ in 0..500 {
                    std::thread::sleep(Duration::from_millis(10));
                    control.stop();
                }
            }
        });
        let measured = timer.run(vec![recorder], &control).unwrap();
        // The first period was due at once or not at all.
        assert!(measured.lanes[0].accounting.expected <= 1);
        drop(stopper);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut timer = Timer::new(&arguments(&[("interval", "2s")]));
        let error = timer.prepare(&plan(Nanos::from_secs(1))).unwrap_err();
        assert!(error.is_usage());
        assert!(error.to_string().contains("interval of 2.00 s"), "{error}");
        for interval in ["0s", "19us", "2h"] {
            assert!(Arguments::check(PARAMETERS, [("interval", interval)]).is_err());
        }
    }

    #[test]
    fn an_overrun_counts_each_period_that_passed() {
        let control = Arc::new(Control::new());
        let counted = |now: u64, due: u64, end: u64| {
            let (mut recorder, _reader) = lane(Nanos::ZERO, &control);
            recorder.start(Nanos::ZERO);
            let schedule = Schedule {
                first: Nanos::ZERO,
                interval: Nanos(10),
                end: Nanos(end),
                clock: CLOCK,
                ahead: SignedNanos(0),
                wakeups: u64::MAX,
            };
            let covered = overrun(Nanos(now), Nanos(due), &schedule, &mut recorder);
            let missed = recorder.finish(0, SelfCost::default()).accounting.missed;
            assert_eq!(covered.0, missed * 10);
            missed
        };
        assert_eq!(counted(100, 100, 1_000), 1);
        assert_eq!(counted(109, 100, 1_000), 1);
        assert_eq!(counted(110, 100, 1_000), 2);
        // The run ends at 115: only the periods at 100 and 110 are part of it.
        assert_eq!(counted(500, 100, 115), 2);
        assert_eq!(counted(500, 100, 120), 2);
        // The next one is not part of the run at all.
        assert_eq!(counted(500, 120, 120), 0);
    }
}
