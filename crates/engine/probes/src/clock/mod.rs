//! `clock`: the cost of reading a clock, its step size, and whether it ever steps back.

mod agreement;
mod phc;
mod reader;
mod rounds;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use punctual_model::{Arguments, Chart, Delay, Nanos, Parameter, Typed, parameters};
use punctual_rt::{PosixClock, Tsc, TscRate};

use crate::entry::Measure;
use crate::entry::Probe;
use crate::monotonic::now;
use crate::run::Terms;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, SelfCost, Settings,
};
use phc::Phc;
use reader::{Reader, Ruler};
use rounds::{ClockWorker, Rounds};
use tables::{Entry, Pair};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "clock",
    summary: "the cost, resolution and agreement between CPUs of each clock",
    unit: "ns",
    documentation: include_str!("clock.md").trim_ascii_end(),
    privileges: "none; CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; --sources needs root; \
                 --phc needs the right to read the device",
    replaces: "the clock_timing and clock_getres example programs of the real-time guides",
    chart: Chart::Bars,
    explained: Ok(Delay::Step),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| ClockProbe::new(arguments).prepare(plan, resources),
};

parameters! {
    SOURCES: bool = Typed::flag(
        "sources",
        "Measure with each available clock source, then restore the current one (needs root)",
    );
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from the start of one round to the next",
        Nanos::from_micros(100)..=Nanos::from_secs(1),
    ).short('i').or("1ms");
    READS: u64 = Typed::count(
        "reads",
        "Samples of each clock in a round",
        1..=100,
    ).or("10");
    BATCH: Option<u64> = Typed::count(
        "batch",
        "Reads per sample; the sample is their mean [default: 1, or 64 without an invariant TSC]",
        1..=256,
    );
    PHC: Option<String> = Typed::text(
        "phc",
        "Measure the offset of this PTP hardware clock (/dev/ptp0) to the system clock instead",
    );
}

/// The setting that `--sources` changes.
const CLOCK_SOURCE: &str = "clocksource";

/// The clocks measured with each clock source. They are the ones that read the hardware clock on
/// every call.
const OF_EACH_SOURCE: [PosixClock; 3] = [
    PosixClock::Monotonic,
    PosixClock::Realtime,
    PosixClock::MonotonicRaw,
];

/// Number of reads per sample if the reference clock is as coarse as the measured clocks.
const USUAL_BATCH: u64 = 64;

/// Duration of the TSC calibration.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Duration of the comparison of a clock on two CPUs. It is shortened if all comparisons would take
/// more than a tenth of the run.
const CHECK: Nanos = Nanos::from_millis(100);

/// Minimum duration of a comparison, which allows a few bursts.
const LEAST_CHECK: Nanos = Nanos::from_millis(5);

struct ClockProbe {
    sources: bool,
    interval: Nanos,
    reads: u64,
    batch: Option<u64>,
    /// A PTP hardware clock to measure instead of all others.
    phc: Option<String>,
    tsc: Option<Tsc>,
}

/// A probe that is ready to start.
struct ReadyClocks {
    probe: ClockProbe,
    /// Set if the clock source changes during the run.
    settings: Option<Arc<dyn Settings>>,
    terms: Terms,
    phases: Vec<Phase>,
}

/// A part of the run, with one clock source and the clocks that are measured in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Phase {
    /// `None` for the current clock source.
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
            sources: SOURCES.value_in(arguments),
            interval: INTERVAL.value_in(arguments),
            reads: READS.value_in(arguments),
            batch: BATCH.value_in(arguments),
            phc: PHC.value_in(arguments),
            tsc: Tsc::available().filter(|tsc| tsc.is_fine()),
        }
    }

    /// Returns the only part of a run without changes of the clock source.
    fn one_phase(&self) -> Vec<Phase> {
        vec![Phase {
            source: None,
            clocks: PosixClock::ALL.to_vec(),
            tsc: self.tsc.is_some(),
        }]
    }

    /// Returns one part for each clock source.
    fn phases_of_sources(settings: &dyn Settings) -> Result<Vec<Phase>, ProbeError> {
        let refused = ProbeError::ClockSources;
        settings.may_change(CLOCK_SOURCE).map_err(refused)?;
        let offered = settings.offered(CLOCK_SOURCE).map_err(refused)?;
        let of_source = |source| Phase {
            source: Some(source),
            clocks: OF_EACH_SOURCE.to_vec(),
            tsc: false,
        };
        Ok(offered.into_iter().map(of_source).collect())
    }

    /// Opens the PTP hardware clock.
    fn hardware_clock(&self, device: String) -> Result<Phc, ProbeError> {
        let unfit = |why: String| Err(ProbeError::Unfit(why));
        if self.sources || self.batch.is_some() {
            let other = if self.sources { "--sources" } else { "--batch" };
            return unfit(format!(
                "--phc measures only this clock, so {other} has no effect: leave out one of them"
            ));
        }
        if self.reads > phc::MOST_READS {
            return unfit(format!(
                "--reads {}: the kernel reads a PTP clock at most {} times in a call",
                self.reads,
                phc::MOST_READS
            ));
        }
        Phc::open(device, self.interval, self.reads as usize)
    }

    fn rate_hz(&self) -> u64 {
        (1_000_000_000 / self.interval.0).saturating_mul(self.reads)
    }
}

