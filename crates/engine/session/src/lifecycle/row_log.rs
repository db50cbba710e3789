//! Finished rows of a time series, and how many of them are in the store.

use punctual_model::IntervalRow;

/// Finished rows of all threads.
#[derive(Debug, Default)]
pub(crate) struct RowLog {
    finished: Vec<IntervalRow>,
    committed: usize,
}

impl RowLog {
    /// Adds finished rows.
    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = IntervalRow>) {
        self.finished.extend(rows);
    }

    /// Returns the rows that are not yet in the store, followed by the open ones.
    pub(crate) fn uncommitted(&self, open: impl Iterator<Item = IntervalRow>) -> Vec<IntervalRow> {
        let new = self.finished[self.committed..].iter().cloned();
        new.chain(open).collect()
    }

    /// Returns a copy of all rows so far.
    pub(crate) fn so_far(&self, open: impl Iterator<Item = IntervalRow>) -> Vec<IntervalRow> {
        self.finished.iter().cloned().chain(open).collect()
    }

    /// Marks all finished rows as stored.
    pub(crate) fn committed(&mut self) {
        self.committed = self.finished.len();
    }

    /// Returns all rows, by start and then by thread.
    pub(crate) fn all(self, open: impl Iterator<Item = IntervalRow>) -> Vec<IntervalRow> {
        let mut rows = self.finished;
        rows.extend(open);
        rows.sort_by_key(|row| (row.start_ns, row.thread));
        rows
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Histogram, Nanos};

    use super::*;

    #[test]
    fn open_rows_are_written_until_finished() {
        let row = |start| IntervalRow::new(0, Nanos(start), 0, &Histogram::new());
        let starts = |rows: Vec<IntervalRow>| -> Vec<u64> {
            rows.into_iter().map(|row| row.start_ns.0).collect()
        };
        let mut log = RowLog::default();
        log.extend([row(10), row(0)]);
        assert_eq!(starts(log.uncommitted([row(20)].into_iter())), [10, 0, 20]);
        log.committed();
        log.extend([row(20)]);
        assert_eq!(starts(log.uncommitted([row(30)].into_iter())), [20, 30]);
        assert_eq!(starts(log.all([row(30)].into_iter())), [0, 10, 20, 30]);
    }
}
