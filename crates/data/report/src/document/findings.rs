//! The tables of a probe's own results, prepared for display.

use punctual_model::{
    Cell, Explanation, Fact, KeptTicks, Nanos, Recording, Table, TickReasons, counted, grouped,
    tick_dependencies,
};

use super::table::{self, Column, Row};
use super::{Block, Section, without};

/// Maximum number of table rows on a terminal.
const ROWS: usize = 40;

/// Maximum length of a cell on a terminal.
const CELL: usize = 48;

/// Returns the combined causes of all outliers, and the causes that recur periodically.
pub(crate) fn of_explanation(explanation: &Explanation) -> Vec<Section> {
    let mut shown = Vec::new();
    if !explanation.causes.is_empty() {
        let mut columns = vec![
            ("kind", "kind"),
            ("who", "who"),
            ("culprit_in", "main cause in"),
            ("late_only_by", "late only by it"),
            ("outliers", "contributed to"),
            ("total_ns", "total"),
            ("max_ns", "largest"),
            ("max_outlier", "largest outlier"),
        ];
        let causes = explanation.causes.iter();
        let has_threshold = causes.clone().any(|cause| cause.late_only_by.is_some());
        columns.retain(|(name, _)| has_threshold || *name != "late_only_by");
        let title = match explanation.threshold_ns {
            Nanos::ZERO => "Causes of the outliers".to_owned(),
            threshold => format!("Causes of outliers above {threshold}"),
        };
        let mut table = Table::new("causes", &title, &columns);
        for cause in causes.take(CAUSES) {
            let mut row = vec![
                Cell::from(cause.source.kind().name()),
                cause.source.who().into(),
                cause.culprit_in.into(),
            ];
            row.extend(has_threshold.then(|| cause.late_only_by.map_or(Cell::Unknown, Cell::from)));
            row.extend([
                cause.count.into(),
                cause.total_ns.into(),
                cause.max_ns.into(),
                cause.max_outlier.into(),
            ]);
            table.push(row);
        }
        shown.push(show(&table));
    }
    if !explanation.periods.is_empty() {
        let mut table = Table::new(
            "periods",
            "Periodic causes",
            &[
                ("kind", "kind"),
                ("who", "who"),
                ("period_ns", "period"),
                ("tolerance_ns", "tolerance"),
                ("count", "times"),
                ("missing", "skipped"),
            ],
        );
        for period in &explanation.periods {
            table.push([
                Cell::from(period.source.kind().name()),
                period.source.who().into(),
                exactly(period.period_ns, period.tolerance_ns).into(),
                period.tolerance_ns.into(),
                period.count.into(),
                period.missing.into(),
            ]);
        }
        shown.push(show(&table));
    }
    shown.extend(explanation.ticks.as_ref().map(ticks));
    shown
}

/// Returns the reasons why measured CPUs in `nohz_full` had a tick.
fn ticks(fact: &Fact<TickReasons>) -> Section {
    let blocks = match &fact.value {
        None => {
            let why = fact.unknown.as_deref().unwrap_or("not recorded");
            vec![Block::text(format!("unknown: {why}"))]
        }
        Some(found) if found.ticks.is_empty() && found.lost == 0 => {
            let (cpus, duration) = (&found.cpus, found.duration_ns);
            vec![Block::text(format!(
                "none on CPUs {cpus} in {duration}: nothing kept the kernel from stopping the tick"
            ))]
        }
        Some(found) => {
            let mut lines: Vec<Block> = (found.ticks.iter().take(TICKS))
                .map(|tick| Block::text(kept(tick, found)))
                .collect();
            if found.lost > 0 {
                lines.push(Block::Warnings(vec![format!(
                    "{} lost, so the counts are lower bounds",
                    counted(found.lost, "event", "events")
                )]));
            }
            lines
        }
    };
    Section::titled("Ticks on nohz_full CPUs", blocks)
}

/// Formats as `CPU 2: the tick continued 10,000 times in 10.0 s, 1,000 a second: SCHED (more than
/// one thread is runnable); running at these times: a-7, b-8`.
fn kept(tick: &KeptTicks, found: &TickReasons) -> String {
    let rate = u128::from(tick.count) * 1_000_000_000 / u128::from(found.duration_ns.0.max(1));
    let rate = match u64::try_from(rate).unwrap_or(u64::MAX) {
        0 => String::new(),
        rate => format!(", {} a second", grouped(rate)),
    };
    let threads = match tick.threads.as_slice() {
        [] => String::new(),
        threads => format!("; running at these times: {}", threads.join(", ")),
    };
    format!(
        "CPU {}: the tick continued {} in {}{rate}: {}{threads}",
        tick.cpu,
        counted(tick.count, "time", "times"),
        found.duration_ns,
        tick_dependencies(tick.dependency),
    )
}

/// Maximum number of reasons for ticks to show.
const TICKS: usize = 20;

/// Maximum number of causes to show. Those with the most time come first.
const CAUSES: usize = 20;

