//! Tables as data.

use super::{Medium, Tone};

/// Rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has a cell for each column.
    pub rows: Vec<Row>,
    /// Whether, on a terminal, columns without room make a further table below.
    pub goes_on: bool,
    /// What the rows are called that a terminal does not show (one, several);
    /// `None`: they are not counted.
    pub further: Option<(&'static str, &'static str)>,
}

/// How a terminal folds a cell that is wider than its column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fold {
    /// It is never narrower than its content.
    #[default]
    Whole,
    /// It is cut, down to this many characters.
    Cut(usize),
    /// It goes on in the next line; so wide at least.
    Wrap(usize),
    /// It stands below its row, over the whole width.
    Below,
}

/// One column.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// What stands above it.
    pub title: String,
    /// The same where there is little room.
    pub short_title: Option<String>,
    /// Whether it holds numbers, which stand to the right.
    pub number: bool,
    /// 0: always shown on a terminal; otherwise the column with the largest number
    /// goes first when the table is too wide.
    pub drop: u8,
    /// How wide cells are treated.
    pub fold: Fold,
    /// No cell is longer than this on a terminal.
    pub most: Option<usize>,
    /// Whether room that is left goes to its cells before those of others.
    pub first: bool,
    /// Where it is shown.
    pub medium: Medium,
    /// Whether it says what the rows below belong to: in HTML a row of its own.
    pub topic: bool,
}

impl Column {
    /// Text, to the left.
    pub fn left(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Numbers, to the right.
    pub fn right(title: impl Into<String>) -> Self {
        Self {
            number: true,
            ..Self::left(title)
        }
    }

    /// With a priority to be left out.
    pub(crate) fn drop(self, drop: u8) -> Self {
        Self { drop, ..self }
    }

    /// Folds wide cells so on a terminal.
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
    /// Whether only pages show it.
    pub detail: bool,
    /// Whether it sums up the others.
    pub total: bool,
    /// What the whole row means.
    pub tone: Tone,
}

impl Row {
    /// A plain one.
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
    /// What it holds.
    pub text: String,
    /// The same where there is little room.
    pub short: Option<String>,
    /// What it means.
    pub tone: Tone,
    /// Whether HTML shows it as a badge.
    pub badge: bool,
    /// The anchor of another document of the page.
    pub link: Option<String>,
    /// Where a server shows more of it: a path of that server.
    pub path: Option<String>,
    /// On a page with a form: what choosing this row sends as `id`.
    pub choice: Option<String>,
    /// What belongs to it, one by one; only pages show it.
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
    /// A table of plain rows.
    pub fn new(columns: Vec<Column>, rows: Vec<Row>) -> Self {
        Self {
            columns,
            rows,
            ..Self::default()
        }
    }

    /// Keeps the rows from the `most`th on for pages.
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
