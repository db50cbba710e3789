//! `clock`: what reading a clock costs, how finely it steps, whether it ever
//! steps back.

mod agreement;
mod reader;
mod tables;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use punctual_model::{Arguments, Chart, Delay, Nanos, Parameter, ParameterKind, Scheduling};
use punctual_rt::{PosixClock, ThreadBuilder, Tsc, TscRate};

use crate::{
    Control, LaneSpec, Measured, Plan, Prepared, Probe, ProbeEntry, ProbeError, Recorder, SelfCost,
    Settings, rt_policy,
};
use reader::{Reader, Ruler};
use tables::{Entry, Pair};
use turns::{Rounds, Turns, now};

/// All about this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "clock",
    summary: "what reading each clock costs, how finely it steps, whether the CPUs agree",
    unit: "ns",
    documentation: include_str!("clock.md").trim_ascii_end(),
    privileges: "none; CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; --sources needs root",
    replaces: "the clock_timing and clock_getres example programs of the real-time guides",
    chart: Chart::Bars,
    explained: Ok(Delay::Step),
    parameters: PARAMETERS,
    build: |arguments| Box::new(ClockProbe::new(arguments)),
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "sources",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Switch through the hardware clock sources that this machine offers, and put back the one in use (needs root)",
    },
    Parameter {
        name: "interval",
        short: Some('i'),
        kind: ParameterKind::Duration {
            min: Nanos::from_micros(100),
            max: Nanos::from_secs(1),
        },
        default: Some("1ms"),
        help: "Time from one round, in which each clock has its turn, to the next",
    },
    Parameter {
        name: "reads",
        short: None,
        kind: ParameterKind::Count { min: 1, max: 100 },
        default: Some("10"),
        help: "Samples of each clock in a round",
    },
    Parameter {
        name: "batch",
        short: None,
        kind: ParameterKind::Count { min: 1, max: 256 },
        default: None,
        help: "Time so many reads together, and take their mean as one sample [default: 1, and 64 on a machine without an invariant TSC]",
    },
];

/// The setting that `--sources` changes.
const CLOCK_SOURCE: &str = "clocksource";

/// What is measured of each clock source: those that the hardware clock is read
/// for each time.
const OF_EACH_SOURCE: [PosixClock; 3] = [
    PosixClock::Monotonic,
    PosixClock::Realtime,
    PosixClock::MonotonicRaw,
];

/// Reads to a sample where the ruler is no finer than the clocks.
const USUAL_BATCH: u64 = 64;

/// How long the rate of the TSC is measured.
const CALIBRATION: Duration = Duration::from_millis(20);

/// How long a clock of two CPUs is checked; less where the checks of all would
/// take more than a tenth of the run.
const CHECK: Nanos = Nanos::from_millis(100);

/// But never less than this: a few bursts.
const LEAST_CHECK: Nanos = Nanos::from_millis(5);

/// Stack that is touched before the start.
const STACK_PREFAULT: usize = 64 * 1024;

struct ClockProbe {
    sources: bool,
    interval: Nanos,
    reads: u64,
    batch: Option<u64>,
    tsc: Option<Tsc>,
    settings: Option<Arc<dyn Settings>>,
    plan: Option<ClockPlan>,
}

#[derive(Clone, Debug)]
struct ClockPlan {
    cpus: Vec<u32>,
    scheduling: Scheduling,
    duration: Option<Nanos>,
    phases: Vec<Phase>,
}

/// A part of the run: one clock source, and the clocks that take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Phase {
    /// `None`: whichever is in force.
    source: Option<String>,
    clocks: Vec<PosixClock>,
    tsc: bool,
}

impl Phase {
    fn labels(&self) -> Vec<String> {
        let names = self.clocks.iter().map(|clock| clock.short_name());
        let names = names.chain(self.tsc.then_some(reader::TSC));
        match &self.source {
            None => names.map(str::to_owned).collect(),
            Some(source) => names.map(|name| format!("{source} {name}")).collect(),
        }
    }
}

impl ClockProbe {
    fn new(arguments: &Arguments) -> Self {
        Self {
            sources: arguments.flag("sources"),
            interval: arguments
                .duration("interval")
                .unwrap_or(Nanos::from_millis(1)),
            reads: arguments.count("reads").unwrap_or(10),
            batch: arguments.count("batch"),
            tsc: Tsc::available(),
            settings: None,
            plan: None,
        }
    }

