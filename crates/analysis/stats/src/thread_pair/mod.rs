//! One channel of two recordings and its figures.

use punctual_model::{Histogram, Nanos, Recording, ThreadRecord, Unknown};

use crate::blocks::{Blocks, LEAST_BLOCKS, intervals, join};
use crate::counts::{Counts, Scale};
use crate::figure::Figure;
use crate::identity;
use crate::permute::ByRun;
use crate::proportion::exact_interval;
use crate::resample::{Drawn, Judged, Unjudged, draw};
use crate::{Change, Channel, CompareError, Estimate, Later, Options, Quantile, Rate, RateOfSide};

/// The smallest number of samples above a quantile from which its interval is calculated. With
/// fewer, the spread itself is too uncertain.
const LEAST_ABOVE: f64 = 10.0;

/// Reason that is shown for a quantile with fewer samples.
const FEW_ABOVE: &str = "too few samples above it";

/// Names of the sides.
const NAMES: [&str; 2] = ["baseline", "candidate"];

/// The resampling draws, or the reason why there are none. The reason is empty for several runs per
/// side, which are judged by permutations.
type Judge = Result<Drawn, Unjudged>;

/// Returns whether this many samples are enough for an interval of a quantile.
pub(crate) fn has_samples_above(samples: u64, quantile: f64) -> bool {
    samples as f64 * (1.0 - quantile) >= LEAST_ABOVE - 1e-6
}

/// The runs of baseline and candidate, one or more of each.
pub(crate) type Sides<'a> = [&'a [&'a Recording]; 2];

/// The threads of all recordings that form a channel, by side and run.
pub(crate) struct Pair {
    title: Option<String>,
    threads: [Vec<Vec<u32>>; 2],
}

impl Pair {
    /// Returns whether both sides have samples.
    fn has_samples(&self, sides: Sides<'_>) -> bool {
        sides.iter().zip(&self.threads).all(|(runs, threads)| {
            let mut each = runs.iter().zip(threads);
            each.any(|(run, threads)| measured(run, threads).0.recorded() > 0)
        })
    }
}

/// Returns whether each thread measures a different mechanism and is compared separately.
fn is_by_channel(recording: &Recording) -> bool {
    !recording.threads_are_alike()
}

/// Returns the channels that all recordings have.
///
/// # Errors
/// [`CompareError::NoChannel`].
pub(crate) fn pairs(sides: Sides<'_>) -> Result<Vec<Pair>, CompareError> {
    let all = || sides.into_iter().flatten();
    if !all().any(|one| is_by_channel(one)) {
        let threads = |one: &&Recording| (0..one.threads.len() as u32).collect();
        return Ok(vec![Pair {
            title: None,
            threads: sides.map(|runs| runs.iter().map(threads).collect()),
        }]);
    }
    let is_application = all().all(|one| identity::is_application(one));
    let titles = |one: &Recording| -> Vec<String> {
        if is_application {
            return identity::identities(one);
        }
        one.threads.iter().map(ThreadRecord::title).collect()
    };
    let named = |one: &&Recording, title: &String| -> Vec<u32> {
        let places = (0..).zip(titles(one));
        places
            .filter(|(_, found)| found == title)
            .map(|(place, _)| place)
            .collect()
    };
    let first = sides.map(|runs| runs.first().map_or_else(Vec::new, |one| titles(one)));
    let mut pairs: Vec<Pair> = Vec::new();
    for title in &first[0] {
        let known = pairs.iter().any(|pair| pair.title.as_ref() == Some(title));
        if !known && all().all(|one| titles(one).contains(title)) {
            pairs.push(Pair {
                title: Some(title.clone()),
                threads: sides.map(|runs| runs.iter().map(|one| named(one, title)).collect()),
            });
        }
    }
    if is_application {
        // Idle threads have nothing to compare.
        pairs.retain(|pair| pair.has_samples(sides));
        let mut titles = pairs.iter().filter_map(|pair| pair.title.as_deref());
        if !titles.any(identity::is_identity) {
            let [baseline, candidate] = identity::no_match(sides);
            return Err(CompareError::NoThread {
                baseline,
                candidate,
            });
        }
    }
    if pairs.is_empty() {
        Err(CompareError::NoChannel {
            baseline: first[0].join(", "),
            candidate: first[1].join(", "),
        })
    } else {
        Ok(pairs)
    }
}

/// A channel under construction: the baseline first, then the candidate.
pub(crate) struct Work<'a> {
    sides: Sides<'a>,
    pair: Pair,
    options: &'a Options,
    /// Latencies of each side, with all of its runs combined.
    histograms: [Histogram; 2],
    scale: Scale,
    counts: [Counts; 2],
    /// Latencies of each run.
    runs: [Vec<Counts>; 2],
}

