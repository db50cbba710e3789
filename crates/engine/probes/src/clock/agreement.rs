//! Checks whether the clocks of two CPUs agree and never step back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::{Nanos, Scheduling};
use punctual_rt::{Clock, Nanosleep};

use super::reader::Reader;
use super::rounds::{rest, sleep};
use crate::Control;
use crate::monotonic::now;
use crate::policy::measuring_thread;

/// Number of consecutive reads without a sleep. They take about 50 µs if the clock is read through
/// the vDSO, and 1 ms if each read takes 2 µs.
const BURST: usize = 512;

/// Bursts of both threads begin at multiples of this time, so that they overlap.
const GRID: Nanos = Nanos::from_millis(1);

/// The result of comparing two CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    /// Number of readings compared with a reading of the other CPU.
    pub(super) checks: u64,
    /// Number of these readings that were lower.
    pub(super) backward: u64,
    /// The largest step back, in units of the clock.
    pub(super) backward_max: u64,
}

impl Agreement {
    fn and(self, other: Self) -> Self {
        Self {
            checks: self.checks + other.checks,
            backward: self.backward + other.backward,
            backward_max: self.backward_max.max(other.backward_max),
        }
    }

    /// Compares a reading with `known`, the highest reading published before it. `ours` is the
    /// highest reading that is known to come from this thread.
    #[inline(always)]
    fn check(&mut self, reading: u64, known: u64, ours: u64) {
        if known == ours {
            return;
        }
        self.checks += 1;
        if reading < known {
            self.backward += 1;
            self.backward_max = self.backward_max.max(known - reading);
        }
    }
}

/// Returns the pairs of CPUs to check, and whether these are all pairs. A check takes at least
/// `least`. If `available` is too short for all pairs, only pairs with the first CPU are returned.
pub(super) fn pairs(cpus: &[u32], available: Nanos, least: Nanos) -> (Vec<(u32, u32)>, bool) {
    let all: Vec<(u32, u32)> = cpus
        .iter()
        .enumerate()
        .flat_map(|(place, first)| cpus[place + 1..].iter().map(|second| (*first, *second)))
        .collect();
    if all.len() as u64 * least.0 <= available.0 {
        return (all, true);
    }
    let complete = cpus.len() <= 2;
    let star = cpus.iter().skip(1).map(|cpu| (cpus[0], *cpu)).collect();
    (star, complete)
}

/// Runs a thread on each of two CPUs. Each publishes its readings and compares them with earlier
/// published ones. They never wait for each other.
///
/// Each thread loads the published value first and then takes its own reading. The published value
/// was read from the clock even earlier, so if the own reading is lower, the clock stepped back
/// between the CPUs.
pub(super) fn check(
    reader: Reader,
    pair: (u32, u32),
    length: Nanos,
    scheduling: Scheduling,
    control: &Arc<Control>,
) -> Result<Agreement, punctual_rt::Error> {
    let highest = Arc::new(AtomicU64::new(0));
    let end = now() + length;
    let spawn = |cpu: u32| {
        let highest = Arc::clone(&highest);
        let control = Arc::clone(control);
        measuring_thread(&format!("agree/{cpu}"), &[cpu], scheduling)
            .spawn(move || bursts(reader, &highest, end, &control))
    };
    let first = spawn(pair.0)?;
    // If the second thread cannot be started, the first thread still ends after its duration.
    let second = spawn(pair.1);
    let first = first.join();
    let second = second?.join();
    Ok(first??.and(second??))
}

fn bursts(
    reader: Reader,
    highest: &AtomicU64,
    end: Nanos,
    control: &Control,
) -> Result<Agreement, punctual_rt::Error> {
    let _entered = control.enter();
    let mut wait = Nanosleep::new(Clock::Monotonic)?;
    let mut found = Agreement::default();
    let mut ours = 0;
    let mut awake = now();
    loop {
        let due = next_due(rest(awake, now()));
        sleep(&mut wait, due, control)?;
        awake = now();
        if awake >= end || control.stopping() {
            return Ok(found);
        }
        for _ in 0..BURST {
            let known = highest.load(Ordering::Acquire);
            let reading = reader.read();
            found.check(reading, known, ours);
            let before = highest.fetch_max(reading, Ordering::AcqRel);
            // If the other thread has published a higher value in the meantime, the known value
            // does not come from this thread.
            ours = if before <= reading { reading } else { 0 };
        }
    }
}

fn next_due(time: Nanos) -> Nanos {
    Nanos((time.0 / GRID.0 + 1) * GRID.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_reading_than_other_cpu_steps_back() {
        let mut found = Agreement::default();
        // A comparison with a thread's own earlier reading says nothing about the other CPU.
        found.check(90, 100, 100);
        assert_eq!(found, Agreement::default());
        found.check(100, 100, 0);
        found.check(101, 100, 50);
        assert_eq!((found.checks, found.backward), (2, 0));
        found.check(93, 100, 0);
        found.check(98, 100, 0);
        let expected = Agreement {
            checks: 4,
            backward: 2,
            backward_max: 7,
        };
        assert_eq!(found, expected);
        assert_eq!(found.and(expected).checks, 8);
        assert_eq!(found.and(expected).backward_max, 7);
    }

    #[test]
    fn pairs_or_first_cpu_are_checked() {
        let least = Nanos::from_millis(1);
        let (all, complete) = pairs(&[0, 2, 5], Nanos::from_millis(3), least);
        assert_eq!((&*all, complete), (&[(0, 2), (0, 5), (2, 5)][..], true));
        let (star, complete) = pairs(&[0, 2, 5], Nanos::from_millis(2), least);
        assert_eq!((&*star, complete), (&[(0, 2), (0, 5)][..], false));
        assert_eq!(pairs(&[3], Nanos::ZERO, least), (vec![], true));
        assert_eq!(pairs(&[0, 1], Nanos::ZERO, least), (vec![(0, 1)], true));
    }

    #[test]
    fn the_grid_goes_on() {
        assert_eq!(next_due(Nanos(0)), GRID);
        assert_eq!(next_due(Nanos(GRID.0)), Nanos(2 * GRID.0));
        assert_eq!(next_due(Nanos(GRID.0 - 1)), GRID);
    }
}
