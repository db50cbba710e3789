//! The tables of a probe's own findings, made ready to be shown.

use punctual_model::{Cell, Recording};

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

/// All tables of a recording. A row that is shorter than its table has unknown
/// cells at its end; cells without a column are not shown, for nothing says
/// what they mean.
pub(crate) fn of(recording: &Recording) -> Vec<Shown> {
    let tables = recording.tables.iter();
    tables
        .map(|table| {
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
        })
        .collect()
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
    use punctual_model::{Nanos, Table, testing};

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
