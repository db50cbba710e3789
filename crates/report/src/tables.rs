//! The tables of a probe's own findings, made ready to be shown.

use punctual_model::{Cell, Explanation, Nanos, Recording, Table};

use crate::clean::clean;

/// What stands in the place of a table that has no rows: a probe that looks for
/// violations and finds none is no failure.
pub(crate) const EMPTY: &str = "none";

/// One table; each row has a cell for each column, freed of control characters
/// but not yet escaped.
pub(crate) struct Shown {
    pub(crate) title: String,
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The head of one column.
pub(crate) struct Heading {
    pub(crate) title: String,
    /// Whether it holds numbers, which stand to the right.
    pub(crate) number: bool,
}

/// The causes of all outliers together, and those that came in equal intervals.
pub(crate) fn of_explanation(explanation: &Explanation) -> Vec<Shown> {
    let mut shown = Vec::new();
    if !explanation.causes.is_empty() {
        let mut table = Table::new(
            "causes",
            &format!(
                "Who took the time of outliers above {}",
                explanation.threshold_ns
            ),
            &[
                ("kind", "kind"),
                ("who", "who"),
                ("culprit_in", "culprit in"),
                ("outliers", "part of"),
                ("total_ns", "total"),
                ("worst_ns", "worst"),
                ("worst_outlier", "in outlier"),
            ],
        );
        for cause in explanation.causes.iter().take(CAUSES) {
            table.push([
                Cell::from(cause.kind.name()),
                cause.who.as_str().into(),
                cause.culprit_in.into(),
                cause.count.into(),
                cause.total_ns.into(),
                cause.worst_ns.into(),
                cause.worst_outlier.into(),
            ]);
        }
        shown.push(show(&table));
    }
    if !explanation.periods.is_empty() {
        let mut table = Table::new(
            "periods",
            "Culprits that came in equal intervals",
            &[
                ("kind", "kind"),
                ("who", "who"),
                ("period_ns", "each"),
                ("tolerance_ns", "give or take"),
                ("count", "times"),
                ("missing", "left out"),
            ],
        );
        for period in &explanation.periods {
            table.push([
                Cell::from(period.kind.name()),
                period.who.as_str().into(),
                exactly(period.period_ns, period.tolerance_ns).into(),
                period.tolerance_ns.into(),
                period.count.into(),
                period.missing.into(),
            ]);
        }
        shown.push(show(&table));
    }
    shown
}

/// How many causes are shown: those that took most.
const CAUSES: usize = 20;

/// A period with the digits that its tolerance supports: `1.000 s`.
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

/// All tables of a recording. A row that is shorter than its table has unknown
/// cells at its end; cells without a column are not shown, for nothing says
/// what they mean.
pub(crate) fn of(recording: &Recording) -> Vec<Shown> {
    let explanation = recording.explanation.iter().flat_map(of_explanation);
    explanation
        .chain(recording.tables.iter().map(show))
        .collect()
}

fn show(table: &Table) -> Shown {
    let cell = |row: &[Cell], index: usize| match row.get(index) {
        Some(cell) => clean(&cell.show(&table.columns[index])).into_owned(),
        None => Cell::Unknown.show(&table.columns[index]),
    };
    let columns: Vec<Heading> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| Heading {
            title: clean(&column.title).into_owned(),
            number: is_number(table.rows.iter().filter_map(|row| row.get(index))),
        })
        .collect();
    let rows = match columns.is_empty() {
        true => Vec::new(),
        false => table
            .rows
            .iter()
            .map(|row| (0..columns.len()).map(|index| cell(row, index)).collect())
            .collect(),
    };
    Shown {
        title: clean(&table.title).into_owned(),
        columns,
        rows,
    }
}

/// Whether all cells that are known are numbers, and there is one.
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
        let shown = of(&recording);
        assert_eq!(shown[0].title, "T\u{fffd}");
        assert_eq!(
            shown[0].rows,
            [
                ["a b", "2.50 µs", "7"],
                ["short", "-", "-"],
                ["long", "-", "x"]
            ]
        );
        let numbers: Vec<bool> = shown[0].columns.iter().map(|c| c.number).collect();
        assert_eq!(numbers, [false, true, false]);
        assert!(shown[1].rows.is_empty());
    }
}
