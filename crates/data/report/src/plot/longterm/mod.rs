//! Plots of many runs: a surface, a heat map, a trend.

mod heatmap;
mod surface;
mod times;
mod trend;

use jiff::Timestamp;
use punctual_model::{Nanos, ProbeRun, counted, grouped};
use punctual_stats::trend::{FactChange, Group, Hole, Note, Run, Trend};

use super::axis::Unit;
use super::bins::Bins;
use super::{Heading, Plot, PlotOptions, Scale};
use crate::ReportError;
use crate::figures;

/// The runs of one group of a series.
#[derive(Clone, Copy, Debug)]
pub struct LongTerm<'a> {
    /// The name of the series.
    pub series: &'a str,
    /// The group of runs to show.
    pub group: &'a Group,
    /// The runs of the group, oldest first.
    pub runs: &'a [&'a Run],
    /// Notes by users.
    pub notes: &'a [Note],
    /// Slots that did not run.
    pub holes: &'a [Hole],
    /// The times when facts of the machine changed.
    pub facts: &'a [FactChange],
}

impl<'a> LongTerm<'a> {
    /// Returns one group of a trend with its runs.
    pub fn new(trend: &'a Trend, group: &'a Group, runs: &'a [&'a Run]) -> Self {
        Self {
            series: &trend.series,
            group,
            runs,
            notes: &trend.notes,
            holes: &trend.holes,
            facts: &trend.facts,
        }
    }

    /// Returns the name of the measured quantity, for a heading and for an axis. All runs of a series
    /// have the same probe.
    fn quantity(&self) -> (&'static str, &'static str) {
        let facts = self.runs.first().map(|run| &run.facts);
        let probe = ["series.probe", "measurement.probe"]
            .into_iter()
            .find_map(|name| facts?.get(name)?.as_deref());
        ProbeRun::quantity_of(probe.unwrap_or_default())
    }

    /// Returns the largest latency of all runs.
    fn max(&self) -> Nanos {
        let maxima = self.runs.iter().filter_map(|run| run.max);
        let edges = self.runs.iter().filter_map(|run| run.rows.iter().last());
        let edges = edges.map(|(lower, _)| Nanos(lower));
        maxima.chain(edges).max().unwrap_or_default()
    }

    fn min(&self) -> Nanos {
        let first = self.runs.iter().filter_map(|run| run.rows.iter().next());
        first
            .map(|(lower, _)| Nanos(lower))
            .min()
            .unwrap_or_default()
    }

    /// Returns the scale, which is logarithmic if the largest latency is far above p99.
    fn scale(&self, options: &PlotOptions) -> Scale {
        let p99 = self
            .runs
            .iter()
            .filter_map(|run| run.p99)
            .max()
            .unwrap_or_default();
        match options.latency_scale {
            Scale::Auto if self.max().0 > p99.0.max(1).saturating_mul(20) => Scale::Log,
            Scale::Auto => Scale::Linear,
            asked => asked,
        }
    }

    /// Returns the start times of the first and the last run.
    fn span(&self) -> (Timestamp, Timestamp) {
        let first = self
            .runs
            .first()
            .map_or(Timestamp::UNIX_EPOCH, |run| run.started);
        (first, self.runs.last().map_or(first, |run| run.started))
    }

    fn headings(&self, what: &str, options: &PlotOptions) -> (String, String) {
        let (from, to) = self.span();
        let day = |time| figures::wall(time, 0).chars().take(10).collect::<String>();
        match &options.heading {
            Heading::None => (String::new(), String::new()),
            Heading::Text(text) => (text.clone(), String::new()),
            Heading::Auto => {
                let due = self
                    .runs
                    .iter()
                    .map(|run| run.due)
                    .fold(0, u64::saturating_add);
                let runs = counted(self.runs.len() as u64, "run", "runs");
                let line = format!(
                    "{runs}, {} to {} UTC, {} periods",
                    day(from),
                    day(to),
                    grouped(due)
                );
                (
                    format!("{what}: {}, {}", self.series, self.group.name()),
                    line,
                )
            }
        }
    }

    /// Returns the requirement if it is close enough to the figures to be drawn.
    fn limit(&self, scale: Scale) -> Option<Nanos> {
        let limit = self.group.limit_ns?;
        super::latency::in_sight(limit, self.max(), scale).then_some(limit)
    }

    fn unit(&self) -> Unit {
        Unit::for_latency(self.max())
    }
}

fn check(of: &LongTerm<'_>, options: &PlotOptions) -> Result<(), ReportError> {
    let PlotOptions { width, height, .. } = *options;
    if !(320..=8000).contains(&width) || !(240..=8000).contains(&height) {
        return Err(ReportError::Size { width, height });
    }
    if of.runs.iter().any(|run| !run.rows.is_empty()) {
        Ok(())
    } else {
        Err(ReportError::NoRecording)
    }
}

/// The number of periods of each run by latency bin, for plots that are drawn by other code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Edges of the bins in ns, in ascending order, 40 per decade. Bin `i` ends at edge `i + 1`.
    pub edges: Vec<u64>,
    /// Counts by bin for each run, oldest first.
    pub counts: Vec<Vec<u64>>,
}

/// Returns the cells of a surface or heat map.
pub fn cells(of: &LongTerm<'_>) -> Cells {
    let limit = of.limit(Scale::Log).unwrap_or_default();
    let bins = Bins::log(of.min(), of.max().max(limit), Nanos(1));
    let counts = of.runs.iter().map(|run| bins.count_rows(run.rows.iter()));
    Cells {
        counts: counts.collect(),
        edges: bins.edges,
    }
}

/// Draws the long-term surface in the style of OSADL's farm: latency from left to right, the runs
/// from back (oldest) to front, and the number of periods upwards on a log scale. Runs nearer to
/// the front hide those behind them. The largest latency of all runs, and each run that stands out,
/// are marked on top.
///
/// # Errors
/// Returns an error if no run has latencies, or if the plot cannot be drawn at this size.
pub fn surface(of: &LongTerm<'_>, options: &PlotOptions) -> Result<Plot, ReportError> {
    check(of, options)?;
    Ok(surface::draw(of, options))
}

/// Draws the heat map of a series: time from left to right, latency upwards, and the number of
/// periods as colour. The requirement is a line across the map, with a histogram of all runs next
/// to it. Times without a run are grey.
///
/// # Errors
/// Same as [`surface`].
pub fn heatmap(of: &LongTerm<'_>, options: &PlotOptions) -> Result<Plot, ReportError> {
    check(of, options)?;
    Ok(heatmap::draw(of, options))
}

/// Draws p50, p99 and the largest latency of each run over time, with change points, spikes, notes,
/// slots that did not run, and the requirement.
///
/// # Errors
/// Same as [`surface`].
pub fn trend(of: &LongTerm<'_>, options: &PlotOptions) -> Result<Plot, ReportError> {
    check(of, options)?;
    Ok(trend::draw(of, options))
}
