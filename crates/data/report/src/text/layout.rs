//! Layout of a table. Cells are shortened and columns are dropped before lines are broken.

use super::{TextStyle, Tone};
use crate::document::{Column, Fold, Row, Table};
use crate::sanitize::{sanitize, shorten, width};
use crate::wrap::wrap;
use punctual_model::counted;

/// Spaces between two columns.
const GAP: usize = 2;

/// Indentation of the texts below a row.
const INDENT: usize = 4;

/// The columns and rows that a terminal shows, with sanitised text.
struct TextLayout<'a> {
    columns: Vec<&'a Column>,
    headings: Vec<String>,
    rows: Vec<Line<'a>>,
    natural: Vec<usize>,
}

struct Line<'a> {
    row: &'a Row,
    cells: Vec<String>,
}

/// Returns the lines of a table that is at most `columns` wide, with a faint heading.
pub(super) fn lines(table: &Table, columns: usize, style: TextStyle) -> Vec<String> {
    let mut grid = TextLayout::new(table, false);
    if !grid.fits(columns) {
        grid = TextLayout::new(table, true);
    }
    let mut out = Vec::new();
    if table.goes_on && !grid.fits(columns) {
        for (index, block) in grid.blocks(columns).into_iter().enumerate() {
            out.extend((index > 0).then(String::new));
            out.extend(grid.part(&block).print(table, columns, style, index == 0));
        }
    } else {
        out.extend(grid.print(table, columns, style, true));
        out.extend(grid.left_out(columns, style, &|at| grid.says(at)));
    }
    let hidden = table.rows.iter().filter(|row| row.detail).count() as u64;
    if let (Some((one, several)), true) = (table.further, hidden > 0) {
        let more = format!("and {}", counted(hidden, one, several));
        out.push(style.paint(Tone::Faint, &more));
    }
    out
}

/// The cell widths of a table that is supplied page by page.
#[derive(Debug, Default)]
pub(super) struct Widths {
    whole: Vec<usize>,
    /// Widths if the short texts for narrow terminals are used.
    short: Vec<usize>,
    /// Whether the column has a cell with content.
    says: Vec<bool>,
}

impl Widths {
    /// Includes the cells of a page in the widths.
    pub(super) fn add(&mut self, page: &Table) {
        for (widths, short) in [(&mut self.whole, false), (&mut self.short, true)] {
            let natural = TextLayout::new(page, short).natural;
            widths.resize(natural.len(), 0);
            for (width, natural) in widths.iter_mut().zip(natural) {
                *width = natural.max(*width);
            }
        }
        let grid = TextLayout::new(page, true);
        self.says.resize(grid.columns.len(), false);
        for (at, says) in self.says.iter_mut().enumerate() {
            *says |= grid.says(at);
        }
    }

    /// Returns the heading and the rows of a page, with the same column widths on every page.
    pub(super) fn lines(
        &self,
        page: &Table,
        columns: usize,
        style: TextStyle,
    ) -> (Option<String>, Vec<String>) {
        let grid = self.table_layout(page, columns);
        let body = grid.body(page, columns, style, true);
        (grid.heading(columns, style), body)
    }

    /// Returns the layout of a page, with the same column widths on every page.
    fn table_layout<'a>(&self, page: &'a Table, columns: usize) -> TextLayout<'a> {
        let with = |short: bool, widths: &Vec<usize>| {
            let mut grid = TextLayout::new(page, short);
            for (natural, width) in grid.natural.iter_mut().zip(widths) {
                *natural = (*width).max(*natural);
            }
            grid
        };
        let grid = with(false, &self.whole);
        if grid.fits(columns) {
            grid
        } else {
            with(true, &self.short)
        }
    }

    /// Returns the lines after the last page, which name the columns that did not fit.
    pub(super) fn left_out(&self, page: &Table, columns: usize, style: TextStyle) -> Vec<String> {
        let grid = self.table_layout(page, columns);
        grid.left_out(columns, style, &|at| self.says[at])
    }
}

