//! A table that drops columns before it breaks lines.

use comfy_table::{CellAlignment, ColumnConstraint, Table, presets};

use super::{TextStyle, Tone};
use crate::clean::shorten;

/// One column of a table.
#[derive(Clone)]
pub(super) struct Column {
    pub(super) heading: String,
    pub(super) align: CellAlignment,
    /// 0: always shown; otherwise the column with the largest number goes
    /// first when the table is too wide.
    pub(super) drop: u8,
    /// Its cells may be cut to this many characters before any column goes.
    pub(super) least: Option<usize>,
    /// Whether room that is left goes to its cells before those of others.
    pub(super) first: bool,
}

impl Column {
    pub(super) fn left(heading: &str, drop: u8) -> Self {
        Self {
            heading: heading.to_owned(),
            align: CellAlignment::Left,
            drop,
            least: None,
            first: false,
        }
    }

    pub(super) fn cut_to(self, least: usize) -> Self {
        Self {
            least: Some(least),
            ..self
        }
    }

    pub(super) fn first(self) -> Self {
        Self {
            first: true,
            ..self
        }
    }

    pub(super) fn right(heading: &str, drop: u8) -> Self {
        Self {
            heading: heading.to_owned(),
            align: CellAlignment::Right,
            drop,
            least: None,
            first: false,
        }
    }
}

/// Columns between two neighbours.
const GAP: u16 = 2;

/// The lines of a table, its headings faint; cells are cut where that is
/// allowed, then columns dropped, until it fits into `width`. Rows hold one
/// cell a column.
pub(super) fn lines(
    columns: &[Column],
    mut rows: Vec<Vec<String>>,
    width: usize,
    style: TextStyle,
) -> Vec<String> {
    let natural = build(columns, &rows).column_max_content_widths();
    let natural: Vec<usize> = natural.into_iter().map(usize::from).collect();
    let (shown, widths) = fitting(columns, &natural, width);
    for row in &mut rows {
        for (cell, width) in row.iter_mut().zip(&widths) {
            *cell = shorten(cell, *width);
        }
    }
    let mut table = build(columns, &rows);
    for (index, (column, shown)) in columns.iter().zip(shown).enumerate() {
        if let Some(cells) = table.column_mut(index) {
            cells.set_cell_alignment(column.align);
            cells.set_padding((0, GAP));
            if !shown {
                cells.set_constraint(ColumnConstraint::Hidden);
            }
        }
    }
    let headings = has_headings(columns);
    table
        .lines()
        .enumerate()
        .map(|(index, line)| match index {
            0 if headings => style.paint(Tone::Faint, line.trim_end()),
            _ => line.trim_end().to_owned(),
        })
        .collect()
}

