//! Results of a probe other than latencies.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// A table of a probe's own results: the resolution of each clock, page faults by allocation
/// method, violations of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name for scripts: `clocks`.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// Its columns. Keys of latencies and times end in `_ns`.
    pub columns: Vec<Column>,
    /// Its rows, with one cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name for scripts: `resolution_ns`.
    pub key: String,
    /// Its heading.
    pub title: String,
}

/// One cell of a [`Table`]. In JSON: null, true or false, a number, or a text. If the column's key
/// ends in `_ns`, numbers are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// The value is unknown, or has no meaning in this row.
    Unknown,
    /// Yes or no.
    Bool(bool),
    /// A count, or nanoseconds if the column's key ends in `_ns`.
    Count(u64),
    /// A rate or a share.
    Number(f64),
    /// A text.
    Text(String),
}

impl Table {
    /// Creates an empty table with these columns, given as (key, title).
    pub fn new(name: &str, title: &str, columns: &[(&str, &str)]) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            columns: columns
                .iter()
                .map(|(key, title)| Column {
                    key: (*key).to_owned(),
                    title: (*title).to_owned(),
                })
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Cells that are missing at its end are unknown, and surplus cells are dropped.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), Cell::Unknown);
        self.rows.push(row);
    }
}

impl Column {
    /// Returns whether the counts in this column are nanoseconds.
    pub fn is_time(&self) -> bool {
        self.key.ends_with("_ns")
    }
}

impl Cell {
    /// Formats the cell in `column` for people.
    pub fn show(&self, column: &Column) -> String {
        match self {
            Self::Unknown => "-".to_owned(),
            Self::Bool(true) => "yes".to_owned(),
            Self::Bool(false) => "no".to_owned(),
            Self::Count(ns) if column.is_time() => Nanos(*ns).to_string(),
            Self::Count(count) => crate::grouped(*count),
            Self::Number(number) if number.abs() >= 100.0 => format!("{number:.0}"),
            Self::Number(number) => format!("{number:.2}"),
            Self::Text(text) => text.clone(),
        }
    }
}

impl From<Nanos> for Cell {
    fn from(time: Nanos) -> Self {
        Self::Count(time.0)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Cell {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_use_the_unit_of_column() {
        let mut table = Table::new(
            "clocks",
            "Clocks",
            &[("clock", "clock"), ("cost_ns", "cost"), ("reads", "reads")],
        );
        table.push(["MONOTONIC".into(), Cell::from(Nanos(25_000)), 25_000.into()]);
        table.push([Cell::from("TAI")]);
        let shown: Vec<String> = table.rows[0]
            .iter()
            .zip(&table.columns)
            .map(|(cell, column)| cell.show(column))
            .collect();
        assert_eq!(shown, ["MONOTONIC", "25.0 µs", "25,000"]);
        assert_eq!(
            table.rows[1],
            [Cell::from("TAI"), Cell::Unknown, Cell::Unknown]
        );
        let json = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<Table>(&json).unwrap(), table);
    }

    #[test]
    fn values_become_cells() {
        assert_eq!(Cell::from(2.5), Cell::Number(2.5));
        assert_eq!(Cell::from(true), Cell::Bool(true));
        assert_eq!(Cell::from(7u64), Cell::Count(7));
        assert_eq!(Cell::from(Nanos(7)), Cell::Count(7));
        assert_eq!(Cell::from("a"), Cell::Text("a".to_owned()));
        assert_eq!(Cell::from("a".to_owned()), Cell::Text("a".to_owned()));
        assert_eq!(Cell::from(Some(7u64)), Cell::Count(7));
        assert_eq!(Cell::from(None::<u64>), Cell::Unknown);
    }

    #[test]
    fn cells_are_shown_for_people() {
        let table = Table::new("t", "T", &[("a_ns", "A"), ("b", "B")]);
        let [time, count] = table.columns.as_slice() else {
            panic!("two columns");
        };
        assert!(time.is_time() && !count.is_time());
        assert_eq!((time.title.as_str(), count.key.as_str()), ("A", "b"));
        for (cell, text) in [
            (Cell::Unknown, "-"),
            (Cell::Bool(true), "yes"),
            (Cell::Bool(false), "no"),
            (Cell::Number(99.994), "99.99"),
            (Cell::Number(100.4), "100"),
            (Cell::Number(-1_234.5), "-1234"),
            (Cell::Number(-0.5), "-0.50"),
            (Cell::Text("a".to_owned()), "a"),
        ] {
            assert_eq!(cell.show(time), text);
            assert_eq!(cell.show(count), text);
        }
        let cell = Cell::Count(12_345);
        assert_eq!(
            (cell.show(time).as_str(), cell.show(count).as_str()),
            ("12.3 µs", "12,345")
        );
    }

    #[test]
    fn row_has_a_cell_for_each_column() {
        let mut table = Table::new("t", "T", &[("a", "A"), ("b", "B")]);
        table.push([Cell::Count(1)]);
        table.push([Cell::Count(1), Cell::Count(2), Cell::Count(3)]);
        assert_eq!(
            table.rows,
            [
                vec![Cell::Count(1), Cell::Unknown],
                vec![Cell::Count(1), Cell::Count(2)]
            ]
        );
    }
}
