//! Documents as one self-contained HTML page without scripts, fonts or external images, for mail,
//! archives and print.

mod parts;

use maud::{DOCTYPE, PreEscaped, html};
use punctual_model::{Chart, Recording};
use punctual_stats::{CompareError, Comparison};

use crate::document::{self, Block, Document, Figure, Figures, ListRow, Section};
use crate::plot::{self, Kind, Plot, PlotOptions};
use crate::sanitize::sanitize;
use crate::{OutlierTimeline, ReportError};

/// The style sheet of a page: light and dark, for screen and print.
pub const STYLE: &str = include_str!("style.css");

/// Options of an HTML page.
#[derive(Clone, Debug, Default)]
pub struct HtmlOptions {
    /// The title of the page. The default names what was measured.
    pub title: Option<String>,
    /// How plots are drawn. The page itself shows the heading above each plot, and it ignores
    /// `thread` because it shows all threads.
    pub plot: PlotOptions,
    /// Explained outliers to draw over time, usually the longest one of each recording.
    pub outliers: Vec<OutlierTimeline>,
    /// The comparison of the recordings, or why they cannot be compared. `None` if no comparison
    /// was requested.
    pub compared: Option<Result<Comparison, CompareError>>,
    /// Documents to show before the recordings, such as the check-up that they belong to.
    pub first: Vec<Document>,
}

/// Returns one page with everything known about each recording
/// ([`document::recording`](fn@document::recording)) and its plots, beginning with the plot that
/// suits the probe. If there are several recordings, a table and plots of all of them come first.
/// Bar plots are made tall enough for all bars.
///
/// # Errors
/// Returns an error if `recordings` is empty, or if a plot cannot be drawn at the given size.
pub fn render(recordings: &[Recording], options: &HtmlOptions) -> Result<String, ReportError> {
    let (title, documents) = documents(recordings, options)?;
    Ok(page(&title, &documents))
}

/// Returns the documents that [`render`] would show, and the title of the page.
///
/// # Errors
/// Same as [`render`].
pub fn documents(
    recordings: &[Recording],
    options: &HtmlOptions,
) -> Result<(String, Vec<Document>), ReportError> {
    let first = recordings.first().ok_or(ReportError::NoRecording)?;
    let several = recordings.len() > 1;
    let title = match &options.title {
        Some(title) => title.clone(),
        None if several => format!("{} recordings", recordings.len()),
        None => first.headline(),
    };
    let mut documents = options.first.clone();
    // The first document already shows the title.
    if several || (options.title.is_some() && options.first.is_empty()) {
        let heading = if options.first.is_empty() {
            title.as_str()
        } else {
            "Recordings"
        };
        documents.push(overview(recordings, heading, options)?);
    }
    if let Some(Ok(comparison)) = &options.compared {
        documents.push(document::comparison(comparison));
    }
    for recording in recordings {
        let figures = figures(recording, options)?;
        documents.push(document::with_figures(recording, figures));
    }
    Ok((title, documents))
}

/// Returns an overview of several recordings: a table and plots of all of them, and their
/// comparison if there is one. It does not show the individual recordings.
///
/// # Errors
/// Same as [`render`].
pub fn overlaid(
    recordings: &[Recording],
    options: &HtmlOptions,
) -> Result<Vec<Document>, ReportError> {
    let mut documents = vec![overview(recordings, "", options)?];
    if let Some(Ok(comparison)) = &options.compared {
        documents.push(document::comparison(comparison));
    }
    Ok(documents)
}

/// Returns documents as part of a page that already has a head and [`STYLE`]. They contain no
/// inline styles, which a strict Content-Security-Policy forbids.
pub fn fragment(documents: &[Document]) -> String {
    let parts = html! { @for one in documents { (parts::document(one, true)) } };
    parts.into_string()
}

/// Returns documents as one page, one below the other.
pub fn page(title: &str, documents: &[Document]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "punctual " (env!("CARGO_PKG_VERSION")) };
                title { (sanitize(title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { @for one in documents { (parts::document(one, true)) } }
                footer {
                    "Times are UTC. A " b { "-" } " marks unknown values, and percentiles that \
                        need more samples."
                }
            }
        }
    };
    page.into_string()
}

/// Returns the part of the page that covers several recordings together.
fn overview(
    recordings: &[Recording],
    title: &str,
    options: &HtmlOptions,
) -> Result<Document, ReportError> {
    let mut blocks = Vec::new();
    if recordings.len() > 1 {
        let rows: Vec<ListRow> = recordings.iter().map(ListRow::from).collect();
        let list = document::list(&rows);
        blocks.extend(list.sections.into_iter().flat_map(|section| section.blocks));
        blocks.extend(together(recordings, &plain(&options.plot))?);
    }
    if let Some(Err(why)) = &options.compared {
        blocks.push(Block::faint(format!("Not compared: {why}")));
    }
    Ok(Document {
        title: title.to_owned(),
        sections: vec![Section::new(blocks)],
        ..Document::default()
    })
}

