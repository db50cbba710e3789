//! One lane of two recordings: its figures.

use punctual_model::{Histogram, Nanos, Recording, ThreadRecord, Unknown};

use crate::blocks::{Blocks, intervals, join};
use crate::counts::{Counts, Scale};
use crate::figure::Figure;
use crate::proportion::exact_interval;
use crate::resample::{Drawn, Judged, draw};
use crate::{Change, CompareError, Estimate, Lane, Later, Options, Quantile, Rate, RateOfSide};

/// An interval of a quantile needs so many samples above it: how far fewer of them
/// spread, fewer do not tell.
const LEAST_ABOVE: f64 = 10.0;

/// Whether so many samples are enough for an interval of a quantile.
pub(crate) fn has_samples_above(samples: u64, quantile: f64) -> bool {
    samples as f64 * (1.0 - quantile) >= LEAST_ABOVE - 1e-6
}

/// The threads of both recordings that make a lane.
pub(crate) struct Pair {
    title: Option<String>,
    threads: [Vec<u32>; 2],
}

/// Whether each thread is a way of its own, to be compared with its like.
fn is_by_lane(recording: &Recording) -> bool {
    !recording.lanes_are_alike()
}

/// The lanes of two recordings.
///
/// # Errors
/// [`CompareError::NoLane`].
pub(crate) fn pairs(both: [&Recording; 2]) -> Result<Vec<Pair>, CompareError> {
    if !both.into_iter().any(is_by_lane) {
        let all = |recording: &Recording| (0..recording.threads.len() as u32).collect();
        return Ok(vec![Pair {
            title: None,
            threads: both.map(all),
        }]);
    }
    let titles = both.map(|one| {
        let titles = one.threads.iter().map(ThreadRecord::title);
        titles.collect::<Vec<String>>()
    });
    let mut pairs: Vec<Pair> = Vec::new();
    for title in &titles[0] {
        let there = |side: usize| -> Vec<u32> {
            let named = (0..).zip(&titles[side]);
            named
                .filter(|(_, one)| *one == title)
                .map(|(place, _)| place)
                .collect()
        };
        let known = pairs.iter().any(|pair| pair.title.as_ref() == Some(title));
        if !known && titles[1].contains(title) {
            pairs.push(Pair {
                title: Some(title.clone()),
                threads: [there(0), there(1)],
            });
        }
    }
    match pairs.is_empty() {
        true => Err(CompareError::NoLane {
            baseline: titles[0].join(", "),
            candidate: titles[1].join(", "),
        }),
        false => Ok(pairs),
    }
}

/// A lane while its figures are worked out; the baseline first, then the candidate.
pub(crate) struct Work<'a> {
    both: [&'a Recording; 2],
    pair: Pair,
    options: &'a Options,
    histograms: [Histogram; 2],
    scale: Scale,
    counts: [Counts; 2],
}

/// The blocks of both, or why there are none.
type Both = Result<[Blocks; 2], String>;

