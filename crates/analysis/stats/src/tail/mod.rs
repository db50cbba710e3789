//! Extrapolation of the tail of a measurement to a longer time, assuming that the tail continues as
//! observed. The result is only a remark and never a verdict, because rarer causes have not been
//! seen.

mod gates;
mod gpd;
mod missing;

use std::collections::BTreeMap;

use punctual_model::{Histogram, Nanos, Recording, TailRemark, ThreadRecord};

pub use gpd::{Gpd, fit};
pub use missing::NoTail;

/// The tail begins above this quantile. The fits above the other quantiles must have the same
/// result.
const BEGINS: f64 = 0.995;
const OTHERS: [f64; 2] = [0.99, 0.9975];

/// Length of the extrapolated time, in multiples of the measurement.
const AHEAD: u64 = 10;

/// Smallest number of samples above the threshold that a fit requires, and the largest number that
/// it uses.
const LEAST: u64 = 100;
const MOST: usize = 1_000;

/// Smallest number of intervals that can show a change.
const ROWS: usize = 20;

/// Number of simulated tails for the interval and the goodness-of-fit test.
const DRAWS: u64 = 200;

/// Limit for the p-values of all gates. A gate rejects the tail if its p-value is below this.
const CHANCE: f64 = 0.05;

/// Returns the remark on the selected threads, or the reason why there is none.
///
/// # Errors
/// Returns why the tail cannot be extrapolated.
pub fn remark(
    recording: &Recording,
    chosen: impl Fn(&ThreadRecord) -> bool,
) -> Result<TailRemark, NoTail> {
    let threads: Vec<usize> = (recording.threads.iter().enumerate())
        .filter(|(_, thread)| chosen(thread))
        .map(|(place, _)| place)
        .collect();
    let mut all = Histogram::new();
    for place in &threads {
        let thread = &recording.threads[*place];
        if thread.accounting.missed > 0 {
            return Err(NoTail::Missed);
        }
        all.merge(&thread.histogram);
    }
    if all.overflow() > 0 {
        return Err(NoTail::BeyondRange);
    }
    let begins = all.quantile(BEGINS).ok_or(NoTail::NoSamples)?;
    let excesses = above(&all, begins);
    let found = fitted(&excesses)?;
    for quantile in OTHERS {
        let other = above(&all, all.quantile(quantile).unwrap_or(begins));
        let other = fitted(&other).map_err(|_| NoTail::Short)?;
        // The standard error of the shape is (1 + shape) / sqrt(number).
        let error = 2.0 * (1.0 + found.shape.abs()) / (excesses.len() as f64 / 2.0).sqrt();
        if (other.shape - found.shape).abs() > error {
            return Err(NoTail::Unsteady);
        }
    }
    steady(recording, &threads, begins)?;
    let number = tail_count(&all, begins);
    drawn(begins, &excesses, found, number).map(|[level, low, high]| TailRemark {
        threshold_ns: begins,
        above: number,
        shape: found.shape,
        times: AHEAD,
        level_ns: level,
        low_ns: low,
        high_ns: high,
    })
}

fn fitted(excesses: &[f64]) -> Result<Gpd, NoTail> {
    if (excesses.len() as u64) < LEAST {
        return Err(NoTail::FewSamples);
    }
    fit(excesses).ok_or(NoTail::NotFitted)
}

fn tail_count(all: &Histogram, begins: Nanos) -> u64 {
    let buckets = all.buckets();
    let above = buckets.iter().filter(|(lower, _, _)| *lower > begins.0);
    above.map(|(_, _, count)| count).sum()
}

/// Returns the excesses over a threshold in ascending order, spread over their buckets. If there
/// are more than [`MOST`], selects that many at even distances.
fn above(all: &Histogram, begins: Nanos) -> Vec<f64> {
    let buckets = all.buckets();
    let mut values = Vec::new();
    for (lower, width, count) in buckets.iter().filter(|(lower, _, _)| *lower > begins.0) {
        let width = width as f64;
        let each = (0..count).map(|nth| (nth as f64 + 0.5) / count as f64);
        values.extend(each.map(|share| (lower - begins.0) as f64 + width * share));
    }
    let step = values.len().div_ceil(MOST).max(1);
    values.into_iter().skip(step / 2).step_by(step).collect()
}