/// As [`lines`], but no column is dropped: those that have no room make a
/// further table, with the first column again so that its rows have a name.
pub(super) fn blocks(
    columns: &[Column],
    rows: &[Vec<String>],
    width: usize,
    style: TextStyle,
) -> Vec<Vec<String>> {
    let natural = build(columns, rows).column_max_content_widths();
    let least = |index: usize| {
        let natural = natural.get(index).copied().unwrap_or(0).into();
        let least = columns[index].least.map_or(natural, |l| l.min(natural));
        // A heading is not cut.
        least.max(columns[index].heading.chars().count())
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for index in 0..columns.len() {
        let needed = least(index) + usize::from(GAP);
        match groups.last_mut() {
            Some(group) if used + least(index) <= width || group.len() < 2 => {
                group.push(index);
                used += needed;
            }
            None => {
                groups.push(vec![index]);
                used = needed;
            }
            Some(_) => {
                groups.push(vec![0, index]);
                used = least(0) + usize::from(GAP) + needed;
            }
        }
    }
    groups
        .into_iter()
        .map(|group| {
            let columns: Vec<Column> = group.iter().map(|index| columns[*index].clone()).collect();
            let pick = |row: &Vec<String>| {
                let cells = group.iter().map(|index| row.get(*index));
                cells
                    .map(|cell| cell.cloned().unwrap_or_default())
                    .collect()
            };
            lines(&columns, rows.iter().map(pick).collect(), width, style)
        })
        .collect()
}

/// How wide a table is at the least, with cells cut and columns dropped where that is
/// allowed.
pub(super) fn least_width(columns: &[Column], rows: &[Vec<String>]) -> usize {
    let natural = build(columns, rows).column_max_content_widths();
    let kept = columns
        .iter()
        .zip(natural)
        .filter(|(column, _)| column.drop == 0);
    let widths = kept.map(|(column, natural)| {
        let natural = usize::from(natural);
        column.least.map_or(natural, |least| least.min(natural)) + usize::from(GAP)
    });
    widths.sum::<usize>().saturating_sub(GAP.into())
}

fn has_headings(columns: &[Column]) -> bool {
    columns.iter().any(|column| !column.heading.is_empty())
}

fn build(columns: &[Column], rows: &[Vec<String>]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if has_headings(columns) {
        table.set_header(columns.iter().map(|column| column.heading.as_str()));
    }
    table.add_rows(rows.to_vec());
    table
}

/// Which columns are shown, and how wide each may be.
fn fitting(columns: &[Column], natural: &[usize], width: usize) -> (Vec<bool>, Vec<usize>) {
    let mut widths: Vec<usize> = columns
        .iter()
        .zip(natural)
        .map(|(column, natural)| column.least.map_or(*natural, |least| least.min(*natural)))
        .collect();
    let mut shown = vec![true; columns.len()];
    let needed = |shown: &[bool], widths: &[usize]| -> usize {
        let cells = widths.iter().zip(shown).filter(|(_, shown)| **shown);
        cells
            .map(|(width, _)| width + usize::from(GAP))
            .sum::<usize>()
            .saturating_sub(GAP.into())
    };
    while needed(&shown, &widths) > width {
        let next = (0..columns.len())
            .filter(|index| shown[*index] && columns[*index].drop > 0)
            .max_by_key(|index| columns[*index].drop);
        match next {
            Some(index) => shown[index] = false,
            None => break,
        }
    }
    // What is left over goes back to the cells that were cut.
    let mut order: Vec<usize> = (0..columns.len()).filter(|index| shown[*index]).collect();
    order.sort_by_key(|index| !columns[*index].first);
    for index in order {
        let free = width.saturating_sub(needed(&shown, &widths));
        widths[index] = natural[index].min(widths[index] + free);
    }
    (shown, widths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: usize) -> Vec<String> {
        let columns = [
            Column::left("name", 0),
            Column::right("middle", 2),
            Column::right("max", 1),
        ];
        let rows = vec![
            vec![
                "CPU 0".to_owned(),
                "1.00 µs".to_owned(),
                "150 µs".to_owned(),
            ],
            vec!["CPU 10".to_owned(), "-".to_owned(), "-".to_owned()],
        ];
        lines(&columns, rows, width, TextStyle::default())
    }

    #[test]
    fn cells_are_cut_before_columns_go() {
        let columns = [Column::left("what", 0).cut_to(4), Column::right("n", 1)];
        let rows = vec![vec!["abcdefghij".to_owned(), "1".to_owned()]];
        let at = |width| lines(&columns, rows.clone(), width, TextStyle::default());
        assert_eq!(at(13), ["what        n", "abcdefghij  1"]);
        assert_eq!(at(8), ["what   n", "abcd…  1"]);
        assert_eq!(at(6), ["what", "abcde…"]);
    }

    #[test]
    fn a_wide_table_goes_on_below_itself() {
        let columns = [
            Column::left("cpu", 0).cut_to(4),
            Column::right("first", 0),
            Column::right("second", 0),
            Column::right("third", 0),
        ];
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [row(["0", "1", "2", "3"]), row(["1", "10", "20", "30"])];
        let at = |width| blocks(&columns, &rows, width, TextStyle::default());
        assert_eq!(at(80).len(), 1);
        assert_eq!(
            at(18),
            [
                [
                    "cpu  first  second",
                    "0        1       2",
                    "1       10      20"
                ],
                ["cpu  third", "0        3", "1       30"]
            ]
        );
        // Never without a column of its own, however narrow.
        assert_eq!(at(1).len(), 3);
    }

    #[test]
    fn columns_go_in_their_order() {
        assert_eq!(
            table(80),
            [
                "name     middle     max",
                "CPU 0   1.00 µs  150 µs",
                "CPU 10        -       -"
            ]
        );
        assert_eq!(
            table(22),
            ["name       max", "CPU 0   150 µs", "CPU 10       -"]
        );
        assert_eq!(table(5), ["name", "CPU 0", "CPU 10"]);
    }
}
