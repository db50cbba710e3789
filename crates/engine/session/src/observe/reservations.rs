//! SCHED_DEADLINE reservations of watched threads, compared with what their jobs used.

use std::collections::BTreeMap;

use punctual_culprit::Job;
use punctual_model::{Nanos, Reservation};
use punctual_rt::Policy;

/// Minimum time between two reads of the reservation of a thread, which can change it at any time.
const REREAD: Nanos = Nanos::from_secs(1);

/// The reservations of threads, by thread ID.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    by_thread: BTreeMap<u32, Reserved>,
}

#[derive(Debug)]
struct Reserved {
    /// The completion time of the job after which it was read.
    read: Nanos,
    /// `None` if it could not be read.
    reservation: Option<Reservation>,
}

impl Reservations {
    /// Counts a job if its thread has a deadline policy. `read` returns the reservation of a thread,
    /// without jobs.
    pub(super) fn count(&mut self, job: &Job, read: impl Fn(u32) -> Option<Reservation>) {
        if job.prio.0 >= 0 {
            // The thread has another policy now.
            self.by_thread.remove(&job.tid);
            return;
        }
        let now = job.completion;
        let reserved = self.by_thread.entry(job.tid).or_insert_with(|| Reserved {
            read: now,
            reservation: read(job.tid),
        });
        if now.saturating_sub(reserved.read) >= REREAD {
            reserved.read = now;
            // If the thread has ended, the last known reservation remains.
            if let Some(current) = read(job.tid) {
                let same = |known: &Reservation| known.has_same_times(&current);
                if !reserved.reservation.as_ref().is_some_and(same) {
                    reserved.reservation = Some(current);
                }
            }
        }
        if let Some(reservation) = &mut reserved.reservation {
            reservation.count(job.ran, job.response());
        }
    }

    /// Adds the jobs of a thread to those of earlier threads with the same reservation.
    pub(super) fn add(&self, sum: &mut Option<Reservation>, tid: u32) {
        let reserved = self.by_thread.get(&tid);
        let Some(one) = reserved.and_then(|one| one.reservation.as_ref()) else {
            return;
        };
        match sum {
            None => *sum = Some(one.clone()),
            Some(sum) if sum.has_same_times(one) => {
                sum.jobs += one.jobs;
                sum.over_runtime += one.over_runtime;
                sum.over_deadline += one.over_deadline;
            }
            Some(_) => {}
        }
    }
}

/// Returns what a thread has reserved now. Returns `None` for another policy, or if the policy
/// cannot be read.
pub(super) fn reserved_by(tid: u32) -> Option<Reservation> {
    let tid = punctual_rt::Tid::from_raw(i32::try_from(tid).ok()?)?;
    let Ok(Policy::Deadline {
        runtime,
        deadline,
        period,
    }) = punctual_rt::policy_of(tid)
    else {
        return None;
    };
    Some(Reservation {
        runtime_ns: runtime.into(),
        deadline_ns: deadline.into(),
        period_ns: period.into(),
        ..Reservation::default()
    })
}

#[cfg(test)]
mod tests {
    use punctual_model::{Comm, KernelPriority};

    use super::*;

    fn job(end_ms: u64, ran_ms: u64, response_ms: u64, prio: i16) -> Job {
        let completion = Nanos::from_millis(end_ms);
        Job {
            tid: 7,
            comm: Comm::default(),
            prio: KernelPriority(prio),
            cpu: 0,
            release: completion - Nanos::from_millis(response_ms),
            completion,
            ran: Nanos::from_millis(ran_ms),
            events_from: completion - Nanos::from_millis(response_ms),
        }
    }

    fn reserved(runtime_ms: u64) -> Option<Reservation> {
        Some(Reservation {
            runtime_ns: Nanos::from_millis(runtime_ms),
            deadline_ns: Nanos::from_millis(10),
            period_ns: Nanos::from_millis(20),
            ..Reservation::default()
        })
    }

    fn counts(all: &Reservations) -> Option<(u64, u64, u64)> {
        let mut sum = None;
        all.add(&mut sum, 7);
        sum.map(|one: Reservation| (one.jobs, one.over_runtime, one.over_deadline))
    }

    #[test]
    fn overruns_and_misses_are_counted() {
        let mut all = Reservations::default();
        // A job that uses exactly what is reserved is no overrun.
        for (ran, response) in [(1, 2), (2, 10), (3, 9), (1, 11), (3, 30)] {
            all.count(&job(100, ran, response, -1), |_| reserved(2));
        }
        assert_eq!(counts(&all), Some((5, 2, 2)));
        // Two threads with the same reservation share a row, and one with another is left out.
        let mut sum = None;
        all.add(&mut sum, 7);
        all.add(&mut sum, 7);
        all.add(&mut sum, 8);
        assert_eq!(sum.map(|one| one.jobs), Some(10));
        let mut other = reserved(1);
        all.add(&mut other, 7);
        assert_eq!(other, reserved(1));
    }

    #[test]
    fn changed_reservation_starts_new_counts() {
        let mut all = Reservations::default();
        all.count(&job(100, 3, 3, -1), |_| reserved(2));
        all.count(&job(200, 3, 3, -1), |_| reserved(4));
        assert_eq!(counts(&all), Some((2, 2, 0)), "read again too early");
        all.count(&job(1_200, 3, 3, -1), |_| reserved(4));
        assert_eq!(counts(&all), Some((1, 0, 0)));
        // The thread has ended, so its reservation cannot be read again.
        all.count(&job(2_300, 5, 3, -1), |_| None);
        assert_eq!(counts(&all), Some((2, 1, 0)));
    }

    #[test]
    fn other_policies_have_no_reservation() {
        let mut all = Reservations::default();
        all.count(&job(100, 3, 3, 49), |_| panic!("not needed"));
        assert_eq!(counts(&all), None);
        all.count(&job(200, 3, 3, -1), |_| None);
        assert_eq!(counts(&all), None, "an unknown reservation has no counts");
        assert_eq!(reserved_by(std::process::id()), None);
        assert_eq!(reserved_by(u32::MAX), None);
    }
}
