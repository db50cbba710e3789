//! The runs of a series as data for interactive plots.

use axum::Json;
use axum::extract::{Query, State};
use jiff::Timestamp;
use punctual_model::{Nanos, RecordingId};
use punctual_report::plot::{LongTerm, cells};
use punctual_stats::trend::{ChangePoint, Group, NearFact, Run, Trend};
use serde::{Deserialize, Serialize};

use crate::look::ViewParams;
use crate::problem::Problem;
use crate::state::App;

/// Maximum number of runs. If there are more, adjacent runs are combined.
const COLUMNS: usize = 400;
/// Levels up to this one are exact counts. Each higher level is 10% more than the previous one.
const EXACT: u64 = 63;
/// The ratio of adjacent levels above that.
const GROWTH: f64 = 1.1;

/// The parameters of the query.
#[derive(Deserialize)]
pub(crate) struct LongtermQuery {
    series: String,
    #[serde(default)]
    machine: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    threshold: String,
    /// The number of the group, from 0.
    #[serde(default)]
    group: usize,
}

/// The runs of one group of a series.
#[derive(Serialize)]
pub(crate) struct LongTermJson {
    /// The name of the series.
    series: String,
    /// The load and class of CPUs.
    group: String,
    /// A due period with a latency above this counts as late.
    threshold_ns: Option<Nanos>,
    /// The largest latency that the requirement allows.
    limit_ns: Option<Nanos>,
    /// Runs, oldest first. Adjacent runs are combined if there are very many.
    runs: Vec<RunJson>,
    /// Edges of the latency bins in ns, in ascending order.
    edges: Vec<u64>,
    /// For each run, a level for each bin as two hexadecimal digits. Levels 0 to 63 are the count
    /// itself, and each higher level is 10% more.
    levels: Vec<String>,
    /// Change points.
    changes: Vec<AnnotationJson>,
    /// Notes by users.
    notes: Vec<AnnotationJson>,
    /// Slots that did not run.
    holes: Vec<AnnotationJson>,
}

/// A run.
#[derive(Serialize)]
struct RunJson {
    /// The ID of the recording. For combined runs, it is the ID of the one with the largest
    /// latency.
    recording: RecordingId,
    /// When the run began.
    started: Timestamp,
    /// The number of combined runs.
    together: usize,
    /// Number of due periods.
    due: u64,
    /// Number of due periods above the threshold.
    above: Option<u64>,
    /// Median of the due periods.
    p50_ns: Option<Nanos>,
    /// 99th percentile of the due periods.
    p99_ns: Option<Nanos>,
    /// The largest latency.
    max_ns: Option<Nanos>,
    /// Whether its maximum stands out from the other runs.
    spike: bool,
}

/// An event at a point in time.
#[derive(Serialize)]
struct AnnotationJson {
    /// The time of the event.
    at: Timestamp,
    /// A description in one sentence.
    text: String,
    /// Whether it is an open regression.
    open: bool,
}

/// Returns the level of a count.
fn level(count: u64) -> u8 {
    if count <= EXACT {
        return count as u8;
    }
    let steps = ((count as f64 / EXACT as f64).ln() / GROWTH.ln()).round();
    // Counts beyond the last level are limited to it.
    (EXACT as f64 + steps.max(1.0)).min(255.0) as u8
}

fn levels(counts: &[u64]) -> String {
    counts
        .iter()
        .map(|count| format!("{:02x}", level(*count)))
        .collect()
}

/// Returns the runs of a group of a series.
pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<LongtermQuery>,
) -> Result<Json<LongTermJson>, Problem> {
    let LongtermQuery {
        series,
        machine,
        from,
        to,
        threshold,
        group,
    } = asked;
    let look = ViewParams {
        series,
        machine,
        from,
        to,
        threshold,
    };
    app.work(move |app| {
        let (trend, runs) = look.judged(app)?;
        let found = trend.groups.get(group);
        let found = found.ok_or_else(|| {
            Problem::not_found(
                "the series has no group with this \
            number",
            )
        })?;
        Ok(Json(of_group(&trend, found, &runs)))
    })
    .await
}

