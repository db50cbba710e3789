//! Late periods that follow the temperature or the frequency of the machine.

use crate::{Nanos, PowerPoint, counted};

/// Minimum number of readings that show a drift, and their minimum correlation with the readings
/// before them. A value that varies quickly is not a drift.
const LEAST_POINTS: usize = 8;
const LEAST_MEMORY: f64 = 0.5;

/// Minimum drift of the temperature, in 0.001 degrees Celsius, and of the frequency, as a share.
const LEAST_WARMER: f64 = 5_000.0;
const LEAST_SLOWER: f64 = 0.05;

/// Minimum number of independent events.
const LEAST_EVENTS: f64 = 2.0;

/// The statistic that chance exceeds in 5% of the runs, in either direction.
const FOLLOWS: f64 = 1.96;

/// Events in one part of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    /// Time since the start of the run.
    pub(crate) at: Nanos,
    /// Number of events.
    pub(crate) count: u64,
}

/// Returns the reason why events say nothing about the rest of the day: they occur mostly at high or
/// at low readings of a value that drifts during the run. This is a rank test: without a relation, the
/// readings at the events are a random choice among all readings.
pub(crate) fn follows(
    points: &[PowerPoint],
    late: &[Late],
    (start, length): (Nanos, Nanos),
    dispersion: f64,
    events: &str,
) -> Option<String> {
    let inside = |point: &&PowerPoint| (start..=start + length).contains(&point.at_ns);
    let points: Vec<&PowerPoint> = points.iter().filter(inside).collect();
    let heat = |point: &PowerPoint| point.max_milli_celsius.map(|value| value as f64);
    let speed = |point: &PowerPoint| point.mean_khz.map(|value| value as f64);
    let celsius = |value: f64| format!("{:.1} °C", value / 1e3);
    let giga = |value: f64| format!("{:.2} GHz", value / 1e6);
    let followed = |read: &dyn Fn(&PowerPoint) -> Option<f64>,
                    is_large: &dyn Fn(f64, f64) -> bool| {
        let values: Vec<f64> = points.iter().filter_map(|point| read(point)).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let whole = values.len() == points.len() && values.len() >= LEAST_POINTS;
        let drifts = whole && is_large(low, high) && memory(&values) >= LEAST_MEMORY;
        let statistic = || statistic(&points, &values, late, dispersion);
        (drifts && statistic().abs() > FOLLOWS).then_some((low, high))
    };
    let warmer = followed(&heat, &|low, high| high - low >= LEAST_WARMER);
    let slower = followed(&speed, &|low, high| high - low >= LEAST_SLOWER * high);
    let (what, low, high) = match (slower, warmer) {
        (Some((low, high)), _) => ("frequency of the CPUs", giga(low), giga(high)),
        (None, Some((low, high))) => ("temperature", celsius(low), celsius(high)),
        (None, None) => return None,
    };
    Some(format!(
        "{events} follow the {what}, which drifted between {low} and {high} in {}, so they say \
         nothing about the rest of the day; measure longer, after it has settled",
        counted(points.len() as u64, "reading", "readings")
    ))
}

/// Returns the mean rank of the readings at the events, in standard deviations from that of all
/// readings.
fn statistic(points: &[&PowerPoint], values: &[f64], late: &[Late], dispersion: f64) -> f64 {
    let number = values.len() as f64;
    let rank = |value: f64| {
        let below = values.iter().filter(|other| **other < value).count() as f64;
        let equal = values.iter().filter(|other| **other == value).count() as f64;
        (below + equal / 2.0) / number
    };
    let ranks: Vec<f64> = values.iter().map(|value| rank(*value)).collect();
    let variance = ranks.iter().map(|rank| (rank - 0.5).powi(2)).sum::<f64>() / number;
    let (mut all, mut sum) = (0.0, 0.0);
    for one in late {
        let next = points.partition_point(|point| point.at_ns <= one.at);
        all += one.count as f64;
        sum += one.count as f64 * ranks[next.saturating_sub(1)];
    }
    let independent = all / dispersion.max(1.0);
    if independent < LEAST_EVENTS || variance <= 0.0 {
        return 0.0;
    }
    (sum / all - 0.5) / (variance / independent).sqrt()
}

