//! A comparison in one sentence.

use punctual_model::SignedNanos;

use crate::{Change, Comparison, Estimate, Quantile, Rate};

/// The answer in plain words: what is later and by how much, what is earlier, what
/// is not told apart, and what is not known.
pub(crate) fn of(comparison: &Comparison) -> String {
    let mut parts = Vec::new();
    let mut nothing = Vec::new();
    let mut unknown = Vec::new();
    for lane in &comparison.lanes {
        let place = match &lane.title {
            None => String::new(),
            Some(title) => format!(" ({title})"),
        };
        for one in &lane.quantiles {
            let name = format!("{}{place}", one.name);
            match one.change {
                Change::Worse => parts.push(format!("later at {name} by {}", by(one))),
                Change::Better => parts.push(format!("earlier at {name} by {}", by(one))),
                Change::NoneFound => nothing.push(name),
                Change::Unknown => unknown.push(name),
            }
        }
        for one in &lane.rates {
            let name = format!("{}{place}", one.what);
            let happens = one.baseline.is_some_and(|rate| rate.count > 0)
                || one.candidate.is_some_and(|rate| rate.count > 0);
            match one.change {
                Change::Worse => parts.push(format!("more are {name}, by {}", per_million(one))),
                Change::Better => parts.push(format!("fewer are {name}, by {}", per_million(one))),
                Change::NoneFound if happens => nothing.push(name),
                Change::Unknown if happens => unknown.push(name),
                Change::NoneFound | Change::Unknown => {}
            }
        }
    }
    let mut sentence = match parts.is_empty() {
        true => String::new(),
        false => format!("the candidate is {}", parts.join(", ")),
    };
    let mut go_on = |text: String| {
        if !sentence.is_empty() {
            sentence.push_str("; ");
        }
        sentence.push_str(&text);
    };
    if !nothing.is_empty() {
        go_on(format!("no difference found at {}", nothing.join(", ")));
    }
    if !unknown.is_empty() {
        go_on(format!(
            "whether they differ is not known at {}",
            unknown.join(", ")
        ));
    }
    sentence
}

/// `1.20 µs (0.80 to 1.70 µs)`: as an amount, since the words say the direction.
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

/// The interval with its smaller end first, seen in the direction of `sign`.
fn range(estimate: Option<Estimate>, sign: i64, show: impl Fn(f64) -> String) -> String {
    let Some(estimate) = estimate else {
        return "unknown".to_owned();
    };
    let (low, high) = (estimate.difference_low, estimate.difference_high);
    let (first, last) = if sign < 0 { (high, low) } else { (low, high) };
    format!("{} to {}", show(first), show(last))
}