    /// The parts of the run.
    fn phases(&self) -> Result<Vec<Phase>, ProbeError> {
        if !self.sources {
            return Ok(vec![Phase {
                source: None,
                clocks: PosixClock::ALL.to_vec(),
                tsc: self.tsc.is_some(),
            }]);
        }
        let settings = self.settings.as_ref().ok_or_else(|| {
            ProbeError::Unfit("--sources changes a setting, and none may be changed here".into())
        })?;
        let refused = |reason: String| ProbeError::Unfit(format!("--sources: {reason}"));
        settings.may_change(CLOCK_SOURCE).map_err(refused)?;
        let offered = settings.offered(CLOCK_SOURCE).map_err(refused)?;
        let of_source = |source| Phase {
            source: Some(source),
            clocks: OF_EACH_SOURCE.to_vec(),
            tsc: false,
        };
        Ok(offered.into_iter().map(of_source).collect())
    }

    fn rate_hz(&self) -> u64 {
        (1_000_000_000 / self.interval.0).saturating_mul(self.reads)
    }
}

impl Probe for ClockProbe {
    fn knobs(&self) -> &'static [&'static str] {
        if self.sources { &[CLOCK_SOURCE] } else { &[] }
    }

    fn take_settings(&mut self, settings: Arc<dyn Settings>) {
        self.settings = Some(settings);
    }

    fn prepare(&mut self, plan: &Plan) -> Result<Prepared, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        let cpus: Vec<u32> = plan.cpus.iter().collect();
        let Some(first) = cpus.first().copied() else {
            return Err(ProbeError::Unfit("no CPU to measure on".to_owned()));
        };
        let phases = self.phases()?;
        let part = plan
            .duration
            .map(|all| Nanos(all.0 / phases.len().max(1) as u64));
        if phases.is_empty() || (part.is_none() && phases.len() > 1) {
            return Err(ProbeError::Unfit(
                "--sources gives each clock source its part of the run: it needs a --duration, \
                 and a machine with a clock source"
                    .to_owned(),
            ));
        }
        let warm_up = plan.warm_up_of(part);
        if part.is_some_and(|part| warm_up + check_budget(Some(part), &cpus) >= part) {
            return Err(ProbeError::Unfit(format!(
                "each of the {} clock sources has its own warm-up of {warm_up}, which leaves \
                 nothing: measure for longer, or with a shorter --warm-up",
                phases.len()
            )));
        }
        let lanes = phases.iter().flat_map(Phase::labels).map(|label| LaneSpec {
            label: Some(label),
            cpu: Some(first),
            from_cpu: None,
            scheduling: plan.scheduling,
            rate_hz: self.rate_hz(),
        });
        let prepared = Prepared {
            lanes: lanes.collect(),
            duration: plan.duration,
            warm_up,
        };
        self.plan = Some(ClockPlan {
            cpus,
            scheduling: plan.scheduling,
            duration: plan.duration,
            phases,
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
            .take()
            .ok_or_else(|| ProbeError::not_prepared(ENTRY.name))?;
        let mut run = Run {
            tsc: self.tsc.map(|tsc| (tsc, tsc.calibrate(CALIBRATION))),
            begun: now(),
            probe: self,
            control,
            entries: Vec::new(),
            pairs: Vec::new(),
            warnings: Vec::new(),
        };
        let mut recorders = recorders.into_iter();
        for (place, phase) in plan.phases.iter().enumerate() {
            let lanes = phase.labels().len();
            let recorders = recorders.by_ref().take(lanes).collect();
            run.phase(&plan, place, recorders)?;
        }
        Ok(run.measured(self.sources, self.tsc.is_some()))
    }
}

/// A run while it goes on.
struct Run<'a> {
    probe: &'a ClockProbe,
    control: &'a Arc<Control>,
    tsc: Option<(Tsc, TscRate)>,
    begun: Nanos,
    entries: Vec<Entry>,
    pairs: Vec<Pair>,
    warnings: Vec<String>,
}