/// Returns the correlation of each value with the one before it.
fn memory(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let all: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let pairs = values.windows(2);
    let both: f64 = pairs.map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if all > 0.0 { both / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;

    fn points(value: impl Fn(u64) -> (Option<u64>, Option<i64>)) -> Vec<PowerPoint> {
        let point = |second: u64| {
            let (mean_khz, max_milli_celsius) = value(second);
            PowerPoint {
                at_ns: Nanos::from_secs(second),
                mean_khz,
                max_milli_celsius,
            }
        };
        (0..MINUTE).map(point).collect()
    }

    fn doubt(points: &[PowerPoint], late: &[u64]) -> Option<String> {
        let late: Vec<Late> = late
            .iter()
            .map(|second| Late {
                at: Nanos::from_secs(*second),
                count: 1,
            })
            .collect();
        let run = (Nanos::ZERO, Nanos::from_secs(MINUTE));
        follows(points, &late, run, 1.0, "late seconds")
    }

    /// The machine warms up, is throttled in the middle of the run, and cools down again: the Laplace
    /// test sees no trend.
    #[test]
    fn late_seconds_that_follow_throttling_give_no_bound() {
        let throttled = |second: u64| (25..35).contains(&second);
        let slow = points(|second| {
            (
                Some(if throttled(second) {
                    1_200_000
                } else {
                    3_600_000
                }),
                None,
            )
        });
        let why = doubt(&slow, &[27, 29, 33]).unwrap();
        assert!(
            why.contains("between 1.20 GHz and 3.60 GHz in 60 readings"),
            "{why}"
        );
        // Late seconds at other times do not follow it.
        assert_eq!(doubt(&slow, &[5, 29, 50]), None);
        assert_eq!(doubt(&slow, &[29]), None);
        let warm = points(|second| (None, Some(40_000 + second as i64 * 500)));
        let why = doubt(&warm, &[45, 52, 55, 58]).unwrap();
        assert!(
            why.contains("the temperature, which drifted between 40.0 °C and 69.5 °C"),
            "{why}"
        );
        assert_eq!(doubt(&warm, &[3, 20, 41, 55]), None);
    }

    #[test]
    fn quick_small_and_unknown_changes_are_no_drift() {
        let late = [41, 45, 49, 53, 57];
        let quick = points(|second| {
            (
                Some(if second % 4 == 1 {
                    1_200_000
                } else {
                    3_600_000
                }),
                None,
            )
        });
        assert_eq!(doubt(&quick, &late), None);
        let small = points(|second| (None, Some(40_000 + second as i64 * 70)));
        assert_eq!(doubt(&small, &late), None);
        assert_eq!(doubt(&points(|_| (None, None)), &late), None);
        assert_eq!(doubt(&[], &late), None);
    }

    /// If late seconds and temperature have nothing to do with each other, at most one run in 15 is
    /// refused.
    #[test]
    fn unrelated_late_seconds_are_rarely_refused() {
        let mut random = fastrand::Rng::with_seed(3);
        let warm = points(|second| (None, Some(40_000 + (second as i64 - 30).pow(2) * 30)));
        let mut refused = 0;
        for _ in 0..600 {
            let late: Vec<u64> = (0..MINUTE).filter(|_| random.u64(..8) == 0).collect();
            refused += u32::from(doubt(&warm, &late).is_some());
        }
        assert!((6..=40).contains(&refused), "{refused}");
    }

    #[test]
    fn memory_is_the_correlation_of_neighbours() {
        assert_eq!(memory(&[1.0, 2.0, 3.0, 4.0]), 0.25);
        assert_eq!(memory(&[1.0, -1.0, 1.0, -1.0]), -0.75);
        assert_eq!(memory(&[5.0, 5.0, 5.0]), 0.0);
    }

    /// Mean ranks of the readings before the late periods, compared with those of all readings.
    #[test]
    fn statistic_grows_with_the_ranks_of_late_periods() {
        let all = points(|second| (Some(second), None));
        let all: Vec<&PowerPoint> = all.iter().take(4).collect();
        let values = [10.0, 20.0, 30.0, 40.0];
        let of = |late: &[(usize, u64)], dispersion| {
            let late: Vec<Late> = (late.iter())
                .map(|(place, count)| Late {
                    at: all[*place].at_ns,
                    count: *count,
                })
                .collect();
            statistic(&all, &values, &late, dispersion)
        };
        let is = |found: f64, known: f64| assert!((found - known).abs() < 1e-9, "{found} {known}");
        // The ranks are 1/8, 3/8, 5/8 and 7/8, with a variance of 5/64.
        let spread = (5.0 / 64.0f64).sqrt();
        is(of(&[(3, 4)], 1.0), 0.375 / spread * 2.0);
        is(of(&[(0, 4)], 1.0), -0.375 / spread * 2.0);
        is(of(&[(0, 1), (3, 3)], 1.0), 0.1875 / spread * 2.0);
        is(of(&[(3, 8)], 2.0), 0.375 / spread * 2.0);
        is(of(&[(3, 8)], 0.5), 0.375 / spread * 8f64.sqrt());
        // Too few independent events.
        is(of(&[(3, 1)], 1.0), 0.0);
        is(of(&[(3, 3)], 2.0), 0.0);
        let late = [Late {
            at: all[0].at_ns,
            count: 9,
        }];
        is(statistic(&all, &[7.0; 4], &late, 1.0), 0.0);
    }
}
