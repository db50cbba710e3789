//! Two recordings compared: what `compare` prints.

use punctual_stats::{Change, Comparison, Lane};

use super::page::Page;
use super::table::Column;
use super::{TextStyle, Tone, wrap};
use crate::clean::clean;
use crate::compared::{self, HEADINGS};

/// Of differences that are not known, so many are named.
const NOT_KNOWN: usize = 8;

/// A comparison in one screen: the answer in a sentence, both recordings, in what
/// they were measured differently, what differs of the machines, the figures.
///
/// A `-` stands where the samples do not support a figure. The interval of a
/// difference holds it with 95% confidence; what is called a change holds for all
/// lines together.
pub fn comparison(comparison: &Comparison, style: &TextStyle) -> String {
    let mut page = Page::new(*style);
    let tone = match comparison.change {
        Change::Worse => Tone::Bad,
        Change::Better => Tone::Good,
        Change::NoneFound => Tone::Heading,
        Change::Unknown => Tone::Warning,
    };
    let (all, some): (Vec<_>, Vec<_>) =
        (comparison.shortfalls.iter()).partition(|one| one.figures.is_empty());
    let mut wrapped = |tone: Tone, text: &str| {
        for line in wrap(text, style.columns()) {
            let line = style.paint(tone, &line);
            page.line(&line);
        }
    };
    for one in all {
        wrapped(Tone::Warning, &compared::shortfall(one));
    }
    wrapped(tone, &clean(&comparison.summary));
    for one in some {
        wrapped(Tone::Faint, &compared::shortfall(one));
    }
    page.line("");
    page.named(
        "baseline",
        Tone::Plain,
        &compared::side(&comparison.baseline),
    );
    page.named(
        "candidate",
        Tone::Plain,
        &compared::side(&comparison.candidate),
    );
    differences(&mut page, comparison);
    for lane in &comparison.lanes {
        page.line("");
        figures_of(&mut page, lane);
    }
    page.line("");
    worth(&mut page, comparison);
    page.out
}

/// What the reader must know before the figures.
fn differences(page: &mut Page, comparison: &Comparison) {
    let mut first = true;
    for one in &comparison.measured_differently {
        let name = if first { "measured" } else { "" };
        page.named(
            name,
            Tone::Warning,
            &format!("! {}", compared::difference(one)),
        );
        first = false;
    }
    for caution in &comparison.cautions {
        page.named("", Tone::Warning, &format!("! {}", clean(caution)));
    }
    let mut first = true;
    for one in &comparison.machine {
        let name = if first { "machine" } else { "" };
        page.named(name, Tone::Plain, &compared::difference(one));
        first = false;
    }
    let nothing = comparison.machine.is_empty() && !comparison.baseline.fingerprint.is_empty();
    if nothing && comparison.baseline.fingerprint == comparison.candidate.fingerprint {
        page.named("machine", Tone::Plain, "no difference");
    }
    let not_known = &comparison.not_known;
    if not_known.is_empty() {
        return;
    }
    let named: Vec<String> = (not_known.iter().take(NOT_KNOWN))
        .map(|name| clean(name).into_owned())
        .collect();
    let more = match not_known.len().saturating_sub(NOT_KNOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!("{}{more} (not of both)", named.join(", "));
    page.named("not known", Tone::Faint, &text);
}

fn figures_of(page: &mut Page, lane: &Lane) {
    if let Some(title) = &lane.title {
        let title = page.style.paint(Tone::Heading, &clean(title));
        page.line(&title);
    }
    // The ratio and p go before the table goes on below itself.
    let columns = [0, 0, 0, 0, 0, 2, 0, 3].into_iter().zip(HEADINGS);
    let columns: Vec<Column> = columns
        .map(|(drop, heading)| match heading {
            "" | "95% interval" | "change" => Column::left(heading, drop),
            _ => Column::right(heading, drop),
        })
        .collect();
    page.wide_table(&columns, compared::rows(lane));
    for one in lane.rates.iter().filter(|one| compared::is_shown(one)) {
        page.named("counts", Tone::Plain, &compared::counted(one));
    }
    if let Some(text) = compared::later(lane) {
        page.named("later", Tone::Plain, &text);
    }
}

/// What the figures are worth.
fn worth(page: &mut Page, comparison: &Comparison) {
    for (name, side) in [("max", &comparison.baseline), ("", &comparison.candidate)] {
        let which = if name.is_empty() {
            "candidate"
        } else {
            "baseline"
        };
        let text = match (side.max_ns, &side.bound) {
            (Some(max), Some(bound)) => format!("{which} {max}: {}", bound.sentence()),
            (Some(max), _) => format!("{which} {max}"),
            (None, _) => format!("{which} unknown"),
        };
        page.named(name, Tone::Plain, &text);
    }
    page.named("note", Tone::Faint, &compared::method(comparison));
}
