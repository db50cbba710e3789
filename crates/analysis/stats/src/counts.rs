//! The latencies of two recordings on one scale.

use punctual_model::{Buckets, Histogram, Nanos, Resolution};

/// The latency values of both recordings, at the coarser resolution of the two. All latencies
/// beyond the resolution of both recordings have the same value, which is the last one.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// In ascending order: latencies in ns, and [`BEYOND`] for unknown ones.
    values: Vec<u64>,
    /// The coarser resolution, without its rows.
    resolution: Resolution,
    from: u64,
}

/// The largest effect that samples of unknown latency may have on the probability of being later.
/// It is less than the last digit shown.
const UNKNOWN_SHARE: f64 = 0.000_5;

/// The value that represents latencies beyond the resolution.
pub(crate) const BEYOND: u64 = u64::MAX;

impl Scale {
    /// Creates the scale of all latencies in these histograms.
    pub(crate) fn from_histograms<'a>(
        histograms: impl Iterator<Item = &'a Histogram> + Clone,
    ) -> Self {
        let mut resolution = Resolution::new(Nanos(1), Nanos(1));
        for one in histograms.clone().filter_map(Histogram::resolution) {
            resolution.merge(one);
        }
        resolution.rows = Vec::new();
        let mut scale = Self {
            values: Vec::new(),
            resolution,
            from: (histograms.clone())
                .filter_map(Histogram::unplaced_from)
                .map(|from| from.0)
                .min()
                .unwrap_or(BEYOND),
        };
        for histogram in histograms {
            let buckets = histogram.buckets();
            let values = buckets
                .iter()
                .map(|(lower, width, _)| scale.value(lower, width));
            let values: Vec<u64> = values.collect();
            scale.values.extend(values);
        }
        scale.values.push(BEYOND);
        scale.values.sort_unstable();
        scale.values.dedup();
        scale
    }

    /// Returns the latency that represents a bucket: its last value, as in [`Histogram::quantile`].
    fn value(&self, lower: u64, width: u64) -> u64 {
        if lower >= self.from {
            return BEYOND;
        }
        self.resolution.upper(lower + width - 1)
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the index of a bucket's value.
    fn place(&self, lower: u64, width: u64) -> usize {
        let value = self.value(lower, width);
        match self.values.binary_search(&value) {
            Ok(place) => place,
            // No histogram contains this bucket of an interval, so the next higher value is used.
            Err(place) => place.min(self.values.len() - 1),
        }
    }

    /// Returns the index of the first value that is at least `limit`. A bucket that contains
    /// `limit` counts as a whole.
    pub(crate) fn from(&self, limit: Nanos) -> usize {
        self.values.partition_point(|value| *value < limit.0)
    }
}

/// Adds to a count. The sum saturates, because an imported recording may contain any numbers.
pub(crate) fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

/// Returns the sum of counts, which also saturates.
pub(crate) fn sum<'a>(counts: impl IntoIterator<Item = &'a u64>) -> u64 {
    counts
        .into_iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

/// Latencies counted on a [`Scale`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// The count of each value.
    pub(crate) each: Vec<u64>,
    /// Number of early samples, which are lower than all values.
    pub(crate) early: u64,
    /// Periods without a sample.
    pub(crate) missed: u64,
}

/// A time segment, with only its filled buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Segment {
    /// Indexes on the scale with their counts, in ascending order.
    pub(crate) filled: Vec<(u32, u64)>,
    pub(crate) early: u64,
    pub(crate) missed: u64,
}

impl Segment {
    /// Adds a part: its buckets, and the number of samples in no bucket.
    pub(crate) fn add(&mut self, scale: &Scale, buckets: &Buckets, beyond: u64) {
        let placed =
            (buckets.iter()).map(|(lower, width, count)| (scale.place(lower, width) as u32, count));
        self.filled.extend(placed);
        if beyond > 0 {
            self.filled.push((scale.len() as u32 - 1, beyond));
        }
    }

