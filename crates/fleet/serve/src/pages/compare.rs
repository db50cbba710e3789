//! A comparison of recordings, possibly from different machines, in a plot of any kind.

use axum::extract::{RawQuery, State};
use axum::response::Html;
use maud::{Markup, PreEscaped, html};
use punctual_model::{Fact, Nanos, Recording, RecordingId, sanitize};
use punctual_report::document;
use punctual_report::html::{HtmlOptions, overlaid};
use punctual_report::plot::{self, Kind, Plot, PlotOptions, Scale};
use punctual_stats::trend::facts_differ;
use punctual_stats::{CompareError, Options, compare_runs};

use super::{frame, shown};
use crate::paths::{decoded, recording_path};
use crate::problem::Problem;
use crate::state::{App, Inner};

/// Maximum number of recordings in one plot.
const MOST: usize = 12;
/// The kinds of plots that can show several recordings.
const KINDS: [Kind; 3] = [Kind::Latency, Kind::Percentiles, Kind::Bars];
const SCALES: [(Scale, &str); 3] = [
    (Scale::Auto, "auto"),
    (Scale::Linear, "linear"),
    (Scale::Log, "log"),
];

/// The recordings to compare, and how to plot them.
#[derive(Default)]
struct PageQuery {
    /// IDs of recordings, or names of machines, which stand for their newest recording.
    ids: Vec<String>,
    machines: Vec<String>,
    plot: String,
    scale: String,
    /// The end of the latency axis.
    up_to: String,
}

impl PageQuery {
    /// Parses the values of a query, in order.
    fn from_query(query: Option<&str>) -> Self {
        let mut asked = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            let Some((name, value)) = pair.split_once('=') else {
                continue;
            };
            let value = decoded(value);
            match name {
                _ if value.is_empty() => {}
                "id" => asked.ids.push(value),
                "machine" => asked.machines.push(value),
                "plot" => asked.plot = value,
                "scale" => asked.scale = value,
                "up_to" => asked.up_to = value,
                _ => {}
            }
        }
        asked
    }

    /// Returns the requested plot, if any.
    fn picture(&self, recordings: &[&Recording]) -> Result<Option<Plot>, Problem> {
        let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == self.plot) else {
            return Ok(None);
        };
        let x_max = match self.up_to.trim() {
            "" => None,
            text => Some(
                text.parse::<Nanos>()
                    .map_err(|error| Problem::bad_request(error.to_string()))?,
            ),
        };
        let scale = SCALES.iter().find(|(_, name)| *name == self.scale);
        let options = PlotOptions {
            latency_scale: scale.map_or(Scale::Auto, |(scale, _)| *scale),
            x_max: x_max.filter(|_| kind.has_x_max()),
            width: 1_000,
            ..PlotOptions::default()
        };
        let drawn = match kind {
            Kind::Percentiles => plot::percentiles(recordings, &options),
            Kind::Bars => plot::bars(recordings, &options),
            _ => plot::latency(recordings, &options),
        };
        drawn.map(Some).map_err(|error| super::cannot_draw(&error))
    }
}

