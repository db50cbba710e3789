//! A page of text that grows line by line.

use super::table::{self, Column};
use super::{TextStyle, Tone, wrap};

/// Room for the names of the lines at the left.
pub(super) const NAMES: usize = 14;

/// The text so far, and how it is written.
pub(crate) struct Page {
    pub(super) style: TextStyle,
    pub(crate) out: String,
}

impl Page {
    /// An empty one.
    pub(crate) fn new(style: TextStyle) -> Self {
        Self {
            style,
            out: String::new(),
        }
    }

    /// A line.
    pub(super) fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// `name    text`, its further lines indented.
    pub(crate) fn named(&mut self, name: &str, tone: Tone, text: &str) {
        let width = self.style.columns() - NAMES;
        for (index, part) in wrap(text, width).iter().enumerate() {
            let shown = if index == 0 { name } else { "" };
            let name = self.style.paint(Tone::Faint, &format!("{shown:<NAMES$}"));
            let part = self.style.paint(tone, part);
            self.line(&format!("{name}{part}"));
        }
    }

    /// A table whose columns that may go do so first; where it is still too wide, it goes
    /// on below itself.
    pub(super) fn wide_table(&mut self, columns: &[Column], rows: Vec<Vec<String>>) {
        let width = self.style.columns();
        if table::least_width(columns, &rows) <= width {
            return self.table(columns, rows, 0);
        }
        for (index, block) in table::blocks(columns, &rows, width, self.style)
            .iter()
            .enumerate()
        {
            if index > 0 {
                self.line("");
            }
            block.iter().for_each(|line| self.line(line));
        }
    }

    /// A table, as wide as it may be.
    pub(super) fn table(&mut self, columns: &[Column], rows: Vec<Vec<String>>, indent: usize) {
        let width = self.style.columns() - indent;
        for line in table::lines(columns, rows, width, self.style) {
            self.line(&format!("{:indent$}{line}", ""));
        }
    }
}
