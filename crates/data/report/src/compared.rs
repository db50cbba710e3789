//! Texts and table cells of a comparison, shared by all output formats.

use punctual_model::{SignedNanos, grouped};
use punctual_stats::{
    Change, Channel, Comparison, Difference, Estimate, Quantile, Rate, RateOfSide, Shortfall, Side,
    Unit,
};

use crate::figures;
use crate::sanitize::shorten;

/// Longer values are reduced to the words that differ.
const LONG: usize = 48;

/// The column headings for [`rows`].
pub(crate) const HEADINGS: [&str; 8] = [
    "",
    "baseline",
    "candidate",
    "difference",
    "95% interval",
    "ratio",
    "change",
    "p",
];

/// Returns one row for each figure of a channel.
pub(crate) fn rows(channel: &Channel) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = channel.quantiles.iter().map(quantile).collect();
    rows.extend((channel.rates.iter()).filter(|one| is_shown(one)).map(rate));
    rows
}

/// Returns a one-line description of one side: its ID or runs, its label, what was measured, when,
/// and for how long.
pub(crate) fn side(side: &Side) -> String {
    let short = |id: &String| id[id.len().saturating_sub(8)..].to_owned();
    let mut parts = match side.runs.as_slice() {
        [] => vec![short(&side.id)],
        several => {
            let ids: Vec<String> = several.iter().map(short).collect();
            vec![format!("{} runs ({})", several.len(), ids.join(" "))]
        }
    };
    if let Some(label) = &side.label {
        parts.push(format!("'{}'", shorten(label, 32)));
    }
    parts.push(side.headline.clone());
    parts.push(match side.started {
        Some(started) => figures::wall(started, 0),
        None => "time unknown".to_owned(),
    });
    parts.extend(side.duration_ns.map(|ns| ns.to_string()));
    parts.push(punctual_model::counted(side.recorded, "sample", "samples"));
    parts.push(match side.tune.as_deref() {
        None => "tune unknown".to_owned(),
        Some(punctual_model::Recording::NO_TUNE) => "no tune".to_owned(),
        Some(tune) => format!("tune in force: {}", tune),
    });
    parts.join(", ")
}

/// Returns why a run is too short for some figures, and how long a run would have to be for them.
pub(crate) fn shortfall(one: &Shortfall) -> String {
    let figures = if one.figures.is_empty() {
        String::new()
    } else {
        format!("{}: ", one.figures.join(", "))
    };
    let length = match one.measure_ns {
        Some(length) => format!("; measure {length} or longer"),
        None => String::new(),
    };
    format!("{figures}{}{length}", one.why)
}

/// Returns the probability that a candidate wake-up is later than a baseline one, or `None` without
/// samples.
pub(crate) fn later(channel: &Channel) -> Option<String> {
    let probability = channel.later.probability?;
    let range = match (channel.later.low, channel.later.high) {
        (Some(low), Some(high)) => format!(" ({low:.3} to {high:.3})"),
        _ => String::new(),
    };
    Some(format!(
        "a candidate wake-up is later than a baseline wake-up with probability \
         {probability:.3}{range}; 0.5 means no difference"
    ))
}

/// Returns how the intervals and p values were computed.
pub(crate) fn method(comparison: &Comparison) -> String {
    let maxima = "maxima are not compared, because they vary too much between runs on one machine";
    let first = comparison
        .channels
        .iter()
        .find_map(|channel| channel.blocks);
    match (comparison.unit, first) {
        (Unit::Run, _) => format!(
            "{maxima}; each run counts as one observation: exact rank test over {} arrangements \
             of the runs, adjusted for all figures together",
            grouped(comparison.replicates)
        ),
        (Unit::Block, Some([a, b])) => format!(
            "{maxima}; intervals were calculated from {a} and {b} blocks of the runs, resampled \
             {} times (seed {}); p is adjusted for all lines together (Holm); with one run per \
             side, a change may be due to chance: repeat both runs before you attribute it to a \
             setting",
            grouped(comparison.replicates),
            comparison.seed
        ),
        (Unit::Block, None) => maxima.to_owned(),
    }
}

/// Returns a difference such as `interval: 1.00 ms -> 200 µs`. For long lists of words, only the
/// words that differ are shown.
pub(crate) fn difference(one: &Difference) -> String {
    let (a, b) = (&one.baseline, &one.candidate);
    let what = one.what.replace('_', " ");
    if a.chars().count().max(b.chars().count()) <= LONG {
        return format!("{what}: {} -> {}", or_none(a), or_none(b));
    }
    let only = |mine: &str, theirs: &str| {
        let theirs: Vec<&str> = theirs.split_whitespace().collect();
        let only: Vec<&str> = (mine.split_whitespace())
            .filter(|word| !theirs.contains(word))
            .collect();
        only.join(" ")
    };
    match (only(a, b), only(b, a)) {
        (gone, new) if gone.is_empty() && new.is_empty() => {
            format!("{what}: same words in a different order")
        }
        (gone, new) if new.is_empty() => format!("{what}: without '{gone}'"),
        (gone, new) if gone.is_empty() => format!("{what}: with '{new}'"),
        (gone, new) => format!("{what}: without '{gone}', with '{new}'"),
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// Returns whether a rate deserves a row, which is the case if it has a threshold or a count above
/// zero.
pub(crate) fn is_shown(rate: &Rate) -> bool {
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
        word(one.change, one.estimate, ["higher", "lower"]),
        p(one.estimate),
    ]
}

/// Returns the row of a rate, in events per million.
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
pub(crate) fn counted(one: &Rate) -> String {
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
        "{}: baseline {}, candidate {}, each with its 95% interval, if the events are independent",
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

/// Formats a rate with three significant digits, which is enough for this table.
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
        (Change::NoneFound, _) => "not significant",
        (Change::Unknown, _) => "inconclusive",
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