/// The figures of a channel. Each has a value for each run, and these values are permuted.
pub(crate) type ByFigure = Vec<Option<ByRun>>;

/// Returns the latencies and the number of missed periods of some threads.
fn measured(recording: &Recording, threads: &[u32]) -> (Histogram, u64) {
    let mut histogram = Histogram::new();
    let mut missed = 0u64;
    for place in threads {
        let thread = &recording.threads[*place as usize];
        histogram.merge(&thread.histogram);
        missed = missed.saturating_add(thread.accounting.missed);
    }
    (histogram, missed)
}

impl<'a> Work<'a> {
    pub(crate) fn new(sides: Sides<'a>, pair: Pair, options: &'a Options) -> Self {
        let each = [0, 1].map(|side| {
            let runs = sides[side].iter().zip(&pair.threads[side]);
            let runs = runs.map(|(run, threads)| measured(run, threads));
            runs.collect::<Vec<(Histogram, u64)>>()
        });
        let pooled = [0, 1].map(|side| {
            let mut pooled = (Histogram::new(), 0u64);
            for (histogram, missed) in &each[side] {
                pooled.0.merge(histogram);
                pooled.1 = pooled.1.saturating_add(*missed);
            }
            pooled
        });
        let scale = Scale::from_histograms(pooled.iter().map(|(histogram, _)| histogram));
        let counts =
            |(histogram, missed): &(Histogram, u64)| Counts::new(&scale, histogram, *missed);
        Self {
            counts: [0, 1].map(|side| counts(&pooled[side])),
            runs: [0, 1].map(|side| each[side].iter().map(counts).collect()),
            sides,
            pair,
            options,
            histograms: pooled.map(|(histogram, _)| histogram),
            scale,
        }
    }

    /// Calculates the channel. For several runs per side, the caller adds the confidence of
    /// differences.
    pub(crate) fn channel(self) -> (Channel, ByFigure) {
        let limit = self
            .options
            .threshold
            .map(|limit| (limit, self.scale.from(limit)));
        let mut figures: Vec<Figure> = (self.options.quantiles.iter())
            .map(|quantile| Figure::Quantile(*quantile))
            .collect();
        figures.push(Figure::Missed);
        figures.extend(limit.map(|(_, place)| Figure::From(place)));
        let blocks = self.blocks();
        let drawn: Judge = match &blocks {
            Ok([a, b]) => {
                let (replicates, seed) = (self.options.replicates, self.options.seed);
                Ok(draw(&self.scale, &figures, [a, b], replicates, seed))
            }
            Err(why) => Err(why.clone()),
        };
        let quantiles = (self.options.quantiles.iter().enumerate())
            .map(|(nth, quantile)| self.quantile(nth, *quantile, &drawn))
            .collect();
        let first = self.options.quantiles.len();
        let mut rates = vec![self.missed(first, &drawn)];
        rates.extend(limit.map(|(limit, place)| self.late(first + 1, limit, place, &drawn)));
        let by_run = if self.is_of_runs() {
            figures.iter().map(|figure| self.by_run(*figure)).collect()
        } else {
            Vec::new()
        };
        let channel = Channel {
            recorded: [0, 1].map(|side| self.histograms[side].recorded()),
            blocks: (blocks.as_ref().ok())
                .map(|blocks| [0, 1].map(|side| blocks[side].each.len() as u64)),
            block_intervals: (blocks.as_ref().ok())
                .map(|blocks| [0, 1].map(|side| blocks[side].length as u64)),
            no_blocks: blocks
                .err()
                .map(|why| why.why)
                .filter(|why| !why.is_empty()),
            quantiles,
            rates,
            later: self.later(&drawn),
            title: self.pair.title,
        };
        (channel, by_run)
    }

    /// Returns whether a side has several runs, so that the run is the unit.
    fn is_of_runs(&self) -> bool {
        self.sides.iter().any(|runs| runs.len() > 1)
    }