impl Probe for ClockProbe {
    fn prepare(self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        if let Some(device) = self.phc.clone() {
            return self.hardware_clock(device)?.prepare(plan);
        }
        let terms = Terms::from_plan(plan);
        let Some(first) = terms.cpus.first().copied() else {
            return Err(ProbeError::Unfit("no CPU to measure on".to_owned()));
        };
        let none = || {
            ProbeError::Unfit("--sources changes a setting, and none may be changed here".into())
        };
        let settings = if self.sources {
            Some(resources.settings(&[CLOCK_SOURCE]).ok_or_else(none)?)
        } else {
            None
        };
        let phases = match &settings {
            Some(settings) => Self::phases_of_sources(settings.as_ref())?,
            None => self.one_phase(),
        };
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
        if part.is_some_and(|part| warm_up + check_time(Some(part), &terms.cpus) >= part) {
            return Err(ProbeError::Unfit(format!(
                "each of the {} clock sources has its own warm-up of {warm_up}, which leaves \
                 nothing: measure for longer, or with a shorter --warm-up",
                phases.len()
            )));
        }
        let workers = phases
            .iter()
            .flat_map(Phase::labels)
            .map(|label| plan.worker(Some(label), first, self.rate_hz()));
        let workers: Vec<_> = workers.collect();
        let run = ReadyClocks {
            settings,
            terms,
            phases,
            probe: self,
        };
        Ok(Ready {
            warm_up,
            ..plan.ready(workers, run)
        })
    }
}

impl Measure for ReadyClocks {
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let tsc = self.probe.tsc;
        let mut run = Run {
            tsc: tsc.map(|tsc| (tsc, tsc.calibrate(CALIBRATION))),
            begun: now(),
            ready: &self,
            control,
            entries: Vec::new(),
            pairs: Vec::new(),
            warnings: Vec::new(),
        };
        let mut recorders = recorders.into_iter();
        for (place, phase) in self.phases.iter().enumerate() {
            let workers = phase.labels().len();
            let recorders = recorders.by_ref().take(workers).collect();
            run.phase(phase, place, recorders)?;
        }
        Ok(run.measured())
    }
}

/// A run in progress.
struct Run<'a> {
    ready: &'a ReadyClocks,
    control: &'a Arc<Control>,
    tsc: Option<(Tsc, TscRate)>,
    begun: Nanos,
    entries: Vec<Entry>,
    pairs: Vec<Pair>,
    warnings: Vec<String>,
}

