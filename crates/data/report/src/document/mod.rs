//! Documents as plain data: sections of text, fields, notes, tables and figures.
//!
//! For each result (a recording, a comparison, an audit, ...), one function in this module returns
//! a [`Document`]. The renderers ([`text`](crate::text), [`markdown`](crate::markdown),
//! [`html`](crate::html)) only know documents. Documents contain texts exactly as they were read.
//! Each renderer sanitises and escapes them in its output.
//!
//! A terminal shows what fits on a screen, whereas a page (Markdown, HTML) shows everything that is
//! known. Sections and columns can be limited to one [`Medium`].

mod activities;
mod analysis;
mod audit;
mod explanation;
mod facts;
mod facts_differ;
mod findings;
mod foreign_trace;
mod jobs;
mod list;
mod machine;
mod outlier;
mod plan;
mod policies;
mod power;
mod recording;
mod stored_audit;
mod summary;
mod table;
mod topology;
mod trace_chains;
mod trace_threads;
mod wakeups;
mod without;

pub use activities::activities;
pub use analysis::*;
pub use audit::{AuditDetail, audit};
pub use explanation::{outliers, resemblance};
pub(crate) use facts::chosen as chosen_facts;
pub use facts_differ::facts_differ;
pub use jobs::jobs_answer;
pub use list::{ListRow, list, list_page};
pub use machine::{InterruptRow, ThreadRow, interrupts, threads};
pub use outlier::outlier;
pub(crate) use outlier::stacks_of;
pub use plan::{SeriesRow, plan, slots, wake_windows};
pub(crate) use recording::{Figures, answer, claims, outcome_tone, with_figures};
pub use recording::{recording, verdict};
pub use stored_audit::stored_audit;
pub use summary::{remedy, summary};
pub use table::{Cell, Column, Fold, Row, Table};
pub use topology::{ClockRow, clocks, placements, topology};
pub use trace_chains::trace_chains;
pub use trace_threads::trace_threads;
pub use wakeups::wakeups;
pub use without::prediction;

use crate::plot::Plot;

/// The content to show for one result.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The title; empty if there is none.
    pub title: String,
    /// The measuring program, shown before the title on a terminal.
    pub program: Option<String>,
    /// The anchor for links within a page: letters, digits and `-`.
    pub anchor: Option<String>,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

/// The media that show a section or column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// Shown everywhere.
    #[default]
    Both,
    /// Shown on a terminal only.
    Terminal,
    /// Shown in Markdown and HTML only.
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

/// The meaning of a text. It determines the colour and the sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neither good nor bad.
    #[default]
    Plain,
    /// A heading, which catches the reader's eye first.
    Heading,
    /// Less important, or unknown.
    Faint,
    /// As it should be.
    Good,
    /// Something that needs attention, or is not proven.
    Warning,
    /// Wrong.
    Bad,
}

/// A part of a document. On a terminal, an empty line separates sections.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The media that show the section.
    pub medium: Medium,
    /// The heading, and the media that show it.
    pub heading: Option<(Medium, String)>,
    /// A state, shown before the heading.
    pub state: Option<(Tone, String)>,
    /// An identifier, shown after the heading.
    pub aside: Option<String>,
    /// The content of the section.
    pub blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(Tone, String),
    /// The answer to the user's question.
    Answer(Answer),
    /// Names with values.
    Fields(Vec<Field>),
    /// Warnings that the reader must see first.
    Warnings(Vec<String>),
    /// Rows and columns.
    Table(Table),
    /// A plot; not shown on a terminal.
    Figure(Box<Figure>),
}

/// The answer to the user's question.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The tone of the answer.
    pub tone: Tone,
    /// The sign, such as `✓`; empty if there is none.
    pub sign: &'static str,
    /// The answer in one word, for a badge; empty if there is none.
    pub word: &'static str,
    /// The answer as a sentence.
    pub text: String,
}

/// A name and its value.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name; empty if the field continues the previous one.
    pub name: String,
    /// The value.
    pub text: String,
    /// The tone of the value.
    pub tone: Tone,
    /// Whether the value is a command. Commands are never broken into lines, so that they can be
    /// copied.
    pub is_command: bool,
}

/// A plot with a caption.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The plot.
    pub plot: Plot,
    /// A sentence about the content of the plot.
    pub caption: String,
}

impl Section {
    /// Returns a section without a heading.
    pub fn new(blocks: Vec<Block>) -> Self {
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// Returns a section with a heading.
    pub fn titled(heading: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self::new(blocks).heading(Medium::Both, heading)
    }

    /// Sets the heading and the media that show it.
    pub(crate) fn heading(self, medium: Medium, heading: impl Into<String>) -> Self {
        Self {
            heading: Some((medium, heading.into())),
            ..self
        }
    }

    /// Limits the section to one medium.
    pub(crate) fn only(self, medium: Medium) -> Self {
        Self { medium, ..self }
    }
}

impl Field {
    /// Returns a field in the plain tone.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::toned(name, Tone::Plain, text)
    }

    /// Returns a field in the given tone.
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
    /// Returns a document with these blocks in one section.
    pub(crate) fn from_blocks(blocks: Vec<Block>) -> Self {
        Self {
            sections: vec![Section::new(blocks)],
            ..Self::default()
        }
    }

    /// Adds a section, unless it is empty.
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
    /// Returns a block of fields, or `None` if there are none.
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
