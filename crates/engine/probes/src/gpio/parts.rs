//! The two parts of each sample.

use punctual_model::{Cell, Histogram, Nanos, Table};

/// The parts of the samples.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) first: Histogram,
    pub(super) second: Histogram,
    /// Both parts of the longest sample.
    pub(super) longest: Option<(Nanos, Nanos)>,
}

impl Parts {
    pub(super) fn new() -> Self {
        Self {
            first: Histogram::preallocated(),
            second: Histogram::preallocated(),
            longest: None,
        }
    }

    /// Adds the sample from `from` to `to`, which is divided at `middle`.
    pub(super) fn add(&mut self, from: Nanos, middle: Nanos, to: Nanos) {
        self.first.record(middle.signed_sub(from));
        self.second.record(to.signed_sub(middle));
        let parts = (middle.saturating_sub(from), to.saturating_sub(middle));
        if self
            .longest
            .is_none_or(|(first, second)| parts.0 + parts.1 > first + second)
        {
            self.longest = Some(parts);
        }
    }

    /// Returns a table with one row for each name.
    pub(super) fn table(&self, title: &str, names: &[&str]) -> Table {
        let mut table = Table::new(
            "reaction_parts",
            title,
            &[
                ("part", "part"),
                ("edges", "edges"),
                ("median_ns", "median"),
                ("p99_ns", "p99"),
                ("max_ns", "max"),
                ("in_longest_ns", "in the longest"),
            ],
        );
        let (first, second) = self.longest.unzip();
        let parts = [(&self.first, first), (&self.second, second)];
        for (name, (histogram, in_longest)) in names.iter().zip(parts) {
            table.push([
                Cell::from(*name),
                histogram.recorded().into(),
                histogram.quantile(0.5).into(),
                histogram.supported_quantile(0.99).into(),
                histogram.max().into(),
                in_longest.into(),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn the_longest_sample_keeps_its_parts() {
        let mut parts = Parts::new();
        for times in [[10, 30, 31], [50, 51, 80], [90, 100, 110]] {
            let [from, middle, to] = times.map(Nanos);
            parts.add(from, middle, to);
        }
        assert_eq!(parts.longest, Some((Nanos(1), Nanos(29))));
        assert_eq!(parts.first.max(), Some(Nanos(20)));
        assert_eq!(parts.second.max(), Some(Nanos(29)));
        assert_eq!(parts.table("", &["one"]).rows.len(), 1);
        assert_eq!(parts.table("", &["one", "two"]).rows.len(), 2);
    }
}