impl<'a> TextLayout<'a> {
    /// Lays out a table. With `short`, it uses the short texts for narrow terminals.
    fn new(table: &'a Table, short: bool) -> Self {
        let places: Vec<usize> = (0..table.columns.len())
            .filter(|place| {
                let column = &table.columns[*place];
                column.medium.is_on_terminal() && column.fold != Fold::Below
            })
            .collect();
        let columns: Vec<&Column> = places.iter().map(|place| &table.columns[*place]).collect();
        let heading = |column: &&Column| {
            let title = column.short_title.as_ref().filter(|_| short);
            sanitize(title.unwrap_or(&column.title)).into_owned()
        };
        let headings: Vec<String> = columns.iter().map(heading).collect();
        let shown = table.rows.iter().filter(|row| !row.detail);
        let rows: Vec<Line<'a>> = shown
            .map(|row| {
                let cell = |place: &usize| {
                    let Some(cell) = row.cells.get(*place) else {
                        return String::new();
                    };
                    let text = cell.short.as_ref().filter(|_| short);
                    let text = sanitize(text.unwrap_or(&cell.text));
                    match table.columns[*place].most {
                        Some(most) => shorten(&text, most),
                        None => text.into_owned(),
                    }
                };
                Line {
                    row,
                    cells: places.iter().map(cell).collect(),
                }
            })
            .collect();
        let natural = (headings.iter().enumerate())
            .map(|(at, heading)| {
                let cells = rows.iter().map(|line| width(&line.cells[at]));
                cells.max().unwrap_or(0).max(width(heading))
            })
            .collect();
        Self {
            columns,
            headings,
            rows,
            natural,
        }
    }

    /// Returns the minimum width of a column.
    fn narrowest(&self, at: usize) -> usize {
        match self.columns[at].fold {
            Fold::Cut(least) | Fold::Wrap(least) => least.min(self.natural[at]),
            Fold::Whole | Fold::Below => self.natural[at],
        }
    }

    /// Returns the minimum width of the table with the columns that `keep` selects.
    fn least(&self, keep: &dyn Fn(&Column) -> bool) -> usize {
        let kept = (0..self.columns.len()).filter(|at| keep(self.columns[*at]));
        kept.map(|at| self.narrowest(at) + GAP)
            .sum::<usize>()
            .saturating_sub(GAP)
    }

    /// Returns whether the mandatory columns fit.
    fn fits(&self, columns: usize) -> bool {
        self.least(&|column| column.drop == 0) <= columns
    }

    /// Splits the columns into groups that fit. Each group repeats the first column, which names
    /// its rows.
    fn blocks(&self, columns: usize) -> Vec<Vec<usize>> {
        // Headings are not shortened.
        let least = |at: usize| self.narrowest(at).max(width(&self.headings[at]));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut used = 0;
        for at in 0..self.columns.len() {
            let needed = least(at) + GAP;
            match groups.last_mut() {
                Some(group) if used + least(at) <= columns || group.len() < 2 => {
                    group.push(at);
                    used += needed;
                }
                None => {
                    groups.push(vec![at]);
                    used = needed;
                }
                Some(_) => {
                    groups.push(vec![0, at]);
                    used = least(0) + GAP + needed;
                }
            }
        }
        groups
    }

