//! Two recordings compared: what `compare` prints.

use punctual_model::{SignedNanos, grouped};
use punctual_stats::{
    Change, Comparison, Difference, Estimate, Lane, Quantile, Rate, RateOfSide, Side,
};

use super::page::Page;
use super::table::Column;
use super::{TextStyle, Tone, wrap};
use crate::clean::{clean, shorten};
use crate::figures;

/// A value that is longer than this is shown by what differs in it.
const LONG: usize = 48;
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
    for line in wrap(&clean(&comparison.summary), style.columns()) {
        let line = style.paint(tone, &line);
        page.line(&line);
    }
    page.line("");
    side(&mut page, "baseline", &comparison.baseline);
    side(&mut page, "candidate", &comparison.candidate);
    differences(&mut page, comparison);
    for lane in &comparison.lanes {
        page.line("");
        figures_of(&mut page, lane);
    }
    page.line("");
    worth(&mut page, comparison);
    page.out
}

fn side(page: &mut Page, name: &str, side: &Side) {
    let id = &side.id[side.id.len().saturating_sub(8)..];
    let mut parts = vec![clean(id).into_owned()];
    if let Some(label) = &side.label {
        parts.push(format!("'{}'", shorten(&clean(label), 32)));
    }
    parts.push(clean(&side.headline).into_owned());
    parts.push(match side.started {
        Some(started) => figures::wall(started, 0),
        None => "time unknown".to_owned(),
    });
    parts.extend(side.duration_ns.map(|ns| ns.to_string()));
    parts.push(format!("{} samples", grouped(side.recorded)));
    page.named(name, Tone::Plain, &parts.join(", "));
}