pub(super) async fn get(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, Problem> {
    let asked = PageQuery::from_query(query.as_deref());
    if asked.ids.len() + asked.machines.len() > MOST {
        return Err(Problem::bad_request(format!(
            "choose at most {MOST} recordings"
        )));
    }
    let body = app
        .work(move |app| {
            let recordings = load(app, &asked)?;
            let shown = match recordings.as_slice() {
                [] | [_] => html! {
                    p { "Select at least two items: enter IDs of recordings or names of machines, \
                        or select recordings in the list." }
                },
                _ => compared(&asked, &recordings)?,
            };
            Ok(html! { h1 { "Compare" } (form(&asked)) (shown) })
        })
        .await?;
    Ok(frame(&app, "Compare", "/compare", &body))
}

fn load(app: &Inner, asked: &PageQuery) -> Result<Vec<Recording>, Problem> {
    let mut recordings = Vec::new();
    for id in &asked.ids {
        let id = app.collection.find(id)?;
        recordings.push(named(app, id)?);
    }
    for name in &asked.machines {
        let newest = app.collection.list(&punctual_store::Wanted {
            machine: Some(name.clone()),
            most: 1,
            ..punctual_store::Wanted::default()
        })?;
        let newest = newest.first().ok_or_else(|| {
            let name = sanitize(name);
            Problem::not_found(format!("no recording of a machine '{name}'"))
        })?;
        recordings.push(named(app, newest.summary.id)?);
    }
    Ok(recordings)
}

/// Loads a recording with the name of its machine in the collector, which names it in plots.
fn named(app: &Inner, id: RecordingId) -> Result<Recording, Problem> {
    let (machine, mut recording) = app.collection.load(id)?;
    if !machine.is_empty() {
        recording.host.hostname = Fact::known(machine, "the collector");
    }
    Ok(recording)
}

fn form(asked: &PageQuery) -> Markup {
    let field = |name: &str, title: &str, value: &str, size: &str| {
        html! { label { (title) " " input name=(name) value=(sanitize(value)) size=(size); } }
    };
    html! {
        form .filter method="get" action="/compare" {
            @for (place, id) in asked.ids.iter().enumerate() {
                (field("id", if place == 0 { "Baseline" } else { "Recording" }, id, "36"))
            }
            @for name in &asked.machines { (field("machine", "Machine", name, "20")) }
            (field("id", "Add recording", "", "36"))
            (field("machine", "or newest of machine", "", "20"))
            label { "Plot "
                select name="plot" {
                    option value="" { "all usual" }
                    @for kind in KINDS {
                        option value=(kind.name()) selected[kind.name() == asked.plot] { (kind.name()) }
                    }
                }
            }
            label { "Scale "
                select name="scale" { @for (_, name) in SCALES {
                    option value=(name) selected[name == asked.scale] { (name) }
                } }
            }
            (field("up_to", "Up to", &asked.up_to, "8"))
            button { "Compare" }
        }
    }
}

/// Returns plots and a table of all recordings. Two recordings are also judged, and their facts are
/// compared.
fn compared(asked: &PageQuery, recordings: &[Recording]) -> Result<Markup, Problem> {
    let judged = match recordings {
        [baseline, candidate] => Some(compare_runs(&[baseline], &[candidate], &Options::default())),
        _ => None,
    };
    let why_not = judged
        .as_ref()
        .and_then(|judged| judged.as_ref().err().map(CompareError::to_string));
    let options = HtmlOptions {
        compared: judged,
        ..HtmlOptions::default()
    };
    let mut documents =
        overlaid(recordings, &options).map_err(|error| super::cannot_draw(&error))?;
    if let Some((first, others)) = recordings.split_first() {
        let differ = others.iter().map(|other| facts_differ(first, other));
        documents.extend(differ.map(|differ| document::facts_differ(&differ)));
    }
    let own: Vec<&Recording> = recordings.iter().collect();
    let picture = asked.picture(&own)?;
    Ok(html! {
        @if let Some(picture) = &picture { figure {
            // `Plot::svg` returns escaped texts only.
            (PreEscaped(super::plain_svg(picture)))
        } }
        @if let Some(why) = why_not { p .warn { "Not judged: " (sanitize(&why)) } }
        p { "Recordings: "
            @for (place, one) in recordings.iter().enumerate() {
                @if place > 0 { ", " }
                a href=(recording_path(one.id)) { (one.id.short()) }
                @if let Some(host) = one.host.hostname.get() { " (" (sanitize(host)) ")" }
            }
        }
        (shown(&documents))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_in_order() {
        let asked =
            PageQuery::from_query(Some("id=a&x=1&id=&id=b&machine=c%20d&plot=bars&up_to=1+ms"));
        assert_eq!(asked.ids, ["a", "b"]);
        assert_eq!(asked.machines, ["c d"]);
        assert_eq!(
            (asked.plot.as_str(), asked.up_to.as_str()),
            ("bars", "1 ms")
        );
        assert!(PageQuery::from_query(None).ids.is_empty());
    }
}
