//! The tables: runs, histograms, top_samples, facts, changes.

use jiff::Timestamp;
use punctual_model::{ChangeAnnotation, ChangeDecision, Nanos, Outcome, Recording, SeriesEpoch};
use punctual_stats::trend::facts_of;

use crate::parquet_file::{Column, Table};

/// Columns of a table to which rows are added.
#[derive(Default)]
struct Rows {
    names: Vec<&'static str>,
    columns: Vec<Column>,
}

/// A value of a row.
enum Cell {
    Text(Option<String>),
    Number(Option<i64>),
    List(Vec<i64>),
}

impl Rows {
    fn add(&mut self, cells: Vec<(&'static str, Cell)>) {
        if self.names.is_empty() {
            self.names = cells.iter().map(|(name, _)| *name).collect();
            let empty = |(_, cell): &(_, Cell)| match cell {
                Cell::Text(_) => Column::Texts(Vec::new()),
                Cell::Number(_) => Column::Numbers(Vec::new()),
                Cell::List(_) => Column::Lists(Vec::new()),
            };
            self.columns = cells.iter().map(empty).collect();
        }
        for (column, (_, cell)) in self.columns.iter_mut().zip(cells) {
            match (column, cell) {
                (Column::Texts(all), Cell::Text(one)) => all.push(one),
                (Column::Numbers(all), Cell::Number(one)) => all.push(one),
                (Column::Lists(all), Cell::List(one)) => all.push(one),
                // This cannot happen, because the code below builds all rows of a table in the same
                // way.
                _ => {}
            }
        }
    }

    fn table(self, name: &'static str) -> Table {
        Table {
            name,
            columns: self.names.into_iter().zip(self.columns).collect(),
        }
    }
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(Some(text.into()))
}

fn number(number: u64) -> Cell {
    // Larger values do not occur, because 2^63 ns are 292 years.
    Cell::Number(Some(i64::try_from(number).unwrap_or(i64::MAX)))
}

/// Returns the name used by the API and in the JSON of a recording.
const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "met",
        Outcome::Exceeded => "exceeded",
        Outcome::NotDecidable => "not_decidable",
        Outcome::Held => "held",
        Outcome::Broken => "broken",
        Outcome::NoRequirement => "no_requirement",
        Outcome::NotProven => "not_proven",
    }
}

fn maybe(ns: Option<Nanos>) -> Cell {
    match ns {
        Some(ns) => number(ns.0),
        None => Cell::Number(None),
    }
}

fn time(time: Timestamp) -> Cell {
    Cell::Number(i64::try_from(time.as_nanosecond()).ok())
}

fn signed(numbers: impl Iterator<Item = u64>) -> Cell {
    Cell::List(
        numbers
            .map(|number| i64::try_from(number).unwrap_or(i64::MAX))
            .collect(),
    )
}

/// The tables of several recordings.
#[derive(Default)]
pub(crate) struct Tables {
    runs: Rows,
    histograms: Rows,
    top_samples: Rows,
    facts: Rows,
}

impl Tables {
    pub(crate) fn add(&mut self, one: &Recording, machine: &str, series: Option<&SeriesEpoch>) {
        let id = || text(one.id.to_string());
        let all = one.all_latencies();
        let accounting = one.accounting();
        self.runs.add(vec![
            ("recording", id()),
            ("machine_name", text(machine)),
            ("started_ns", time(one.started)),
            ("duration_ns", number(one.duration_ns.0)),
            ("probe", text(&one.probe.name)),
            ("program", text(&one.probe.program)),
            ("label", Cell::Text(one.label.clone())),
            (
                "series",
                Cell::Text(series.map(|series| series.name.clone())),
            ),
            (
                "epoch",
                Cell::Number(series.map(|series| series.epoch.into())),
            ),
            ("completion", text(one.completion.name())),
            ("outcome", text(outcome(one.verdict.outcome))),
            ("recorded", number(accounting.recorded)),
            ("missed", number(accounting.missed)),
            ("p50_ns", maybe(all.supported_quantile(0.5))),
            ("p99_ns", maybe(all.supported_quantile(0.99))),
            ("p999_ns", maybe(all.supported_quantile(0.999))),
            ("max_ns", maybe(all.max())),
            ("fingerprint", text(&one.host.fingerprint)),
        ]);
        for (place, thread) in (0u64..).zip(&one.threads) {
            let histogram = &thread.histogram;
            self.histograms.add(vec![
                ("recording", id()),
                ("machine_name", text(machine)),
                ("thread", number(place)),
                ("cpu", Cell::Number(thread.cpu.map(i64::from))),
                ("bucket_ns", signed(histogram.rows().map(|row| row.0))),
                ("width_ns", signed(histogram.rows().map(|row| row.1))),
                ("count", signed(histogram.rows().map(|row| row.2))),
            ]);
        }
        for largest in &one.top_samples {
            let blame = largest.blame.as_ref();
            self.top_samples.add(vec![
                ("recording", id()),
                ("machine_name", text(machine)),
                ("thread", number(largest.thread.into())),
                ("cpu", Cell::Number(largest.cpu.map(i64::from))),
                ("time_ns", time(largest.time)),
                ("latency_ns", number(largest.latency_ns.0)),
                (
                    "culprit",
                    Cell::Text(blame.map(punctual_model::Blame::culprit)),
                ),
            ]);
        }
        for (name, value) in facts_of(&one.host) {
            self.facts.add(vec![
                ("recording", id()),
                ("machine_name", text(machine)),
                ("name", text(name)),
                // An unknown value is null.
                ("value", Cell::Text(value)),
            ]);
        }
    }

    /// Returns the tables that have rows.
    pub(crate) fn finish(self) -> impl Iterator<Item = Table> {
        let all = [
            self.runs.table("runs"),
            self.histograms.table("histograms"),
            self.top_samples.table("top_samples"),
            self.facts.table("facts"),
        ];
        all.into_iter().filter(|table| !table.columns.is_empty())
    }
}

/// Builds the table of decisions on changes, for all machines. The last decision on a change is the
/// valid one.
pub(crate) fn changes(marks: &[ChangeAnnotation]) -> Table {
    let texts = |of: &dyn Fn(&ChangeAnnotation) -> String| {
        Column::Texts(marks.iter().map(|mark| Some(of(mark))).collect())
    };
    let at = |mark: &ChangeAnnotation| i64::try_from(mark.at.as_nanosecond()).ok();
    Table {
        name: "changes",
        columns: vec![
            ("change", texts(&|mark| mark.id.to_string())),
            ("series", texts(&|mark| mark.series.clone())),
            ("figure", texts(&|mark| mark.figure.clone())),
            ("recording", texts(&|mark| mark.recording.to_string())),
            (
                "decision",
                texts(&|mark| match mark.decision {
                    ChangeDecision::Acknowledged => "acknowledged".to_owned(),
                    ChangeDecision::Reopened => "reopened".to_owned(),
                }),
            ),
            ("who", texts(&|mark| mark.who.clone())),
            ("why", texts(&|mark| mark.why.clone())),
            ("at_ns", Column::Numbers(marks.iter().map(at).collect())),
        ],
    }
}