/// Checks that the tail is stationary: it has no correlation and does not change over the
/// intervals.
fn steady(recording: &Recording, threads: &[usize], begins: Nanos) -> Result<(), NoTail> {
    let mut counts: BTreeMap<Nanos, f64> = BTreeMap::new();
    for row in &recording.series.rows {
        if threads.contains(&(row.thread as usize)) {
            let late = row
                .histogram
                .iter()
                .filter(|(lower, _, _)| *lower > begins.0);
            let late: u64 = late.map(|(_, _, count)| count).sum();
            *counts.entry(row.start_ns).or_default() += late as f64;
        }
    }
    // The last interval may be shorter.
    counts.pop_last();
    let counts: Vec<f64> = counts.into_values().collect();
    if recording.series.dropped > 0 || counts.len() < ROWS {
        return Err(NoTail::FewIntervals);
    }
    if gates::ljung_box(&counts, 10) < CHANCE {
        return Err(NoTail::Bursts);
    }
    if gates::keeps_level(&counts) {
        Ok(())
    } else {
        Err(NoTail::Drift)
    }
}

/// Returns the level with its interval if the fit passes the Cramér-von Mises test, which uses
/// tails drawn from the fit itself.
fn drawn(begins: Nanos, excesses: &[f64], found: Gpd, number: u64) -> Result<[Nanos; 3], NoTail> {
    let ahead = (number * AHEAD) as f64;
    let distance = found.distance(excesses);
    let (mut as_far, mut levels) = (0, Vec::new());
    for seed in 0..DRAWS {
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut again: Vec<f64> = excesses.iter().map(|_| found.draw(random)).collect();
        again.sort_by(f64::total_cmp);
        let Some(refit) = fit(&again) else { continue };
        as_far += u64::from(refit.distance(&again) >= distance);
        levels.push(refit.level(ahead));
    }
    if (as_far as f64) < CHANCE * levels.len() as f64 || levels.is_empty() {
        return Err(NoTail::OtherForm);
    }
    levels.sort_by(f64::total_cmp);
    let at = |share: f64| levels[((levels.len() - 1) as f64 * share) as usize];
    let level = |excess: f64| Nanos(begins.0.saturating_add(excess as u64));
    Ok([found.level(ahead), at(0.025), at(0.975)].map(level))
}

#[cfg(test)]
mod tests {
    use punctual_model::{IntervalRow, SignedNanos, testing};

    use super::*;

    /// 60 s at 1 kHz. `late` returns the latency of a period from its number and a random
    /// generator.
    fn recording(late: impl Fn(u64, &mut fastrand::Rng) -> f64) -> Recording {
        drawn(11, late)
    }

    fn drawn(seed: u64, late: impl Fn(u64, &mut fastrand::Rng) -> f64) -> Recording {
        let mut recording = testing::recording(1, 0);
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut all = Histogram::new();
        recording.series.rows.clear();
        for row in 0..60 {
            let mut one = Histogram::new();
            for period in 0..1_000 {
                let latency = late(row * 1_000 + period, random);
                one.record(SignedNanos(latency as i64));
            }
            let start = Nanos::from_secs(row);
            recording
                .series
                .rows
                .push(IntervalRow::new(0, start, 0, &one));
            all.merge(&one);
        }
        recording.threads.truncate(1);
        recording.threads[0].accounting.missed = 0;
        recording.threads[0].histogram = all;
        recording
    }

    fn exponential(random: &mut fastrand::Rng) -> f64 {
        -(1.0 - random.f64()).ln()
    }

    #[test]
    fn a_steady_tail_is_carried_on() {
        // The level that is exceeded once in 600,000 samples on average.
        let truth = 3_000.0 + 2_000.0 * 600_000f64.ln();
        let steady = |seed| drawn(seed, |_, random| 3_000.0 + 2_000.0 * exponential(random));
        let found: Vec<TailRemark> = (0..20)
            .filter_map(|seed| remark(&steady(seed), |_| true).ok())
            .collect();
        // Each of the three gates rejects about 5% of the tails by chance.
        assert!(found.len() >= 14, "{}", found.len());
        let holds = |one: &&TailRemark| {
            let [low, high] = [one.low_ns, one.high_ns].map(|level| level.0 as f64);
            low < truth && truth < high
        };
        let held = found.iter().filter(holds).count();
        assert!(held * 5 >= found.len() * 4, "{held} of {}", found.len());
        for one in &found {
            let level = one.level_ns.0 as f64;
            assert!((level / truth - 1.0).abs() < 0.4, "{one:?}, truth {truth}");
            assert!(
                one.times == 10 && (290..=300).contains(&one.above),
                "{one:?}"
            );
        }
    }