/// Formats a period with as many digits as its tolerance supports: `1.000 s`.
fn exactly(period: Nanos, tolerance: Nanos) -> String {
    let ratio = period.0 / tolerance.0.max(1);
    let digits = ratio.max(100).ilog10().min(5) as usize;
    let (scale, unit) = match period.0 {
        1_000_000_000.. => (1e9, "s"),
        1_000_000.. => (1e6, "ms"),
        1_000.. => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    let value = period.0 as f64 / scale;
    let whole = (value.max(1.0).log10().floor() as usize) + 1;
    format!("{value:.*} {unit}", (digits + 2).saturating_sub(whole))
}

/// Returns all tables of a recording. Cells missing at the end of a row are unknown. Cells beyond
/// the last column are not shown, because their meaning is unknown. An empty table is replaced by a
/// text, because a probe that searches for violations and finds none has not failed.
pub(crate) fn sections(recording: &Recording) -> Vec<Section> {
    let explanation = recording.explanation.iter().flat_map(|explanation| {
        let benefits = without::benefits(recording, explanation);
        of_explanation(explanation).into_iter().chain(benefits)
    });
    explanation
        .chain(recording.tables.iter().map(show))
        .collect()
}

fn show(table: &Table) -> Section {
    first_rows(table, ROWS)
}

/// Returns a table of which a terminal shows the first `most` rows.
pub(super) fn first_rows(table: &Table, most: usize) -> Section {
    let block = if table.rows.is_empty() || table.columns.is_empty() {
        Block::text("none")
    } else {
        let shown = shown(table).at_most(most).goes_on();
        Block::Table(shown.further("further row", "further rows"))
    };
    Section::titled(&table.title, vec![block])
}

fn shown(table: &Table) -> table::Table {
    let cell = |row: &[Cell], index: usize| {
        let cell = row.get(index).unwrap_or(&Cell::Unknown);
        cell.show(&table.columns[index])
    };
    let columns = table.columns.iter().enumerate().map(|(index, column)| {
        let number = is_number(table.rows.iter().filter_map(|row| row.get(index)));
        if number {
            Column::right(&column.title)
        } else {
            Column::left(&column.title).cut_to(20).most(CELL)
        }
    });
    let places = 0..table.columns.len();
    let rows =
        (table.rows.iter()).map(|row| Row::new(places.clone().map(|index| cell(row, index))));
    table::Table::new(columns.collect(), rows.collect())
}

/// Returns whether all known cells are numbers, and whether there is at least one.
fn is_number<'a>(cells: impl Iterator<Item = &'a Cell>) -> bool {
    let mut any = false;
    for cell in cells {
        match cell {
            Cell::Unknown => {}
            Cell::Count(_) | Cell::Number(_) => any = true,
            Cell::Bool(_) | Cell::Text(_) => return false,
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::testing;

    #[test]
    fn rows_are_as_wide_as_their_table() {
        let mut recording = testing::recording(1, 1);
        let mut table = Table::new(
            "t",
            "T\u{1b}",
            &[("way", "way"), ("cost_ns", "cost"), ("mixed", "mixed")],
        );
        table.rows = vec![
            vec!["a\nb".into(), Nanos(2_500).into(), 7.into()],
            vec!["short".into()],
            vec!["long".into(), Cell::Unknown, "x".into(), 1.into(), 2.into()],
        ];
        recording.tables = vec![table, Table::new("none", "No columns", &[])];
        recording.tables[1].rows = vec![vec![1.into()]];
        let shown = shown(&recording.tables[0]);
        let cells = |row: &Row| row.cells.iter().map(|c| c.text.clone()).collect();
        let rows: Vec<Vec<String>> = shown.rows.iter().map(cells).collect();
        assert_eq!(
            rows,
            [
                ["a\nb", "2.50 µs", "7"],
                ["short", "-", "-"],
                ["long", "-", "x"]
            ]
        );
        let numbers: Vec<bool> = shown.columns.iter().map(|c| c.number).collect();
        assert_eq!(numbers, [false, true, false]);
        let empty = show(&recording.tables[1]);
        assert!(matches!(&empty.blocks[..], [Block::Text(_, none)] if none == "none"));
    }

    #[test]
    fn ticks_have_reasons_or_are_unknown() {
        let text = |fact: Fact<TickReasons>| {
            let section = ticks(&fact);
            let texts = section.blocks.iter().map(|block| match block {
                Block::Text(_, text) => text.clone(),
                Block::Warnings(warnings) => warnings.join(" "),
                other => format!("{other:?}"),
            });
            texts.collect::<Vec<_>>().join(" | ")
        };
        let mut found = TickReasons {
            duration_ns: Nanos::from_secs(10),
            cpus: "2-3".parse().unwrap(),
            ticks: vec![KeptTicks {
                cpu: 2,
                dependency: 4,
                threads: vec!["a-7".to_owned(), "b-8".to_owned()],
                count: 10_000,
            }],
            lost: 3,
        };
        assert_eq!(
            text(Fact::known(found.clone(), "tracefs")),
            "CPU 2: the tick continued 10,000 times in 10.0 s, 1,000 a second: SCHED (more than one \
             thread is runnable); running at these times: a-7, b-8 | 3 events lost, so the counts \
             are lower bounds"
        );
        (found.ticks, found.lost) = (Vec::new(), 0);
        let none = text(Fact::known(found, "tracefs"));
        assert!(none.starts_with("none on CPUs 2-3 in 10.0 s"), "{none}");
        assert_eq!(
            text(Fact::unknown("tracefs", "no such event")),
            "unknown: no such event"
        );
    }
}
