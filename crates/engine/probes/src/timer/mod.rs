//! `timer`: how late a periodic thread wakes up.

mod parameters;
mod timerlat;
mod worker;

use std::sync::Arc;

use punctual_model::{Arguments, Chart, Delay, Nanos, Policy, Scheduling};
use punctual_rt::Clock;

use crate::entry::Measure;
use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, SelfCost,
    TracerError, WorkerSpec,
};
use parameters::{PARAMETERS, USER};
use timerlat::{TIMERLAT, Timerlat};
use worker::{Begin, Worker};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "timer",
    summary: "how late a periodic thread wakes",
    unit: "ns",
    documentation: include_str!("timer.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without it, the policy is other. \
                 Root for the kernel's tracer",
    replaces: "cyclictest, jitterdebugger, rtla timerlat",
    chart: Chart::Latency,
    explained: Ok(Delay::Timer),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Timer::new(arguments).prepare(plan, resources),
};

/// The clock for the times of samples.
const CLOCK: Clock = Clock::Monotonic;

/// The periods that the kernel accepts for timerlat (`timerlat_min_period` in
/// `kernel/trace/trace_osnoise.c`).
const TIMERLAT_PERIODS: std::ops::RangeInclusive<Nanos> =
    Nanos::from_micros(100)..=Nanos::from_secs(1);

/// Longest interval with a phase.
const LONGEST_PHASED: Nanos = Nanos::from_secs(1);

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
    /// The threads that timerlat wakes; `None` if not specified.
    workload: Option<&'static str>,
}

impl Timer {
    fn new(arguments: &Arguments) -> Self {
        Self {
            interval: parameters::INTERVAL.value_in(arguments),
            loops: parameters::LOOPS.value_in(arguments),
            wakeups: parameters::WAKEUPS.value_in(arguments),
            wait: parameters::WAIT.value_in(arguments),
            begin: Begin {
                aligned: parameters::ALIGNED.value_in(arguments),
                full_second: parameters::FULL_SECOND.value_in(arguments),
                phase: parameters::START_PHASE.value_in(arguments),
                interval: parameters::INTERVAL.value_in(arguments),
                offset: parameters::OFFSET.value_in(arguments),
            },
            threads: parameters::THREADS.value_in(arguments),
            unbound: parameters::UNBOUND.value_in(arguments),
            distance: parameters::DISTANCE.value_in(arguments),
            priority_spread: parameters::PRIORITY_SPREAD.value_in(arguments),
            clock: match parameters::CLOCK.value_in(arguments) {
                "realtime" => Clock::Realtime,
                _ => Clock::Monotonic,
            },
            source: parameters::SOURCE.value_in(arguments),
            workload: parameters::WORKLOAD.value_in(arguments),
        }
    }

    /// Returns the length of the run and of its warm-up.
    fn times(&self, plan: &Plan) -> (Option<Nanos>, Nanos) {
        let duration = match self.loops {
            None => plan.duration,
            Some(loops) => Some(Nanos(self.interval.0.saturating_mul(loops))),
        };
        (duration, plan.warm_up_of(duration))
    }

    /// Returns the interval of the thread at this place.
    fn interval_of(&self, place: u64) -> Nanos {
        let more = self.distance.0.saturating_mul(place);
        Nanos(self.interval.0.saturating_add(more))
    }