    /// Adds another segment.
    pub(crate) fn join(&mut self, other: &Self) {
        self.filled.extend_from_slice(&other.filled);
        add(&mut self.early, other.early);
        add(&mut self.missed, other.missed);
    }

    /// Combines the counts of equal values.
    pub(crate) fn tidy(&mut self) {
        self.filled.sort_unstable_by_key(|(place, _)| *place);
        self.filled.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                add(&mut kept.1, next.1);
            }
            same
        });
    }

    /// Returns the number of samples that were not early.
    pub(crate) fn total(&self) -> u64 {
        sum(self.filled.iter().map(|(_, count)| count))
    }

    /// Returns the number of samples at the index `place` and above.
    pub(crate) fn from(&self, place: usize) -> u64 {
        let beyond = self.filled.iter().filter(|(at, _)| *at as usize >= place);
        sum(beyond.map(|(_, count)| count))
    }

    /// Returns the share of the segment's samples above the value at `place`. `None` if there are
    /// no samples.
    pub(crate) fn share_above(&self, place: usize) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| self.from(place + 1) as f64 / total as f64)
    }
}

impl Counts {
    /// Counts a whole histogram.
    pub(crate) fn new(scale: &Scale, histogram: &Histogram, missed: u64) -> Self {
        let mut counts = Self {
            each: vec![0; scale.len()],
            early: histogram.early(),
            missed,
        };
        for (lower, width, count) in histogram.buckets().iter() {
            add(&mut counts.each[scale.place(lower, width)], count);
        }
        let last = scale.len() - 1;
        add(&mut counts.each[last], histogram.overflow());
        add(&mut counts.each[last], histogram.unplaced());
        counts
    }

    /// Resets all counts.
    pub(crate) fn clear(&mut self) {
        self.each.fill(0);
        (self.early, self.missed) = (0, 0);
    }

    /// Adds a segment.
    pub(crate) fn add(&mut self, segment: &Segment) {
        for &(place, count) in &segment.filled {
            add(&mut self.each[place as usize], count);
        }
        add(&mut self.early, segment.early);
        add(&mut self.missed, segment.missed);
    }

    /// Returns the number of samples that were not early.
    pub(crate) fn total(&self) -> u64 {
        sum(&self.each)
    }

    /// Returns the index of the given quantile, by nearest rank. `None` if there are no samples.
    pub(crate) fn place_of(&self, quantile: f64) -> Option<usize> {
        let total = self.total();
        let exact = quantile.clamp(0.0, 1.0) * total as f64;
        let rank = (exact - exact * 1e-12).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.each.iter().position(|count| {
            add(&mut seen, *count);
            seen >= rank
        })
    }

    /// Returns the given quantile in ns. `None` if there are no samples or the latency is unknown.
    pub(crate) fn quantile(&self, scale: &Scale, quantile: f64) -> Option<u64> {
        let value = scale.values[self.place_of(quantile)?];
        (value != BEYOND).then_some(value)
    }

    /// Returns the number of samples at the index `place` and above.
    pub(crate) fn from(&self, place: usize) -> u64 {
        sum(&self.each[place.min(self.each.len())..])
    }