impl<'a> Work<'a> {
    pub(crate) fn new(both: [&'a Recording; 2], pair: Pair, options: &'a Options) -> Self {
        let sides = [0, 1].map(|side| {
            let mut histogram = Histogram::new();
            let mut missed = 0u64;
            for place in &pair.threads[side] {
                let thread = &both[side].threads[*place as usize];
                histogram.merge(&thread.histogram);
                missed = missed.saturating_add(thread.accounting.missed);
            }
            (histogram, missed)
        });
        let scale = Scale::of(sides.iter().map(|(histogram, _)| histogram));
        let counts = [0, 1].map(|side| Counts::of(&scale, &sides[side].0, sides[side].1));
        Self {
            both,
            pair,
            options,
            histograms: sides.map(|(histogram, _)| histogram),
            scale,
            counts,
        }
    }

    /// Works all of it out.
    pub(crate) fn lane(self) -> Lane {
        let blocks = self.blocks();
        let limit = self
            .options
            .threshold
            .map(|limit| (limit, self.scale.from(limit)));
        let mut figures: Vec<Figure> = (self.options.quantiles.iter())
            .map(|quantile| Figure::Quantile(*quantile))
            .collect();
        figures.push(Figure::Missed);
        figures.extend(limit.map(|(_, place)| Figure::From(place)));
        let drawn = blocks.as_ref().map(|blocks| {
            let [a, b] = blocks;
            let (replicates, seed) = (self.options.replicates, self.options.seed);
            draw(&self.scale, &figures, [a, b], replicates, seed)
        });
        let drawn = drawn.map_err(Clone::clone);
        let quantiles = (self.options.quantiles.iter().enumerate())
            .map(|(nth, quantile)| self.quantile(nth, *quantile, &drawn))
            .collect();
        let first = self.options.quantiles.len();
        let mut rates = vec![self.missed(first, &drawn)];
        rates.extend(limit.map(|(limit, place)| self.late(first + 1, limit, place, &drawn)));
        Lane {
            recorded: [0, 1].map(|side| self.histograms[side].recorded()),
            blocks: (blocks.as_ref().ok())
                .map(|blocks| [0, 1].map(|side| blocks[side].each.len() as u64)),
            block_intervals: (blocks.as_ref().ok())
                .map(|blocks| [0, 1].map(|side| blocks[side].length as u64)),
            no_blocks: blocks.err(),
            quantiles,
            rates,
            later: self.later(&drawn),
            title: self.pair.title,
        }
    }

    fn blocks(&self) -> Both {
        let of = |side: usize| {
            let series = &self.both[side].series;
            let found = join(intervals(&self.scale, series, &self.pair.threads[side]));
            found.map_err(|why| format!("the {}: {why}", ["baseline", "candidate"][side]))
        };
        Ok([of(0)?, of(1)?])
    }

    fn quantile(&self, nth: usize, quantile: f64, drawn: &Result<Drawn, String>) -> Quantile {
        let on_scale = [0, 1].map(|side| self.value(side, quantile));
        let both = on_scale[0].zip(on_scale[1]);
        // Each as `show` says it, no later than the maximum; the difference is of the
        // scale that both are on.
        let values = [0, 1].map(|side| {
            let max = self.histograms[side].max();
            on_scale[side].map(|value| max.map_or(value, |max| value.min(max)))
        });
        let difference = both.map(|(a, b)| b.signed_sub(a));
        let enough = (self.counts.iter()).all(|one| has_samples_above(one.total(), quantile));
        let judged = match (both, drawn) {
            (None, _) => Err("too few samples, or of unknown latency".to_owned()),
            _ if !enough => Err(format!("fewer than {LEAST_ABOVE} samples lie above it")),
            (_, Err(why)) => Err(why.clone()),
            (Some((a, b)), Ok(drawn)) => drawn.judge(nth, [a, b].map(|ns| ns.0 as f64)),
        };
        let (estimate, not_known) = apart(judged, 1.0);
        Quantile {
            quantile,
            name: name(quantile),
            baseline_ns: values[0],
            candidate_ns: values[1],
            difference_ns: difference,
            ratio: both.and_then(|(a, b)| (a.0 > 0).then(|| b.0 as f64 / a.0 as f64)),
            change: Change::Unknown,
            estimate,
            not_known,
        }
    }

    /// A quantile of one side, where its samples support it: at least one of them is
    /// expected above it.
    fn value(&self, side: usize, quantile: f64) -> Option<Nanos> {
        let counts = &self.counts[side];
        if counts.total() as f64 * (1.0 - quantile) < 1.0 - 1e-6 {
            return None;
        }
        counts.quantile(&self.scale, quantile).map(Nanos)
    }

    fn missed(&self, nth: usize, drawn: &Result<Drawn, String>) -> Rate {
        let side = |side: usize| {
            let recording: &Recording = self.both[side];
            let missed = self.counts[side].missed;
            let due = self.histograms[side].recorded().saturating_add(missed);
            (recording.knows(Unknown::Missed)).then(|| rate_of(missed, due))?
        };
        self.rate("missed".to_owned(), None, [side(0), side(1)], nth, drawn)
    }

    fn late(&self, nth: usize, limit: Nanos, place: usize, drawn: &Result<Drawn, String>) -> Rate {
        let side = |side: usize| {
            // Of those of unknown latency is known from where on they lie.
            let from = self.histograms[side].unplaced_from();
            let known = from.is_none_or(|from| limit <= from);
            known.then(|| {
                let counts = &self.counts[side];
                rate_of(counts.from(place), self.histograms[side].recorded())
            })?
        };
        let what = format!("from {limit} on");
        self.rate(what, Some(limit), [side(0), side(1)], nth, drawn)
    }

    fn rate(
        &self,
        what: String,
        from_ns: Option<Nanos>,
        sides: [Option<RateOfSide>; 2],
        nth: usize,
        drawn: &Result<Drawn, String>,
    ) -> Rate {
        let judged = match (sides, drawn) {
            ([Some(a), Some(b)], Ok(_)) if a.count + b.count == 0 => {
                // None in either: no question to be asked.
                return Rate {
                    change: Change::NoneFound,
                    ..unknown(what, from_ns, sides, None)
                };
            }
            ([Some(a), Some(b)], Ok(drawn)) => {
                let found = [a, b].map(|side| side.per_million / 1e6);
                drawn.judge(nth, found)
            }
            ([Some(_), Some(_)], Err(why)) => Err(why.clone()),
            _ => Err("not every source tells it".to_owned()),
        };
        let (estimate, not_known) = apart(judged, 1e6);
        Rate {
            estimate,
            ..unknown(what, from_ns, sides, not_known)
        }
    }

    fn later(&self, drawn: &Result<Drawn, String>) -> Later {
        let [a, b] = &self.counts;
        let probability = a.later(b);
        let interval = (drawn.as_ref().ok().zip(probability))
            .and_then(|(drawn, probability)| drawn.later(probability));
        Later {
            probability,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        }
    }
}

/// A rate of which no difference is known.
fn unknown(
    what: String,
    from_ns: Option<Nanos>,
    [baseline, candidate]: [Option<RateOfSide>; 2],
    not_known: Option<String>,
) -> Rate {
    Rate {
        what,
        from_ns,
        baseline,
        candidate,
        estimate: None,
        not_known,
        change: Change::Unknown,
    }
}

fn rate_of(count: u64, of: u64) -> Option<RateOfSide> {
    let (low, high) = exact_interval(count, of)?;
    Some(RateOfSide {
        count,
        of,
        per_million: count as f64 / of as f64 * 1e6,
        low: low * 1e6,
        high: high * 1e6,
    })
}

/// What was judged in the figure's unit, or why it was not. Whether it is a
/// difference is judged with all others.
fn apart(judged: Result<Judged, String>, unit: f64) -> (Option<Estimate>, Option<String>) {
    match judged {
        Err(why) => (None, Some(why)),
        Ok(judged) => (
            Some(Estimate {
                difference_low: judged.difference.0 * unit,
                difference_high: judged.difference.1 * unit,
                ratio_low: judged.ratio.map(|(low, _)| low),
                ratio_high: judged.ratio.map(|(_, high)| high),
                p: judged.p,
                p_adjusted: judged.p,
            }),
            None,
        ),
    }
}

/// `p99.9`.
fn name(quantile: f64) -> String {
    // 0.999 * 100 is 99.9 only after rounding.
    let percent = (quantile * 1e8).round() / 1e6;
    format!("p{percent}")
}
