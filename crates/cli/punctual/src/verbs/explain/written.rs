//! Explanations written to a file: a page, a plot, or a trace for Perfetto or the Firefox Profiler.

use std::borrow::Cow;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use punctual_formats::{Export, ExportOptions, NoSamples};
use punctual_model::Outlier;
use punctual_report::document::{Block, Document, Figure, Section};
use punctual_report::plot::{self, Heading, Plot, PlotOptions};
use punctual_report::{OutlierTimeline, document, html};
use punctual_tracefile::Input;

use super::{Explain, foreign};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::extension;
use crate::output::{self, Output};
use crate::recordings::explained::Explained;
use crate::recordings::perfetto;

/// Maximum number of outliers that a page shows in detail, starting with the longest.
const DETAILED: usize = 20;

/// Scale factor of PNG files, the same as the default of `plot`.
const PIXELS: f32 = 2.0;

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Perfetto,
    Page,
    Svg,
    Png,
    Firefox,
}

const FORMS: [(Form, &str); 6] = [
    (Form::Page, "html"),
    (Form::Svg, "svg"),
    (Form::Png, "png"),
    (Form::Firefox, "json"),
    (Form::Perfetto, perfetto::EXTENSIONS[0]),
    (Form::Perfetto, perfetto::EXTENSIONS[1]),
];

/// Writes the explanations to the file at `path`, in the format given by its extension.
pub(super) fn write(options: &Explain, path: &Path, context: &Context) -> Result<Exit> {
    let extension = extension::extension_of(path);
    let form = FORMS.iter().find(|(_, known)| *known == extension);
    let Some((form, _)) = form else {
        let known = FORMS.map(|(_, extension)| extension);
        return Err(extension::unknown(path, &known).into());
    };
    match options.foreign.file() {
        Some(trace) if *form == Form::Perfetto => {
            if options.outlier.is_some() {
                let text = "--outlier applies only to a page or plot: a trace for Perfetto \
                    contains all outliers";
                return Err(UsageError(text.to_owned()).into());
            }
            convert(options, trace, path)?;
        }
        Some(trace) => {
            let explained = options
                .foreign
                .explain(trace, &options.application.selection()?)?;
            written(&Explained::read(explained), *form, options, path)?;
        }
        None if options.application.targets()?.is_some() => {
            let text = "--output applies only to recordings and traces: watch the application \
                first, then run punctual explain last --output FILE";
            return Err(UsageError(text.to_owned()).into());
        }
        None => {
            let explained = Explained::stored(&options.selected, context)?;
            written(&explained, *form, options, path)?;
        }
    }
    let place = match form {
        Form::Perfetto => "; open it at https://ui.perfetto.dev",
        Form::Firefox => "; open it at https://profiler.firefox.com",
        _ => "",
    };
    output::note(&format!("explanation written to {}{place}", path.display()));
    Ok(Exit::Done)
}

/// Writes the whole trace for Perfetto as it is read, followed by its outliers.
fn convert(options: &Explain, trace: &Path, path: &Path) -> Result<()> {
    let mut output = Output::open(path)?;
    let mut buffered = BufWriter::new(&mut output);
    let file = options.foreign.explained(trace)?;
    let mut reader = foreign::Foreign::open(file)?;
    let selection = options.application.selection()?;
    let request = (options.foreign).request(file, &selection)?;
    let between = request.wanted.between;
    let can_append = reader.head().takes_slices() && file == trace && trace != Path::new("-");
    if can_append && between.is_none() {
        let explained = (options.foreign).explain_with(reader.as_mut(), trace, &selection)?;
        let explanation = explained.recording.explanation.clone().unwrap_or_default();
        let outliers = explanation.outliers.iter();
        let window = |outlier: &Outlier| explained.windows.get(&outlier.number).cloned();
        let outliers: Vec<_> = outliers.map(|one| (one, window(one))).collect();
        let original = Input::path(trace)?;
        perfetto::append(original, &explained.recording, &outliers, &mut buffered)?;
        buffered
            .flush()
            .with_context(|| format!("cannot write {}", path.display()))?;
        drop(buffered);
        return Ok(output.finish()?);
    }
    let mut reader = perfetto::Converting::new(reader.as_mut(), &mut buffered, between);
    let explained = (options.foreign).explain_with(&mut reader, trace, &selection);
    if let Some(error) = reader.failed() {
        return Err(error).with_context(|| format!("cannot write {}", path.display()));
    }
    let explained = explained?;
    let explanation = explained.recording.explanation.clone().unwrap_or_default();
    reader.finish(&explained.recording, &explanation, |number| {
        explained.windows.get(&number).cloned()
    })?;
    buffered
        .flush()
        .with_context(|| format!("cannot write {}", path.display()))?;
    drop(buffered);
    Ok(output.finish()?)
}

