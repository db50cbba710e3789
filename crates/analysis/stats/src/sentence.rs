//! A comparison in one sentence.

use punctual_model::SignedNanos;

use crate::{Change, Comparison, Estimate, Quantile, Rate};

/// Returns the result in words: first the figures that are higher or lower, with amounts, then
/// those without a significant difference, and those that are inconclusive.
pub(crate) fn comparison_sentence(comparison: &Comparison) -> String {
    let mut parts = Vec::new();
    let mut nothing = Vec::new();
    let mut unknown = Vec::new();
    for channel in &comparison.channels {
        let place = match &channel.title {
            None => String::new(),
            Some(title) => format!(" ({title})"),
        };
        for one in &channel.quantiles {
            let name = format!("{}{place}", one.name);
            match one.change {
                Change::Worse => parts.push(format!("{name} higher by {}", by(one))),
                Change::Better => parts.push(format!("{name} lower by {}", by(one))),
                Change::NoneFound => nothing.push(name),
                Change::Unknown => unknown.push(format!("{name}{}", about(one.ratio))),
            }
        }
        for one in &channel.rates {
            let name = match one.from_ns {
                None => format!("missed periods{place}"),
                Some(limit) => format!("samples of {limit} or more{place}"),
            };
            let happens = one.baseline.is_some_and(|rate| rate.count > 0)
                || one.candidate.is_some_and(|rate| rate.count > 0);
            match one.change {
                Change::Worse => parts.push(format!("more {name}, by {}", per_million(one))),
                Change::Better => parts.push(format!("fewer {name}, by {}", per_million(one))),
                Change::NoneFound if happens => nothing.push(name),
                Change::Unknown if happens => unknown.push(name),
                Change::NoneFound | Change::Unknown => {}
            }
        }
    }
    let mut all = Vec::new();
    if !parts.is_empty() {
        all.push(format!("candidate: {}", parts.join(", ")));
    }
    if !nothing.is_empty() {
        all.push(format!("not significant: {}", nothing.join(", ")));
    }
    if !unknown.is_empty() {
        all.push(format!("inconclusive: {}", unknown.join(", ")));
    }
    all.join("; ")
}

/// Returns the ratio of a figure that was not judged, if it is large.
fn about(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if !(0.8..1.25).contains(&ratio) => format!(" (x {ratio:.2} here)"),
        _ => String::new(),
    }
}

/// Returns `1.20 µs (0.80 to 1.70 µs)`, without a sign, because the direction is stated in words.
fn by(one: &Quantile) -> String {
    let amount = one.difference_ns.map_or(0, |ns| ns.0);
    let sign = amount.signum();
    let towards = |value: f64| SignedNanos(sign * value.round() as i64).to_string();
    format!(
        "{} ({})",
        SignedNanos(sign * amount),
        range(one.estimate, sign, towards)
    )
}

fn per_million(one: &Rate) -> String {
    let rate = |side: Option<crate::RateOfSide>| side.map_or(0.0, |side| side.per_million);
    let amount = rate(one.candidate) - rate(one.baseline);
    let sign = if amount < 0.0 { -1 } else { 1 };
    let towards = |value: f64| format!("{:.1}", sign as f64 * value);
    format!(
        "{:.1} per million ({})",
        amount.abs(),
        range(one.estimate, sign, towards)
    )
}

/// Returns the interval with the smaller end first, in the direction of `sign`.
fn range(estimate: Option<Estimate>, sign: i64, show: impl Fn(f64) -> String) -> String {
    let Some(estimate) = estimate else {
        return "unknown".to_owned();
    };
    let (low, high) = (estimate.difference_low, estimate.difference_high);
    let (first, last) = if sign < 0 { (high, low) } else { (low, high) };
    format!("{} to {}", show(first), show(last))
}