    /// Returns the same rows with only these columns.
    fn part(&self, places: &[usize]) -> TextLayout<'a> {
        let pick = |cells: &[String]| places.iter().map(|at| cells[*at].clone()).collect();
        TextLayout {
            columns: places.iter().map(|at| self.columns[*at]).collect(),
            headings: pick(&self.headings),
            rows: (self.rows.iter())
                .map(|line| Line {
                    row: line.row,
                    cells: pick(&line.cells),
                })
                .collect(),
            natural: places.iter().map(|at| self.natural[*at]).collect(),
        }
    }

    /// Returns the columns to show, each with its width.
    fn fitting(&self, columns: usize) -> Vec<(usize, usize)> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let mut widths: Vec<usize> = shown.iter().map(|at| self.narrowest(*at)).collect();
        let needed = |shown: &[usize], widths: &[usize]| {
            let all = shown.iter().map(|at| widths[*at] + GAP);
            all.sum::<usize>().saturating_sub(GAP)
        };
        while needed(&shown, &widths) > columns {
            let droppable =
                (shown.iter().enumerate()).filter(|(_, at)| self.columns[**at].drop > 0);
            match droppable.max_by_key(|(_, at)| self.columns[**at].drop) {
                Some((place, _)) => shown.remove(place),
                None => break,
            };
        }
        // Gives the remaining width back to the shortened cells.
        let mut order = shown.clone();
        order.sort_by_key(|at| !self.columns[*at].first);
        for at in order {
            let free = columns.saturating_sub(needed(&shown, &widths));
            widths[at] = self.natural[at].min(widths[at] + free);
        }
        shown.into_iter().map(|at| (at, widths[at])).collect()
    }

    /// Returns whether the column has a cell with content.
    fn says(&self, at: usize) -> bool {
        let mut cells = self.rows.iter().map(|line| line.cells[at].as_str());
        cells.any(|cell| !matches!(cell, "" | "-"))
    }

    /// Returns lines that name the columns that did not fit. Empty columns are not named.
    fn left_out(
        &self,
        columns: usize,
        style: TextStyle,
        says: &dyn Fn(usize) -> bool,
    ) -> Vec<String> {
        let shown = self.fitting(columns);
        let is_shown = |at: &usize| shown.iter().any(|(place, _)| place == at);
        let lost = (0..self.columns.len()).filter(|at| !is_shown(at) && says(*at));
        let names: Vec<&str> = lost
            .map(|at| self.headings[at].as_str())
            .filter(|name| !name.is_empty())
            .collect();
        if names.is_empty() {
            return Vec::new();
        }
        let text = format!("no room at {columns} columns for: {}", names.join(", "));
        let lines = wrap(&text, columns).into_iter();
        lines.map(|line| style.paint(Tone::Faint, &line)).collect()
    }

    /// Returns all lines. If `below` is set, these include the texts below each row.
    fn print(&self, table: &Table, columns: usize, style: TextStyle, below: bool) -> Vec<String> {
        let mut out = Vec::from_iter(self.heading(columns, style));
        out.extend(self.body(table, columns, style, below));
        out
    }

    /// Returns the line above the rows, or `None` if no column has a title.
    fn heading(&self, columns: usize, style: TextStyle) -> Option<String> {
        if self.headings.iter().all(String::is_empty) {
            return None;
        }
        let heading = |(at, width): (usize, usize)| {
            let text = shorten(&self.headings[at], width);
            (at, width, text, Tone::Plain)
        };
        let line = self.line(self.fitting(columns).into_iter().map(heading), style);
        Some(style.paint(Tone::Faint, line.trim_end()))
    }

    fn body(&self, table: &Table, columns: usize, style: TextStyle, below: bool) -> Vec<String> {
        let fitting = self.fitting(columns);
        let mut out = Vec::new();
        for line in &self.rows {
            out.extend(self.row(line, &fitting, table, style));
            if below {
                out.extend(stands_below(line.row, table, columns, style));
            }
        }
        out
    }

    /// Returns the lines of a row; cells that wrap need several.
    fn row(
        &self,
        line: &Line<'_>,
        fitting: &[(usize, usize)],
        table: &Table,
        style: TextStyle,
    ) -> Vec<String> {
        let folded: Vec<Vec<String>> = (fitting.iter())
            .map(|(at, width)| match self.columns[*at].fold {
                Fold::Wrap(_) => wrap(&line.cells[*at], (*width).max(1)),
                _ => vec![shorten(&line.cells[*at], *width)],
            })
            .collect();
        let height = folded.iter().map(Vec::len).max().unwrap_or(0);
        let tone_of = |at: usize| {
            let place = table
                .columns
                .iter()
                .position(|c| std::ptr::eq(c, self.columns[at]));
            let cell = place.and_then(|place| line.row.cells.get(place));
            cell.map_or(Tone::Plain, |cell| cell.tone)
        };
        (0..height)
            .map(|nth| {
                let parts = folded.iter().zip(fitting).map(|(folded, (at, width))| {
                    let text = folded.get(nth).cloned().unwrap_or_default();
                    (*at, *width, text, tone_of(*at))
                });
                let text = self.line(parts, style);
                style.paint(line.row.tone, text.trim_end())
            })
            .collect()
    }

    /// Returns one line from (column, width, text, tone) parts.
    fn line(
        &self,
        parts: impl Iterator<Item = (usize, usize, String, Tone)>,
        style: TextStyle,
    ) -> String {
        let mut out = String::new();
        let mut gap = 0;
        for (at, columns, text, tone) in parts {
            let room = columns.saturating_sub(width(&text));
            let painted = style.paint(tone, &text);
            let (before, after) = if self.columns[at].number {
                (gap + room, 0)
            } else {
                (gap, room)
            };
            out.push_str(&format!("{:before$}{painted}", ""));
            gap = after + GAP;
        }
        out
    }
}

