//! `timer`: how late a periodic thread wakes.

mod parameters;
mod timerlat;
mod worker;

use std::sync::Arc;

use punctual_model::{Arguments, Chart, Delay, Nanos, Policy, Scheduling};
use punctual_rt::Clock;

use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::thread_group::ThreadGroup;
use crate::{
    Control, LaneSpec, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, SelfCost,
};
use parameters::{PARAMETERS, USER};
use timerlat::{TIMERLAT, Timerlat};
use worker::{Begin, Worker};

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

**The kernel's own timer** (`--source timerlat`): the tracer `timerlat`, where the \
kernel has it (CONFIG_TIMERLAT_TRACER, root). A timer of the kernel expires on each \
CPU once an interval (100 µs to 1 s) and wakes a thread that is bound there. Each \
expiry is timed from its due time on in three places, which are rows of their own: \
*interrupt*, in the timer's handler; *thread*, in the kernel when the thread runs; \
*user space*, when the thread, one of ours, is back in the kernel after its way \
through user space (since Linux 6.5; `--workload kernel` wakes a thread of the \
kernel instead, and has no such row). What a row has more than the one before lies \
between the two. The samples are taken out of the trace's ring buffer, each with its \
number. A period without a sample is missed: the kernel skips an expiry whose thread \
is still late, and a sample may be overwritten before it is read; the table \
`timerlat` has both, with the policy that each thread was found to have. An outlier \
is explained once, as that of the last row, and `--explain` records the events of \
osnoise as well. The interrupt has no thread: its row bears the priority of the one \
it wakes, and no usage.

The tracer runs in a trace instance of its own. Its CPUs, period and options are one \
for the whole kernel, with those of osnoise: they are read first, kept in the name of \
the instance, and put back at the end; what a killed run has left is undone by the \
next command of punctual. Where another program uses one of them, the probe does not \
run. While threads of ours wait for its timers, the kernel kills this program if \
someone else stops the tracer; the recording is kept, as interrupted.

Sources: clock_nanosleep(2), timerfd_create(2), timer_create(2), sigwaitinfo(2); kernel \
`Documentation/trace/timerlat-tracer.rst`, `kernel/trace/trace_osnoise.c`.",
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without, it runs as other. \
                 Root for the kernel's tracer",
    replaces: "cyclictest, jitterdebugger, rtla timerlat",
    chart: Chart::Latency,
    explained: Ok(Delay::Timer),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Timer::new(arguments).prepare(plan, resources),
};

/// The clock by which samples are placed in time.
const CLOCK: Clock = Clock::Monotonic;

/// What the kernel takes as the period of timerlat (`timerlat_min_period` in
/// `kernel/trace/trace_osnoise.c`).
const TIMERLAT_PERIODS: std::ops::RangeInclusive<Nanos> =
    Nanos::from_micros(100)..=Nanos::from_secs(1);

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
    source: &'static str,
    /// Whom timerlat is to wake; `None`: nothing was asked for.
    workload: Option<&'static str>,
}

impl Timer {
    fn new(arguments: &Arguments) -> Self {
        Self {
            interval: parameters::INTERVAL.of(arguments),
            loops: parameters::LOOPS.of(arguments),
            wakeups: parameters::WAKEUPS.of(arguments),
            wait: parameters::WAIT.of(arguments),
            begin: Begin {
                aligned: parameters::ALIGNED.of(arguments),
                full_second: parameters::FULL_SECOND.of(arguments),
                offset: parameters::OFFSET.of(arguments),
            },
            threads: parameters::THREADS.of(arguments),
            unbound: parameters::UNBOUND.of(arguments),
            distance: parameters::DISTANCE.of(arguments),
            priority_spread: parameters::PRIORITY_SPREAD.of(arguments),
            clock: match parameters::CLOCK.of(arguments) {
                "realtime" => Clock::Realtime,
                _ => Clock::Monotonic,
            },
            source: parameters::SOURCE.of(arguments),
            workload: parameters::WORKLOAD.of(arguments),
        }
    }

    /// How long the run is, and how much of it is warm-up.
    fn times(&self, plan: &Plan) -> (Option<Nanos>, Nanos) {
        let duration = match self.loops {
            None => plan.duration,
            Some(loops) => Some(Nanos(self.interval.0.saturating_mul(loops))),
        };
        (duration, plan.warm_up_of(duration))
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
        if self.workload.is_some() && self.source != TIMERLAT {
            return unfit(
                "--workload is for the kernel's timers: give --source timerlat".to_owned(),
            );
        }
        plan.refuse_deadline(ENTRY.name)
    }