    fn blocks(&self) -> Result<[Blocks; 2], Unjudged> {
        if self.is_of_runs() {
            return Err(Unjudged::default());
        }
        let of = |side: usize| {
            let series = &self.sides[side][0].series;
            let found = join(intervals(&self.scale, series, &self.pair.threads[side][0]));
            found.map_err(|why| Unjudged {
                why: format!("{} {why}", NAMES[side]),
                // At least twice the required number, because a block can contain several rows.
                intervals: if series.rows.is_empty() {
                    [None; 2]
                } else {
                    [Some(2 * LEAST_BLOCKS); 2]
                },
            })
        };
        Ok([of(0)?, of(1)?])
    }

    /// Returns the length that both runs need for this many rows in their time series, based on
    /// their current number of rows.
    fn length_for(&self, rows: [Option<usize>; 2]) -> Option<Nanos> {
        let of = |side: usize| {
            let run = self.sides[side].first()?;
            let (row, rows) = (run.series.interval_ns, rows[side]? as u64);
            let start = |row: &punctual_model::IntervalRow| row.start_ns;
            let first = run.series.rows.iter().map(start).min()?;
            let needed = Nanos(row.0.saturating_mul(rows).saturating_add(first.0));
            (row.0 > 0).then_some(needed)
        };
        [of(0), of(1)].into_iter().flatten().max()
    }

    /// Returns a figure of each run. `None` if the data of a run do not support the figure.
    fn by_run(&self, figure: Figure) -> Option<ByRun> {
        if figure == Figure::Missed
            && !self
                .sides
                .iter()
                .copied()
                .flatten()
                .all(|run| run.knows(Unknown::Missed))
        {
            return None;
        }
        let of = |counts: &Counts| match figure {
            Figure::Quantile(quantile) if !is_supported(counts.total(), quantile) => None,
            _ => figure.value(&self.scale, counts),
        };
        let side = |side: usize| -> Option<Vec<f64>> { self.runs[side].iter().map(of).collect() };
        Some([side(0)?, side(1)?])
    }

