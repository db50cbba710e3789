//! `plot`: draws plots of recordings.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;
use punctual_history::Series;
use punctual_model::{Nanos, Recording};
use punctual_report::ReportError;
use punctual_report::plot::{self, Heading, LongTerm, Plot, PlotOptions, Scale};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::extension;
use crate::options::select::Recordings;
use crate::options::span::Span;
use crate::output::{self, Output};
use crate::recordings::file_name;
use crate::verb::{Run, Verb, named};

pub(super) const VERB: Verb = Verb::new::<PlotFile>("plot");

/// The function that draws a kind: from recordings, or from a series.
enum Draw {
    Recordings(fn(&[&Recording], &PlotOptions) -> Result<Plot, ReportError>),
    Series(fn(&LongTerm<'_>, &PlotOptions) -> Result<Plot, ReportError>),
}

/// A kind of plot: its name, and the function that draws it.
type Kind = (&'static str, Draw);

/// All kinds of plots. To add one, add a line here.
static KINDS: [Kind; 9] = [
    ("auto", Draw::Recordings(auto)),
    ("latency", Draw::Recordings(plot::latency)),
    ("percentiles", Draw::Recordings(plot::percentiles)),
    (
        "timeline",
        Draw::Recordings(|recordings, options| plot::timeline(only(recordings)?, options)),
    ),
    (
        "matrix",
        Draw::Recordings(|recordings, options| plot::matrix(only(recordings)?, options)),
    ),
    ("bars", Draw::Recordings(plot::bars)),
    ("surface", Draw::Series(plot::surface)),
    ("heatmap", Draw::Series(plot::heatmap)),
    ("trend", Draw::Series(plot::trend)),
];

/// The kinds of plots that show a single recording.
const OF_ONE: [&str; 2] = ["timeline", "matrix"];

/// The extensions of the files that this verb writes.
const EXTENSIONS: [&str; 3] = ["svg", "png", "pdf"];

/// Plot recordings or a series as SVG, PNG or PDF
///
/// The kinds surface, heatmap and trend show a series: pass the name of the series instead of an
/// ID.
#[derive(Parser)]
struct PlotFile {
    #[command(flatten)]
    selected: Recordings,
    /// File: .svg, .png, .pdf, or - for SVG on stdout [default: KIND-ID.svg]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Kind of plot; auto: chosen by the probe
    #[arg(short, long, value_name = "KIND", default_value = "auto")]
    #[arg(value_parser = named(KINDS.iter().map(|kind| (kind.0, kind)).collect()))]
    kind: &'static Kind,
    /// Show only this thread, counted from 0
    #[arg(long, value_name = "N")]
    thread: Option<usize>,
    /// Upper limit of the x-axis: latency, or time in a timeline
    #[arg(long, value_name = "TIME")]
    x_max: Option<Nanos>,
    /// Scale of the latency axis; auto: log for a long tail
    #[arg(long, value_name = "SCALE", default_value = "auto")]
    #[arg(value_parser = named(vec![("auto", Scale::Auto), ("linear", Scale::Linear), ("log", Scale::Log)]))]
    scale: Scale,
    /// Width and height in pixels
    #[arg(long, value_name = "WxH", default_value = "800x460")]
    size: String,
    /// Title of the plot; empty for no title
    #[arg(long, value_name = "TEXT")]
    heading: Option<String>,
    /// Series: group of runs to show [default: the first]
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    span: Span,
    /// Scale factor for PNG
    #[arg(long, value_name = "N", default_value = "2")]
    pixels: f32,
}

impl Run for PlotFile {
    fn run(self, context: &Context) -> Result<Exit> {
        let options = self.options()?;
        let store = context.store_to_read()?;
        let (path, plot) = match self.kind.1 {
            Draw::Recordings(draw) => {
                let recordings = self.selected.load(&store)?;
                let path = self.path(|| recordings[0].id.short())?;
                let references: Vec<&Recording> = recordings.iter().collect();
                (path, draw(&references, &options)?)
            }
            Draw::Series(draw) => {
                let name = self.selected.recordings.first().map(String::as_str);
                let query = self.span.query();
                let series = Series::load(&store, name, &query)?;
                let trend = series.trend(&query);
                let group = punctual_history::group(&trend, self.group.as_deref())?;
                let runs = group.pick(&series.runs);
                let path = self.path(|| file_name(&series.name))?;
                if self.group.is_none() && trend.groups.len() > 1 {
                    output::note(&format!(
                        "group '{}': pass --group for another",
                        group.name()
                    ));
                }
                (path, draw(&LongTerm::new(&trend, group, &runs), &options)?)
            }
        };
        let output = Output::open(&path)?;
        let picture = match extension::extension_of(&path).as_str() {
            "png" => plot.png(self.pixels)?,
            "pdf" => plot.pdf()?,
            _ => plot.svg().into_bytes(),
        };
        output.put(&picture)?;
        if path != Path::new("-") {
            output::note(&format!("plot written to {}", path.display()));
        }
        Ok(Exit::Done)
    }
}

/// Draws the kind that fits the probe. Several recordings are drawn as curves.
fn auto(recordings: &[&Recording], options: &PlotOptions) -> Result<Plot, ReportError> {
    match recordings {
        [recording] => plot::default_for(recording, options),
        several => plot::latency(several, options),
    }
}

/// Returns the only recording. The check of the options has already rejected several recordings.
fn only<'a>(recordings: &[&'a Recording]) -> Result<&'a Recording, ReportError> {
    recordings.first().copied().ok_or(ReportError::NoRecording)
}

