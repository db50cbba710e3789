//! Begins the windows of the full stage, and measures their cost.

use punctual_model::Nanos;
use punctual_trace::{CallCost, JobRecorder, Stage};

use super::windows::{Taken, Windows};
use super::{JobDetail, ObserveRequest};
use crate::SessionError;
use crate::explain::Explainer;
use crate::lifecycle::monotonic;

/// Returns the windows of the full stage, unless all the time is in the full stage. Enters the light
/// stage.
pub(super) fn windows_of(
    request: &ObserveRequest,
    explainer: &mut Explainer,
) -> Result<Option<Windows>, SessionError> {
    let detail = request.jobs.as_ref().map(|jobs| jobs.detail);
    let (Some(JobDetail::Windows(limit)), Some(programs)) = (detail, explainer.programs()) else {
        return Ok(None);
    };
    let cost = programs.measure_cost()?;
    programs.enter(Stage::Light)?;
    explainer.shut_stacks(true);
    let limit = limit.unwrap_or(JobDetail::COST);
    Ok(Some(Windows::new(limit, cost, monotonic())))
}

pub(super) fn taken(programs: &JobRecorder, cost: CallCost) -> Taken {
    Taken {
        calls: programs.taken(cost),
        own: Nanos::from(punctual_rt::process_usage().cpu_time),
    }
}
