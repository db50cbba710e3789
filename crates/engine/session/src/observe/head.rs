//! The head of the recording of an observation.

use punctual_host::Host;
use punctual_model::{Chart, Nanos, ProbeRun, Recording, Requirement};

use super::watched::Watched;
use super::{ObserveRequest, watched_tracks};
use crate::request::usual_series_interval;

/// Longest row of a time series that shows late seconds.
const SECOND: Nanos = Nanos::from_secs(1);

/// Returns the recording as known before the start.
pub(super) fn head(request: &ObserveRequest, host: &Host, watched: &Watched) -> Recording {
    let mut parameters = std::collections::BTreeMap::new();
    let duration = request.length.duration();
    parameters.insert("targets".to_owned(), request.targets.to_string().into());
    let names = request.targets.named(&watched.first);
    parameters.insert(ProbeRun::WATCHED.to_owned(), names.into());
    let all = host.processes();
    let own = watched.first.keys().filter(|tid| all.contains(tid));
    let own: Vec<u32> = own.copied().collect();
    parameters.insert(ProbeRun::PROCESSES.to_owned(), own.into());
    match &request.jobs {
        Some(jobs) => {
            parameters.insert("budget_ns".to_owned(), jobs.budget.0.into());
            parameters.insert("release".to_owned(), jobs.release.to_string().into());
        }
        None => {
            parameters.insert(
                "threshold_ns".to_owned(),
                request.explain.threshold.0.into(),
            );
        }
    }
    parameters.insert("duration_ns".to_owned(), duration.map(|d| d.0).into());
    if let Some(group) = &watched.group {
        parameters.insert(ProbeRun::GROUP.to_owned(), group.to_parameter());
    }
    let probe = ProbeRun {
        name: match request.jobs {
            Some(_) => ProbeRun::JOBS.to_owned(),
            None => ProbeRun::OBSERVED.to_owned(),
        },
        chart: Chart::Bars,
        alike: false,
        parameters,
        program: concat!("punctual ", env!("CARGO_PKG_VERSION")).to_owned(),
        command_line: request.recording.command_line.clone(),
    };
    let threads = watched_tracks::threads(watched);
    let requirement = Requirement {
        periodic: request.requirement.clone(),
        ..Requirement::default()
    };
    let mut recording = Recording::new(probe, host.facts(), requirement, threads);
    recording.label.clone_from(&request.recording.label);
    let usual = usual_series_interval(duration);
    recording.series.interval_ns = match request.requirement {
        Some(_) => usual.min(SECOND),
        None => usual,
    };
    recording
}
