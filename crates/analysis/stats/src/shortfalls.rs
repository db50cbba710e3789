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
}
