//! `timer`: how late a periodic thread wakes.

use std::sync::Arc;

use punctual_model::{Arguments, Chart, Delay, Nanos, Parameter, ParameterKind, Scheduling};
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
CPUs do not wake in the same instant; `--aligned` makes them do so.

Sources: clock_nanosleep(2), timerfd_create(2), timer_create(2), sigwaitinfo(2).",
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without, it runs as other",
    replaces: "cyclictest, jitterdebugger",
    chart: Chart::Latency,
    explained: Some(Delay::Timer),
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
];

/// The clock of the sleeps and of the samples.
const CLOCK: Clock = Clock::Monotonic;

/// Stack that is touched before the start; the loop uses far less.
const STACK_PREFAULT: usize = 64 * 1024;

#[derive(Debug)]
struct Timer {
    interval: Nanos,
    loops: Option<u64>,
    wait: &'static str,
    aligned: bool,
    plan: Option<TimerPlan>,
}

#[derive(Clone, Debug)]
struct TimerPlan {
    cpus: Vec<u32>,
    scheduling: Scheduling,
    duration: Option<Nanos>,
}

/// One thread's periods.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    first: Nanos,
    interval: Nanos,
    /// No period begins at or after this.
    end: Nanos,
}

impl Timer {
    fn new(arguments: &Arguments) -> Self {
        Self {
            interval: arguments
                .duration("interval")
                .unwrap_or(Nanos::from_millis(1)),
            loops: arguments.count("loops"),
            wait: arguments.choice("wait").unwrap_or("nanosleep"),
            aligned: arguments.flag("aligned"),
            plan: None,
        }
    }

    /// How long the run is, and how much of it is warm-up.
    fn times(&self, plan: &Plan) -> (Option<Nanos>, Nanos) {
        match self.loops {
            None => {
                let warm_up = plan.warm_up_of(plan.duration);
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
}

impl Probe for Timer {
    fn prepare(&mut self, plan: &Plan) -> Result<Prepared, ProbeError> {
        if self.loops.is_some() && plan.duration_asked {
            return Err(ProbeError::Unfit(
                "--loops and --duration both say how long to measure: give one of them".to_owned(),
            ));
        }
        let (duration, warm_up) = self.times(plan);
        if let Some(duration) = duration
            && self.interval > duration
        {
            return Err(ProbeError::Unfit(format!(
                "the interval of {} is longer than the run of {duration}: nothing would be measured",
                self.interval
            )));
        }
        plan.refuse_deadline(ENTRY.name)?;
        let lanes = plan
            .cpus
            .iter()
            .map(|cpu| LaneSpec {
                label: None,
                cpu: Some(cpu),
                from_cpu: None,
                scheduling: plan.scheduling,
                rate_hz: 1_000_000_000 / self.interval.0,
            })
            .collect();
        self.plan = Some(TimerPlan {
            cpus: plan.cpus.iter().collect(),
            scheduling: plan.scheduling,
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
            .ok_or_else(|| ProbeError::not_prepared(ENTRY.name))?;
        let mut crew = Crew::new(control);
        let spread = self.interval.0 / recorders.len().max(1) as u64;
        for (place, (recorder, cpu)) in (0..).zip(recorders.into_iter().zip(&plan.cpus)) {
            let worker = Worker {
                recorder,
                cost: SelfCost::default(),
                wait: self.wait,
                interval: self.interval,
                offset: Nanos(if self.aligned { 0 } else { spread * place }),
                duration: plan.duration,
            };
            let builder = ThreadBuilder::new(&format!("timer/{cpu}"))
                .cpus(&[*cpu])
                .policy(rt_policy(plan.scheduling))
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

/// What one measuring thread takes with it.
struct Worker {
    recorder: Recorder,
    cost: SelfCost,
    wait: &'static str,
    interval: Nanos,
    offset: Nanos,
    duration: Option<Nanos>,
}

impl Worker {
    /// On its own CPU, before the start.
    fn ready(self) -> Self {
        Self {
            cost: SelfCost::measure(CLOCK),
            ..self
        }
    }

    fn run(mut self, control: &Control, start: Instant) -> Result<LaneOutcome, ProbeError> {
        let first = Nanos(start.as_nanos()) + self.offset;
        let end = |duration| first + duration;
        let schedule = Schedule {
            first,
            interval: self.interval,
            end: self.duration.map_or(Nanos(u64::MAX), end),
        };
        self.recorder.start(first);
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
                let mut wait = TimerFd::new(CLOCK, first, interval)?;
                turn(&mut wait, schedule, recorder, control)
            }
            "signal" => {
                let mut wait = SignalTimer::new(CLOCK, first, interval)?;
                turn(&mut wait, schedule, recorder, control)
            }
            _ => turn(&mut Nanosleep::new(CLOCK)?, schedule, recorder, control),
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
    } = schedule;
    let mut due = first;
    while due < end && !control.stopping() {
        if wait.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
            continue;
        }
        let now = Nanos(CLOCK.now().as_nanos());
        recorder.sample(due, now.signed_sub(due));
        due += interval;
        if now >= due {
            due += overrun(now, due, interval, end, recorder);
        }
    }
    Ok((due - first).0 / interval.0)
}

/// Counts the periods from `due` on that have passed by `now`, and returns how
/// much time they cover. Rare, so the division is kept out of the loop.
#[cold]
fn overrun(now: Nanos, due: Nanos, interval: Nanos, end: Nanos, recorder: &mut Recorder) -> Nanos {
    // Periods at or after the end are not part of the run.
    let left = (end - due).0.div_ceil(interval.0);
    let passed = ((now - due).0 / interval.0 + 1).min(left);
    recorder.missed(due, passed, interval);
    Nanos(passed.saturating_mul(interval.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, OTHER, lane};
    use punctual_model::Accounting;
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
        let (_, measured) = testing::measure(&mut timer(given), &plan(duration), &control);
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
    fn loops_are_what_is_left_after_the_warm_up() {
        let accounting = measure(&[("loops", "200")], Nanos::from_secs(3_600));
        assert_eq!(accounting.recorded + accounting.missed, 200);
        assert_eq!(accounting.warm_up, 23);
    }

    #[test]
    fn a_stop_ends_a_long_sleep() {
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(10));
        let plan = plan(Nanos::from_secs(7_200));
        let (_, measured) = testing::measure(&mut timer(&[("interval", "1h")]), &plan, &control);
        // The first period was due at once or not at all.
        assert!(measured.lanes[0].accounting.expected <= 1);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut timer = timer(&[("interval", "2s")]);
        let error = testing::refusal(&mut timer, &plan(Nanos::from_secs(1)));
        assert!(error.contains("interval of 2.00 s"), "{error}");
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
            let covered = overrun(Nanos(now), Nanos(due), Nanos(10), Nanos(end), &mut recorder);
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
