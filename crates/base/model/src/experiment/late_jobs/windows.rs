//! Late jobs in windows of consecutive jobs.
//!
//! A recording counts the jobs of each row of its time series, and how many of them were late. The
//! order within a row is unknown. So a window is violated for certain if any order violates it, and
//! may be violated if some order does.

use super::seconds::{RowJobs, Seconds};
use crate::MissLimit;

/// Adds the seconds with a late job that violated a window. `unknown` jobs may have been late at any
/// time. Returns the largest number of late jobs that a window may have had.
pub(super) fn violations(
    rows: &[RowJobs],
    limit: MissLimit,
    unknown: u64,
    seconds: &mut Seconds,
) -> u64 {
    let (allowed, length) = (u64::from(limit.late()), u64::from(limit.periods()));
    let mut worst = unknown;
    // Windows that end in a row can begin in this one, or a later one.
    let mut possible = Span::default();
    let mut certain = Span::default();
    for (place, row) in rows.iter().enumerate() {
        possible.add(row.jobs[0], row.late[1]);
        // The window contains all jobs of the rows between its ends, and one of each end.
        while possible.first < place
            && possible.jobs + 2
                > u128::from(rows[possible.first].jobs[0])
                    + u128::from(row.jobs[0])
                    + u128::from(length)
        {
            possible.remove(rows[possible.first].jobs[0], rows[possible.first].late[1]);
        }
        let most = saturated(possible.late).saturating_add(unknown);
        if row.late[1] > 0 {
            worst = worst.max(most);
            if most > allowed {
                seconds.possible.extend(row.second..=row.until);
            }
        }
        certain.add(row.jobs[1], row.late[0]);
        while certain.first < place && certain.jobs + u128::from(unknown) > u128::from(length) {
            certain.remove(rows[certain.first].jobs[1], rows[certain.first].late[0]);
        }
        // Rows longer than a window contain several windows. At least one of them has the mean
        // number of late jobs or more.
        let windows = (certain.jobs + u128::from(unknown)).div_ceil(u128::from(length));
        let least = certain.late.div_ceil(windows.max(1));
        if row.late[0] > 0 && least > u128::from(allowed) {
            seconds.certain.insert(row.second);
        }
    }
    worst.min(length)
}

/// Consecutive rows up to the current one.
#[derive(Default)]
struct Span {
    first: usize,
    jobs: u128,
    late: u128,
}

impl Span {
    fn add(&mut self, jobs: u64, late: u64) {
        self.jobs += u128::from(jobs);
        self.late += u128::from(late);
    }

    fn remove(&mut self, jobs: u64, late: u64) {
        self.first += 1;
        self.jobs -= u128::from(jobs);
        self.late -= u128::from(late);
    }
}

fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// One row a second, with the jobs of each in order: whether it was late.
    type Run = Vec<Vec<bool>>;

    /// Late jobs in bursts, and a number of jobs that changes from row to row.
    fn bursts(random: &mut Rng) -> Run {
        let mut bad = false;
        let most = 1 + random.u64(..40);
        (0..40)
            .map(|_| {
                let jobs = 1 + random.u64(..most);
                let next = |_| {
                    bad = if bad {
                        random.u64(..4) > 0
                    } else {
                        random.u64(..30) == 0
                    };
                    bad
                };
                (0..jobs).map(next).collect()
            })
            .collect()
    }

    /// Returns the rows with a job that violated a window, and the worst window.
    fn exact(run: &Run, limit: MissLimit) -> (Vec<u64>, u64) {
        let jobs: Vec<(u64, bool)> = (0..)
            .zip(run)
            .flat_map(|(row, jobs)| jobs.iter().map(move |late| (row, *late)))
            .collect();
        let (mut rows, mut worst) = (Vec::new(), 0);
        for (end, (row, late)) in jobs.iter().enumerate() {
            let first = (end + 1).saturating_sub(limit.periods() as usize);
            let count = jobs[first..=end].iter().filter(|(_, late)| *late).count() as u64;
            worst = worst.max(count);
            if *late && count > u64::from(limit.late()) {
                rows.push(*row);
            }
        }
        rows.dedup();
        (rows, worst)
    }

    fn row(second: u64, jobs: u64, late: u64) -> RowJobs {
        RowJobs {
            second,
            until: second,
            jobs: [jobs, jobs],
            late: [late, late],
        }
    }

    fn rows(run: &Run) -> Vec<RowJobs> {
        let late = |jobs: &Vec<bool>| jobs.iter().filter(|late| **late).count() as u64;
        (0..)
            .zip(run)
            .filter(|(_, jobs)| !jobs.is_empty())
            .map(|(second, jobs)| row(second, jobs.len() as u64, late(jobs)))
            .collect()
    }

    const LIMITS: [&str; 7] = ["0/1", "1/2", "1/10", "2/5", "2/40", "5/100", "10/300"];

    /// The exact rows are between those that are certain and those that are possible.
    #[test]
    fn rows_bound_windows_of_single_jobs() {
        let mut random = Rng::with_seed(7);
        let (mut proven, mut open) = (0, 0);
        for limit in LIMITS.map(|text| text.parse().unwrap()) {
            for _ in 0..60 {
                let run = bursts(&mut random);
                let (truth, worst) = exact(&run, limit);
                let mut found = Seconds::default();
                let most = violations(&rows(&run), limit, 0, &mut found);
                assert!(most >= worst, "{limit}: {most} below {worst}");
                let truth = truth.into_iter().collect();
                assert!(
                    found.certain.is_subset(&truth),
                    "{limit}: {found:?} {truth:?}"
                );
                assert!(
                    truth.is_subset(&found.possible),
                    "{limit}: {found:?} {truth:?}"
                );
                proven += found.certain.len();
                open += found.possible.len() - found.certain.len();
            }
        }
        assert!(proven > 2 * open, "{proven} certain, {open} open");
    }

    /// Jobs of unknown response time, which no row counts, may be late or not, at any time.
    #[test]
    fn unknown_jobs_leave_windows_open() {
        let mut random = Rng::with_seed(9);
        for limit in LIMITS.map(|text| text.parse().unwrap()) {
            for _ in 0..60 {
                let mut run = bursts(&mut random);
                let (truth, worst) = exact(&run, limit);
                let mut unknown = 0;
                for jobs in &mut run {
                    if random.u64(..8) == 0 && jobs.pop().is_some() {
                        unknown += 1;
                    }
                }
                let mut found = Seconds::default();
                let most = violations(&rows(&run), limit, unknown, &mut found);
                assert!(most >= worst, "{limit}: {most} below {worst}");
                let truth = truth.into_iter().collect();
                assert!(
                    found.certain.is_subset(&truth),
                    "{limit}: {found:?} {truth:?}"
                );
                // The others may be seconds of the unknown jobs, which are counted elsewhere.
                let missed = found.possible.symmetric_difference(&truth);
                let missed = missed.filter(|row| truth.contains(row)).count();
                assert!(missed as u64 <= unknown, "{limit}: {found:?} {truth:?}");
            }
        }
    }

    #[test]
    fn rows_longer_than_a_window_are_divided() {
        let violated = |jobs, late| {
            let mut found = Seconds::default();
            let worst = violations(
                &[row(0, jobs, late)],
                "2/10".parse().unwrap(),
                0,
                &mut found,
            );
            (found.certain.len(), found.possible.len(), worst)
        };
        assert_eq!(violated(100, 2), (0, 0, 2));
        // Three late jobs may be in one window, and 21 are for certain.
        assert_eq!(violated(100, 3), (0, 1, 3));
        assert_eq!(violated(100, 21), (1, 1, 10));
        assert_eq!(violated(10, 3), (1, 1, 3));
    }
}
