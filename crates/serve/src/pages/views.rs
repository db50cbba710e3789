//! The pictures of a series: drawn here, and replaced by ones that move where a browser
//! runs the script.

use maud::{Markup, PreEscaped, html};
use punctual_report::ReportError;
use punctual_report::plot::{self, Heading, LongTerm, Plot, PlotOptions};
use punctual_stats::trend::{Group, Run, Trend};

use crate::look::Look;

type Draw = fn(&LongTerm<'_>, &PlotOptions) -> Result<Plot, ReportError>;

/// Name, height and caption of each.
const VIEWS: [(&str, u32, &str, Draw); 3] = [
    (
        "trend",
        460,
        "Figures of each run; lines at change points.",
        plot::trend,
    ),
    (
        "surface",
        560,
        "Latency by run, the oldest at the back.",
        plot::surface,
    ),
    (
        "heatmap",
        460,
        "Periods by time and latency; grey: no run.",
        plot::heatmap,
    ),
];

/// The pictures of each group.
///
/// # Errors
/// A picture that cannot be drawn.
pub(super) fn all(look: &Look, trend: &Trend, runs: &[Run]) -> Result<Markup, ReportError> {
    let groups: Vec<(usize, &Group)> = trend.groups.iter().enumerate().collect();
    let drawn: Vec<Markup> = (groups.into_iter())
        .map(|(place, group)| of_group(look, trend, (place, group), runs))
        .collect::<Result<_, _>>()?;
    Ok(html! { @for group in drawn { (group) } })
}

fn of_group(
    look: &Look,
    trend: &Trend,
    (place, group): (usize, &Group),
    runs: &[Run],
) -> Result<Markup, ReportError> {
    let own = group.pick(runs);
    let of = LongTerm::of(trend, group, &own);
    let source = format!("/v1/longterm?{}&group={place}", look.query());
    let mut figures = Vec::new();
    for (name, height, caption, draw) in VIEWS {
        let options = PlotOptions {
            heading: Heading::None,
            height,
            ..PlotOptions::default()
        };
        let svg = super::plain_svg(&draw(&of, &options)?);
        figures.push(html! {
            figure .moves data-view=(name) data-group=(place) data-source=(source) {
                // All texts in what `Plot::svg` returns are escaped.
                div .still { (PreEscaped(svg)) }
                figcaption { (caption) }
            }
        });
    }
    Ok(html! {
        h2 { (punctual_model::sanitize(&group.name())) }
        @for figure in figures { (figure) }
    })
}
