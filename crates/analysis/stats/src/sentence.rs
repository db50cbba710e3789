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

#[cfg(test)]
mod tests {
    use punctual_model::{Nanos, testing};

    use super::*;
    use crate::{Channel, Options, RateOfSide, compare};

    fn comparison() -> Comparison {
        let recording = testing::recording(1, 2);
        let options = Options {
            threshold: Some(Nanos(100_000)),
            ..Options::default()
        };
        compare(&recording, &recording, &options).unwrap()
    }

    fn estimate(low: f64, high: f64) -> Option<Estimate> {
        Some(Estimate {
            difference_low: low,
            difference_high: high,
            ratio_low: None,
            ratio_high: None,
            p: 0.01,
            p_adjusted: 0.01,
        })
    }

    fn quantile(name: &str, change: Change, ns: i64, ends: [f64; 2], ratio: f64) -> Quantile {
        Quantile {
            name: name.to_owned(),
            change,
            difference_ns: Some(SignedNanos(ns)),
            estimate: estimate(ends[0], ends[1]),
            ratio: Some(ratio),
            ..comparison().channels[0].quantiles[0].clone()
        }
    }

    fn rate(from: Option<u64>, change: Change, [a, b]: [u64; 2]) -> Rate {
        let side = |count: u64| {
            Some(RateOfSide {
                count,
                of: 1_000_000,
                per_million: count as f64,
                low: 0.0,
                high: 0.0,
            })
        };
        Rate {
            what: String::new(),
            from_ns: from.map(Nanos),
            baseline: side(a),
            candidate: side(b),
            estimate: estimate(-3.0, 12.5),
            not_known: None,
            measure_ns: None,
            change,
        }
    }

    fn sentence_of(quantiles: Vec<Quantile>, rates: Vec<Rate>) -> String {
        let mut comparison = comparison();
        let channel = Channel {
            quantiles,
            rates,
            ..comparison.channels[0].clone()
        };
        comparison.channels = vec![channel];
        comparison_sentence(&comparison)
    }

    #[test]
    fn changes_come_with_their_amounts() {
        let found = sentence_of(
            vec![
                quantile("p50", Change::Worse, 1_200, [800.0, 1_700.4], 1.1),
                quantile("p90", Change::Better, -1_200, [-1_700.4, -800.0], 0.9),
                quantile("p99", Change::NoneFound, 5, [-1.0, 2.0], 1.0),
            ],
            Vec::new(),
        );
        let expected = "candidate: p50 higher by 1.20 µs (800 ns to 1.70 µs), p90 lower by 1.20 µs \
                        (800 ns to 1.70 µs); not significant: p99";
        assert_eq!(found, expected);
        let mut unknown = quantile("p50", Change::Worse, 1_200, [0.0, 0.0], 1.0);
        unknown.estimate = None;
        assert_eq!(
            sentence_of(vec![unknown], Vec::new()),
            "candidate: p50 higher by 1.20 µs (unknown)"
        );
    }

    #[test]
    fn counts_come_with_their_rates() {
        let found = sentence_of(
            Vec::new(),
            vec![
                rate(None, Change::Worse, [2, 9]),
                rate(Some(100_000), Change::Better, [9, 2]),
                rate(Some(200_000), Change::NoneFound, [0, 1]),
            ],
        );
        let expected = "candidate: more missed periods, by 7.0 per million (-3.0 to 12.5), fewer \
                        samples of 100 µs or more, by 7.0 per million (-12.5 to 3.0); not \
                        significant: samples of 200 µs or more";
        assert_eq!(found, expected);
    }

    /// A count that is zero on both sides is not worth a word.
    #[test]
    fn only_counts_with_events_are_named() {
        for (counts, is_named) in [
            ([0, 0], false),
            ([1, 0], true),
            ([0, 1], true),
            ([3, 4], true),
        ] {
            for (change, words) in [
                (Change::NoneFound, "not significant: missed periods"),
                (Change::Unknown, "inconclusive: missed periods"),
            ] {
                let found = sentence_of(Vec::new(), vec![rate(None, change, counts)]);
                assert_eq!(found, if is_named { words } else { "" }, "{counts:?}");
            }
        }
    }

    #[test]
    fn large_ratio_is_told_although_nothing_is_proven() {
        let found = [0.79, 0.8, 1.0, 1.24, 1.25, 4.0].map(|ratio| {
            let one = quantile("p99", Change::Unknown, 1, [0.0, 0.0], ratio);
            sentence_of(vec![one], Vec::new())
        });
        let plain = "inconclusive: p99";
        let expected = [
            "inconclusive: p99 (x 0.79 here)",
            plain,
            plain,
            plain,
            "inconclusive: p99 (x 1.25 here)",
            "inconclusive: p99 (x 4.00 here)",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn each_channel_is_named() {
        let mut comparison = comparison();
        let channel = |title: &str, change| Channel {
            title: Some(title.to_owned()),
            quantiles: vec![quantile("p50", change, 0, [0.0, 0.0], 1.0)],
            rates: vec![rate(None, change, [1, 1])],
            ..comparison.channels[0].clone()
        };
        let all = vec![
            channel("timer", Change::NoneFound),
            channel("signal", Change::Unknown),
        ];
        comparison.channels = all;
        assert_eq!(
            comparison_sentence(&comparison),
            "not significant: p50 (timer), missed periods (timer); inconclusive: p50 (signal), \
             missed periods (signal)"
        );
    }
}
