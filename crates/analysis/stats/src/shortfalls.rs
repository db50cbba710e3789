//! Data that a judgement lacks, and the amount that would be enough.

use punctual_model::Nanos;

use crate::permute::{CHANCE, enough_runs, smallest_p};
use crate::{Change, Channel, Rate, Shortfall, Unit};

/// Returns each reason once with all affected figures, starting with reasons for all figures.
pub(crate) fn find_shortfalls(
    channels: &[Channel],
    unit: Unit,
    runs: [usize; 2],
) -> Vec<Shortfall> {
    let mut all: Vec<Shortfall> = Vec::new();
    if unit == Unit::Run && smallest_p(runs) >= CHANCE {
        all.push(of_runs(runs));
        return all;
    }
    for channel in channels {
        let quantiles = (channel.quantiles.iter())
            .map(|one| (&one.name, one.not_known.as_ref(), one.measure_ns));
        let rates = (channel.rates.iter())
            .filter(|one| happens(one))
            .map(|one| (&one.what, one.not_known.as_ref(), one.measure_ns));
        for (name, why, measure_ns) in quantiles.chain(rates) {
            let Some(why) = why.filter(|why| !why.is_empty()) else {
                continue;
            };
            let whole = channel.no_blocks.as_ref() == Some(why);
            let figure = match &channel.title {
                None => name.clone(),
                Some(title) => format!("{name} ({title})"),
            };
            // Each figure has one line for all channels, with the longest time.
            let of_name = |known: &str| known.split(" (").next() == Some(name);
            let same = |one: &&mut Shortfall| {
                one.why == *why
                    && (whole || one.figures.first().is_some_and(|known| of_name(known)))
            };
            match all.iter_mut().find(same) {
                Some(one) => {
                    one.measure_ns = one.measure_ns.max(measure_ns);
                    if !whole {
                        one.figures.push(figure);
                    }
                }
                None => all.push(Shortfall {
                    figures: if whole { Vec::new() } else { vec![figure] },
                    why: why.clone(),
                    measure_ns,
                    runs: None,
                }),
            }
        }
    }
    for one in &mut all {
        one.measure_ns = one.measure_ns.map(rounded_up);
    }
    all.sort_by_key(|one| !one.figures.is_empty());
    all
}

fn of_runs(runs: [usize; 2]) -> Shortfall {
    let enough = enough_runs();
    Shortfall {
        figures: Vec::new(),
        why: format!(
            "too few runs: with {} and {} runs, the smallest possible p is {:.3}, but p must be \
             below {CHANCE}; {enough} runs per side would suffice (p is {:.3})",
            runs[0],
            runs[1],
            smallest_p(runs),
            smallest_p([enough; 2]),
        ),
        measure_ns: None,
        runs: Some(enough as u64),
    }
}

fn happens(rate: &Rate) -> bool {
    let counts = [rate.baseline, rate.candidate];
    rate.change == Change::Unknown && counts.iter().flatten().any(|side| side.count > 0)
}