fn of_group(trend: &Trend, group: &Group, runs: &[Run]) -> LongTermJson {
    let own = group.pick(runs);
    let together = own.len().div_ceil(COLUMNS).max(1);
    let cells = cells(&LongTerm::new(trend, group, &own));
    let places: Vec<usize> = (0..own.len()).collect();
    let columns = || places.chunks(together);
    let sums = columns().map(|places| {
        let mut sum = vec![0u64; cells.edges.len().saturating_sub(1)];
        for counts in places.iter().filter_map(|place| cells.counts.get(*place)) {
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*count);
            }
        }
        levels(&sum)
    });
    let mark = |at, text: String| AnnotationJson {
        at,
        text,
        open: false,
    };
    LongTermJson {
        series: trend.series.clone(),
        group: group.name(),
        threshold_ns: group.threshold_ns,
        limit_ns: group.limit_ns,
        runs: columns().filter_map(|places| run(group, places)).collect(),
        levels: sums.collect(),
        changes: group.changes.iter().map(|one| change(group, one)).collect(),
        notes: (trend.notes.iter())
            .map(|note| mark(note.at, format!("{}: {}", note.who, note.text)))
            .collect(),
        holes: (trend.holes.iter())
            .map(|hole| mark(hole.due, hole.reason.clone()))
            .collect(),
        edges: cells.edges,
    }
}

/// Combines adjacent runs, with the figures of the one with the largest latency.
fn run(group: &Group, places: &[usize]) -> Option<RunJson> {
    let of = |place: &usize| group.runs.get(*place);
    let worst = places
        .iter()
        .max_by_key(|place| of(place).map(|run| run.max_ns))?;
    let worst = of(worst)?;
    let sum = |value: fn(&punctual_stats::trend::RunFigures) -> Option<u64>| {
        let each = places.iter().filter_map(of).map(value);
        each.sum::<Option<u64>>()
    };
    Some(RunJson {
        recording: worst.recording,
        started: places.first().and_then(of)?.started,
        together: places.len(),
        due: sum(|run| Some(run.due))?,
        above: sum(|run| run.above),
        p50_ns: worst.p50_ns,
        p99_ns: worst.p99_ns,
        max_ns: worst.max_ns,
        spike: (group.spikes.iter()).any(|spike| spike.by_max && places.contains(&spike.run)),
    })
}

fn change(group: &Group, change: &ChangePoint) -> AnnotationJson {
    let direction = if change.worse { "worse" } else { "better" };
    let facts: Vec<String> = change.facts.iter().map(NearFact::sentence).collect();
    let level = |value: f64| match change.followed {
        punctual_stats::trend::Followed::Tail => {
            format!(
                "{} late periods a run",
                punctual_stats::trend::short(group.a_run(value))
            )
        }
        _ => Nanos(value.max(0.0) as u64).to_string(),
    };
    let mut text = format!(
        "{} {direction}: {} to {}",
        change.what(),
        level(change.before),
        level(change.after)
    );
    if !facts.is_empty() {
        text.push_str(&format!("; {}", facts.join("; ")));
    }
    if let Some(known) = &change.acknowledged {
        text.push_str(&format!("; acknowledged by {}: {}", known.who, known.why));
    }
    AnnotationJson {
        at: change.at,
        text,
        open: change.is_open_worsening(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_counts_exact_large_counts_approximate() {
        assert_eq!([0, 1, 63].map(level), [0, 1, 63]);
        for count in [64u64, 100, 12_345, 1_000_000_000] {
            let back = EXACT as f64 * GROWTH.powi(i32::from(level(count)) - EXACT as i32);
            let ratio = back / count as f64;
            assert!((0.9..1.12).contains(&ratio), "{count}: {back}");
        }
        assert_eq!(level(u64::MAX), 255);
        assert_eq!(levels(&[0, 1, 63]), "00013f");
    }
}
