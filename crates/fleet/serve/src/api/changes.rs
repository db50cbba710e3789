//! The change points of a series.

use axum::Json;
use axum::extract::{Query, State};
use punctual_stats::trend::{ChangePoint, Drifting, Group, Trend, TrendQuery, TrendVerdict};
use serde::Serialize;

use crate::look::ViewParams;
use crate::problem::Problem;
use crate::state::App;

/// The change points of a series.
#[derive(Serialize)]
pub(crate) struct ChangesJson {
    /// The name of the series.
    series: String,
    /// The limits of the query.
    asked: TrendQuery,
    /// The verdict.
    verdict: TrendVerdict,
    /// The verdict as a sentence.
    sentence: String,
    /// The groups of runs, by load and class of CPUs.
    groups: Vec<GroupJson>,
}

/// The change points of a group of runs.
#[derive(Serialize)]
struct GroupJson {
    /// The load and class of CPUs.
    group: String,
    /// Whether there were enough runs to find change points.
    judged: bool,
    /// Change points in order of time.
    changes: Vec<ChangePoint>,
    /// Figures that slowly drift in one direction since their last change point.
    drifts: Vec<Drifting>,
}

/// Returns the change points of a series, for the same query as its page.
pub(super) async fn get(
    State(app): State<App>,
    Query(look): Query<ViewParams>,
) -> Result<Json<ChangesJson>, Problem> {
    app.work(move |app| {
        let (trend, _) = look.judged(app)?;
        Ok(Json(changes_json(trend)))
    })
    .await
}

fn changes_json(trend: Trend) -> ChangesJson {
    let of_group = |group: Group| GroupJson {
        group: group.name(),
        judged: group.judged,
        changes: group.changes,
        drifts: group.drifts,
    };
    ChangesJson {
        series: trend.series,
        asked: trend.asked,
        verdict: trend.verdict,
        sentence: trend.sentence,
        groups: trend.groups.into_iter().map(of_group).collect(),
    }
}
