//! `trend note`: notes that users have written about a recording or a time.

use anyhow::Result;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use punctual_model::{LONGEST_NOTE, Note, RecordingId};
use punctual_report::{document, text};
use punctual_store::Store;

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::since;
use crate::options::span::author;
use crate::output;

/// Actions on notes.
#[derive(Subcommand)]
pub(super) enum Notes {
    /// Add a note to a recording, or to a time with --at
    Add(Add),
    /// List all notes
    List(List),
    /// Delete a note
    Delete(Delete),
}

#[derive(Args)]
#[command(
    override_usage = "punctual trend note add [RECORDING] TEXT\n       punctual trend note add --at TIME [--series SERIES] [--host NAME] TEXT"
)]
pub(super) struct Add {
    /// Text, after the recording that it is about [default: last]
    #[arg(value_name = "TEXT", required = true, num_args = 1..=2)]
    words: Vec<String>,
    /// Time that the note is about: 2026-11-03, an RFC 3339 time, or 24h ago
    #[arg(long, value_name = "TIME", value_parser = since)]
    at: Option<Timestamp>,
    /// Series that the note is about
    #[arg(long, value_name = "SERIES")]
    series: Option<String>,
    /// Machine that the note is about [default: all machines of the series]
    #[arg(long, value_name = "NAME", requires = "at", value_parser = crate::options::select::host_name)]
    host: Option<String>,
    /// Author [default: the user]
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
}

#[derive(Args)]
pub(super) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Delete {
    /// Note: its ID, or the end of its ID
    #[arg(value_name = "NOTE")]
    note: String,
}

impl Notes {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::Add(add) => add.run(&context.store_to_change()?),
            Self::List(list) => list.run(context),
            Self::Delete(delete) => delete.run(&context.store_to_change()?),
        }
    }
}

impl Add {
    fn run(self, store: &Store) -> Result<Exit> {
        let (recording, at, text) = match (self.words.as_slice(), self.at) {
            ([text], Some(at)) => (None, at, text),
            ([name, text], None) => {
                let id = store.find(name)?;
                (Some(id), store.load(id)?.started, text)
            }
            ([text], None) => {
                let id = store.find("last")?;
                (Some(id), store.load(id)?.started, text)
            }
            _ => {
                let text = "with --at, pass only the text, in quotes";
                return Err(UsageError(text.to_owned()).into());
            }
        };
        if text.trim().is_empty() || text.len() > LONGEST_NOTE {
            let text = format!("a note must have 1 to {LONGEST_NOTE} bytes of text");
            return Err(UsageError(text).into());
        }
        let note = Note {
            id: RecordingId::new(),
            recording,
            series: self.series,
            machine: self.host,
            at,
            text: text.clone(),
            author: author(self.who)?,
            written: Timestamp::now(),
        };
        store.put_note(&note)?;
        let about = match note.recording {
            Some(recording) => format!("recording {}", recording.short()),
            None => at.to_string(),
        };
        output::note(&format!("note {} about {about} added", note.id.short()));
        Ok(Exit::Done)
    }
}

impl List {
    fn run(self, context: &Context) -> Result<Exit> {
        let notes = context.store_to_read()?.notes()?;
        match (self.json, notes.is_empty()) {
            (true, _) => output::print(&output::json(&notes))?,
            (false, true) => output::note("no notes"),
            (false, false) => {
                let page = document::notes(&notes);
                output::print(&text::render(&page, &context.list_style()))?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Delete {
    fn run(self, store: &Store) -> Result<Exit> {
        let is_meant = |note: &Note| {
            let id = note.id.to_string();
            !self.note.is_empty() && (id == self.note || id.ends_with(&self.note))
        };
        let notes: Vec<Note> = store.notes()?.into_iter().filter(is_meant).collect();
        let [note] = notes.as_slice() else {
            let text = match notes.len() {
                0 => format!(
                    "note '{}' does not exist: see punctual trend note list",
                    self.note
                ),
                _ => format!("several notes end with '{}'", self.note),
            };
            return Err(UsageError(text).into());
        };
        store.delete_note(note.id)?;
        output::note(&format!("note {} deleted", note.id.short()));
        Ok(Exit::Done)
    }
}