    /// Returns the probability that a random sample of `other` is later than one of `self`. Equal
    /// latencies count half (Mann and Whitney, Annals of Mathematical Statistics 18, 1947; Vargha
    /// and Delaney 2000). Returns `None` if one of the two has no samples, or if unknown latencies
    /// of both may change the result by more than [`UNKNOWN_SHARE`].
    pub(crate) fn later(&self, other: &Self) -> Option<f64> {
        let all = |counts: &Self| counts.total() as f64 + counts.early as f64;
        let pairs = all(self) * all(other);
        let mut earlier = self.early as f64;
        // Early samples count as equal to each other, and as earlier than all other samples.
        let mut won = 0.5 * earlier * other.early as f64;
        for (mine, theirs) in self.each.iter().zip(&other.each) {
            won += *theirs as f64 * (earlier + 0.5 * *mine as f64);
            earlier += *mine as f64;
        }
        // The order of two latencies beyond the resolution is unknown. The pair counts half; the
        // true value may be zero or one.
        let last = |counts: &Self| counts.each.last().map_or(0.0, |count| *count as f64);
        let unknown = 0.5 * last(self) * last(other);
        (pairs > 0.0 && unknown <= UNKNOWN_SHARE * pairs).then(|| won / pairs)
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::SignedNanos;

    use super::*;

    fn histogram_of(values: &[i64]) -> Histogram {
        let mut histogram = Histogram::new();
        values
            .iter()
            .for_each(|ns| histogram.record(SignedNanos(*ns)));
        histogram
    }

    fn both(a: &Histogram, b: &Histogram) -> (Scale, Counts, Counts) {
        let scale = Scale::from_histograms([a, b].into_iter());
        let counts = [a, b].map(|histogram| Counts::new(&scale, histogram, 0));
        let [a, b] = counts;
        (scale, a, b)
    }

    #[test]
    fn quantiles_are_those_of_the_histogram() {
        let a = histogram_of(&[100, 200, 300, 4_321, 98_765]);
        let b = histogram_of(&[-5, 50]);
        let (scale, counts, _) = both(&a, &b);
        for quantile in [0.2, 0.4, 0.5, 0.6, 0.8] {
            let exact = a.quantile(quantile).map(|ns| ns.0);
            assert_eq!(counts.quantile(&scale, quantile), exact, "{quantile}");
        }
        // The quantile is the end of the last bucket. The maximum is known separately.
        assert_eq!(counts.quantile(&scale, 1.0), Some(98_799));
        assert_eq!(
            Counts::new(&scale, &histogram_of(&[]), 0).quantile(&scale, 0.5),
            None
        );
    }

    #[test]
    fn later_is_counted_in_pairs() {
        // (1, 2, 2) and (2, 3, 0) form nine pairs. 2 > 1 and 3 > 1 occur once each, and 3 > 2
        // twice. 2 = 2 occurs twice and counts half: 5 of 9.
        let (_, a, b) = both(&histogram_of(&[1, 2, 2]), &histogram_of(&[2, 3, 0]));
        assert!((a.later(&b).unwrap() - 5.0 / 9.0).abs() < 1e-12);
        assert!((b.later(&a).unwrap() - 4.0 / 9.0).abs() < 1e-12);
        assert_eq!(a.later(&a), Some(0.5));
        // Early samples: in the pairs of (-1, 5) and (-2, 7), only 7 is later, in two pairs. The
        // pair of early samples counts half.
        let (_, a, b) = both(&histogram_of(&[-1, 5]), &histogram_of(&[-2, 7]));
        assert_eq!(a.later(&b), Some(2.5 / 4.0));
        let (_, a, none) = both(&histogram_of(&[1]), &histogram_of(&[]));
        assert_eq!(a.later(&none), None);
    }

    /// Samples of unknown latency are compared only with samples that are known to be less late,
    /// not with each other.
    #[test]
    fn what_is_not_known_is_not_later() {
        let unknown = |count, from| {
            let mut one = Histogram::imported(Nanos(1_000), Nanos(1_000));
            one.add_unplaced(count, Nanos(from));
            one
        };
        let (_, a, b) = both(&unknown(50_010, 5_000), &unknown(71_020, 107_000));
        assert_eq!(a.later(&b), None);
        let (_, a, b) = both(&histogram_of(&[5_000, 41_000]), &unknown(71_020, 107_000));
        assert_eq!((a.later(&b), b.later(&a)), (Some(1.0), Some(0.0)));
        // Few samples are beyond the last row of both recordings.
        let beyond = |count| {
            let mut one = unknown(count, 400_000);
            one.add_row(Nanos(10_000), 1_000);
            one
        };
        let (_, a, b) = both(&beyond(3), &beyond(5));
        let found = a.later(&b).unwrap();
        assert!((found - 0.501).abs() < 1e-3, "{found}");
        let (_, a, b) = both(&beyond(100), &beyond(100));
        assert_eq!(a.later(&b), None);
    }

    #[test]
    fn the_coarser_of_two_decides() {
        let fine = histogram_of(&[4_010, 4_990, 5_020]);
        let mut coarse = Histogram::imported(Nanos(1_000), Nanos(1_000));
        coarse.add_row(Nanos(4_000), 2);
        coarse.add_row(Nanos(7_000), 1);
        coarse.add_unplaced(1, Nanos(20_000));
        let (scale, fine, coarse) = both(&fine, &coarse);
        assert_eq!(scale.values, [4_000, 5_000, 7_000, BEYOND]);
        assert_eq!(fine.each, [2, 1, 0, 0]);
        assert_eq!(coarse.each, [2, 0, 1, 1]);
        assert_eq!(coarse.quantile(&scale, 0.75), Some(7_000));
        assert_eq!(coarse.quantile(&scale, 0.9), None);
        // The count from 5 µs on includes the row of 5 µs, and a bucket that begins there.
        assert_eq!(scale.from(Nanos(5_000)), 1);
        assert_eq!(scale.from(Nanos(4_001)), 1);
    }

    #[test]
    fn segments_add_up() {
        let histogram = histogram_of(&[10, 20, 20, 3_000]);
        let scale = Scale::from_histograms([&histogram].into_iter());
        let mut segment = Segment::default();
        segment.add(&scale, &histogram_of(&[20, 10]).buckets(), 1);
        segment.add(&scale, &histogram_of(&[20, 3_000]).buckets(), 0);
        segment.tidy();
        assert_eq!(segment.filled, [(0, 1), (1, 2), (2, 1), (3, 1)]);
        assert_eq!((segment.total(), segment.share_above(1)), (5, Some(0.4)));
        let mut counts = Counts::new(&scale, &histogram_of(&[]), 0);
        counts.add(&segment);
        counts.add(&segment);
        assert_eq!(counts.each, [2, 4, 2, 2]);
        assert_eq!(counts.from(2), 4);
        assert_eq!((scale.from(Nanos(20)), scale.from(Nanos(21))), (1, 2));
    }

    fn counts(each: &[u64], early: u64) -> Counts {
        Counts {
            each: each.to_vec(),
            early,
            missed: 7,
        }
    }

    #[test]
    fn quantile_is_the_nearest_rank() {
        let each = counts(&[0, 999, 0, 1, 0], 5);
        for (quantile, place) in [
            (0.0, 1),
            (0.5, 1),
            (0.999, 1),
            (0.999_5, 3),
            (1.0, 3),
            (7.0, 3),
            (-1.0, 1),
        ] {
            assert_eq!(each.place_of(quantile), Some(place), "{quantile}");
        }
        let four = counts(&[1, 1, 1, 1], 0);
        let places = [0.25, 0.26, 0.5, 0.75, 0.76].map(|quantile| four.place_of(quantile));
        assert_eq!(places, [0, 1, 1, 2, 3].map(Some));
        assert_eq!(counts(&[0, 0], 3).place_of(0.5), None);
        // The 300th of 1,000 samples, although 0.3 * 1000 is not exactly 300.
        let many = counts(&[300, 700], 0);
        assert_eq!(
            [many.place_of(0.3), many.place_of(0.300_01)],
            [Some(0), Some(1)]
        );
        // Counts of a file may be any numbers.
        let huge = counts(&[u64::MAX, u64::MAX], 0);
        assert_eq!(
            (huge.total(), huge.from(0), huge.place_of(0.1)),
            (u64::MAX, u64::MAX, Some(0))
        );
    }

    #[test]
    fn samples_from_a_value_on_are_counted() {
        let each = counts(&[4, 3, 2, 1], 5);
        let from = [0, 1, 3, 4, 9].map(|place| each.from(place));
        assert_eq!((each.total(), from), (10, [10, 6, 1, 0, 0]));
        let segment = Segment {
            filled: vec![(0, 4), (2, 3), (5, 1)],
            early: 2,
            missed: 6,
        };
        assert_eq!(
            [0, 1, 2, 3, 6].map(|place| segment.from(place)),
            [8, 4, 4, 1, 0]
        );
        let shares = [0, 1, 2, 5].map(|place| segment.share_above(place));
        assert_eq!(shares, [0.5, 0.5, 0.125, 0.0].map(Some));
        assert_eq!(Segment::default().share_above(0), None);
        let mut twice = segment.clone();
        twice.join(&segment);
        twice.tidy();
        assert_eq!(
            twice,
            Segment {
                filled: vec![(0, 8), (2, 6), (5, 2)],
                early: 4,
                missed: 12
            }
        );
        let mut all = counts(&[1; 6], 1);
        all.add(&twice);
        assert_eq!(
            (all.each.as_slice(), all.early, all.missed),
            (&[9, 1, 7, 1, 1, 3][..], 5, 19)
        );
        all.clear();
        assert_eq!(
            all,
            Counts {
                each: vec![0; 6],
                ..Counts::default()
            }
        );
    }

    /// A time series may contain buckets that are not in the histogram of the run, for example if it
    /// was imported.
    #[test]
    fn unknown_buckets_count_as_the_next_higher_value() {
        let histogram = histogram_of(&[10, 30]);
        let scale = Scale::from_histograms([&histogram].into_iter());
        let mut segment = Segment::default();
        segment.add(
            &scale,
            &histogram_of(&[5, 10, 20, 30, 40, 5_000]).buckets(),
            3,
        );
        segment.tidy();
        assert_eq!(
            (scale.len(), segment.filled),
            (3, vec![(0, 2), (1, 2), (2, 5)])
        );
        let limits = [0, 10, 11, 30, 31].map(|limit| scale.from(Nanos(limit)));
        assert_eq!(limits, [0, 0, 1, 1, 2]);
    }

    /// A histogram with samples in all places: early, in buckets, beyond the range.
    #[test]
    fn each_sample_of_a_histogram_has_a_place() {
        let histogram = histogram_of(&[-3, -2, 10, 10, 30, 2_000_000_000_000]);
        let scale = Scale::from_histograms([&histogram].into_iter());
        let found = Counts::new(&scale, &histogram, 4);
        assert_eq!(
            (found.each, found.early, found.missed),
            (vec![2, 1, 1], 2, 4)
        );
        let mut imported = Histogram::imported(Nanos(1_000), Nanos(1_000));
        imported.add_row(Nanos(4_000), 6);
        imported.add_unplaced(2, Nanos(9_000));
        let scale = Scale::from_histograms([&imported].into_iter());
        assert_eq!(Counts::new(&scale, &imported, 0).each, [6, 2]);
        // Latencies of the other side from there on are unknown as well.
        let fine = histogram_of(&[3_999, 8_999, 9_000, 12_000]);
        let scale = Scale::from_histograms([&fine, &imported].into_iter());
        assert_eq!(Counts::new(&scale, &fine, 0).each.iter().sum::<u64>(), 4);
        assert_eq!(Counts::new(&scale, &fine, 0).each.last(), Some(&2));
    }

    /// One unknown sample on both sides of 30 and 40: 0.5 of 1,200 pairs, which is less than 0.05%.
    #[test]
    fn few_unknown_samples_hardly_matter() {
        let known = counts(&[29, 0, 1], 0);
        for (others, is_known) in [(39, true), (33, true), (32, false)] {
            let other = counts(&[0, others, 1], 0);
            assert_eq!(known.later(&other).is_some(), is_known, "{others}");
        }
        // 29 samples are earlier than 39, and than the unknown one. 1 is later than 39.
        let found = known.later(&counts(&[0, 39, 1], 0)).unwrap();
        assert!((found - (29.0 * 40.0 + 0.5) / 1_200.0).abs() < 1e-12);
    }
}