/// Returns the plots of several recordings. Recordings without latencies are left out.
fn together(recordings: &[Recording], plots: &PlotOptions) -> Result<Vec<Block>, ReportError> {
    let measured: Vec<&Recording> = recordings
        .iter()
        .filter(|recording| Kind::Latency.shows(recording, None))
        .collect();
    if measured.is_empty() {
        return Ok(Vec::new());
    }
    let bars = measured.iter().all(|r| r.probe.chart == Chart::Bars);
    let (what, _) = plot::quantity_of(&measured);
    let first = if bars {
        figure(
            plot::bars(&measured, &high_enough(plots, &measured))?,
            &format!(
                "{what} of all recordings: bars end at the median, lines at p99; dots mark the \
                 maxima."
            ),
        )
    } else {
        figure(
            plot::latency(&measured, plots)?,
            &format!("{what} of all recordings, with their threads combined."),
        )
    };
    let percentiles = figure(
        plot::percentiles(&measured, plots)?,
        "Percentiles of all recordings, with their threads combined.",
    );
    let blocks = [first, percentiles].map(|figure| Block::Figure(Box::new(figure)));
    Ok(blocks.into())
}

fn figure(plot: Plot, caption: &str) -> Figure {
    Figure {
        plot,
        caption: caption.to_owned(),
    }
}

/// Returns the options with a height that is enough for all bars, because a page may be as long as
/// necessary.
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

/// Returns the plots of one recording, beginning with the one that suits its probe. Empty plots are
/// left out, so a probe that records only tables has none.
fn figures(recording: &Recording, options: &HtmlOptions) -> Result<Figures, ReportError> {
    let plots = plain(&options.plot);
    let draw = |kind: Kind| {
        if kind.shows(recording, None) {
            draw(kind, recording, &plots).map(Some)
        } else {
            Ok(None)
        }
    };
    let first = match recording.probe.chart {
        Chart::Latency => Kind::Latency,
        Chart::Matrix => Kind::Matrix,
        Chart::Bars => Kind::Bars,
    };
    let timeline = if recording.series.rows.is_empty() {
        None
    } else {
        draw(Kind::Timeline)?
    };
    let own = (options.outliers.iter()).filter(|outlier| outlier.recording == recording.id);
    let outliers = own.map(|one| {
        let (number, sentence) = (one.outlier.number, one.outlier.blame.sentence());
        let caption = format!("Outlier {number}: {sentence}");
        let drawn = figure(plot::outlier(one, &plots)?, &caption);
        let mut blocks = vec![Block::Figure(Box::new(drawn))];
        blocks.extend(document::stacks_of(one));
        Ok(blocks)
    });
    Ok(Figures {
        first: draw(first)?,
        others: (draw(Kind::Percentiles)?.into_iter().chain(timeline)).collect(),
        outliers: outliers.collect::<Result<_, ReportError>>()?,
    })
}

fn draw(kind: Kind, recording: &Recording, plots: &PlotOptions) -> Result<Figure, ReportError> {
    let (heading, what) = plot::quantity_of(&[recording]);
    Ok(match kind {
        Kind::Latency => figure(
            plot::latency(&[recording], plots)?,
            &format!(
                "Number of samples by {what}, on a log scale. The curve is on the axis if there \
                 are no samples. Dots mark the maxima."
            ),
        ),
        Kind::Matrix => figure(
            plot::matrix(recording, plots)?,
            "Median latency from each CPU to each CPU; a darker square is a longer latency.",
        ),
        Kind::Bars => figure(
            plot::bars(&[recording], &high_enough(plots, &[recording]))?,
            "Bars end at the median, lines at p99; dots mark the maxima.",
        ),
        Kind::Percentiles => figure(
            plot::percentiles(&[recording], plots)?,
            &format!(
                "{heading} by percentile. Each curve ends at the largest percentile that its \
                 samples allow."
            ),
        ),
        Kind::Timeline => figure(
            plot::timeline(recording, plots)?,
            &format!("{heading} over time, all threads combined."),
        ),
    })
}

/// Returns the options for a plot in a page. The page shows the heading itself, and the plot shows
/// all threads.
fn plain(plots: &PlotOptions) -> PlotOptions {
    PlotOptions {
        heading: plot::Heading::None,
        thread: None,
        ..plots.clone()
    }
}
