//! Histograms whose rows become wider with the latency, as the kernel's tracing tools print them.

use punctual_model::{Histogram, Nanos, Recording};

use super::blank::{THREADS, blank, finish, thread};
use super::{Malformed, Source};

/// One histogram of a file. All values are in the unit of the file.
#[derive(Debug)]
pub(crate) struct Doubling {
    /// The text above the rows, such as the name of a process. Empty if there is none.
    pub(crate) label: String,
    /// Values below zero.
    pub(crate) early: u64,
    /// The lower edge, the end and the count of each row, in ascending order.
    rows: Vec<(u64, u64, u64)>,
}

/// The rows that a tool prints.
pub(crate) struct Scale {
    pub(crate) unit: Nanos,
    /// The width of the narrowest rows, in units.
    pub(crate) first: u64,
    /// The possible numbers of rows for each power of two.
    pub(crate) per_octave: &'static [u32],
}

impl Doubling {
    pub(crate) fn new(label: String) -> Self {
        Self {
            label,
            early: 0,
            rows: Vec::new(),
        }
    }

    /// Adds a row of the values from `lower` to below `end`.
    ///
    /// # Errors
    /// Returns an error if the row does not continue the row before.
    pub(crate) fn add(&mut self, lower: u64, end: u64, count: u64) -> Result<(), Malformed> {
        let continues = self.rows.last().is_none_or(|(_, last, _)| *last == lower);
        if lower >= end || !continues {
            return Err(Malformed::RowNotNext(lower));
        }
        self.rows.push((lower, end, count));
        Ok(())
    }

    fn histogram(&self, scale: &Scale) -> Result<Histogram, Malformed> {
        let Scale { unit, first, .. } = *scale;
        let is_width = |rows: u32, (lower, end, _): &(u64, u64, u64)| {
            let octave = (lower / first).checked_ilog2().map_or(0, |log| 1 << log);
            end - lower == (octave / u64::from(rows)).max(1).saturating_mul(first)
        };
        let mut known = scale.per_octave.iter().copied();
        let rows = known.find(|rows| self.rows.iter().all(|row| is_width(*rows, row)));
        let rows = rows.ok_or(Malformed::RowsNotDoubling)?;
        let row = Nanos(unit.0.saturating_mul(first));
        let mut histogram = Histogram::imported_by_octaves(unit, row, rows);
        let mut sum = self.early;
        for (lower, _, count) in &self.rows {
            let lower = lower
                .checked_mul(unit.0)
                .ok_or(Malformed::FiguresTooLarge)?;
            sum = sum
                .checked_add(*count)
                .ok_or(Malformed::SamplesTooManyInRows)?;
            histogram.add_row(Nanos(lower), *count);
        }
        histogram.add_early(self.early);
        Ok(histogram)
    }
}

/// Adds a histogram to those of the file.
///
/// # Errors
/// Returns an error if there are too many.
pub(crate) fn begin(all: &mut Vec<Doubling>, label: String) -> Result<(), Malformed> {
    if all.len() == THREADS {
        return Err(Malformed::TooMany {
            most: THREADS,
            what: "histograms",
        });
    }
    if all.iter().any(|one| one.label == label) {
        return Err(Malformed::SecondHistogram);
    }
    all.push(Doubling::new(label));
    Ok(())
}

/// Returns the recording, with a thread for each histogram that has rows.
///
/// # Errors
/// Returns an error if the rows have other widths, or a file without rows.
pub(crate) fn recording(
    source: &Source<'_>,
    format: &str,
    tool: &str,
    all: &[Doubling],
    scale: &Scale,
) -> Result<Recording, Malformed> {
    let mut recording = blank(source, format, tool, "scheduling");
    for one in all.iter().filter(|one| !one.rows.is_empty()) {
        let place = recording.threads.len();
        let mut thread = thread(place, None, one.histogram(scale)?);
        if !one.label.is_empty() {
            thread.label = Some(one.label.clone());
        }
        recording.threads.push(thread);
    }
    if recording.threads.is_empty() {
        return Err(Malformed::MissingFigures);
    }
    recording.warnings.push(
        "the rows of this histogram become wider with the latency: percentiles are the upper ends \
         of their rows, so they can be too large, but not too small; minimum, mean and maximum are \
         unknown"
            .to_owned(),
    );
    Ok(finish(recording))
}
