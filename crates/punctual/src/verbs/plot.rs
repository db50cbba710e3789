//! `plot`: plots of recordings.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};
use punctual_model::{Nanos, Recording};
use punctual_report::ReportError;
use punctual_report::plot::{self, Heading, Plot, PlotOptions, Scale};

use super::{Verb, output_option, parsed, recordings_argument, select};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb { command, run };

type Draw = fn(&[&Recording], &PlotOptions) -> Result<Plot, ReportError>;

/// The kinds of plot; a new one is a line here.
const KINDS: [(&str, Draw); 6] = [
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

fn command() -> Command {
    Command::new("plot")
        .about("Draw recordings as SVG or PNG")
        .arg(recordings_argument())
        .arg(output_option(
            "File: .svg, .png, or - for SVG on stdout [default: KIND-ID.svg]",
        ))
        .arg(
            Arg::new("kind")
                .short('k')
                .long("kind")
                .value_name("KIND")
                .value_parser(KINDS.map(|(name, _)| name))
                .default_value("auto")
                .help("Kind of plot; auto: by the probe"),
        )
        .arg(
            Arg::new("thread")
                .long("thread")
                .value_name("N")
                .value_parser(value_parser!(usize))
                .help("Show only this thread, counted from 0"),
        )
        .arg(
            Arg::new("x-max")
                .long("x-max")
                .value_name("TIME")
                .value_parser(parsed::<Nanos>())
                .help("Upper limit of the x-axis: latency, or time in a timeline"),
        )
        .arg(
            Arg::new("scale")
                .long("scale")
                .value_name("SCALE")
                .value_parser(["auto", "linear", "log"])
                .default_value("auto")
                .help("Scale of the latency axis; auto: log for a long tail"),
        )
        .arg(
            Arg::new("size")
                .long("size")
                .value_name("WxH")
                .default_value("800x460")
                .help("Width and height in pixels"),
        )
        .arg(
            Arg::new("heading")
                .long("heading")
                .value_name("TEXT")
                .help("Heading of the plot; empty for none"),
        )
        .arg(
            Arg::new("pixels")
                .long("pixels")
                .value_name("N")
                .value_parser(value_parser!(f32))
                .default_value("2")
                .help("Scale factor for PNG"),
        )
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let options = options(matches)?;
    let kind = matches
        .get_one::<String>("kind")
        .map_or("auto", String::as_str);
    let recordings = select::several(matches, &context.store_to_read()?)?;
    let path = path(matches, kind, &recordings)?;
    let output = Output::open(&path)?;
    let references: Vec<&Recording> = recordings.iter().collect();
    let draw = KINDS
        .iter()
        .find(|(name, _)| *name == kind)
        .map_or(auto as Draw, |(_, draw)| *draw);
    let plot = draw(&references, &options)?;
    let picture = if is(&path, "png") {
        plot.png(matches.get_one::<f32>("pixels").copied().unwrap_or(2.0))?
    } else {
        plot.svg().into_bytes()
    };
    output.put(&picture)?;
    if path != Path::new("-") {
        output::note(&format!("plot written to {}", path.display()));
    }
    Ok(Exit::Done)
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

fn options(matches: &ArgMatches) -> Result<PlotOptions> {
    let several = matches
        .get_many::<String>("recordings")
        .map_or(0, |ids| ids.len())
        > 1;
    let kind = matches
        .get_one::<String>("kind")
        .map_or("auto", String::as_str);
    if several && OF_ONE.contains(&kind) {
        return Err(UsageError(format!("a {kind} plot shows one recording: name one ID")).into());
    }
    let size = matches
        .get_one::<String>("size")
        .map_or("800x460", String::as_str);
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
        heading: match matches.get_one::<String>("heading").map(String::as_str) {
            None => Heading::Auto,
            Some("") => Heading::None,
            Some(text) => Heading::Text(text.to_owned()),
        },
        latency_scale: match matches.get_one::<String>("scale").map(String::as_str) {
            Some("linear") => Scale::Linear,
            Some("log") => Scale::Log,
            _ => Scale::Auto,
        },
        x_max: matches.get_one::<Nanos>("x-max").copied(),
        thread: matches.get_one::<usize>("thread").copied(),
    })
}

fn path(matches: &ArgMatches, kind: &str, recordings: &[Recording]) -> Result<PathBuf> {
    let Some(path) = matches.get_one::<PathBuf>("output") else {
        let id = recordings
            .first()
            .map_or_else(String::new, |first| first.id.short());
        let name = if kind == "auto" { "plot" } else { kind };
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

fn is(path: &Path, ending: &str) -> bool {
    path.extension()
        .is_some_and(|found| found.eq_ignore_ascii_case(ending))
}