/// Rounds up to two digits of a unit that people would type.
fn rounded_up(length: Nanos) -> Nanos {
    const SECOND: u64 = 1_000_000_000;
    let seconds = length.0.div_ceil(SECOND);
    let step = match seconds {
        0..100 => 1,
        100..1_000 => 10,
        1_000..7_200 => 60,
        _ => 1_800,
    };
    Nanos(seconds.div_ceil(step) * step * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_what_people_type() {
        let up = |seconds: f64| rounded_up(Nanos((seconds * 1e9) as u64)).0 / 1_000_000_000;
        assert_eq!((up(0.2), up(11.2), up(111.0)), (1, 12, 120));
        assert_eq!((up(1_234.0), up(7_201.0)), (1_260, 9_000));
    }

    #[test]
    fn too_few_runs_name_sufficient_number() {
        let said = &find_shortfalls(&[], Unit::Run, [3, 3])[0];
        assert!(said.why.contains("p is 0.100"), "{}", said.why);
        assert!(
            said.why
                .contains("4 runs per side would suffice (p is 0.029)"),
            "{}",
            said.why
        );
        assert_eq!(said.runs, Some(4));
        assert!(find_shortfalls(&[], Unit::Run, [4, 4]).is_empty());
    }

    /// A channel with these figures: name, reason and required seconds.
    fn channel(title: Option<&str>, figures: &[(&str, Option<&str>, Option<u64>)]) -> Channel {
        let recording = punctual_model::testing::recording(1, 2);
        let found = crate::compare(&recording, &recording, &crate::Options::default()).unwrap();
        let mut channel = found.channels[0].clone();
        let one = channel.quantiles[0].clone();
        let quantile = |(name, why, seconds): &(&str, Option<&str>, Option<u64>)| crate::Quantile {
            name: (*name).to_owned(),
            not_known: why.map(str::to_owned),
            measure_ns: seconds.map(Nanos::from_secs),
            ..one.clone()
        };
        channel.quantiles = figures.iter().map(quantile).collect();
        channel.title = title.map(str::to_owned);
        channel.no_blocks = None;
        channel.rates.clear();
        channel
    }

    fn found(channels: &[Channel]) -> Vec<(Vec<String>, String, Option<u64>)> {
        let all = find_shortfalls(channels, Unit::Block, [1, 1]).into_iter();
        all.map(|one| {
            let seconds = one.measure_ns.map(|length| length.0 / 1_000_000_000);
            (one.figures, one.why, seconds)
        })
        .collect()
    }

    #[test]
    fn each_reason_is_listed_once_with_its_longest_time() {
        let why = "too few samples above it";
        let few = Some(why);
        let of = |title, seconds: [u64; 2]| {
            let figures = [
                ("p50", None, None),
                ("p99", few, Some(seconds[0])),
                ("p99.9", few, Some(seconds[1])),
                ("p10", Some(""), None),
            ];
            channel(title, &figures)
        };
        let line = |figures: &[&str], seconds| {
            let figures = figures.iter().map(|name| (*name).to_owned()).collect();
            (figures, why.to_owned(), seconds)
        };
        // Each figure has its own line.
        let one = of(None, [20, 500]);
        assert_eq!(
            found(&[one]),
            [line(&["p99"], Some(20)), line(&["p99.9"], Some(500))]
        );
        // The channels of one figure share a line.
        let both = [of(Some("timer"), [20, 40]), of(Some("signal"), [90, 7])];
        assert_eq!(
            found(&both),
            [
                line(&["p99 (timer)", "p99 (signal)"], Some(90)),
                line(&["p99.9 (timer)", "p99.9 (signal)"], Some(40)),
            ]
        );
        assert_eq!(found(&[channel(None, &[("p50", None, Some(3))])]), []);
    }

    #[test]
    fn reason_for_a_whole_channel_comes_first() {
        let [rows, source] = ["baseline has 2 rows", "not in every source"];
        let [why, other] = [rows, source].map(Some);
        let mut one = channel(
            None,
            &[
                ("p50", other, None),
                ("p90", why, Some(5)),
                ("p99", why, Some(9)),
            ],
        );
        one.no_blocks = why.map(str::to_owned);
        let expected = [
            (Vec::new(), rows.to_owned(), Some(9)),
            (vec!["p50".to_owned()], source.to_owned(), None),
        ];
        assert_eq!(found(&[one]), expected);
    }

    /// A count that never happened lacks nothing.
    #[test]
    fn counts_without_events_lack_nothing() {
        let side = |count| crate::RateOfSide {
            count,
            of: 100,
            per_million: 0.0,
            low: 0.0,
            high: 0.0,
        };
        for (counts, change, lines) in [
            ([0, 0], Change::Unknown, 0),
            ([0, 1], Change::Unknown, 1),
            ([2, 0], Change::Unknown, 1),
            ([2, 3], Change::NoneFound, 0),
        ] {
            let mut one = channel(None, &[]);
            one.rates.push(Rate {
                what: "missed".to_owned(),
                from_ns: None,
                baseline: Some(side(counts[0])),
                candidate: Some(side(counts[1])),
                estimate: None,
                not_known: Some("drifts".to_owned()),
                measure_ns: None,
                change,
            });
            assert_eq!(found(&[one]).len(), lines, "{counts:?}");
        }
    }

    #[test]
    fn lengths_are_rounded_up_in_growing_steps() {
        let up = |seconds: u64| rounded_up(Nanos::from_secs(seconds)).0 / 1_000_000_000;
        let found = [
            1, 99, 100, 101, 990, 991, 1_000, 1_020, 7_199, 7_200, 10_801,
        ]
        .map(up);
        assert_eq!(
            found,
            [
                1, 99, 100, 110, 990, 1_000, 1_020, 1_020, 7_200, 7_200, 12_600
            ]
        );
        assert_eq!(rounded_up(Nanos(99_000_000_001)), Nanos::from_secs(100));
    }
}
