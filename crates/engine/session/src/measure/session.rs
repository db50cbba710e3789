//! Prepares a measurement: checks the request against the machine.

use std::thread;

use punctual_host::Host;
use punctual_model::{CpuSet, HostFacts, Nanos, Scheduling, StoredAudit};
use punctual_probes::{PROBES, ProbeEntry};
use punctual_trace::Tracefs;

use super::overhead;
use super::phase::Phase;
use crate::explain::may_record;
use crate::machine::CapturedFacts;
use crate::machine::{memory, rights};
use crate::request::usual_series_interval;
use crate::targets::{same_clock_as_events, same_pids_as_events};
use crate::{Request, SessionError};

/// A measurement that is ready to run.
pub struct Session {
    pub(crate) request: Request,
    pub(crate) host: Host,
    pub(crate) facts: HostFacts,
    pub(crate) audit: Option<StoredAudit>,
    pub(crate) scheduling: Scheduling,
    /// Requested CPUs.
    pub(crate) cpus: CpuSet,
    pub(crate) phases: Vec<Phase>,
    /// Why outliers are explained without tracing; `None` if they are traced or not explained.
    pub(crate) not_traced: Option<String>,
    pub(crate) row_length: Nanos,
    pub(crate) warnings: Vec<String>,
}

impl Session {
    /// Checks everything that can be checked before the measurement: CPUs, rights, the probe's
    /// parameters, and the lengths.
    ///
    /// # Errors
    /// Returns an error that names the problem and the value.
    pub fn prepare(request: Request, host: Host) -> Result<Self, SessionError> {
        punctual_rt::interrupt::install_interrupt_handler()?;
        // Measuring threads do not allocate memory while they measure. The memory that they need
        // before that is allocated from the same heap as all other memory, and is returned to it.
        punctual_rt::share_heap();
        // The facts require many small reads, and the checks wait for threads. Both run in
        // parallel, because some programs must begin to measure immediately.
        let (seen, checked) = thread::scope(|scope| {
            let seen = scope.spawn(|| CapturedFacts::new(&host, request.machine.audit));
            let checked = Checked::new(&request, &host);
            (seen.join(), checked)
        });
        let checked = checked?;
        // A panic in that thread is a bug. Repeating the work here shows it.
        let seen = seen.unwrap_or_else(|_| CapturedFacts::new(&host, request.machine.audit));
        let (facts, audit) = seen.judged(&checked.cpus);
        let phases = &checked.phases;
        check_windows(&request, phases)?;
        let row_length = (request.series.interval).unwrap_or_else(|| {
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
            not_traced: checked.not_traced,
            row_length,
            warnings: checked.warning.into_iter().collect(),
        })
    }

    /// Returns warnings about missing rights, for display before the run.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns why outliers are explained by the switches of the measuring threads only; `None` if
    /// they are traced or not explained.
    pub fn not_traced(&self) -> Option<&str> {
        self.not_traced.as_deref()
    }

    /// Returns the approximate duration of measuring the overhead of trace events before the run;
    /// `None` if none are recorded.
    pub fn measured_before(&self) -> Option<Nanos> {
        let traced = self.request.explain.is_some() && self.not_traced.is_none();
        traced.then(|| overhead::length(self.duration()))
    }

    /// Returns the planned duration; `None` if the run lasts until stopped.
    pub(crate) fn duration(&self) -> Option<Nanos> {
        total(&self.phases)
    }

    /// Returns the measured CPUs: those that threads are bound to, or all requested ones if any
    /// thread is not bound.
    pub(crate) fn cpus(&self) -> CpuSet {
        let workers = self.phases.iter().flat_map(Phase::workers);
        let bound: Option<CpuSet> = workers.map(|worker| worker.cpu).collect();
        bound.unwrap_or_else(|| self.cpus.clone())
    }
}

/// Checks whether each window of the requirement fits into each phase.
fn check_windows(request: &Request, phases: &[Phase]) -> Result<(), SessionError> {
    for (limit, _) in request.limits.requirement.windows() {
        for phase in phases {
            let rate = phase.workers().iter().map(|worker| worker.rate_hz).max();
            let (Some(duration), Some(rate)) = (phase.duration(), rate) else {
                continue;
            };
            let most = (duration.as_secs_f64() * (rate + 1) as f64).ceil() as u64;
            if u64::from(limit.periods()) > most {
                return Err(SessionError::Window {
                    periods: limit.periods(),
                    duration,
                    most,
                });
            }
        }
    }
    Ok(())
}

/// Checks whether outliers of a probe can be explained at all.
///
/// # Errors
/// Returns an error with the reason, and the probes that support it.
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

/// Checks that outliers can be explained, if requested. If the kernel refuses tracing to this user, and
/// the switches of the measuring threads can be recorded instead, returns the refusal.
fn may_explain(request: &Request, host: &Host) -> Result<Option<String>, SessionError> {
    let Some(explain) = &request.explain else {
        return Ok(None);
    };
    can_be_explained(request.probe)?;
    match Tracefs::find(host.root()).and_then(|tracefs| tracefs.may_arm()) {
        Err(error) if explain.can_use_switches(&error) && may_record(host).is_ok() => {
            same_clock_as_events(host)?;
            Ok(Some(error.to_string()))
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok(same_pids_as_events(host).map(|()| None)?),
    }
}

/// Result of the checks before the run.
struct Checked {
    cpus: CpuSet,
    scheduling: Scheduling,
    warning: Option<String>,
    phases: Vec<Phase>,
    not_traced: Option<String>,
}

impl Checked {
    fn new(request: &Request, host: &Host) -> Result<Self, SessionError> {
        let cpus = cpus_to_measure(request, host)?;
        let (scheduling, warning) = rights::scheduling(&request.threads, host)?;
        rights::may_use(&cpus)?;
        let not_traced = may_explain(request, host)?;
        let mut phases = request
            .phases
            .iter()
            .map(|phase| Phase::prepare(request, phase, &cpus, scheduling, host))
            .collect::<Result<Vec<_>, _>>()?;
        let mut workers: Vec<_> = phases.iter_mut().flat_map(Phase::workers_mut).collect();
        memory::fit(&mut workers, host.memory_available())?;
        Ok(Self {
            cpus,
            scheduling,
            warning,
            phases,
            not_traced,
        })
    }
}

/// Returns the total length of all phases; `None` if one lasts until stopped.
fn total(phases: &[Phase]) -> Option<Nanos> {
    phases
        .iter()
        .try_fold(Nanos::ZERO, |sum, phase| Some(sum + phase.duration()?))
}

fn cpus_to_measure(request: &Request, host: &Host) -> Result<CpuSet, SessionError> {
    let online = host.online()?;
    let cpus = match &request.threads.cpus {
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
