//! What is shown, as plain data: sections of text, fields, notes, tables and
//! figures.
//!
//! Each thing that is shown (a recording, a comparison, an audit, ...) has one
//! function here that makes its [`Document`]. The renderers ([`text`](crate::text),
//! [`markdown`](crate::markdown), [`html`](crate::html)) know documents only. Texts
//! are as they were read: each renderer sanitises and escapes at its edge.
//!
//! A terminal shows what fits a screen, a page (Markdown, HTML) all that is known:
//! sections and columns may belong to one [`Medium`] alone.

mod analysis;
mod audit;
mod explanation;
mod facts;
mod facts_differ;
mod findings;
mod jobs;
mod kept_audit;
mod list;
mod machine;
mod outlier;
mod plan;
mod power;
mod recording;
mod table;
mod topology;
mod wakeups;

pub use analysis::*;
pub use audit::{AuditDetail, audit};
pub use explanation::outliers;
pub use facts_differ::facts_differ;
pub use jobs::jobs_answer;
pub use kept_audit::kept_audit;
pub use list::{ListRow, list, list_page};
pub use machine::{InterruptRow, ThreadRow, interrupts, threads};
pub use outlier::outlier;
pub(crate) use outlier::stacks_of;
pub use plan::{SeriesRow, plan, slots, wake_windows};
pub use recording::recording;
pub(crate) use recording::{Figures, with_figures};
pub use table::{Cell, Column, Fold, Row, Table};
pub use topology::{ClockRow, clocks, placements, topology};
pub use wakeups::wakeups;

use crate::plot::Plot;

/// What is shown of one thing.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// What it is of; empty for none.
    pub title: String,
    /// The program that measured: before the title on a terminal.
    pub program: Option<String>,
    /// By what a page links to it: letters, digits and `-`.
    pub anchor: Option<String>,
    /// Its parts, in order.
    pub sections: Vec<Section>,
}

/// Where something is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// Everywhere.
    #[default]
    Both,
    /// On a terminal.
    Terminal,
    /// In Markdown and HTML.
    Page,
}

impl Medium {
    pub(crate) const fn is_on_terminal(self) -> bool {
        matches!(self, Self::Both | Self::Terminal)
    }

    pub(crate) const fn is_on_page(self) -> bool {
        matches!(self, Self::Both | Self::Page)
    }
}

/// What a piece of text means; colours and signs follow from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neither good nor bad.
    #[default]
    Plain,
    /// What a reader looks for first.
    Heading,
    /// What may be overlooked, or is not known.
    Faint,
    /// As it should be.
    Good,
    /// Needs attention, or is not proven.
    Warning,
    /// Wrong.
    Bad,
}

/// A part of a document. On a terminal an empty line separates it from the one before.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Where it is shown.
    pub medium: Medium,
    /// What stands above it, and where.
    pub heading: Option<(Medium, String)>,
    /// A word before the heading: a state.
    pub mark: Option<(Tone, String)>,
    /// What stands behind the heading: an identifier.
    pub aside: Option<String>,
    /// What it holds.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(Tone, String),
    /// The answer to what was asked.
    Answer(Answer),
    /// Names and values.
    Fields(Vec<Field>),
    /// What the reader must know first.
    Warnings(Vec<String>),
    /// Rows and columns.
    Table(Table),
    /// A plot; a terminal shows none.
    Figure(Box<Figure>),
}

/// The answer to what was asked.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// What it means.
    pub tone: Tone,
    /// Its sign: `✓`; empty for none.
    pub sign: &'static str,
    /// The answer in a word, for a badge; empty for none.
    pub word: &'static str,
    /// The same as a sentence.
    pub text: String,
}

/// A name and its value.
#[derive(Clone, Debug)]
pub struct Field {
    /// What it is; empty where it goes on with the one before.
    pub name: String,
    /// The value.
    pub text: String,
    /// What it means.
    pub tone: Tone,
    /// Whether it is to be copied: a command is never broken into lines.
    pub is_command: bool,
}

/// A plot and what it shows.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The picture.
    pub plot: Plot,
    /// What it shows, in a sentence.
    pub caption: String,
}

impl Section {
    /// One without a heading.
    pub fn new(blocks: Vec<Block>) -> Self {
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// One with a heading.
    pub fn titled(heading: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self::new(blocks).heading(Medium::Both, heading)
    }

    /// Puts a heading above it.
    pub(crate) fn heading(self, medium: Medium, heading: impl Into<String>) -> Self {
        Self {
            heading: Some((medium, heading.into())),
            ..self
        }
    }

    /// Shows it there alone.
    pub(crate) fn only(self, medium: Medium) -> Self {
        Self { medium, ..self }
    }
}

impl Field {
    /// A plain one.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::toned(name, Tone::Plain, text)
    }

    /// One that means something.
    pub fn toned(name: impl Into<String>, tone: Tone, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            tone,
            is_command: false,
        }
    }
}

impl Document {
    /// One section of these blocks.
    pub(crate) fn of(blocks: Vec<Block>) -> Self {
        Self {
            sections: vec![Section::new(blocks)],
            ..Self::default()
        }
    }

    /// Adds a section, where it holds anything.
    pub fn push(&mut self, section: Section) {
        if !section.blocks.is_empty() || section.heading.is_some() {
            self.sections.push(section);
        }
    }
}

impl Answer {
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self {
            tone,
            text: text.into(),
            ..Self::default()
        }
    }
}

impl Block {
    /// Fields; nothing where there are none.
    pub fn fields(fields: Vec<Field>) -> Option<Self> {
        (!fields.is_empty()).then_some(Self::Fields(fields))
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(Tone::Plain, text.into())
    }

    pub(crate) fn faint(text: impl Into<String>) -> Self {
        Self::Text(Tone::Faint, text.into())
    }
}
