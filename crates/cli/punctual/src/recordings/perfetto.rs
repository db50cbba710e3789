//! Writes outliers and traces in the format of Perfetto.

use std::io::{self, Write};

use anyhow::{Context as _, Result};
use punctual_formats::{PerfettoWriter, TracedMachine};
use punctual_model::{Explanation, Nanos, Outlier, Recording, Window};
use punctual_tracefile::{Input, Item, TraceFileError, TraceHead, TraceReader, copy_perfetto};

/// The usual extensions of its files.
pub(crate) const EXTENSIONS: [&str; 2] = ["pftrace", "perfetto-trace"];

/// Events up to this long before and after a span of time are written along with it.
const MARGIN: Nanos = Nanos::from_millis(10);

/// Writes outliers, each with those of its events that are stored.
pub(crate) fn write(
    recording: &Recording,
    outliers: &[(&Outlier, Option<Window>)],
    out: &mut dyn Write,
) -> Result<()> {
    let mut writer = PerfettoWriter::new(out);
    let windows = outliers.iter().filter_map(|(_, window)| window.as_ref());
    let written = writer
        .windows(windows)
        .and_then(|()| finish(writer, recording, outliers));
    written.context("cannot write the trace")
}

/// Copies a trace of Perfetto, and appends its outliers.
pub(crate) fn append(
    original: Input,
    recording: &Recording,
    outliers: &[(&Outlier, Option<Window>)],
    out: &mut dyn Write,
) -> Result<()> {
    copy_perfetto(original, out).context("cannot copy the trace")?;
    let written = finish(PerfettoWriter::appended(out), recording, outliers);
    written.context("cannot write the trace")
}

/// Writes the outliers and the end of the file.
fn finish(
    mut writer: PerfettoWriter<impl Write>,
    recording: &Recording,
    outliers: &[(&Outlier, Option<Window>)],
) -> io::Result<()> {
    let trace = recording
        .explanation
        .as_ref()
        .and_then(|all| all.trace.as_ref());
    let mut ordered: Vec<&(&Outlier, Option<Window>)> = outliers.iter().collect();
    ordered.sort_by_key(|(outlier, _)| outlier.monotonic_ns);
    for (outlier, window) in ordered {
        let mut stated = trace.iter().flat_map(|trace| &trace.stated);
        let stated = stated.find(|stated| stated.outlier == outlier.number);
        let stated = stated.map(|stated| stated.text.as_str());
        writer.outlier(outlier, window.as_ref(), stated)?;
    }
    let kernel = &recording.host.kernel;
    let first = outliers.first().map(|(outlier, _)| outlier);
    writer.finish(&TracedMachine {
        kernel: kernel.release.get().cloned(),
        architecture: kernel.architecture.get().cloned(),
        // A trace does not state its date.
        wall: (first.filter(|_| trace.is_none()))
            .map(|outlier| (outlier.monotonic_ns, outlier.time)),
    })
}

/// A trace that is converted to Perfetto's format while it is read.
pub(crate) struct Converting<'a, W> {
    reader: &'a mut dyn TraceReader,
    writer: PerfettoWriter<W>,
    /// If set, only events around this span are written.
    between: Option<(Nanos, Nanos)>,
    failed: Option<io::Error>,
}

impl<'a, W: Write> Converting<'a, W> {
    pub(crate) fn new(
        reader: &'a mut dyn TraceReader,
        out: W,
        between: Option<(Nanos, Nanos)>,
    ) -> Self {
        Self {
            reader,
            writer: PerfettoWriter::new(out),
            between: between.map(|(from, to)| {
                (
                    from.saturating_sub(MARGIN),
                    Nanos(to.0.saturating_add(MARGIN.0)),
                )
            }),
            failed: None,
        }
    }

    /// Returns the output error that stopped the reading, if any.
    pub(crate) fn failed(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Writes the outliers of the trace, which must have been read to its end.
    pub(crate) fn finish(
        self,
        recording: &Recording,
        explanation: &Explanation,
        window: impl Fn(u64) -> Option<Window>,
    ) -> Result<()> {
        let outliers = explanation.outliers.iter();
        let outliers = outliers.map(|outlier| (outlier, window(outlier.number)));
        let outliers: Vec<(&Outlier, Option<Window>)> = outliers.collect();
        finish(self.writer, recording, &outliers).context("cannot write the trace")
    }

    fn write(&mut self, item: &Item) -> io::Result<()> {
        let is_wanted = |time: Nanos| {
            self.between
                .is_none_or(|(from, to)| (from..=to).contains(&time))
        };
        match item {
            Item::Event(event) if is_wanted(event.time) => {
                self.writer.event(event, self.reader.head())
            }
            Item::Mark(mark) if is_wanted(mark.time) => {
                self.writer.mark(mark.time, mark.cpu, mark.pid, &mark.text)
            }
            Item::Lost { cpu, .. } => {
                self.writer.lost(*cpu);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl<W: Write> TraceReader for Converting<'_, W> {
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError> {
        let item = self.reader.next_item()?;
        if let Some(error) = item.as_ref().and_then(|item| self.write(item).err()) {
            self.failed = Some(error);
            return Err(io::Error::other("the output failed").into());
        }
        Ok(item)
    }

    fn head(&self) -> &TraceHead {
        self.reader.head()
    }
}
