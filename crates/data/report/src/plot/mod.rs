//! Plots: the latency histogram, percentile curves, latency over time, the heat map of pairs of
//! CPUs, and bars by mechanism or kind.
//!
//! Plots are made for print: dark lines on white, axis titles with units, and colours that
//! colour-blind readers can distinguish. A plot is drawn once, on a canvas that supports only a few
//! kinds of shapes. SVG, PNG and PDF are encodings of that canvas. An SVG has no embedded font (the
//! viewer's sans-serif font is used) and takes some tens of kilobytes. A PNG includes its text as
//! pixels and needs no font on the machine. A PDF contains the used glyphs of its font.
//!
//! The cost of a plot depends on the number of non-empty buckets, not of samples.

mod axis;
mod bars;
mod bins;
mod canvas;
mod certificate;
mod curves;
mod font;
mod frame;
mod kind;
mod latency;
mod legend;
mod longterm;
mod matrix;
mod outlier;
mod pdf;
mod percentiles;
mod phases;
mod png;
mod room;
mod strip;
mod svg;
mod timeline;
mod topology;

pub(crate) use certificate::{Ink, TextRow, Texts, draw as certificate};
pub(crate) use curves::quantity_of;
pub use kind::Kind;
pub use longterm::{Cells, LongTerm, cells, heatmap, surface, trend};
pub use strip::{power, strip};
pub use topology::topology;

use punctual_model::{Chart, Nanos, Recording};

use crate::ReportError;
use canvas::Canvas;
use kind::check;

/// How a plot is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlotOptions {
    /// Width in pixels (CSS pixels in SVG), 320 to 8000.
    pub width: u32,
    /// Height in pixels, 240 to 8000.
    pub height: u32,
    /// The text above the plot.
    pub heading: Heading,
    /// The scale of the latency axis.
    pub latency_scale: Scale,
    /// The end of the x-axis: a latency, or the time since the start in a timeline. Values beyond
    /// it are counted but not drawn. With `None`, the axis ends where the data ends.
    pub x_max: Option<Nanos>,
    /// The thread to show, as an index into `threads`, or `None` for all. A plot of several
    /// recordings shows this thread of each.
    pub thread: Option<usize>,
}

impl Default for PlotOptions {
    fn default() -> Self {
        Self {
            width: 800,
            height: 460,
            heading: Heading::Auto,
            latency_scale: Scale::Auto,
            x_max: None,
            thread: None,
        }
    }
}

/// The text above a plot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Heading {
    /// The measurement on the first line, the machine and the number of samples below it.
    #[default]
    Auto,
    /// No text. This is meant for plots that have a caption, for example in a paper.
    None,
    /// A text given by the caller.
    Text(String),
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Chosen according to the data. The latency plot is linear unless the maximum is more than 10
    /// times p99 or 100 times the median. The percentile plot is logarithmic. Latency over time is
    /// logarithmic if the maximum is more than 5 times the median, bars if the largest maximum is
    /// more than 20 times the smallest median, and the colours of a heat map if the largest value
    /// is more than 10 times the smallest. The axis title of a logarithmic scale says so.
    #[default]
    Auto,
    /// Equal steps.
    Linear,
    /// Equal ratios.
    Log,
}

/// The figure of each pair of CPUs in a heat map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellFigure {
    /// The median.
    #[default]
    Median,
    /// The 99th percentile; needs 100 samples.
    P99,
    /// The 99.9th percentile; needs 1000 samples.
    P999,
    /// The largest latency.
    Max,
}

impl CellFigure {
    /// All figures, each with the name that users type and see.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Median, "median"),
        (Self::P99, "p99"),
        (Self::P999, "p99.9"),
        (Self::Max, "max"),
    ];

    /// Returns the name of the figure.
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(figure, _)| *figure == self)
            .map_or("median", |(_, name)| name)
    }

    /// Returns the name of the figure as the beginning of a heading.
    const fn title(self) -> &'static str {
        match self {
            Self::Median => "Median",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "Largest",
        }
    }

    /// Returns the quantile, or `None` for the maximum, which is not estimated but exact.
    const fn quantile(self) -> Option<f64> {
        match self {
            Self::Median => Some(0.5),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::Max => None,
        }
    }
}

/// A finished plot.
#[derive(Clone, Debug)]
pub struct Plot {
    canvas: Canvas,
}

impl Plot {
    /// Returns the plot as an SVG document, without an XML declaration so that it can be embedded
    /// in a page.
    pub fn svg(&self) -> String {
        svg::write(&self.canvas)
    }

