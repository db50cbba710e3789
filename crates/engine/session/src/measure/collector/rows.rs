//! Time series of one worker: the open row, and the closed ones.

use punctual_model::{Accounting, Histogram, IntervalRow, Nanos, SignedNanos};

/// Rows of a worker, in the order of time.
pub(super) struct Rows {
    thread: u32,
    /// First expected wake-up of the worker. Its rows are counted from this time.
    started: Nanos,
    /// Offset of `started` from the start of the recording: the duration of the previous phases.
    after: Nanos,
    open: OpenRow,
    /// Sum of the closed rows.
    closed: Histogram,
    finished: Vec<IntervalRow>,
}

/// Open row of the time series.
struct OpenRow {
    number: Option<u64>,
    missed: u64,
    histogram: Histogram,
}

impl Rows {
    pub(super) fn new(thread: u32, after: Nanos) -> Self {
        Self {
            thread,
            started: Nanos::ZERO,
            after,
            open: OpenRow {
                number: None,
                missed: 0,
                histogram: Histogram::new(),
            },
            closed: Histogram::new(),
            finished: Vec::new(),
        }
    }

    /// Sets the first expected wake-up.
    pub(super) const fn start(&mut self, at: Nanos) {
        self.started = at;
    }

    /// Returns the first expected wake-up; `None` before the measurement.
    pub(super) fn started(&self) -> Option<Nanos> {
        (self.started > Nanos::ZERO).then_some(self.started)
    }

    /// Opens the row that contains `time`, unless it is earlier than the open row. An event that
    /// belongs to an earlier row is counted in the open row, because closed rows are not changed.
    pub(super) fn go_to(&mut self, time: Nanos, row_length: Nanos) {
        let number = (time - self.started + self.after).0 / row_length.0;
        if self.open.number.is_none_or(|open| number > open) {
            self.close(row_length);
            self.open.number = Some(number);
        }
    }

    /// Adds a sample to the open row.
    pub(super) fn record(&mut self, latency: SignedNanos) {
        self.open.histogram.record(latency);
    }

    /// Adds missed periods to the open row.
    pub(super) const fn missed(&mut self, count: u64) {
        self.open.missed += count;
    }

    /// Closes the open row.
    pub(super) fn close(&mut self, row_length: Nanos) {
        if let Some(row) = self.open_row(row_length) {
            self.finished.push(row);
            self.closed.merge(&self.open.histogram);
            self.open.histogram.clear();
            self.open.missed = 0;
            self.open.number = None;
        }
    }

    /// Returns the open row in its current state.
    pub(super) fn open_row(&self, row_length: Nanos) -> Option<IntervalRow> {
        let start = Nanos(self.open.number? * row_length.0);
        let row = IntervalRow::new(self.thread, start, self.open.missed, &self.open.histogram);
        Some(row)
    }

    /// Returns and removes the finished rows.
    pub(super) fn take_finished(&mut self) -> Vec<IntervalRow> {
        std::mem::take(&mut self.finished)
    }

    /// Updates the counts of samples in `accounting`.
    pub(super) fn account(&self, accounting: &mut Accounting) {
        let rows = [&self.closed, &self.open.histogram];
        let sum = |count: fn(&Histogram) -> u64| rows.into_iter().map(count).sum::<u64>();
        accounting.recorded = sum(Histogram::recorded);
        accounting.early = sum(Histogram::early);
        accounting.overflow = sum(Histogram::overflow);
        accounting.expected = accounting.recorded + accounting.missed + accounting.warm_up;
    }

    /// Returns the histogram of all samples.
    pub(super) fn histogram(&self) -> Histogram {
        let mut all = self.closed.clone();
        all.merge(&self.open.histogram);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn rows(after: Nanos) -> Rows {
        let mut rows = Rows::new(4, after);
        assert_eq!(rows.started(), None);
        rows.start(Nanos::from_secs(100));
        rows
    }

    #[test]
    fn late_event_counts_in_open_row() {
        let mut rows = rows(Nanos::ZERO);
        rows.go_to(Nanos::from_secs(102), SECOND);
        rows.record(SignedNanos(7));
        rows.go_to(Nanos::from_secs(101), SECOND);
        rows.record(SignedNanos(9));
        rows.missed(3);
        assert_eq!(rows.take_finished(), []);
        let open = rows.open_row(SECOND).unwrap();
        assert_eq!((open.start_ns, open.count), (Nanos::from_secs(2), 2));
        assert_eq!((open.thread, open.missed), (4, 3));
    }

    #[test]
    fn later_phase_continues_the_series() {
        let mut rows = rows(Nanos::from_secs(30));
        rows.go_to(Nanos::from_secs(101), SECOND);
        rows.close(SECOND);
        assert_eq!(rows.take_finished()[0].start_ns, Nanos::from_secs(31));
        assert_eq!(rows.open_row(SECOND), None);
    }

    #[test]
    fn closed_and_open_rows_add_up() {
        let mut rows = rows(Nanos::ZERO);
        for (second, latency) in [(100, 5), (101, -1), (102, 8)] {
            rows.go_to(Nanos::from_secs(second), SECOND);
            rows.record(SignedNanos(latency));
        }
        let mut accounting = Accounting {
            missed: 2,
            warm_up: 4,
            ..Accounting::default()
        };
        rows.account(&mut accounting);
        assert_eq!((accounting.recorded, accounting.early), (3, 1));
        assert_eq!(accounting.expected, 9);
        assert_eq!(rows.histogram().max(), Some(Nanos(8)));
    }
}