impl Run<'_> {
    /// Switches to the phase's clock source, checks the CPUs, and measures until
    /// its end.
    fn phase(
        &mut self,
        plan: &ClockPlan,
        place: usize,
        recorders: Vec<Recorder>,
    ) -> Result<(), ProbeError> {
        let phase = &plan.phases[place];
        let readers: Vec<Reader> = phase
            .clocks
            .iter()
            .map(|clock| Reader::Posix(*clock))
            .chain(
                self.tsc
                    .filter(|_| phase.tsc)
                    .map(|(tsc, rate)| Reader::Tsc(tsc, rate)),
            )
            .collect();
        let lanes: Vec<Turns> = readers
            .iter()
            .zip(recorders)
            .map(|(reader, recorder)| Turns::new(*reader, recorder))
            .collect();
        let ready = !self.control.stopping() && self.switch(phase);
        let served = PosixClock::served_without_kernel(&phase.clocks).filter(|_| ready);
        let part = plan
            .duration
            .map(|all| Nanos(all.0 / plan.phases.len() as u64));
        let found = if ready {
            self.check_agreement(plan, phase, part)?;
            let end = part.map_or(Nanos(u64::MAX), |part| {
                self.begun + Nanos(part.0 * (place as u64 + 1))
            });
            self.measure(plan, lanes, end)?
        } else {
            // Nothing was read, and nothing was to be.
            let unread = |lane: Turns| lane.finish(SelfCost::default());
            lanes.into_iter().map(unread).collect()
        };
        for (place, found) in found.into_iter().enumerate() {
            self.entries.push(Entry {
                source: phase.source.clone(),
                without_kernel: served.as_ref().and_then(|all| all.get(place).copied()),
                found,
            });
        }
        Ok(())
    }

    /// Whether the phase's clock source is in force now.
    fn switch(&mut self, phase: &Phase) -> bool {
        let (Some(source), Some(settings)) = (&phase.source, &self.probe.settings) else {
            return phase.source.is_none();
        };
        match settings.set(CLOCK_SOURCE, source) {
            Ok(()) => true,
            Err(reason) => {
                self.warnings.push(format!(
                    "the clock source {source} was not measured: {reason}"
                ));
                false
            }
        }
    }

    fn check_agreement(
        &mut self,
        plan: &ClockPlan,
        phase: &Phase,
        part: Option<Nanos>,
    ) -> Result<(), ProbeError> {
        let tsc = self.tsc.filter(|_| phase.tsc);
        let readers: Vec<Reader> = std::iter::once(Reader::Posix(PosixClock::Monotonic))
            .chain(tsc.map(|(tsc, rate)| Reader::Tsc(tsc, rate)))
            .collect();
        let budget = Nanos(check_budget(part, &plan.cpus).0 / readers.len() as u64);
        let (pairs, complete) = agreement::pairs(&plan.cpus, budget, LEAST_CHECK);
        if !complete {
            self.warnings.push(format!(
                "there is no time to hold each CPU's clock against each other's: they were held \
                 against that of CPU {}",
                plan.cpus[0]
            ));
        }
        let length = Nanos(budget.0 / pairs.len().max(1) as u64);
        for reader in readers {
            let mut push = |found| {
                self.pairs.push(Pair {
                    source: phase.source.clone(),
                    reader,
                    found,
                    cpu: plan.cpus[0],
                });
            };
            if pairs.is_empty() {
                push(None);
            }
            for pair in &pairs {
                if self.control.stopping() {
                    return Ok(());
                }
                let found = agreement::check(reader, *pair, length, plan.scheduling, self.control)?;
                push(Some((*pair, found)));
            }
        }
        Ok(())
    }

    fn measure(
        &self,
        plan: &ClockPlan,
        lanes: Vec<Turns>,
        end: Nanos,
    ) -> Result<Vec<turns::Found>, ProbeError> {
        let ruler = Ruler::new(self.tsc);
        let usual = if self.tsc.is_some() { 1 } else { USUAL_BATCH };
        let rounds = Rounds {
            ruler,
            interval: self.probe.interval,
            samples: self.probe.reads,
            batch: self.probe.batch.unwrap_or(usual),
            begun: self.begun,
            end,
        };
        let cpu = plan.cpus[0];
        let control = Arc::clone(self.control);
        let thread = ThreadBuilder::new(&format!("clock/{cpu}"))
            .cpus(&[cpu])
            .policy(rt_policy(plan.scheduling))
            .prefault_stack(STACK_PREFAULT)
            .spawn(move || turns::rounds(lanes, rounds, &control))?;
        Ok(thread.join()??)
    }

    fn measured(mut self, sources: bool, tsc: bool) -> Measured {
        if !tsc {
            self.warnings.push(format!(
                "this machine has no invariant TSC that may be read: costs are means of {} reads, \
                 and there is no lane for it",
                self.probe.batch.unwrap_or(USUAL_BATCH)
            ));
        }
        self.warnings
            .extend(tables::warnings(&self.entries, &self.pairs));
        let mut tables = vec![tables::clocks(&self.entries)];
        if sources {
            tables.insert(0, tables::sources(&self.entries));
        }
        tables.push(tables::agreement(&self.pairs));
        let lanes = self.entries.into_iter().map(|entry| entry.found.outcome);
        Measured {
            lanes: lanes.collect(),
            tables,
            warnings: self.warnings,
        }
    }
}

/// How long the CPUs are held against each other in a part of the run: with two
/// clocks, each pair.
fn check_budget(part: Option<Nanos>, cpus: &[u32]) -> Nanos {
    const LONGEST: Nanos = Nanos::from_secs(2);
    let pairs = (cpus.len() * cpus.len().saturating_sub(1) / 2) as u64;
    let wanted = Nanos(CHECK.0.saturating_mul(2 * pairs)).min(LONGEST);
    part.map_or(wanted, |part| wanted.min(Nanos(part.0 / 10)))
}
