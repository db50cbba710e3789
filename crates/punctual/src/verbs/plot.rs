//! `plot`: plots of recordings.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;
use punctual_model::{Nanos, Recording};
use punctual_report::ReportError;
use punctual_report::plot::{self, Heading, Plot, PlotOptions, Scale};

use super::select::Recordings;
use super::{Run, Verb, named};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb::of::<PlotFile>("plot");

type Draw = fn(&[&Recording], &PlotOptions) -> Result<Plot, ReportError>;

/// A kind of plot: its name, and how it is drawn.
type Kind = (&'static str, Draw);

/// The kinds of plot; a new one is a line here.
static KINDS: [Kind; 6] = [
    ("auto", auto),
    ("latency", plot::latency),
    ("percentiles", plot::percentiles),
    ("timeline", |recordings, options| {
        plot::timeline(only(recordings)?, options)
    }),
    ("matrix", |recordings, options| {
        plot::matrix(only(recordings)?, options)
    }),
    ("bars", plot::bars),
];

/// The kinds that show one recording.
const OF_ONE: [&str; 2] = ["timeline", "matrix"];

/// Draw recordings as SVG or PNG
#[derive(Parser)]
struct PlotFile {
    #[command(flatten)]
    selected: Recordings,
    /// File: .svg, .png, or - for SVG on stdout [default: KIND-ID.svg]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Kind of plot; auto: by the probe
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
    /// Heading of the plot; empty for none
    #[arg(long, value_name = "TEXT")]
    heading: Option<String>,
    /// Scale factor for PNG
    #[arg(long, value_name = "N", default_value = "2")]
    pixels: f32,
}

impl Run for PlotFile {
    fn run(self, context: &Context) -> Result<Exit> {
        let options = self.options()?;
        let recordings = self.selected.load(&context.store_to_read()?)?;
        let path = self.path(&recordings)?;
        let output = Output::open(&path)?;
        let references: Vec<&Recording> = recordings.iter().collect();
        let (_, draw) = self.kind;
        let plot = draw(&references, &options)?;
        let picture = if is(&path, "png") {
            plot.png(self.pixels)?
        } else {
            plot.svg().into_bytes()
        };
        output.put(&picture)?;
        if path != Path::new("-") {
            output::note(&format!("plot written to {}", path.display()));
        }
        Ok(Exit::Done)
    }
}

/// The kind that fits the probe; several recordings are drawn as curves.
fn auto(recordings: &[&Recording], options: &PlotOptions) -> Result<Plot, ReportError> {
    match recordings {
        [recording] => plot::default_for(recording, options),
        several => plot::latency(several, options),
    }
}

/// `options` has refused several.
fn only<'a>(recordings: &[&'a Recording]) -> Result<&'a Recording, ReportError> {
    recordings.first().copied().ok_or(ReportError::NoRecording)
}

impl PlotFile {
    fn options(&self) -> Result<PlotOptions> {
        let several = self.selected.recordings.len() > 1;
        let (kind, size) = (self.kind.0, &self.size);
        if several && OF_ONE.contains(&kind) {
            return Err(
                UsageError(format!("a {kind} plot shows one recording: name one ID")).into(),
            );
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

    fn path(&self, recordings: &[Recording]) -> Result<PathBuf> {
        let Some(path) = &self.output else {
            let id = recordings
                .first()
                .map_or_else(String::new, |first| first.id.short());
            let name = match self.kind.0 {
                "auto" => "plot",
                kind => kind,
            };
            return Ok(format!("{name}-{id}.svg").into());
        };
        if path == Path::new("-") || is(path, "svg") || is(path, "png") {
            return Ok(path.clone());
        }
        Err(UsageError(format!(
            "{}: unknown file extension: use .svg or .png",
            path.display()
        ))
        .into())
    }
}

fn is(path: &Path, ending: &str) -> bool {
    path.extension()
        .is_some_and(|found| found.eq_ignore_ascii_case(ending))
}