    /// Has the kernel's timers measure.
    fn timerlat(&self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError> {
        let unfit = |reason: String| ProbeError::Unfit(format!("--source {TIMERLAT}: {reason}"));
        let tracer = resources.noise_tracer();
        let tracer = tracer.ok_or_else(|| unfit("no tracer may be used here".to_owned()))?;
        let user = match self.workload {
            Some(workload) => workload == USER,
            None => tracer.has_user_threads(&plan.cpus).map_err(unfit)?,
        };
        let (duration, warm_up) = self.times(plan);
        let run = Timerlat {
            tracer,
            cpus: plan.cpus.iter().collect(),
            period: self.interval,
            duration,
            warm_up,
            user,
            scheduling: plan.scheduling,
            missing_user: !user && self.workload.is_none(),
        };
        run.tracer.may_start(&run.plan()).map_err(unfit)?;
        let rate_hz = 1_000_000_000 / self.interval.0;
        let lanes = timerlat::lanes(&plan.cpus, user, plan.scheduling, rate_hz);
        Ok(Ready {
            duration,
            warm_up,
            // One for the interrupt, and one for the thread.
            alike: false,
            ..plan.ready(lanes, move |recorders, control| run.run(recorders, control))
        })
    }

    /// What only threads of ours can do.
    fn check_timerlat(&self) -> Result<(), ProbeError> {
        let ours = [
            ("wait", self.wait != "nanosleep"),
            ("aligned", self.begin.aligned),
            ("full-second", self.begin.full_second),
            ("offset", self.begin.offset > Nanos::ZERO),
            ("threads", self.threads.is_some()),
            ("unbound", self.unbound),
            ("distance", self.distance > Nanos::ZERO),
            ("priority-spread", self.priority_spread),
            ("wakeups", self.wakeups.is_some()),
            ("clock", self.clock != Clock::Monotonic),
        ];
        if let Some((name, _)) = ours.iter().find(|(_, given)| *given) {
            return Err(ProbeError::Unfit(format!(
                "--{name} is for threads of ours: with --source {TIMERLAT} the kernel sets the timers"
            )));
        }
        let interval = self.interval;
        if !TIMERLAT_PERIODS.contains(&interval) || !interval.0.is_multiple_of(1_000) {
            let (least, most) = (TIMERLAT_PERIODS.start(), TIMERLAT_PERIODS.end());
            return Err(ProbeError::Unfit(format!(
                "the kernel's timerlat takes an interval of {least} to {most}, in whole \
                 microseconds, and not {interval}"
            )));
        }
        Ok(())
    }
}

impl Probe for Timer {
    fn prepare(self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError> {
        let (duration, warm_up) = self.times(plan);
        self.check(plan, duration)?;
        if self.source == TIMERLAT {
            self.check_timerlat()?;
            return self.timerlat(plan, resources);
        }
        let lanes = self.lanes(plan);
        let run = Run {
            cpus: plan.cpus.iter().collect(),
            lanes: lanes.clone(),
            duration,
            probe: self,
        };
        Ok(Ready {
            duration,
            warm_up,
            ..plan.ready(lanes, move |recorders, control| {
                run.measure(recorders, control)
            })
        })
    }
}

/// Threads of ours that can begin.
struct Run {
    probe: Timer,
    cpus: Vec<u32>,
    lanes: Vec<LaneSpec>,
    duration: Option<Nanos>,
}

impl Run {
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let Timer { clock, .. } = self.probe;
        let mut group = ThreadGroup::new(control);
        let spread = self.probe.interval.0 / recorders.len().max(1) as u64;
        // Read once for all: they are to begin at the same instant of it.
        let ahead = Nanos(clock.now().as_nanos()).signed_sub(Nanos(CLOCK.now().as_nanos()));
        for (place, (recorder, lane)) in (0..).zip(recorders.into_iter().zip(&self.lanes)) {
            let worker = Worker {
                recorder,
                cost: SelfCost::default(),
                wait: self.probe.wait,
                clock,
                ahead,
                interval: self.probe.interval_of(place),
                begin: self.probe.begin,
                place,
                spread,
                duration: self.duration,
                wakeups: self.probe.wakeups.unwrap_or(u64::MAX),
            };
            let name = match lane.cpu {
                Some(cpu) if lane.label.is_none() => format!("timer/{cpu}"),
                _ => format!("timer/{place}"),
            };
            let cpus = match &lane.cpu {
                Some(cpu) => std::slice::from_ref(cpu),
                None => &self.cpus,
            };
            let builder = measuring_thread(&name, cpus, lane.scheduling);
            group.spawn(builder, |_| Ok(worker.ready()), Worker::run)?;
        }
        group.go();
        Ok(Measured {
            lanes: group.join()?,
            tables: Vec::new(),
            warnings: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::worker::{Schedule, overrun};
    use super::*;
    use crate::testing::{self, OTHER, lane};
    use punctual_model::{Accounting, SignedNanos};
    use std::time::Duration;

    fn timer(given: &[(&str, &str)]) -> Timer {
        Timer::new(&testing::arguments(PARAMETERS, given))
    }

    fn plan(duration: Nanos) -> Plan {
        Plan {
            cpus: testing::cpus(1),
            duration_asked: false,
            ..testing::plan(OTHER, duration)
        }
    }

    fn measure(given: &[(&str, &str)], duration: Nanos) -> Accounting {
        let control = Arc::new(Control::new());
        let (_, measured) = testing::measure(timer(given), &plan(duration), &control);
        let [outcome] = &measured.lanes[..] else {
            panic!("{measured:?}");
        };
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
        }
    }

    #[test]
    fn loops_include_the_warm_up_as_the_duration_does() {
        let loops = measure(&[("loops", "200")], Nanos::from_secs(3_600));
        let duration = measure(&[], Nanos::from_millis(200));
        for accounting in [loops, duration] {
            assert_eq!(accounting.expected, 200);
            assert_eq!(accounting.warm_up, 20);
        }
    }

    #[test]
    fn a_stop_ends_a_long_sleep() {
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(10));
        let plan = plan(Nanos::from_secs(7_200));
        let (_, measured) = testing::measure(timer(&[("interval", "1h")]), &plan, &control);
        // The first period was due at once or not at all.
        assert!(measured.lanes[0].accounting.expected <= 1);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let timer = timer(&[("interval", "2s")]);
        let error = testing::refusal(timer, &plan(Nanos::from_secs(1)));
        assert!(error.contains("interval of 2.00 s"), "{error}");
        for interval in ["0s", "19us", "2h"] {
            assert!(Arguments::check(PARAMETERS, [("interval", interval)]).is_err());
        }
    }

