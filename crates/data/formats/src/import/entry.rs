//! The description of a source.

use std::fmt;

use punctual_model::Recording;

use super::blank::blank;
use super::head::Head;
use super::{ImportError, SampleSink, Source};

/// A kind of file that can be read: an entry of [`IMPORTS`](crate::IMPORTS).
#[derive(Clone, Copy)]
pub struct Import {
    /// Name on the command line: `cyclictest-hist`.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// A few paragraphs for the documentation about the imported content, missing values and
    /// rejected files.
    pub documentation: &'static str,
    /// Whether the file contains every sample.
    pub has_samples: bool,
    /// Whether the file always contains the unit of its figures. If not, [`Source::with_unit`] sets
    /// the unit.
    pub unit_known: bool,
    /// Returns whether a file with this beginning has this format. Exactly one entry may match a
    /// file; a test tries each entry on all fixtures.
    pub recognise: fn(&Head<'_>) -> bool,
    /// Reads the whole file.
    ///
    /// # Errors
    /// Returns an error for any violation of the format, with its location. In that case, discard
    /// the samples that the sink has received so far.
    pub read: fn(&mut Source<'_>, &mut dyn SampleSink) -> Result<Recording, ImportError>,
}

impl Import {
    /// Returns the provisional recording of a file that is still being read. It has this format and
    /// no threads. Everything except its ID is later replaced by the result of
    /// [`read`](Self::read).
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