    fn quantile(&self, nth: usize, quantile: f64, drawn: &Judge) -> Quantile {
        let (on_scale, values, runs) = if self.is_of_runs() {
            let runs = [0, 1].map(|side| self.values_of_runs(side, quantile));
            let medians = [0, 1].map(|side| median(&runs[side]));
            (medians, medians, Some(runs))
        } else {
            let on_scale = [0, 1].map(|side| self.value(&self.counts[side], quantile));
            // Values as `show` formats them, never above the maximum. The difference, however, is
            // calculated on the common scale.
            let values = [0, 1].map(|side| {
                let max = self.histograms[side].max();
                on_scale[side].map(|value| max.map_or(value, |max| value.min(max)))
            });
            (on_scale, values, None)
        };
        let both = on_scale[0].zip(on_scale[1]);
        let difference = both.map(|(a, b)| b.signed_sub(a));
        let (estimate, not_known, measure_ns) = self.apart(
            self.judge_quantile(nth, quantile, both, drawn),
            quantile,
            1.0,
        );
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
            measure_ns,
            runs_ns: runs,
        }
    }

    fn judge_quantile(
        &self,
        nth: usize,
        quantile: f64,
        both: Option<(Nanos, Nanos)>,
        drawn: &Judge,
    ) -> Result<Judged, Unjudged> {
        let counts = || self.counts.iter().chain(self.runs.iter().flatten());
        let few = counts().any(|one| one.total() > 0 && !is_supported(one.total(), quantile));
        let unplaced = self.histograms.iter().any(|one| one.unplaced() > 0);
        match (both, drawn) {
            (None, _) if unplaced && !few => {
                Err(Unjudged::because("among samples of unknown latency"))
            }
            (None, _) => Err(Unjudged::because(FEW_ABOVE)),
            (Some(_), Err(why)) if why.why.is_empty() => Err(why.clone()),
            _ if !(self.counts.iter()).all(|one| has_samples_above(one.total(), quantile)) => {
                Err(Unjudged::because(FEW_ABOVE))
            }
            (_, Err(why)) => Err(why.clone()),
            (Some((a, b)), Ok(drawn)) => drawn.judge(nth, [a, b].map(|ns| ns.0 as f64)),
        }
    }

    /// Returns a quantile of some counts if at least one sample is expected above it.
    fn value(&self, counts: &Counts, quantile: f64) -> Option<Nanos> {
        if !is_supported(counts.total(), quantile) {
            return None;
        }
        counts.quantile(&self.scale, quantile).map(Nanos)
    }

    fn values_of_runs(&self, side: usize, quantile: f64) -> Vec<Option<Nanos>> {
        let each = self.runs[side].iter();
        each.map(|counts| self.value(counts, quantile)).collect()
    }

    /// Returns the length that each run needs for enough samples above a quantile.
    fn length_for_samples(&self, quantile: f64) -> Option<Nanos> {
        let least = if self.is_of_runs() { 1.0 } else { LEAST_ABOVE };
        let needed = least / (1.0 - quantile);
        let mut longest = Nanos::ZERO;
        for (runs, counts) in self.sides.iter().zip(&self.runs) {
            for (run, counts) in runs.iter().zip(counts) {
                if !run.knows(Unknown::Duration) || counts.total() == 0 {
                    return None;
                }
                let length = run.duration_ns.0 as f64 * needed / counts.total() as f64;
                // Requests 5% more than needed, because runs differ.
                longest = longest.max(Nanos((length * 1.05) as u64));
            }
        }
        Some(longest)
    }

    fn missed(&self, nth: usize, drawn: &Judge) -> Rate {
        let side = |side: usize| {
            let missed = self.counts[side].missed;
            let due = self.histograms[side].recorded().saturating_add(missed);
            let known = (self.sides[side].iter()).all(|run| run.knows(Unknown::Missed));
            known.then(|| rate_of(missed, due))?
        };
        self.rate("missed".to_owned(), None, [side(0), side(1)], nth, drawn)
    }

    fn late(&self, nth: usize, limit: Nanos, place: usize, drawn: &Judge) -> Rate {
        let side = |side: usize| {
            // Only a lower bound is known for samples of unknown latency.
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
        drawn: &Judge,
    ) -> Rate {
        let judged = match (sides, drawn) {
            ([Some(a), Some(b)], drawn)
                if a.count + b.count == 0 && (drawn.is_ok() || self.is_of_runs()) =>
            {
                // Neither side has any events, so there is nothing to test.
                return Rate {
                    change: Change::NoneFound,
                    ..unknown(what, from_ns, sides)
                };
            }
            ([Some(a), Some(b)], Ok(drawn)) => {
                let found = [a, b].map(|side| side.per_million / 1e6);
                drawn.judge(nth, found)
            }
            ([Some(_), Some(_)], Err(why)) => Err(why.clone()),
            _ => Err(Unjudged::because("not in every source")),
        };
        let (estimate, not_known, measure_ns) = self.apart(judged, 0.0, 1e6);
        Rate {
            estimate,
            not_known,
            measure_ns,
            ..unknown(what, from_ns, sides)
        }
    }

    fn later(&self, drawn: &Judge) -> Later {
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

    /// Returns the estimate in the figure's unit, or the reason why there is none and the required
    /// length of a run. Significance is decided together with all other figures.
    fn apart(
        &self,
        judged: Result<Judged, Unjudged>,
        quantile: f64,
        unit: f64,
    ) -> (Option<Estimate>, Option<String>, Option<Nanos>) {
        match judged {
            Err(why) => {
                let length = if why.why == FEW_ABOVE {
                    self.length_for_samples(quantile)
                } else {
                    self.length_for(why.intervals)
                };
                (None, Some(why.why), length)
            }
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
                None,
            ),
        }
    }
}

/// Returns a rate whose difference is unknown.
fn unknown(
    what: String,
    from_ns: Option<Nanos>,
    [baseline, candidate]: [Option<RateOfSide>; 2],
) -> Rate {
    Rate {
        what,
        from_ns,
        baseline,
        candidate,
        estimate: None,
        not_known: None,
        measure_ns: None,
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

/// Returns whether at least one sample is expected above a quantile.
fn is_supported(samples: u64, quantile: f64) -> bool {
    samples as f64 * (1.0 - quantile) >= 1.0 - 1e-6
}

/// Returns the middle value, or the mean of the two middle values. `None` if one is unknown.
fn median(values: &[Option<Nanos>]) -> Option<Nanos> {
    let mut values: Vec<Nanos> = values.iter().copied().collect::<Option<_>>()?;
    values.sort_unstable();
    let (low, high) = ((values.len().checked_sub(1)?) / 2, values.len() / 2);
    Some(Nanos(values[low].0.midpoint(values[high].0)))
}

/// Returns `p99.9`.
fn name(quantile: f64) -> String {
    // 0.999 * 100 is 99.9 only after rounding.
    let percent = (quantile * 1e8).round() / 1e6;
    format!("p{percent}")
}

#[cfg(test)]
mod tests;