    /// What `turn` does with wake-ups that come this much after their time, on a
    /// clock that is made up.
    fn made_up(wakes: &[u64], warm_up: Nanos) -> (crate::LaneOutcome, Vec<u64>) {
        const PERIOD: u64 = 1_000;
        let control = Arc::new(Control::new());
        let (mut recorder, _reader) = lane(warm_up, &control);
        recorder.count_overruns();
        recorder.start(Nanos::ZERO);
        let schedule = Schedule {
            first: Nanos::ZERO,
            interval: Nanos(PERIOD),
            end: Nanos(u64::MAX),
            clock: CLOCK,
            ahead: SignedNanos(0),
            wakeups: u64::MAX,
        };
        let mut due = Nanos::ZERO;
        let mut missed = Vec::new();
        for late in wakes {
            let now = due + Nanos(*late);
            recorder.sample(due, now.signed_sub(due));
            due += Nanos(PERIOD);
            if now >= due {
                let next = due + overrun(now, due, &schedule, &mut recorder);
                // One by one, as the definition says.
                let passed = (due.0..next.0).step_by(PERIOD as usize);
                missed.extend(passed.filter(|at| *at >= warm_up.0).map(|at| now.0 - at));
                due = next;
            }
        }
        let outcome = recorder.finish(due.0 / PERIOD, SelfCost::default());
        (outcome, missed)
    }

    proptest::proptest! {
        #[test]
        fn each_missed_period_is_as_late_as_the_wake_up_that_came(
            wakes in proptest::collection::vec(0_u64..200_000, 0..40),
            warm_up in 0_u64..100_000,
        ) {
            let (outcome, missed) = made_up(&wakes, Nanos(warm_up));
            proptest::prop_assert!(outcome.accounting.balances());
            proptest::prop_assert_eq!(outcome.accounting.missed, missed.len() as u64);
            let mut known = punctual_model::Histogram::new();
            for late in missed {
                known.record(SignedNanos(late as i64));
            }
            let counted = outcome.missed_histogram.map_or_else(Default::default, |late| *late);
            proptest::prop_assert_eq!(counted, known);
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