    fn workers(&self, plan: &Plan) -> Vec<WorkerSpec> {
        let cpus: Vec<u32> = plan.cpus.iter().collect();
        let threads = self.threads.unwrap_or(cpus.len() as u64);
        let shared = threads > cpus.len() as u64;
        (0..threads)
            .zip(cpus.iter().cycle())
            .map(|(place, cpu)| {
                let cpu = (!self.unbound).then_some(*cpu);
                WorkerSpec {
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
            // In this case, the priority would be below the lowest real-time priority.
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

    /// Rejects parameters that contradict each other, or do not fit the run.
    fn check(&self, plan: &Plan, duration: Option<Nanos>) -> Result<(), ProbeError> {
        let unfit = |text: &str| Err(ProbeError::Unfit(text.to_owned()));
        if self.loops.is_some() && plan.duration_asked {
            return unfit(
                "--loops and --duration both set the length of the run: use only one of \
                them",
            );
        }
        if let Some(duration) = duration
            && self.interval > duration
            && !plan.may_be_empty
        {
            return Err(ProbeError::IntervalTooLong {
                interval: self.interval,
                duration,
            });
        }
        if let Some(phase) = self.begin.phase {
            if self.begin.full_second {
                return unfit("--start-phase and --full-second both set the start: use only one");
            }
            // The start may be one interval later.
            if self.interval > LONGEST_PHASED || phase >= self.interval {
                return Err(ProbeError::Unfit(format!(
                    "--start-phase {phase} does not fit the interval {}: pass a phase below the \
                     interval, and an interval of at most {LONGEST_PHASED}",
                    self.interval
                )));
            }
        }
        if self.workload.is_some() && self.source != TIMERLAT {
            return unfit("--workload needs the kernel's timers: add --source timerlat");
        }
        plan.refuse_deadline(ENTRY.name)
    }

    /// Measures with the kernel's timers.
    fn timerlat(&self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError> {
        let refused = |why| ProbeError::Source {
            name: TIMERLAT,
            why,
        };
        let tracer = resources.noise_tracer();
        let tracer = tracer.ok_or_else(|| refused(TracerError::NotOffered))?;
        let user = match self.workload {
            Some(workload) => workload == USER,
            None => tracer.has_user_threads(&plan.cpus).map_err(refused)?,
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
        run.tracer.may_start(&run.plan()).map_err(refused)?;
        let rate_hz = 1_000_000_000 / self.interval.0;
        let workers = timerlat::workers(&plan.cpus, user, plan.scheduling, rate_hz);
        Ok(Ready {
            duration,
            warm_up,
            // The workers measure different quantities. Some measure the interrupt, others the
            // thread.
            alike: false,
            ..plan.ready(workers, move |recorders, control: &Arc<Control>| {
                run.run(recorders, control)
            })
        })
    }

    /// Rejects parameters that only user-space threads support.
    fn check_timerlat(&self) -> Result<(), ProbeError> {
        let ours = [
            ("wait", self.wait != "nanosleep"),
            ("aligned", self.begin.aligned),
            ("full-second", self.begin.full_second),
            ("start-phase", self.begin.phase.is_some()),
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
                "--{name} applies only to the probe's threads: with --source {TIMERLAT}, the \
                 kernel sets the timers"
            )));
        }
        let interval = self.interval;
        if !TIMERLAT_PERIODS.contains(&interval) || !interval.0.is_multiple_of(1_000) {
            let (least, most) = (TIMERLAT_PERIODS.start(), TIMERLAT_PERIODS.end());
            return Err(ProbeError::Unfit(format!(
                "the kernel's timerlat supports intervals of {least} to {most} in whole \
                 microseconds, but not {interval}"
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
        let workers = self.workers(plan);
        let run = Run {
            cpus: plan.cpus.iter().collect(),
            workers: workers.clone(),
            duration,
            probe: self,
        };
        Ok(Ready {
            duration,
            warm_up,
            ..plan.ready(workers, run)
        })
    }
}

/// User-space threads that are ready to start.
struct Run {
    probe: Timer,
    cpus: Vec<u32>,
    workers: Vec<WorkerSpec>,
    duration: Option<Nanos>,
}

impl Measure for Run {
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let Timer { clock, .. } = self.probe;
        let mut group = ThreadGroup::new(control);
        let spread = self.probe.interval.0 / recorders.len().max(1) as u64;
        // Read the difference between the clocks once for all threads, so that the threads begin at
        // the same instant.
        let ahead = Nanos(clock.now().as_nanos()).signed_sub(Nanos(CLOCK.now().as_nanos()));
        for (place, (recorder, spec)) in (0..).zip(recorders.into_iter().zip(&self.workers)) {
            let worker = Worker {
                recorder,
                cost: SelfCost::default(),
                wait: self.probe.wait,
                clock,
                ahead,
                interval: self.probe.interval_of(place),
                begin: self.probe.begin,
                index: place,
                spread,
                duration: self.duration,
                wakeups: self.probe.wakeups.unwrap_or(u64::MAX),
                threads: self.workers.len() as u64,
            };
            let name = match spec.cpu {
                Some(cpu) if spec.label.is_none() => format!("timer/{cpu}"),
                _ => format!("timer/{place}"),
            };
            let cpus = match &spec.cpu {
                Some(cpu) => std::slice::from_ref(cpu),
                None => &self.cpus,
            };
            let builder = measuring_thread(&name, cpus, spec.scheduling);
            group.spawn(builder, |_| Ok(worker.ready()), Worker::run)?;
        }
        group.go();
        Ok(Measured {
            workers: group.join()?,
            tables: Vec::new(),
            warnings: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;