    /// Returns the plot as PNG, enlarged by the factor `scale`.
    ///
    /// # Errors
    /// Returns an error if the scale is not within 0.25 to 8, if a side would be longer than 16000
    /// pixels, or if the rasteriser fails.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, ReportError> {
        png::write(&self.canvas, scale)
    }

    /// Returns the plot as a PDF document of one page. A pixel is 1/96 inch, as in CSS.
    ///
    /// # Errors
    /// Returns an error if the PDF writer fails.
    pub fn pdf(&self) -> Result<Vec<u8>, ReportError> {
        pdf::write(&self.canvas)
    }
}

/// Draws the latency plot in the style of OSADL's test racks: latency from left to right, the
/// number of samples upwards on a log scale, and one stepped curve per thread. The legend lists the
/// maximum of each. With more than 12 threads, the few with the largest maxima have a colour, and
/// the others are drawn thin and listed. Several recordings have one curve each.
///
/// A limit on the latency is a vertical line.
///
/// # Errors
/// Returns an error if `recordings` is empty or has no figures for this plot, if the thread does
/// not exist, or if the plot cannot be drawn at this size.
pub fn latency(recordings: &[&Recording], options: &PlotOptions) -> Result<Plot, ReportError> {
    check(Kind::Latency, recordings, options)?;
    Ok(latency::draw(recordings, options))
}

/// Draws the percentile plot: percentiles in nines (0, 90, 99, 99.9 …) from left to right, latency
/// upwards on a log scale. Each curve ends at the last percentile that its number of samples
/// supports, with a dot at its maximum.
///
/// # Errors
/// Same as [`latency`].
pub fn percentiles(recordings: &[&Recording], options: &PlotOptions) -> Result<Plot, ReportError> {
    check(Kind::Percentiles, recordings, options)?;
    Ok(percentiles::draw(recordings, options))
}

/// Draws latency over time: for each interval, the range from minimum to maximum, the mean and p99.
/// Top samples are points, and missed periods are marked. Several threads are merged unless the
/// options select one.
///
/// # Errors
/// Same as [`latency`].
pub fn timeline(recording: &Recording, options: &PlotOptions) -> Result<Plot, ReportError> {
    check(Kind::Timeline, &[recording], options)?;
    Ok(timeline::draw(recording, options))
}

/// Draws the heat map of the medians: from the CPU on the left to the CPU below, with latency as
/// colour (darker is later) and a colour scale. Cells include the number if all numbers fit. A pair
/// without samples is grey.
///
/// Threads measured between the same two CPUs are combined. Threads without two CPUs are
/// counted, not shown. Notes below the plot mention both.
///
/// # Errors
/// Same as [`latency`].
pub fn matrix(recording: &Recording, options: &PlotOptions) -> Result<Plot, ReportError> {
    matrix_of(recording, CellFigure::default(), options)
}

/// Same as [`matrix`], for a figure other than the median.
///
/// # Errors
/// Same as [`latency`].
pub fn matrix_of(
    recording: &Recording,
    figure: CellFigure,
    options: &PlotOptions,
) -> Result<Plot, ReportError> {
    check(Kind::Matrix, &[recording], options)?;
    Ok(matrix::draw(recording, figure, options))
}

/// Draws a horizontal bar for each thread by its label. The bar ends at the median, a line extends
/// to p99 (if there are at least 100 samples), and a dot marks the maximum. The bars of several
/// recordings are grouped by label.
///
/// A limit on the latency is a vertical line. If there is not enough space for all labels, the plot
/// shows those with the largest maxima and a note.
///
/// # Errors
/// Same as [`latency`].
pub fn bars(recordings: &[&Recording], options: &PlotOptions) -> Result<Plot, ReportError> {
    check(Kind::Bars, recordings, options)?;
    Ok(bars::draw(recordings, options))
}

/// Draws one explained outlier over time: its causes, its thread, each CPU involved, and the
/// contributions. The plot is as high as necessary; the height, scale and thread given in the
/// options are ignored.
///
/// # Errors
/// Returns an error if the plot cannot be drawn at this width.
pub fn outlier(
    timeline: &crate::OutlierTimeline,
    options: &PlotOptions,
) -> Result<Plot, ReportError> {
    let PlotOptions { width, height, .. } = *options;
    if !(320..=8000).contains(&width) {
        return Err(ReportError::Size { width, height });
    }
    Ok(outlier::draw(timeline, options))
}

/// Draws the plot that suits the recording's probe: the latency plot, the heat map, or bars. If the
/// options select one thread, the latency plot is drawn, because there is nothing to compare.
///
/// # Errors
/// Returns an error if the recording has no threads and thus no latencies. Otherwise same as
/// [`latency`].
pub fn default_for(recording: &Recording, options: &PlotOptions) -> Result<Plot, ReportError> {
    match recording.probe.chart {
        _ if options.thread.is_some() => latency(&[recording], options),
        Chart::Latency => latency(&[recording], options),
        Chart::Matrix => matrix(recording, options),
        Chart::Bars => bars(&[recording], options),
    }
}