impl PlotFile {
    fn options(&self) -> Result<PlotOptions> {
        self.check_kind()?;
        let several = self.selected.recordings.len() > 1;
        let (kind, size) = (self.kind.0, &self.size);
        if several && OF_ONE.contains(&kind) {
            return Err(UsageError(format!(
                "a {kind} plot shows one recording: pass a single ID"
            ))
            .into());
        }
        let (width, height) = size
            .split_once('x')
            .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
            .ok_or_else(|| {
                UsageError(format!(
                    "--size '{size}' is not a size: write for example 800x460"
                ))
            })?;
        Ok(PlotOptions {
            width,
            height,
            heading: match self.heading.as_deref() {
                None => Heading::Auto,
                Some("") => Heading::None,
                Some(text) => Heading::Text(text.to_owned()),
            },
            latency_scale: self.scale,
            x_max: self.x_max,
            thread: self.thread,
        })
    }

    /// Rejects options that do not apply to this kind of plot.
    fn check_kind(&self) -> Result<()> {
        let kind = self.kind.0;
        let refused = match self.kind.1 {
            Draw::Recordings(_) => [
                ("--group", self.group.is_some()),
                ("--since", self.span.since.is_some()),
                ("--host", self.span.host.is_some()),
                ("--threshold", self.span.threshold.is_some()),
            ],
            Draw::Series(_) => [
                ("--thread", self.thread.is_some()),
                ("--x-max", self.x_max.is_some()),
                ("a second name", self.selected.recordings.len() > 1),
                ("", false),
            ],
        };
        match refused.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((what, _)) => {
                Err(UsageError(format!("{what} does not apply to a {kind} plot")).into())
            }
        }
    }

    fn path(&self, of: impl Fn() -> String) -> Result<PathBuf> {
        let Some(path) = &self.output else {
            let id = of();
            let name = match self.kind.0 {
                "auto" => "plot",
                kind => kind,
            };
            return Ok(format!("{name}-{id}.svg").into());
        };
        if path == Path::new("-") || EXTENSIONS.contains(&extension::extension_of(path).as_str()) {
            return Ok(path.clone());
        }
        Err(extension::unknown(path, &EXTENSIONS).into())
    }
}
