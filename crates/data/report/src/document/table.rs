//! Tables as plain data.

use super::{Medium, Tone};

/// A table of rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Row>,
    /// Whether columns that do not fit on a terminal continue in a second table below.
    pub goes_on: bool,
    /// Singular and plural of the noun for the rows that a terminal hides; `None` if they are not
    /// counted.
    pub further: Option<(&'static str, &'static str)>,
}

/// How a terminal shows a cell that is wider than its column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fold {
    /// The column is never narrower than its content.
    #[default]
    Whole,
    /// The cell is cut, but never to fewer than this many characters.
    Cut(usize),
    /// The cell wraps onto further lines. The column is at least this wide.
    Wrap(usize),
    /// The cell is shown below its row, over the whole width.
    Below,
}

/// One column.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// The heading of the column.
    pub title: String,
    /// A shorter heading for narrow terminals.
    pub short_title: Option<String>,
    /// Whether the cells are numbers, which are right-aligned.
    pub number: bool,
    /// 0 if a terminal always shows the column. Otherwise, the column with the largest number is
    /// dropped first when the table is too wide.
    pub drop: u8,
    /// How cells that are too wide are shown.
    pub fold: Fold,
    /// Maximum length of a cell on a terminal.
    pub most: Option<usize>,
    /// Whether the cells of this column get any remaining space before those of other columns.
    pub first: bool,
    /// The media that show the column.
    pub medium: Medium,
    /// Whether its cell is a topic for the rows below; HTML shows it as a separate row.
    pub topic: bool,
}

impl Column {
    /// Returns a column of left-aligned text.
    pub fn left(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Returns a column of right-aligned numbers.
    pub fn right(title: impl Into<String>) -> Self {
        Self {
            number: true,
            ..Self::left(title)
        }
    }

    /// Sets the priority for dropping the column.
    pub(crate) fn drop(self, drop: u8) -> Self {
        Self { drop, ..self }
    }

    /// Sets how a terminal shows cells that are too wide.
    pub fn fold(self, fold: Fold) -> Self {
        Self { fold, ..self }
    }

    pub(crate) fn cut_to(self, least: usize) -> Self {
        self.fold(Fold::Cut(least))
    }

    pub(crate) fn most(self, most: usize) -> Self {
        Self {
            most: Some(most),
            ..self
        }
    }

    pub(crate) fn first(self) -> Self {
        Self {
            first: true,
            ..self
        }
    }

    pub(crate) fn only(self, medium: Medium) -> Self {
        Self { medium, ..self }
    }
}

/// One row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// A cell for each column.
    pub cells: Vec<Cell>,
    /// Whether the row is shown only on pages.
    pub detail: bool,
    /// Whether the row is the total of the others.
    pub total: bool,
    /// The tone of the whole row.
    pub tone: Tone,
}

impl Row {
    /// Returns a row in the plain tone.
    pub fn new<C: Into<Cell>>(cells: impl IntoIterator<Item = C>) -> Self {
        Self {
            cells: cells.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The text of the cell.
    pub text: String,
    /// A shorter text for narrow terminals.
    pub short: Option<String>,
    /// The tone of the text.
    pub tone: Tone,
    /// Whether HTML shows it as a badge.
    pub badge: bool,
    /// The anchor of another document on the same page.
    pub link: Option<String>,
    /// The path of a page with details on the server.
    pub path: Option<String>,
    /// If the page has a form, the value that the form sends as `id` for this row.
    pub choice: Option<String>,
    /// A list of details. It is shown only on pages.
    pub items: Vec<String>,
}

impl Cell {
    pub(crate) fn tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

impl Table {
    /// Returns a table of the given rows.
    pub fn new(columns: Vec<Column>, rows: Vec<Row>) -> Self {
        Self {
            columns,
            rows,
            ..Self::default()
        }
    }

    /// Shows only the first `most` rows on a terminal; pages show all.
    pub(crate) fn at_most(mut self, most: usize) -> Self {
        self.rows
            .iter_mut()
            .skip(most)
            .for_each(|row| row.detail = true);
        self
    }

    pub(crate) fn goes_on(self) -> Self {
        Self {
            goes_on: true,
            ..self
        }
    }

    pub(crate) fn further(self, one: &'static str, several: &'static str) -> Self {
        Self {
            further: Some((one, several)),
            ..self
        }
    }
}