    #[test]
    fn unsuitable_tail_is_refused() {
        let why = |recording: &Recording| remark(recording, |_| true).unwrap_err();
        let drift = recording(|n, random| 3_000.0 + (0.03 * n as f64) * exponential(random));
        let said = why(&drift);
        assert!(matches!(said, NoTail::Drift | NoTail::Bursts), "{said}");
        let bursts = recording(|n, random| {
            let more = if n / 2_000 % 4 == 0 {
                20_000.0
            } else {
                2_000.0
            };
            3_000.0 + more * exponential(random)
        });
        assert_eq!(why(&bursts), NoTail::Bursts);
        // Two causes, the second far above the first.
        let two = recording(|_, random| {
            if random.f64() < 0.002 {
                90_000.0 + 100.0 * exponential(random)
            } else {
                3_000.0 + 2_000.0 * exponential(random)
            }
        });
        why(&two);
        let mut missed = recording(|_, random| 3_000.0 + exponential(random));
        missed.threads[0].accounting.missed = 1;
        assert_eq!(why(&missed), NoTail::Missed);
        assert_eq!(remark(&missed, |_| false).unwrap_err(), NoTail::NoSamples);
    }

    fn histogram_of(values: &[(i64, u64)]) -> Histogram {
        let mut histogram = Histogram::new();
        for (value, count) in values {
            (0..*count).for_each(|_| histogram.record(SignedNanos(*value)));
        }
        histogram
    }

    /// Buckets are 10 ns wide from 1 µs on. Their samples are spread evenly.
    #[test]
    fn excesses_are_spread_over_their_buckets() {
        let all = histogram_of(&[(1_500, 30), (2_000, 2), (3_010, 5)]);
        let begins = Nanos(1_509);
        let expected = [493.5, 498.5, 1_502.0, 1_504.0, 1_506.0, 1_508.0, 1_510.0];
        assert_eq!(above(&all, begins), expected);
        assert_eq!(tail_count(&all, begins), 7);
        assert_eq!(
            (
                above(&all, Nanos(3_019)).len(),
                tail_count(&all, Nanos(3_010))
            ),
            (0, 0)
        );
        // Of 2,500 samples, each third is used, beginning with the second.
        let many = histogram_of(&[(1_500, 30), (2_000, 2_500)]);
        let used = above(&many, begins);
        assert_eq!((used.len(), tail_count(&many, begins)), (833, 2_500));
        assert!(
            (used[0] - (491.0 + 10.0 * 1.5 / 2_500.0)).abs() < 1e-9,
            "{}",
            used[0]
        );
        assert!((used[1] - used[0] - 30.0 / 2_500.0).abs() < 1e-9);
        let thousand = histogram_of(&[(1_500, 30), (2_000, 1_000)]);
        assert_eq!(above(&thousand, begins).len(), 1_000);
    }

    /// An even tail is refused as soon as one condition is not met.
    #[test]
    fn each_condition_is_needed() {
        let seed = (0..20)
            .find(|seed| remark(&of_seed(*seed), |_| true).is_ok())
            .unwrap();
        let good = of_seed(seed);
        let why = |change: &dyn Fn(&mut Recording)| {
            let mut changed = good.clone();
            change(&mut changed);
            remark(&changed, |_| true).err()
        };
        assert_eq!(why(&|_| {}), None);
        assert_eq!(
            why(&|one| one.threads[0].accounting.missed = 1),
            Some(NoTail::Missed)
        );
        let beyond = SignedNanos(2_000_000_000_000);
        assert_eq!(
            why(&|one| one.threads[0].histogram.record(beyond)),
            Some(NoTail::BeyondRange)
        );
        assert_eq!(
            why(&|one| one.series.dropped = 1),
            Some(NoTail::FewIntervals)
        );
        // 20 complete intervals, and a last one that may be shorter.
        assert_eq!(
            why(&|one| one.series.rows.truncate(20)),
            Some(NoTail::FewIntervals)
        );
        assert_ne!(
            why(&|one| one.series.rows.truncate(21)),
            Some(NoTail::FewIntervals)
        );
        // Rows of another thread do not count.
        assert_eq!(
            why(&|one| one.series.rows.iter_mut().for_each(|row| row.thread = 1)),
            Some(NoTail::FewIntervals)
        );
        let few = histogram_of(&[(3_000, 9_000), (4_000, 40)]);
        assert_eq!(
            why(&|one| one.threads[0].histogram = few.clone()),
            Some(NoTail::FewSamples)
        );
        // The late half of the run.
        let later = |one: &mut Recording| {
            let quiet = one.series.rows[0].clone();
            for row in &mut one.series.rows[..30] {
                let rest = quiet.histogram.iter().filter(|(lower, ..)| *lower < 5_000);
                let mut histogram = Histogram::new();
                for (lower, _, count) in rest {
                    (0..count).for_each(|_| histogram.record(SignedNanos(lower as i64)));
                }
                *row = IntervalRow::new(0, row.start_ns, 0, &histogram);
            }
        };
        let found = why(&later);
        assert!(
            matches!(found, Some(NoTail::Drift | NoTail::Bursts)),
            "{found:?}"
        );
    }