impl Run<'_> {
    /// Switches to the clock source of the phase, compares the CPUs, and measures until the end of
    /// the phase.
    fn phase(
        &mut self,
        phase: &Phase,
        place: usize,
        recorders: Vec<Recorder>,
    ) -> Result<(), ProbeError> {
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
        let workers: Vec<ClockWorker> = readers
            .iter()
            .zip(recorders)
            .map(|(reader, recorder)| ClockWorker::new(*reader, recorder))
            .collect();
        let ready = !self.control.stopping() && self.switch(phase);
        let served = PosixClock::served_without_kernel(&phase.clocks).filter(|_| ready);
        let parts = self.ready.phases.len() as u64;
        let part = self.ready.terms.duration.map(|all| Nanos(all.0 / parts));
        let found = if ready {
            self.check_agreement(phase, part)?;
            let end = part.map_or(Nanos(u64::MAX), |part| {
                self.begun + Nanos(part.0 * (place as u64 + 1))
            });
            self.measure(workers, end)?
        } else {
            // In this case, the clocks were not read, and no read was expected.
            let unread = |worker: ClockWorker| worker.finish(SelfCost::default());
            workers.into_iter().map(unread).collect()
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

    /// Switches to the clock source of the phase. Returns whether the kernel now uses this source.
    fn switch(&mut self, phase: &Phase) -> bool {
        let (Some(source), Some(settings)) = (&phase.source, &self.ready.settings) else {
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

    fn check_agreement(&mut self, phase: &Phase, part: Option<Nanos>) -> Result<(), ProbeError> {
        let tsc = self.tsc.filter(|_| phase.tsc);
        let readers: Vec<Reader> = std::iter::once(Reader::Posix(PosixClock::Monotonic))
            .chain(tsc.map(|(tsc, rate)| Reader::Tsc(tsc, rate)))
            .collect();
        let cpus = &self.ready.terms.cpus;
        let available = Nanos(check_time(part, cpus).0 / readers.len() as u64);
        let (pairs, complete) = agreement::pairs(cpus, available, LEAST_CHECK);
        if !complete {
            self.warnings.push(format!(
                "there was not enough time to compare the clocks of all pairs of CPUs: each was \
                 compared with the clock of CPU {} only",
                cpus[0]
            ));
        }
        let length = Nanos(available.0 / pairs.len().max(1) as u64);
        for reader in readers {
            let mut push = |found| {
                self.pairs.push(Pair {
                    source: phase.source.clone(),
                    reader,
                    found,
                    cpu: cpus[0],
                });
            };
            if pairs.is_empty() {
                push(None);
            }
            for pair in &pairs {
                if self.control.stopping() {
                    return Ok(());
                }
                let scheduling = self.ready.terms.scheduling;
                let found = agreement::check(reader, *pair, length, scheduling, self.control)?;
                push(Some((*pair, found)));
            }
        }
        Ok(())
    }

    fn measure(
        &self,
        workers: Vec<ClockWorker>,
        end: Nanos,
    ) -> Result<Vec<rounds::Found>, ProbeError> {
        let ruler = Ruler::new(self.tsc);
        let usual = if self.tsc.is_some() { 1 } else { USUAL_BATCH };
        let rounds = Rounds {
            ruler,
            interval: self.ready.probe.interval,
            samples: self.ready.probe.reads,
            batch: self.ready.probe.batch.unwrap_or(usual),
            begun: self.begun,
            end,
        };
        let cpu = self.ready.terms.cpus[0];
        let control = Arc::clone(self.control);
        let thread = self
            .ready
            .terms
            .thread("clock", cpu)
            .spawn(move || rounds::rounds(workers, rounds, &control))?;
        Ok(thread.join()??)
    }

    fn measured(mut self) -> Measured {
        if self.tsc.is_none() {
            self.warnings.push(format!(
                "this machine has no invariant {} with short ticks that may be read: costs are means \
                 of {} reads, and there is no worker for it",
                Tsc::NAME,
                self.ready.probe.batch.unwrap_or(USUAL_BATCH)
            ));
        }
        self.warnings
            .extend(tables::warnings(&self.entries, &self.pairs));
        let mut tables = vec![tables::clocks(&self.entries)];
        if self.ready.probe.sources {
            tables.insert(0, tables::sources(&self.entries));
        }
        tables.push(tables::agreement(&self.pairs));
        let workers = self.entries.into_iter().map(|entry| entry.found.outcome);
        Measured {
            workers: workers.collect(),
            tables,
            warnings: self.warnings,
        }
    }
}

/// Returns the time for comparing CPUs in a part of the run: each pair is compared with two clocks.
fn check_time(part: Option<Nanos>, cpus: &[u32]) -> Nanos {
    const LONGEST: Nanos = Nanos::from_secs(2);
    let pairs = (cpus.len() * cpus.len().saturating_sub(1) / 2) as u64;
    let wanted = Nanos(CHECK.0.saturating_mul(2 * pairs)).min(LONGEST);
    part.map_or(wanted, |part| wanted.min(Nanos(part.0 / 10)))
}