/// What the reader must know before the figures.
fn differences(page: &mut Page, comparison: &Comparison) {
    let mut first = true;
    for one in &comparison.measured_differently {
        let name = if first { "measured" } else { "" };
        page.named(name, Tone::Warning, &format!("! {}", apart(one)));
        first = false;
    }
    for caution in &comparison.cautions {
        page.named("", Tone::Warning, &format!("! {}", clean(caution)));
    }
    let mut first = true;
    for one in &comparison.machine {
        let name = if first { "machine" } else { "" };
        page.named(name, Tone::Plain, &apart(one));
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

/// `interval: 1.00 ms -> 200 µs`; of long lists of words only those that differ.
fn apart(difference: &Difference) -> String {
    let (a, b) = (clean(&difference.baseline), clean(&difference.candidate));
    let what = clean(&difference.what).replace('_', " ");
    if a.chars().count().max(b.chars().count()) <= LONG {
        return format!("{what}: {} -> {}", or_none(&a), or_none(&b));
    }
    let only = |mine: &str, theirs: &str| {
        let theirs: Vec<&str> = theirs.split_whitespace().collect();
        let only: Vec<&str> = (mine.split_whitespace())
            .filter(|word| !theirs.contains(word))
            .collect();
        only.join(" ")
    };
    match (only(&a, &b), only(&b, &a)) {
        (gone, new) if gone.is_empty() && new.is_empty() => {
            format!("{what}: the same words in another order")
        }
        (gone, new) if new.is_empty() => format!("{what}: without '{gone}'"),
        (gone, new) if gone.is_empty() => format!("{what}: with '{new}'"),
        (gone, new) => format!("{what}: without '{gone}', with '{new}'"),
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn figures_of(page: &mut Page, lane: &Lane) {
    if let Some(title) = &lane.title {
        let title = page.style.paint(Tone::Heading, &clean(title));
        page.line(&title);
    }
    let columns = [
        Column::left("", 0),
        Column::right("baseline", 0),
        Column::right("candidate", 0),
        Column::right("difference", 0),
        Column::left("95% interval", 0),
        Column::right("ratio", 2),
        Column::left("change", 0),
        Column::right("p", 3),
    ];
    let mut rows: Vec<Vec<String>> = lane.quantiles.iter().map(quantile).collect();
    rows.extend((lane.rates.iter()).filter(|one| is_shown(one)).map(rate));
    page.table(&columns, rows, 0);
    for one in lane.rates.iter().filter(|one| is_shown(one)) {
        page.named("counts", Tone::Plain, &counted(one));
    }
    if let Some(probability) = lane.later.probability {
        let range = match (lane.later.low, lane.later.high) {
            (Some(low), Some(high)) => format!(" ({low:.3} to {high:.3})"),
            _ => String::new(),
        };
        let text = format!(
            "with probability {probability:.3}{range} a wake-up of the candidate is later than \
             one of the baseline; 0.5 where neither is"
        );
        page.named("later", Tone::Plain, &text);
    }
    for why in reasons(lane) {
        page.named("unknown", Tone::Warning, &why);
    }
}

/// Each reason why figures are not known, with those it is about.
fn reasons(lane: &Lane) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    let quantiles = lane.quantiles.iter().map(|one| (&one.name, &one.not_known));
    let rates =
        (lane.rates.iter().filter(|one| is_shown(one))).map(|one| (&one.what, &one.not_known));
    for (name, why) in quantiles.chain(rates) {
        let Some(why) = why.as_ref().filter(|why| !why.is_empty()) else {
            continue;
        };
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name.clone()),
            None => reasons.push((why.clone(), vec![name.clone()])),
        }
    }
    let said = reasons
        .into_iter()
        .map(|(why, names)| format!("{}: {}", clean(&names.join(", ")), clean(&why)));
    said.collect()
}

/// Whether a rate says anything.
fn is_shown(rate: &Rate) -> bool {
    let some = |side: Option<RateOfSide>| side.is_some_and(|side| side.count > 0);
    rate.from_ns.is_some() || some(rate.baseline) || some(rate.candidate)
}

fn quantile(one: &Quantile) -> Vec<String> {
    let interval = one.estimate.map_or_else(dash, |estimate| {
        let whole = |value: f64| signed(SignedNanos(value.round() as i64));
        let (low, high) = (estimate.difference_low, estimate.difference_high);
        format!("{} to {}", whole(low), whole(high))
    });
    vec![
        one.name.clone(),
        figures::or_dash(one.baseline_ns),
        figures::or_dash(one.candidate_ns),
        one.difference_ns.map_or_else(dash, signed),
        interval,
        one.ratio.map_or_else(dash, |ratio| format!("{ratio:.2}")),
        word(one.change, one.estimate, ["later", "earlier"]),
        p(one.estimate),
    ]
}

/// A rate, per million.
fn rate(one: &Rate) -> Vec<String> {
    let each =
        |side: Option<RateOfSide>| side.map_or_else(dash, |side| per_million(side.per_million));
    let difference =
        (one.baseline.zip(one.candidate)).map(|(a, b)| with_sign(b.per_million - a.per_million));
    let interval = one.estimate.map_or_else(dash, |estimate| {
        let (low, high) = (estimate.difference_low, estimate.difference_high);
        format!("{} to {}", with_sign(low), with_sign(high))
    });
    let ratio = (one.baseline.zip(one.candidate))
        .filter(|(a, _)| a.count > 0)
        .map(|(a, b)| b.per_million / a.per_million);
    vec![
        format!("{}, ppm", one.what),
        each(one.baseline),
        each(one.candidate),
        difference.unwrap_or_else(dash),
        interval,
        ratio.map_or_else(dash, |ratio| format!("{ratio:.2}")),
        word(one.change, one.estimate, ["more", "fewer"]),
        p(one.estimate),
    ]
}

/// `missed: baseline 3 of 60,000 (10.3 to 146 per million), candidate …`.
fn counted(one: &Rate) -> String {
    let side = |side: Option<RateOfSide>| {
        side.map_or_else(
            || "unknown".to_owned(),
            |side| {
                format!(
                    "{} of {} ({} to {} per million)",
                    grouped(side.count),
                    grouped(side.of),
                    per_million(side.low),
                    per_million(side.high)
                )
            },
        )
    };
    format!(
        "{}: baseline {}, candidate {}, each with 95% confidence if they come independently",
        one.what,
        side(one.baseline),
        side(one.candidate)
    )
}

fn dash() -> String {
    "-".to_owned()
}

fn signed(ns: SignedNanos) -> String {
    match ns.0 {
        1.. => format!("+{ns}"),
        _ => ns.to_string(),
    }
}

/// Three digits are enough.
fn per_million(value: f64) -> String {
    match value {
        value if value >= 99.95 => grouped(value.round() as u64),
        value if value >= 9.995 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        value => format!("{value:.2}"),
    }
}

fn with_sign(value: f64) -> String {
    let sign = match value {
        value if value > 0.0 => "+",
        value if value < 0.0 => "-",
        _ => "",
    };
    format!("{sign}{}", per_million(value.abs()))
}

fn word(change: Change, estimate: Option<Estimate>, [more, fewer]: [&str; 2]) -> String {
    match (change, estimate) {
        (Change::Worse, _) => more,
        (Change::Better, _) => fewer,
        (Change::NoneFound, _) => "none found",
        (Change::Unknown, _) => "unknown",
    }
    .to_owned()
}

fn p(estimate: Option<Estimate>) -> String {
    match estimate.map(|estimate| estimate.p_adjusted) {
        None => dash(),
        Some(p) if p < 0.001 => "<0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
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
    let blocks: Vec<[u64; 2]> = (comparison.lanes.iter())
        .filter_map(|lane| lane.blocks)
        .collect();
    let mut text = "maxima are not compared: two runs of one machine differ as much".to_owned();
    if let Some([a, b]) = blocks.first() {
        text.push_str(&format!(
            "; intervals are made of {a} and {b} stretches of the runs, drawn anew {} times \
             (seed {}); what is called a change holds for all lines together (p by Holm)",
            grouped(comparison.replicates),
            comparison.seed
        ));
    }
    page.named("note", Tone::Faint, &text);
}
