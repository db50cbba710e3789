//! Figures of one thread from another tool, checked for consistency.

use std::collections::BTreeMap;

use punctual_model::{Histogram, Nanos};

use super::Malformed;

/// A tool's latency figures of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Unit to which its figures are rounded down.
    pub(crate) unit: Nanos,
    /// Width of its rows.
    pub(crate) row: Nanos,
    /// Its rows: the lower edge in ns, and the number of samples.
    pub(crate) rows: BTreeMap<u64, u64>,
    /// Number of samples that are in no row.
    pub(crate) beyond: u64,
    /// Lower bound of the latency of the samples that are in no row.
    pub(crate) from: Nanos,
    /// The smallest latency, if given.
    pub(crate) min: Option<Nanos>,
    /// The largest latency, if given.
    pub(crate) max: Option<Nanos>,
    /// The mean, if given.
    pub(crate) mean: Option<f64>,
}

impl Counted {
    /// Adds `count` samples to the row that begins at `lower`.
    pub(crate) fn add(&mut self, lower: Nanos, count: u64) {
        if count > 0 {
            let slot = self.rows.entry(lower.0).or_insert(0);
            *slot = slot.saturating_add(count);
        }
    }

    /// Returns the number of all samples.
    ///
    /// # Errors
    /// Returns an error if there are too many to count.
    pub(crate) fn total(&self) -> Result<u64, Malformed> {
        (self.rows.values())
            .try_fold(self.beyond, |sum, count| sum.checked_add(*count))
            .ok_or(Malformed::SamplesTooManyInRows)
    }

    /// Returns the end of the last filled row. This is the lower bound for samples that are in no
    /// row, unless the tool states another bound.
    pub(crate) fn end(&self) -> Nanos {
        let last = self.rows.last_key_value();
        last.map_or(Nanos::ZERO, |(lower, _)| {
            Nanos(lower.saturating_add(self.row.0))
        })
    }

    /// Builds the histogram.
    ///
    /// # Errors
    /// Returns a description of the contradiction, if there is one.
    pub(crate) fn histogram(&self) -> Result<Histogram, Malformed> {
        let total = self.total()?;
        let mut histogram = Histogram::imported(self.unit, self.row);
        if total == 0 {
            return Ok(histogram);
        }
        self.check()?;
        for (lower, count) in &self.rows {
            histogram.add_row(Nanos(*lower), *count);
        }
        histogram.add_unplaced(self.beyond, self.from);
        // If each sample is in a row that is one unit wide, the sum computed from the rows is
        // exact, unlike a sum computed from a mean with few digits.
        let exact = self.beyond == 0 && self.row == self.unit;
        let mean = self.mean.filter(|_| !exact);
        let sum = mean.map(|mean| Nanos((mean * total as f64) as u64));
        histogram.set_figures(self.min, self.max, sum);
        Ok(histogram)
    }

    /// Checks that minimum, mean and maximum are consistent with the rows and with each other.
    fn check(&self) -> Result<(), Malformed> {
        let first = self.rows.first_key_value().map(|(lower, _)| *lower);
        let last = self.rows.last_key_value().map(|(lower, _)| *lower);
        // In files written by punctual, rows from 1 ms on are as wide as its buckets.
        let end = |lower: u64| lower.saturating_add(self.row.0.max(bucket_width(lower)));
        let beyond = (self.beyond > 0).then_some(self.from.0);
        if let Some(Nanos(min)) = self.min {
            let least = first.into_iter().chain(beyond).min().unwrap_or(0);
            // If the smallest sample is in a row, the minimum must be in that row.
            let in_row = first.filter(|first| beyond.is_none_or(|from| *first < from));
            if min < least || in_row.is_some_and(|first| min >= end(first)) {
                return Err(Malformed::MinimumBesideRows {
                    min: Nanos(min),
                    row: Nanos(least),
                });
            }
        }
        if let Some(Nanos(max)) = self.max {
            let most = last.into_iter().chain(beyond).max().unwrap_or(0);
            if max < most || (beyond.is_none() && last.is_some_and(|last| max >= end(last))) {
                return Err(Malformed::MaximumBesideRows {
                    max: Nanos(max),
                    row: Nanos(most),
                });
            }
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Err(Malformed::MinimumAboveMaximum { min, max });
        }
        let min = self.min.map_or(first.unwrap_or(0), |min| min.0) as f64;
        // `max` is rounded down, but the mean may be exact, so it can be up to one unit above
        // `max`.
        let max = (self.max).map_or(f64::INFINITY, |max| max.0 as f64 + self.unit.0 as f64);
        if let Some(mean) = self.mean
            // A mean that is rounded down to its unit may be below the row of the minimum.
            && !(min - self.unit.0 as f64..=max).contains(&mean)
        {
            return Err(Malformed::MeanOutside(Nanos(mean as u64)));
        }
        Ok(())
    }
}

/// Returns the width of the histogram bucket of punctual that begins at `lower`, for `lower` from 1
/// µs on. A bucket keeps three significant digits.
fn bucket_width(lower: u64) -> u64 {
    let digits = lower.checked_ilog10().unwrap_or(0);
    10u64.pow(digits.saturating_sub(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(rows: &[(u64, u64)]) -> Counted {
        let mut counted = Counted {
            unit: Nanos(1_000),
            row: Nanos(1_000),
            ..Counted::default()
        };
        for (us, count) in rows {
            counted.add(Nanos::from_micros(*us), *count);
        }
        counted
    }

    #[test]
    fn samples_beyond_rows_have_no_bucket() {
        let mut counted = micros(&[(3, 5), (4, 1)]);
        counted.beyond = 2;
        counted.from = Nanos::from_micros(20);
        let histogram = counted.histogram().unwrap();
        assert_eq!(histogram.count(), 8);
        assert_eq!(histogram.quantile(0.5), Some(Nanos::from_micros(3)));
        assert_eq!(histogram.quantile(0.9), None);
        assert_eq!((histogram.max(), histogram.mean()), (None, None));
        counted.max = Some(Nanos::from_micros(31));
        counted.mean = Some(9_500.0);
        let histogram = counted.histogram().unwrap();
        assert_eq!(histogram.max(), Some(Nanos::from_micros(31)));
        assert_eq!(histogram.mean(), Some(Nanos(9_500)));
    }

    #[test]
    fn contradictions_are_named() {
        let with = |min: u64, max: u64, mean: f64| {
            let mut counted = micros(&[(3, 5), (9, 1)]);
            counted.min = Some(Nanos::from_micros(min));
            counted.max = Some(Nanos::from_micros(max));
            counted.mean = Some(mean);
            counted.histogram().map(drop).map_err(|why| why.to_string())
        };
        assert_eq!(with(3, 9, 4_000.0), Ok(()));
        assert!(with(2, 9, 4_000.0).unwrap_err().contains("minimum"));
        assert!(with(4, 9, 4_000.0).unwrap_err().contains("minimum"));
        assert!(with(3, 8, 4_000.0).unwrap_err().contains("maximum"));
        assert!(with(3, 10, 4_000.0).unwrap_err().contains("maximum"));
        assert!(with(3, 9, 1_000.0).unwrap_err().contains("mean"));
        assert!(with(3, 9, f64::NAN).unwrap_err().contains("mean"));
        let full = micros(&[(1, u64::MAX), (2, 1)]);
        assert!(
            full.histogram()
                .unwrap_err()
                .to_string()
                .contains("64 bits")
        );
    }
}
