//! A series over time as a page: the trend with its plots and causes.

use std::collections::BTreeMap;

use punctual_model::cause::Source;
use punctual_model::{CauseSummary, Recording, counted};
use punctual_stats::trend::{Run, Trend};

use crate::ReportError;
use crate::document::table::{Column, Row, Table};
use crate::document::{Block, Document, Figure, Section};
use crate::plot::{self, Heading, LongTerm, PlotOptions};

/// Maximum number of causes to show. Those with the most time come first.
const CAUSES: usize = 20;

/// The causes of the outliers of many recordings.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    by_name: BTreeMap<(&'static str, String), (CauseSummary, u64)>,
    /// Number of recordings with explained outliers.
    explained: u64,
    /// Number of recordings that have no explained outliers.
    not_explained: u64,
}

impl Causes {
    /// Adds the causes of a recording.
    pub fn add(&mut self, recording: &Recording) {
        let Some(explanation) = &recording.explanation else {
            self.not_explained += 1;
            return;
        };
        self.explained += 1;
        for cause in &explanation.causes {
            let key = (cause.source.kind().name(), cause.source.who());
            let none = || (empty(cause.source.clone()), 0);
            let (sum, runs) = self.by_name.entry(key).or_insert_with(none);
            sum.count += cause.count;
            sum.culprit_in += cause.culprit_in;
            sum.total_ns = punctual_model::Nanos(sum.total_ns.0.saturating_add(cause.total_ns.0));
            sum.max_ns = sum.max_ns.max(cause.max_ns);
            *runs += 1;
        }
    }

    fn section(&self) -> Section {
        let mut all: Vec<&(CauseSummary, u64)> = self.by_name.values().collect();
        all.sort_by_key(|(cause, _)| std::cmp::Reverse(cause.total_ns));
        let rows = all.into_iter().take(CAUSES).map(|(cause, runs)| {
            Row::new([
                cause.source.kind().name().to_owned(),
                cause.source.who(),
                runs.to_string(),
                cause.culprit_in.to_string(),
                cause.count.to_string(),
                cause.total_ns.to_string(),
                cause.max_ns.to_string(),
            ])
        });
        let rows: Vec<Row> = rows.collect();
        let columns = vec![
            Column::left("kind"),
            Column::left("who"),
            Column::right("runs"),
            Column::right("main cause in"),
            Column::right("contributed to"),
            Column::right("total"),
            Column::right("largest"),
        ];
        let mut blocks = Vec::new();
        if !rows.is_empty() {
            blocks.push(Block::Table(Table::new(columns, rows)));
        }
        let explained = counted(self.explained, "run", "runs");
        blocks.push(Block::faint(match (self.explained, self.not_explained) {
            (0, _) => "unknown: no run recorded the causes of late wake-ups".to_owned(),
            (_, 0) => format!("outliers of {explained} were explained"),
            (_, without) => format!(
                "outliers of {explained} were explained; the causes in {without} more are unknown"
            ),
        }));
        Section::titled("Causes", blocks)
    }
}

fn empty(source: Source) -> CauseSummary {
    CauseSummary {
        source,
        count: 0,
        culprit_in: 0,
        late_only_by: None,
        total_ns: punctual_model::Nanos::ZERO,
        max_ns: punctual_model::Nanos::ZERO,
        max_outlier: 0,
        words: None,
    }
}

/// Returns the trend, its plots (trend, surface and heat map of each group), and the causes.
///
/// # Errors
/// Returns an error if a plot cannot be drawn.
pub fn monthly(trend: &Trend, runs: &[Run], causes: &Causes) -> Result<Document, ReportError> {
    let mut document = pictured(trend, runs)?;
    document.title = format!("Report of {}", trend.series);
    document.sections.push(causes.section());
    Ok(document)
}

/// Returns a trend with the plots of each group.
///
/// # Errors
/// Returns an error if a plot cannot be drawn.
pub fn pictured(trend: &Trend, runs: &[Run]) -> Result<Document, ReportError> {
    let mut document = super::trend(trend, None);
    let options = PlotOptions {
        heading: Heading::None,
        ..PlotOptions::default()
    };
    let tall = PlotOptions {
        height: 560,
        ..options.clone()
    };
    let mut pictures = Vec::new();
    for group in &trend.groups {
        let own = group.pick(runs);
        let of = LongTerm::new(trend, group, &own);
        let figures = [
            (
                plot::trend(&of, &options)?,
                "Figures of each run. Vertical lines mark change points.",
            ),
            (
                plot::surface(&of, &tall)?,
                "Latency by run, with the oldest run at the back.",
            ),
            (
                plot::heatmap(&of, &options)?,
                "Number of periods by time and latency. Grey: no run.",
            ),
        ];
        let figures = figures.map(|(plot, caption)| {
            let caption = caption.to_owned();
            Block::Figure(Box::new(Figure { plot, caption }))
        });
        pictures.push(Section::titled(group.name(), figures.into()));
    }
    // The plots follow the verdict and the groups.
    let place = 2.min(document.sections.len());
    document.sections.splice(place..place, pictures);
    Ok(document)
}
