//! The description of a source.

use std::fmt;

use punctual_model::Recording;

use super::blank::blank;
use super::head::Head;
use super::{ImportError, SampleSink, Source};

/// One kind of file that can be read: an entry of
/// [`IMPORTS`](crate::IMPORTS).
#[derive(Clone, Copy)]
pub struct Import {
    /// Name on the command line: `cyclictest-hist`.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// What is read, what the file lacks, and what is refused: a few
    /// paragraphs for the documentation.
    pub documentation: &'static str,
    /// Whether the file holds every sample.
    pub has_samples: bool,
    /// Whether the file always gives the unit of its figures; else
    /// [`Source::with_unit`] sets it.
    pub unit_known: bool,
    /// Whether a file with this beginning has this format. Exactly one entry may
    /// match a file; a test tries each entry on all fixtures.
    pub recognise: fn(&Head<'_>) -> bool,
    /// Reads all of a file.
    ///
    /// # Errors
    /// Any violation of the format, with the place; discard what the sink has
    /// received until then.
    pub read: fn(&mut Source<'_>, &mut dyn SampleSink) -> Result<Recording, ImportError>,
}

impl Import {
    /// The provisional recording of a file while it is read: of this
    /// format, without threads. What [`read`](Self::read) hands back replaces
    /// all of it but its ID.
    pub fn begun(&self, source: &Source<'_>) -> Recording {
        blank(source, self.name, self.name, "timer")
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Import")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
