//! Recordings as one HTML page that needs nothing else: no script, no font, no
//! picture from elsewhere. It can be mailed, archived and printed.

mod parts;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use punctual_model::{Chart, Checkup, Outcome, Recording};
use punctual_stats::Comparison;

use crate::checkup;
use crate::clean::clean;
use crate::figures;
use crate::plot::{self, Kind, PlotOptions};
use crate::text::ListRow;
use crate::{ReportError, Story};

const STYLE: &str = include_str!("style.css");

/// How the page is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HtmlOptions {
    /// The page's title; without, what was measured.
    pub title: Option<String>,
    /// How its plots are drawn. Their heading stands above them in the page,
    /// and `thread` does not apply: a page shows all threads.
    pub plot: PlotOptions,
    /// Explained outliers of these recordings that are drawn by time; usually
    /// the worst of each.
    pub stories: Vec<Story>,
    /// The recordings compared, or why they cannot be; `None`: not asked for.
    pub compared: Option<Result<Comparison, String>>,
    /// The check-up that the recordings were made for; it comes first.
    pub checkup: Option<Checkup>,
}

/// One page with all that is known of each recording: verdict and warnings,
/// plots, threads, worst samples, the probe's own tables, interference, the
/// observer's cost, how it was measured, and the machine with the source of
/// each fact. The first plot is the one that the probe asks for. Several
/// recordings get a table and plots of them all together first. Plots of bars
/// are made high enough for all of them.
///
/// # Errors
/// No recording; plots of a size that cannot be drawn.
pub fn render(recordings: &[Recording], options: &HtmlOptions) -> Result<String, ReportError> {
    let first = recordings.first().ok_or(ReportError::NoRecording)?;
    let plots = PlotOptions {
        heading: plot::Heading::None,
        thread: None,
        ..options.plot.clone()
    };
    let title = match (&options.title, recordings.len()) {
        (Some(title), _) => clean(title).into_owned(),
        (None, 1) => clean(&first.headline()).into_owned(),
        (None, several) => format!("{several} recordings"),
    };
    let together = match recordings {
        [_] => None,
        several => Some(overview(several, &plots)?),
    };
    let sections: Vec<Markup> = recordings
        .iter()
        .map(|recording| section(recording, &plots, &options.stories))
        .collect::<Result<_, _>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "punctual " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    @if recordings.len() > 1 || options.title.is_some() { h1 { (title) } }
                    @if let Some(checkup) = &options.checkup { (checkup::section(checkup)) }
                    @if let Some(together) = together { (together) }
                    @match &options.compared {
                        Some(Ok(comparison)) => (parts::comparison(comparison)),
                        Some(Err(why)) => p .faint { "Not compared: " (clean(why)) },
                        None => {},
                    }
                    @for section in &sections { (section) }
                }
                footer {
                    "Times are UTC. A " b { "-" } " stands for a percentile that the number of samples does not support, and for what is not known."
                }
            }
        }
    };
    Ok(page.into_string())
}

/// A plot in a figure. What [`plot::Plot::svg`] returns is markup of our own
/// with all texts in it escaped.
fn figure(plot: &plot::Plot, caption: &str) -> Markup {
    html! {
        figure {
            (PreEscaped(plot.svg()))
            figcaption { (caption) }
        }
    }
}

/// What each verdict looks like.
pub(crate) fn badge(outcome: Outcome) -> Markup {
    let (class, word) = match outcome {
        Outcome::Held => ("held", "✓ held"),
        Outcome::Broken => ("broken", "✗ broken"),
        Outcome::NotProven => ("not-proven", "? not proven"),
        Outcome::NoRequirement => ("none", "measured"),
    };
    html! { span class={ "badge " (class) } { (word) } }
}

fn overview(recordings: &[Recording], plots: &PlotOptions) -> Result<Markup, ReportError> {
    let all: Vec<&Recording> = recordings.iter().collect();
    let plots = together(recordings, plots)?;
    let rows: Vec<(String, ListRow)> = all
        .iter()
        .map(|recording| (format!("#r{}", recording.id), ListRow::from(*recording)))
        .collect();
    Ok(html! {
        div class="wide" { table {
            thead { tr {
                th { "recording" } th { "started" } th { "measured" } th { "label" }
                th .n { "missed" } th .n { "max" } th { "verdict" }
            } }
            tbody { @for (anchor, row) in &rows { tr {
                td { a href=(anchor) { (row.id) } }
                td { (row.started.map_or("-".to_owned(), |time| figures::wall(time, 0))) }
                td { (clean(&row.headline)) }
                td { (clean(row.label.as_deref().unwrap_or_default())) }
                td .n { (figures::count_or_dash(row.missed)) }
                td .n { (figures::or_dash(row.max)) }
                td { (badge(row.outcome)) }
            } } }
        } }
        (plots)
    })
}

