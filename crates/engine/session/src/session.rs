//! A measurement before it runs: what is asked for, checked against the machine.

use std::thread;

use punctual_host::Host;
use punctual_model::{CpuSet, HostFacts, KeptAudit, Nanos, Scheduling};
use punctual_probes::{PROBES, ProbeEntry};
use punctual_trace::Tracefs;

use crate::audit::Seen;
use crate::phase::Phase;
use crate::request::usual_series_interval;
use crate::{Request, SessionError, memory, overhead, rights};

/// A measurement that is ready to run.
pub struct Session {
    pub(crate) request: Request,
    pub(crate) host: Host,
    pub(crate) facts: HostFacts,
    pub(crate) audit: Option<KeptAudit>,
    pub(crate) scheduling: Scheduling,
    /// Those to measure on, as they were asked for.
    pub(crate) cpus: CpuSet,
    pub(crate) phases: Vec<Phase>,
    pub(crate) row_length: Nanos,
    pub(crate) warnings: Vec<String>,
}

impl Session {
    /// Checks all that can be checked before anything is measured: CPUs,
    /// rights, the probe's parameters, how the lengths fit.
    ///
    /// # Errors
    /// What is wrong, with the value.
    pub fn prepare(request: Request, host: Host) -> Result<Self, SessionError> {
        punctual_rt::interrupt::install_interrupt_handler()?;
        // Measuring threads allocate nothing while they measure; what they need
        // before comes from where the rest does, and goes back there.
        punctual_rt::share_heap();
        // The facts are many small reads, and the checks wait for threads: one
        // beside the other, for some programs are to measure at once.
        let (seen, checked) = thread::scope(|scope| {
            let seen = scope.spawn(|| Seen::of(&host, request.audit));
            let checked = Checked::of(&request, &host);
            (seen.join(), checked)
        });
        let checked = checked?;
        // A panic in there is a defect; without its thread it shows itself.
        let seen = seen.unwrap_or_else(|_| Seen::of(&host, request.audit));
        let (facts, audit) = seen.judged(&checked.cpus);
        let phases = &checked.phases;
        let row_length = (request.series_interval).unwrap_or_else(|| {
            usual_series_interval(total(phases).or_else(|| request.length_by_count()))
        });
        Ok(Self {
            facts,
            audit,
            request,
            host,
            scheduling: checked.scheduling,
            cpus: checked.cpus,
            phases: checked.phases,
            row_length,
            warnings: checked.warning.into_iter().collect(),
        })
    }

    /// What the reader must know before it begins: rights that are lacking.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How long, about, is measured before the run what recording trace events
    /// costs; `None`: none are recorded.
    pub fn measured_before(&self) -> Option<Nanos> {
        let explained = self.request.explain.is_some();
        explained.then(|| overhead::length(self.duration()))
    }

    /// How long it will last; `None`: until stopped.
    pub(crate) fn duration(&self) -> Option<Nanos> {
        total(&self.phases)
    }

    /// The CPUs that are measured: those that threads are bound to, and all that
    /// were asked for where one is bound to none.
    pub(crate) fn cpus(&self) -> CpuSet {
        let lanes = self.phases.iter().flat_map(Phase::lanes);
        let bound: Option<CpuSet> = lanes.map(|lane| lane.cpu).collect();
        bound.unwrap_or_else(|| self.cpus.clone())
    }
}

/// Whether outliers of a probe can be explained at all.
///
/// # Errors
/// They cannot; it says why, and of which probes they can.
pub fn can_be_explained(probe: &ProbeEntry) -> Result<(), SessionError> {
    let Err(why) = probe.explained else {
        return Ok(());
    };
    let able = PROBES.iter().filter(|probe| probe.explained.is_ok());
    let able: Vec<&str> = able.map(|probe| probe.name).collect();
    Err(SessionError::NotExplained {
        probe: probe.name,
        why,
        able: able.join(", "),
    })
}

/// Whether outliers can be explained, where they are to be.
fn may_explain(request: &Request, host: &Host) -> Result<(), SessionError> {
    if request.explain.is_none() {
        return Ok(());
    }
    can_be_explained(request.probe)?;
    Ok(Tracefs::find(host.root())?.may_arm()?)
}

/// What was found to be possible.
struct Checked {
    cpus: CpuSet,
    scheduling: Scheduling,
    warning: Option<String>,
    phases: Vec<Phase>,
}

impl Checked {
    fn of(request: &Request, host: &Host) -> Result<Self, SessionError> {
        let cpus = cpus_to_measure(request, host)?;
        let (scheduling, warning) = rights::scheduling(request, host)?;
        rights::may_use(&cpus)?;
        may_explain(request, host)?;
        let mut phases = request
            .phases
            .iter()
            .map(|phase| Phase::prepare(request, phase, &cpus, scheduling, host))
            .collect::<Result<Vec<_>, _>>()?;
        let mut lanes: Vec<_> = phases.iter_mut().flat_map(Phase::lanes_mut).collect();
        memory::fit(&mut lanes, host.memory_available())?;
        Ok(Self {
            cpus,
            scheduling,
            warning,
            phases,
        })
    }
}

/// How long all phases last; `None` where one lasts until it is stopped.
fn total(phases: &[Phase]) -> Option<Nanos> {
    phases
        .iter()
        .try_fold(Nanos::ZERO, |sum, phase| Some(sum + phase.duration()?))
}

fn cpus_to_measure(request: &Request, host: &Host) -> Result<CpuSet, SessionError> {
    let online = host.online()?;
    let cpus = match &request.cpus {
        Some(cpus) => cpus.clone(),
        None => host.allowed()?.intersection(&online),
    };
    let missing = cpus.difference(&online);
    if !missing.is_empty() {
        return Err(SessionError::NotOnline { missing, online });
    }
    if cpus.is_empty() {
        return Err(SessionError::NoCpu);
    }
    Ok(cpus)
}