fn stands_below(row: &Row, table: &Table, columns: usize, style: TextStyle) -> Vec<String> {
    let cells = row.cells.iter().zip(&table.columns);
    let below = cells.filter(|(cell, column)| column.fold == Fold::Below && !cell.text.is_empty());
    below
        .flat_map(|(cell, _)| {
            let lines = wrap(&sanitize(&cell.text), columns.saturating_sub(INDENT));
            let paint =
                move |line: String| format!("{:INDENT$}{}", "", style.paint(cell.tone, &line));
            lines.into_iter().map(paint)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(columns: usize, table: &Table) -> Vec<String> {
        lines(table, columns, TextStyle::default())
    }

    fn table(columns: Vec<Column>, rows: &[&[&str]]) -> Table {
        let rows = rows.iter().map(|cells| Row::new(cells.iter().copied()));
        Table::new(columns, rows.collect())
    }

    #[test]
    fn cells_are_cut_before_columns_go() {
        let columns = vec![Column::left("what").cut_to(4), Column::right("n").drop(1)];
        let table = table(columns, &[&["abcdefghij", "1"]]);
        assert_eq!(at(13, &table), ["what        n", "abcdefghij  1"]);
        assert_eq!(at(8, &table), ["what   n", "abcd…  1"]);
        let lost = ["what", "abcde…", "no", "room", "at 6", "columns", "for: n"];
        assert_eq!(at(6, &table), lost);
    }

    #[test]
    fn a_wide_table_goes_on_below_itself() {
        let mut columns = vec![Column::left("cpu").cut_to(4)];
        columns.extend(["first", "second", "third"].map(Column::right));
        let rows: [&[&str]; 2] = [&["0", "1", "2", "3"], &["1", "10", "20", "30"]];
        let table = table(columns, &rows).goes_on();
        assert_eq!(at(80, &table).len(), 3);
        assert_eq!(
            at(18, &table),
            [
                "cpu  first  second",
                "0        1       2",
                "1       10      20",
                "",
                "cpu  third",
                "0        3",
                "1       30"
            ]
        );
        // Each group has a second column, no matter how narrow the terminal is.
        assert_eq!(at(1, &table).len(), 3 * 3 + 2);
    }

    #[test]
    fn columns_go_in_their_order() {
        let columns = vec![
            Column::left("name"),
            Column::right("middle").drop(2),
            Column::right("max").drop(1),
        ];
        let rows: [&[&str]; 2] = [&["CPU 0", "1.00 µs", "150 µs"], &["CPU 10", "-", "-"]];
        let table = table(columns, &rows);
        assert_eq!(
            at(80, &table),
            [
                "name     middle     max",
                "CPU 0   1.00 µs  150 µs",
                "CPU 10        -       -"
            ]
        );
        assert_eq!(
            at(22, &table),
            [
                "name       max",
                "CPU 0   150 µs",
                "CPU 10       -",
                "no room at 22 columns",
                "for: middle"
            ]
        );
        assert_eq!(at(5, &table)[..3], ["name", "CPU 0", "CPU 10"]);
        // Empty columns are not named.
        let rows: [&[&str]; 2] = [&["CPU 0", "-", ""], &["CPU 1", "", "-"]];
        let columns = || {
            let dropped = ["middle", "max"].map(|name| Column::right(name).drop(1));
            std::iter::once(Column::left("name"))
                .chain(dropped)
                .collect()
        };
        let table = self::table(columns(), &rows);
        assert_eq!(at(5, &table), ["name", "CPU 0", "CPU 1"]);
    }

    #[test]
    fn long_cells_wrap_and_explanations_stand_below() {
        let columns = vec![
            Column::left("state"),
            Column::left("what").fold(Fold::Wrap(8)),
            Column::left("why").fold(Fold::Below),
        ];
        let mut table = table(
            columns,
            &[&["ok", "one two three", "four five"], &["-", "-", ""]],
        );
        table.rows.push(Row {
            detail: true,
            ..Row::new(["bad", "", ""])
        });
        let table = table.further("further row", "further rows");
        assert_eq!(
            at(15, &table),
            [
                "state  what",
                "ok     one two",
                "       three",
                "    four five",
                "-      -",
                "and 1 further row"
            ]
        );
    }

    #[test]
    fn narrow_layout_uses_short_texts() {
        let columns = vec![Column {
            short_title: Some("UTC".to_owned()),
            ..Column::left("started (UTC)")
        }];
        let cell = crate::document::Cell {
            short: Some("08:15".to_owned()),
            .."2026-11-03 08:15".into()
        };
        let table = Table::new(columns, vec![Row::new([cell])]);
        assert_eq!(at(20, &table), ["started (UTC)", "2026-11-03 08:15"]);
        assert_eq!(at(10, &table), ["UTC", "08:15"]);
    }
}