fn written(explained: &Explained, form: Form, options: &Explain, path: &Path) -> Result<()> {
    let bytes = match form {
        Form::Perfetto => explained.to_perfetto(options.outlier)?,
        Form::Page => page(explained, options)?.into_bytes(),
        Form::Svg => drawn(&one(explained, options.outlier)?, Heading::Auto)?
            .svg()
            .into_bytes(),
        Form::Png => drawn(&one(explained, options.outlier)?, Heading::Auto)?.png(PIXELS)?,
        Form::Firefox => firefox(explained, options.outlier)?,
    };
    Ok(Output::open(path)?.put(&bytes)?)
}

/// Returns all outliers or one of them, for the Firefox Profiler.
fn firefox(explained: &Explained, only: Option<u64>) -> Result<Vec<u8>> {
    let mut recording = explained.recording.clone();
    if let (Some(number), Some(explanation)) = (only, &mut recording.explanation) {
        explained.one(number)?;
        explanation.outliers.retain(|one| one.number == number);
    }
    let mut bytes = Vec::new();
    let export = Export {
        recording: &recording,
        samples: &NoSamples,
        options: ExportOptions::default(),
    };
    (punctual_formats::format("firefox")?.write)(&export, &mut bytes)?;
    Ok(bytes)
}

/// Returns the outlier to draw: the chosen one, or the longest.
fn one(explained: &Explained, number: Option<u64>) -> Result<OutlierTimeline> {
    match number {
        Some(number) => explained.one(number),
        None => explained
            .largest()?
            .ok_or_else(|| UsageError("there is no outlier to draw".to_owned()).into()),
    }
}

fn drawn(timeline: &OutlierTimeline, heading: Heading) -> Result<Plot> {
    let options = PlotOptions {
        heading,
        ..PlotOptions::default()
    };
    Ok(plot::outlier(timeline, &options)?)
}

/// Returns a page with the summary and with details of the chosen outlier or the longest ones.
fn page(explained: &Explained, options: &Explain) -> Result<String> {
    let (recording, explanation) = (&explained.recording, &explained.explanation);
    let title = match &explanation.trace {
        Some(trace) => format!("Late reactions in {}", file_name(&trace.file)),
        None => format!("Outliers of {}", recording.headline()),
    };
    let mut documents = vec![Document {
        title: title.clone(),
        ..document::outliers(recording, explanation)
    }];
    let mut detailed: Vec<&Outlier> = explanation.outliers.iter().collect();
    detailed.sort_by_key(|outlier| outlier.order());
    let chosen = |number: u64| options.outlier.is_none_or(|chosen| chosen == number);
    if let Some(number) = options.outlier {
        explained.one(number)?;
    }
    detailed.retain(|outlier| chosen(outlier.number));
    for outlier in detailed.into_iter().take(DETAILED) {
        let Some(timeline) = explained.timeline(outlier.number)? else {
            continue;
        };
        documents.push(detail(&timeline, options.all_events)?);
    }
    Ok(html::page(&title, &documents))
}

/// Returns the name of a trace file without its folder. The text of the page already shows the
/// folder.
fn file_name(file: &str) -> Cow<'_, str> {
    match Path::new(file).file_name() {
        Some(_) if file == "-" => "standard input".into(),
        Some(name) => name.to_string_lossy(),
        None => file.into(),
    }
}

/// Returns one outlier with its plot.
fn detail(timeline: &OutlierTimeline, all: bool) -> Result<Document> {
    let figure = Figure {
        plot: drawn(timeline, Heading::None)?,
        caption: "Causes of the latency over time, and what ran on the CPUs involved.".to_owned(),
    };
    let mut detail = document::outlier(timeline, all);
    let first = detail.sections.len().min(1);
    let figure = Section::new(vec![Block::Figure(Box::new(figure))]);
    detail.sections.insert(first, figure);
    Ok(detail)
}