    fn of_seed(seed: u64) -> Recording {
        drawn(seed, |_, random| 3_000.0 + 2_000.0 * exponential(random))
    }

    /// Half of the excesses are at one latency in the middle of an exponential tail.
    #[test]
    fn separate_clusters_are_of_another_form() {
        let exponential = |n: u32| -1_000.0 * (1.0 - (f64::from(n) + 0.5) / 200.0).ln();
        let excess = |n: u32| match n {
            0..100 => exponential(n),
            100..300 => 693.0 + f64::from(n) / 1_000.0,
            _ => exponential(n - 200),
        };
        let excesses: Vec<f64> = (0..400).map(excess).collect();
        let found = fit(&excesses).unwrap();
        assert_eq!(
            super::drawn(Nanos(1), &excesses, found, 400),
            Err(NoTail::OtherForm)
        );
        // Quantiles of the distribution itself are of its form.
        let law = Gpd {
            scale: 500.0,
            shape: 0.1,
            log_likelihood: 0.0,
        };
        let even: Vec<f64> = (0..400)
            .map(|n| law.level(400.0 / (399.5 - f64::from(n))))
            .collect();
        let found = fit(&even).unwrap();
        let [level, low, high] = super::drawn(Nanos(1_000), &even, found, 400).unwrap();
        let expected = 1_000.0 + found.level(4_000.0);
        assert!((level.0 as f64 - expected).abs() <= 1.0, "{level}");
        assert!(low < level && level < high, "{low} {level} {high}");
        // About 95% of the simulated levels are inside.
        let error = (high.0 - low.0) as f64 / level.0 as f64;
        assert!((0.2..1.5).contains(&error), "{error}");
    }

    /// Samples as given, and an exponential tail above them: the quantiles of its distribution.
    fn with_tail(base: &[(i64, u64)], from: f64, number: u32) -> Recording {
        let mut recording = of_seed(1);
        let mut all = histogram_of(base);
        for nth in 0..number {
            let beyond = 1.0 - (f64::from(nth) + 0.5) / f64::from(number);
            all.record(SignedNanos((from - 1_000.0 * beyond.ln()) as i64));
        }
        recording.threads[0].histogram = all;
        recording
    }

    #[test]
    fn fit_must_not_depend_on_the_threshold() {
        let why = |recording: &Recording| remark(recording, |_| true).err();
        // 0.5% are 75 samples. Of 30,000 samples, they are 150, but 0.25% are 75.
        let few = with_tail(&[(2_000, 14_850)], 2_010.0, 150);
        assert_eq!(why(&few), Some(NoTail::FewSamples));
        let short = with_tail(&[(2_000, 29_700)], 2_010.0, 300);
        assert_eq!(why(&short), Some(NoTail::Short));
        // A cluster below the tail changes the shape from the lowest threshold on.
        let cluster = with_tail(&[(2_000, 59_400), (3_010, 300)], 3_030.0, 300);
        assert_eq!(why(&cluster), Some(NoTail::Unsteady));
        // Without the cluster, the tail is steady.
        let steady = with_tail(&[(2_000, 59_400)], 2_010.0, 600);
        let found = why(&steady);
        assert!(
            !matches!(
                found,
                Some(NoTail::Unsteady | NoTail::Short | NoTail::NotFitted)
            ),
            "{found:?}"
        );
    }
}
