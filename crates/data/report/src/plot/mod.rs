//! Plots: the latency histogram, the percentile curves, latency over time, the
//! heat map of pairs of CPUs, bars by way or kind.
//!
//! Made for print: dark lines on white, axis titles with units, colours that
//! colour-blind readers tell apart. The picture is drawn once, on a canvas of
//! few shapes; SVG and PNG are two ways to write the same canvas. An SVG holds
//! no font (the reader's own sans-serif is used) and stays at some tens of
//! kilobytes; a PNG brings its font with it and needs none on the machine.
//!
//! A plot costs what its filled buckets cost, not what its samples do.

mod axis;
mod bars;
mod bins;
mod canvas;
mod curves;
mod font;
mod frame;
mod kind;
mod latency;
mod legend;
mod longterm;
mod matrix;
mod outlier;
mod percentiles;
mod phases;
mod png;
mod room;
mod strip;
mod svg;
mod timeline;
mod topology;

pub use kind::Kind;
pub use longterm::{Cells, LongTerm, cells, heatmap, surface, trend};
pub use strip::strip;
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
    /// What stands above the plot.
    pub heading: Heading,
    /// How the axis of latencies is divided.
    pub latency_scale: Scale,
    /// Where the x-axis ends: a latency, in a timeline the time since the start.
    /// What lies beyond is counted, not drawn. `None`: where the figures end.
    pub x_max: Option<Nanos>,
    /// Only this thread, as its place in `threads`; `None` for all. A plot of
    /// several recordings takes this thread of each.
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

/// What stands above a plot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Heading {
    /// What was measured, and below it the machine and the number of samples.
    #[default]
    Auto,
    /// Nothing: in a paper the caption says it.
    None,
    /// A text of the caller's.
    Text(String),
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As suits the figures. The latency plot is linear unless the maximum is
    /// more than 10 times p99 or 100 times the median; the percentile plot is logarithmic; latency
    /// over time is logarithmic where the maximum is more than 5 times the
    /// median, bars where the largest maximum is more than 20 times the
    /// smallest median, the colours of a heat map where the largest value is
    /// more than 10 times the smallest. The axis title says so where it is logarithmic.
    #[default]
    Auto,
    /// Equal steps.
    Linear,
    /// Equal ratios.
    Log,
}

/// The figure that a heat map shows of each pair of CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellFigure {
    /// Half of the samples were not later.
    #[default]
    Median,
    /// 99% were not later; needs 100 samples.
    P99,
    /// 99.9% were not later; needs 1000 samples.
    P999,
    /// The largest latency.
    Max,
}

impl CellFigure {
    /// Each with the name that is typed and printed.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Median, "median"),
        (Self::P99, "p99"),
        (Self::P999, "p99.9"),
        (Self::Max, "max"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(figure, _)| *figure == self)
            .map_or("median", |(_, name)| name)
    }

    /// How a heading begins.
    const fn title(self) -> &'static str {
        match self {
            Self::Median => "Median",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "Largest",
        }
    }

    /// `None` for the maximum, which is exact.
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
    /// The plot as an SVG document (no XML declaration, so that it can stand
    /// inside a page).
    pub fn svg(&self) -> String {
        svg::write(&self.canvas)
    }

    /// The plot as PNG, `scale` pixels for each of the plot's.
    ///
    /// # Errors
    /// A scale that is not within 0.25 to 8, or that makes a side longer than
    /// 16000 pixels; a failure of the rasteriser.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, ReportError> {
        png::write(&self.canvas, scale)
    }
}

/// The latency plot in the manner of OSADL's test racks: latency from left to
/// right, number of samples upwards on a log scale, one stepped curve a thread,
/// each with its maximum in the legend; with more than 12 threads the worst few
/// have a colour, the others are drawn thin and listed. Several recordings: one
/// curve each.
///
/// A limit on the latency is a vertical line.
///
/// # Errors
/// No recording, none with figures for this plot, a thread that is not there, a
/// size that cannot be drawn.
pub fn latency(recordings: &[&Recording], options: &PlotOptions) -> Result<Plot, ReportError> {
    check(Kind::Latency, recordings, options)?;
    Ok(latency::draw(recordings, options))
}

/// The percentile plot: percentiles in nines (0, 90, 99, 99.9 …) from left to
/// right, latency upwards on a log scale. Each curve ends at the percentile
/// that its number of samples supports, with a dot at its maximum.
///
/// # Errors
/// As [`latency`].
pub fn percentiles(recordings: &[&Recording], options: &PlotOptions) -> Result<Plot, ReportError> {
    check(Kind::Percentiles, recordings, options)?;
    Ok(percentiles::draw(recordings, options))
}

/// Latency over time: for each interval the band from minimum to maximum, the
/// mean and p99, the worst samples as points, and where periods were missed.
/// Several threads are merged unless the options pick one.
///
/// # Errors
/// As [`latency`].
pub fn timeline(recording: &Recording, options: &PlotOptions) -> Result<Plot, ReportError> {
    check(Kind::Timeline, &[recording], options)?;
    Ok(timeline::draw(recording, options))
}

/// The heat map of the medians: from CPU on the left, to CPU below, latency as
/// colour (the darker the later) with an axis of its own, and as a number in
/// each cell where all numbers fit. A pair without samples is grey.
///
/// Threads that were measured between the same two CPUs are taken together,
/// and threads that are no pair are counted, not shown; both are noted below.
///
/// # Errors
/// As [`latency`].
pub fn matrix(recording: &Recording, options: &PlotOptions) -> Result<Plot, ReportError> {
    matrix_of(recording, CellFigure::default(), options)
}

/// As [`matrix`], of another figure than the median.
///
/// # Errors
/// As [`latency`].
pub fn matrix_of(
    recording: &Recording,
    figure: CellFigure,
    options: &PlotOptions,
) -> Result<Plot, ReportError> {
    check(Kind::Matrix, &[recording], options)?;
    Ok(matrix::draw(recording, figure, options))
}

/// A horizontal bar for each thread by its label: its length is the median, a
/// line goes on to p99 (from 100 samples on), a dot marks the maximum. Several
/// recordings: the bars of one label side by side.
///
/// A limit on the latency is a vertical line. Where there is no room for all
/// labels, those with the largest maxima are shown, and the plot says so.
///
/// # Errors
/// As [`latency`].
pub fn bars(recordings: &[&Recording], options: &PlotOptions) -> Result<Plot, ReportError> {
    check(Kind::Bars, recordings, options)?;
    Ok(bars::draw(recordings, options))
}

/// One explained outlier by time: its causes, what its thread did, what each
/// CPU that it was decided on did, and the shares. As high as it needs; the
/// options' height, scale and thread do not apply.
///
/// # Errors
/// A width that cannot be drawn.
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

/// The plot that shows a recording's figures best, as its probe says: the
/// latency plot, the heat map or bars. Where the options pick one thread it is
/// the latency plot, for there is nothing to compare.
///
/// # Errors
/// A recording without threads, for it has no latencies; and as [`latency`].
pub fn default_for(recording: &Recording, options: &PlotOptions) -> Result<Plot, ReportError> {
    match recording.probe.chart {
        _ if options.thread.is_some() => latency(&[recording], options),
        Chart::Latency => latency(&[recording], options),
        Chart::Matrix => matrix(recording, options),
        Chart::Bars => bars(&[recording], options),
    }
}