/// The plots of several recordings; those without latencies have none.
fn together(recordings: &[Recording], plots: &PlotOptions) -> Result<Markup, ReportError> {
    let measured: Vec<&Recording> = recordings
        .iter()
        .filter(|recording| Kind::Latency.shows(recording, None))
        .collect();
    if measured.is_empty() {
        return Ok(html! {});
    }
    let bars = measured.iter().all(|r| r.probe.chart == Chart::Bars);
    let (first, caption) = match bars {
        true => (
            plot::bars(&measured, &high_enough(plots, &measured))?,
            "Latency of all recordings: bars end at the median, lines at p99; dots mark the maxima.",
        ),
        false => (
            plot::latency(&measured, plots)?,
            "Latency of all recordings, their threads together.",
        ),
    };
    let percentiles = plot::percentiles(&measured, plots)?;
    Ok(html! {
        (figure(&first, caption))
        (figure(&percentiles, "Percentiles of all recordings, their threads together."))
    })
}

/// The options with room for each bar: a page may be as long as it needs.
fn high_enough(plots: &PlotOptions, recordings: &[&Recording]) -> PlotOptions {
    let most = recordings.iter().map(|r| r.threads.len()).max();
    let each = 16 + 6 * recordings.len();
    let needed = most.unwrap_or(0).saturating_mul(each).saturating_add(130);
    let needed = u32::try_from(needed).unwrap_or(u32::MAX).min(8_000);
    PlotOptions {
        height: plots.height.max(needed),
        ..plots.clone()
    }
}

/// The plots of one recording, the one its probe asks for first, and the table
/// of its threads; no plot that would be empty, nothing for a probe that found
/// only tables.
fn latencies(recording: &Recording, plots: &PlotOptions) -> Result<Markup, ReportError> {
    if recording.threads.is_empty() {
        return Ok(html! {});
    }
    let first = match recording.probe.chart {
        Chart::Latency => Kind::Latency,
        Chart::Matrix => Kind::Matrix,
        Chart::Bars => Kind::Bars,
    };
    let drawn = |kind: Kind| -> Result<Markup, ReportError> {
        if !kind.shows(recording, None) {
            return Ok(html! {});
        }
        let (plot, caption) = match kind {
            Kind::Latency => (
                plot::latency(&[recording], plots)?,
                "Samples by latency, on a log scale; the floor means none. Dots mark the maxima.",
            ),
            Kind::Matrix => (
                plot::matrix(recording, plots)?,
                "Median latency from each CPU to each CPU; the darker, the later.",
            ),
            Kind::Bars => (
                plot::bars(&[recording], &high_enough(plots, &[recording]))?,
                "Bars end at the median, lines at p99; dots mark the maxima.",
            ),
            Kind::Percentiles => (
                plot::percentiles(&[recording], plots)?,
                "Latency by percentile; each curve ends where its samples do.",
            ),
            Kind::Timeline => (
                plot::timeline(recording, plots)?,
                "Latency over time, all threads together.",
            ),
        };
        Ok(figure(&plot, caption))
    };
    Ok(html! {
        h2 { "Latency" }
        (drawn(first)?)
        (parts::threads(recording))
        (drawn(Kind::Percentiles)?)
        @if !recording.series.rows.is_empty() { (drawn(Kind::Timeline)?) }
    })
}

/// The explained outliers that are drawn, and how many there were.
fn outliers(
    recording: &Recording,
    plots: &PlotOptions,
    stories: &[Story],
) -> Result<Markup, ReportError> {
    let Some(explanation) = &recording.explanation else {
        return Ok(html! {});
    };
    let own = stories
        .iter()
        .filter(|story| story.recording == recording.id);
    let drawn: Vec<(plot::Plot, String)> = own
        .map(|story| {
            let caption = format!(
                "Outlier {}: {}",
                story.outlier.number, story.outlier.blame.sentence
            );
            Ok((plot::story(story, plots)?, clean(&caption).into_owned()))
        })
        .collect::<Result<_, ReportError>>()?;
    Ok(html! {
        h2 { "Outliers" }
        p { (figures::explained_text(explanation)) "." }
        @for (plot, caption) in &drawn { (figure(plot, caption)) }
    })
}

fn section(
    recording: &Recording,
    plots: &PlotOptions,
    stories: &[Story],
) -> Result<Markup, ReportError> {
    let drawn = outliers(recording, plots, stories)?;
    let latencies = latencies(recording, plots)?;
    let warnings = figures::warnings(recording);
    Ok(html! {
        section id={ "r" (recording.id) } {
            header {
                h1 { (clean(&recording.headline())) }
                @if let Some(label) = &recording.label { p .label { (clean(label)) } }
                p .faint {
                    (figures::host_line(recording)) " · " (figures::started(recording, 0))
                    " · " (figures::duration(recording)) " · " (recording.completion)
                }
            }
            p .verdict { (badge(recording.verdict.outcome)) " " (clean(&recording.verdict.sentence)) }
            @if let Some(bound) = recording.verdict.confidence() { p .faint { (clean(&bound)) "." } }
            @if !warnings.is_empty() {
                ul .warnings { @for warning in &warnings { li { (warning) } } }
            }
            (parts::limits(recording))
            (latencies)
            (parts::worst(recording))
            (drawn)
            (parts::findings(recording))
            (parts::interference(recording))
            (parts::observer(recording))
            (parts::run(recording))
            (parts::host(recording))
        }
    })
}
