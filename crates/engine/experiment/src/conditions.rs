//! Builds the session request for each part of a check-up.

use punctual_loads::LoadRequest;
use punctual_model::{Arguments, Nanos, Requirement, Role};
use punctual_probes::ProbeEntry;
use punctual_session::{
    ExplainRequest, LimitRequest, MachineRequest, PhaseRequest, RecordingRequest, Request,
    RunLength, ThreadRequest,
};

use crate::request::{CheckError, CheckRequest};

/// The condition without load.
pub(crate) const IDLE: &str = "idle";

/// The condition under load.
pub(crate) const LOADED: &str = "loaded";

/// Builds the part of the request that is common to all measurements of a check-up.
fn request(
    asked: &CheckRequest,
    probe: &'static ProbeEntry,
    given: &[(&str, &str)],
) -> Result<Request, CheckError> {
    let arguments = Arguments::check(probe.parameters, given.iter().copied())
        .map_err(|error| CheckError::Parameter(error.to_string()))?;
    Ok(Request {
        partner: asked.partner.clone(),
        threads: ThreadRequest {
            cpus: asked.cpus.clone(),
            ..ThreadRequest::default()
        },
        limits: LimitRequest {
            requirement: Requirement {
                periodic: Some(asked.requirement.clone()),
                ..Requirement::default()
            },
            ..LimitRequest::default()
        },
        machine: MachineRequest {
            journal: asked.journal.clone(),
            audit: Some(Role::default()),
            ..MachineRequest::default()
        },
        recording: RecordingRequest {
            label: Some(asked.label.clone().unwrap_or_else(|| "check".to_owned())),
            command_line: asked.command_line.clone(),
        },
        ..Request::new(probe, arguments, Vec::new())
    })
}

/// Longest period of a loop that can start at a phase.
const LONGEST_PHASED: Nanos = Nanos::from_secs(1);

/// Returns the phase of a loop against the multiples of its period, if a load has a phase; `None` for a
/// loop that cannot start at a phase.
pub(crate) fn start_phase(period: Nanos) -> Option<Nanos> {
    (period <= LONGEST_PHASED).then_some(Nanos(period.0 / 2))
}

/// Builds the request for running the timer probe in each condition, with the period and priority
/// of the loop. The machine is measured as it is, so /dev/cpu_dma_latency is not changed.
pub(crate) fn timer(asked: &CheckRequest, explained: bool) -> Result<Request, CheckError> {
    let probe = punctual_probes::probe("timer").map_err(CheckError::Probe)?;
    let period = asked.requirement.period_ns;
    let (interval, phase) = (format!("{}ns", period.0), start_phase(period));
    let in_phase = asked.in_phase || asked.loads.iter().any(LoadRequest::has_phase);
    let phase = phase
        .filter(|_| in_phase)
        .map(|phase| format!("{}ns", phase.0));
    let given: Vec<(&str, &str)> = std::iter::once(("interval", &*interval))
        .chain(phase.iter().map(|phase| ("start-phase", &**phase)))
        .collect();
    let mut request = request(asked, probe, &given)?;
    request.threads.priority = asked.priority;
    let phase = |name: &str, length: Nanos, loads| PhaseRequest {
        name: Some(name.to_owned()),
        length: RunLength::For(length),
        loads,
    };
    if asked.idle > Nanos::ZERO {
        request.phases.push(phase(IDLE, asked.idle, Vec::new()));
    }
    if !asked.loads.is_empty() {
        let length = asked.until_proven.unwrap_or(asked.loaded);
        request
            .phases
            .push(phase(LOADED, length, asked.loads.clone()));
    } else if let Some(length) = asked.until_proven
        && let Some(only) = request.phases.last_mut()
    {
        only.length = RunLength::For(length);
    }
    request.explain = explained.then(|| ExplainRequest::above(asked.requirement.budget_ns));
    Ok(request)
}

/// Builds the request for a short run of the hardware probe.
pub(crate) fn hardware(asked: &CheckRequest) -> Result<Request, CheckError> {
    let probe = punctual_probes::probe("hardware").map_err(CheckError::Probe)?;
    let mut request = request(asked, probe, &[])?;
    let only = PhaseRequest::only(RunLength::For(asked.hardware), Vec::new());
    request.phases.push(only);
    Ok(request)
}
