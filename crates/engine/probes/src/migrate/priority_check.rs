//! Checks that the threads of the highest ranks ran. From the times when each thread ran, it finds
//! the threads that waited and those that ran instead.

use std::collections::VecDeque;

use punctual_model::{Cell, Nanos, Table};

/// A time interval, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Segment {
    /// Returns the part of this interval that is also in `other`.
    fn within(self, other: Self) -> Option<Self> {
        let both = Self {
            from: self.from.max(other.from),
            to: self.to.min(other.to),
        };
        (both.from < both.to).then_some(both)
    }
}

/// The times at which one thread ran in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) round: u64,
    /// The interval in which the thread should run.
    pub(super) wants: Segment,
    ran: [Segment; Self::MAX_SEGMENTS],
    used: usize,
    /// Whether the thread ran in more intervals than can be stored.
    pub(super) overflow: bool,
}

impl Life {
    /// If there are more preemptions than this within a few milliseconds, they are not waits for a
    /// migration.
    const MAX_SEGMENTS: usize = 16;

    pub(super) const fn new(round: u64, wants: Segment) -> Self {
        Self {
            round,
            wants,
            ran: [Segment { from: 0, to: 0 }; Self::MAX_SEGMENTS],
            used: 0,
            overflow: false,
        }
    }

    /// Adds an interval, later than all before.
    pub(super) fn ran(&mut self, from: u64, to: u64) {
        match self.ran.get_mut(self.used) {
            Some(place) => {
                *place = Segment { from, to };
                self.used += 1;
            }
            None => self.overflow = true,
        }
    }

    fn segments(&self) -> &[Segment] {
        &self.ran[..self.used]
    }

    /// Returns the times at which the thread should have run, but did not.
    fn waited(&self) -> impl Iterator<Item = Segment> + '_ {
        let ends = std::iter::once(self.wants.from).chain(self.segments().iter().map(|s| s.to));
        let begins = (self.segments().iter().map(|s| s.from)).chain([self.wants.to]);
        ends.zip(begins)
            .map(|(from, to)| Segment { from, to })
            .filter(|wait| wait.from < wait.to)
    }
}

/// A case in which a thread waited while one of lower rank ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// When the wait began.
    pub(super) at: Nanos,
    /// How long a thread of lower rank ran during the wait.
    pub(super) length: Nanos,
    /// The rank of the waiting thread; 0 is the lowest.
    pub(super) waiting: usize,
    /// The lowest rank that ran.
    pub(super) running: usize,
}

/// Returns the violations of one round; `lives` is sorted by ascending rank.
pub(super) fn violations(lives: &[Life], tolerance: Nanos) -> Vec<Violation> {
    let mut found = Vec::new();
    for (waiting, life) in lives.iter().enumerate() {
        for wait in life.waited() {
            let mut running = None;
            let mut pieces = Vec::new();
            for (rank, lower) in lives[..waiting].iter().enumerate() {
                let before = pieces.len();
                pieces.extend(lower.segments().iter().filter_map(|s| s.within(wait)));
                if pieces.len() > before {
                    running = running.or(Some(rank));
                }
            }
            let length = Nanos(covered(pieces));
            if let Some(running) = running
                && length > tolerance
            {
                found.push(Violation {
                    at: Nanos(wait.from),
                    length,
                    waiting,
                    running,
                });
            }
        }
    }
    found
}

/// Returns the time covered by at least one interval.
fn covered(mut pieces: Vec<Segment>) -> u64 {
    pieces.sort_unstable_by_key(|piece| piece.from);
    let mut sum = 0;
    let mut until = 0;
    for piece in pieces {
        sum += piece.to.saturating_sub(piece.from.max(until));
        until = until.max(piece.to);
    }
    sum
}

/// Collects the threads' reports by round, and checks each round.
#[derive(Debug)]
pub(super) struct PriorityCheck {
    waiting: Vec<VecDeque<Life>>,
    tolerance: Nanos,
    /// Rounds before this time are warm-up.
    from: Nanos,
    judged: u64,
    not_judged: u64,
    violations: u64,
    total: Nanos,
    /// The longest violations, in descending order.
    longest: Vec<Violation>,
}

impl PriorityCheck {
    /// Maximum number of violations that are kept individually.
    const KEPT: usize = 20;

    pub(super) fn new(threads: usize, tolerance: Nanos, from: Nanos) -> Self {
        Self {
            waiting: vec![VecDeque::new(); threads],
            tolerance,
            from,
            judged: 0,
            not_judged: 0,
            violations: 0,
            total: Nanos::ZERO,
            longest: Vec::new(),
        }
    }

    /// Adds a round of the thread with this rank. It must be later than the thread's previous
    /// rounds.
    pub(super) fn add(&mut self, rank: usize, life: Life) {
        self.waiting[rank].push_back(life);
    }

    /// Checks the rounds that all threads have reported.
    pub(super) fn judge(&mut self) {
        // Each thread reports its rounds in order. So if the next report of a thread is for a later
        // round, the thread will never report the earlier one.
        while let Some(round) = self.next_round() {
            let lives: Vec<Life> = (self.waiting.iter_mut())
                .filter_map(|queue| match queue.front() {
                    Some(life) if life.round == round => queue.pop_front(),
                    _ => None,
                })
                .collect();
            if lives.iter().any(|life| life.wants.from < self.from.0) {
                continue;
            }
            let whole = lives.len() == self.waiting.len() && lives.iter().all(|l| !l.overflow);
            if !whole {
                self.not_judged += 1;
                continue;
            }
            self.judged += 1;
            for violation in violations(&lives, self.tolerance) {
                self.keep(violation);
            }
        }
    }

    /// Returns the first unchecked round; `None` until every thread has reported this round or a
    /// later one.
    fn next_round(&self) -> Option<u64> {
        let first = |queue: &VecDeque<Life>| queue.front().map(|life| life.round);
        let rounds: Option<Vec<u64>> = self.waiting.iter().map(first).collect();
        rounds?.into_iter().min()
    }

    fn keep(&mut self, violation: Violation) {
        self.violations += 1;
        self.total += violation.length;
        let place = self
            .longest
            .partition_point(|kept| kept.length >= violation.length);
        if place < Self::KEPT {
            self.longest.insert(place, violation);
            self.longest.truncate(Self::KEPT);
        }
    }

    /// Returns the results. `start` is the start of the run, and `priority` maps a rank to its
    /// priority.
    pub(super) fn tables(&self, start: Nanos, priority: impl Fn(usize) -> u64) -> Vec<Table> {
        let mut rounds = Table::new(
            "rounds",
            "Did the highest-priority threads always run?",
            &[
                ("judged", "rounds judged"),
                ("not_judged", "not judged"),
                ("violations", "violations"),
                ("longest_ns", "longest"),
                ("total_ns", "in all"),
            ],
        );
        let longest = self.longest.first().map_or(Nanos::ZERO, |v| v.length);
        rounds.push([
            Cell::from(self.judged),
            self.not_judged.into(),
            self.violations.into(),
            longest.into(),
            self.total.into(),
        ]);
        let mut violations = Table::new(
            "violations",
            "Longest waits of a thread while a lower-priority thread ran",
            &[
                ("after_ns", "after"),
                ("waiting_priority", "waited"),
                ("running_priority", "ran"),
                ("length_ns", "for"),
            ],
        );
        for violation in &self.longest {
            violations.push([
                Cell::from(violation.at.saturating_sub(start)),
                priority(violation.waiting).into(),
                priority(violation.running).into(),
                violation.length.into(),
            ]);
        }
        vec![rounds, violations]
    }

    pub(super) fn not_judged(&self) -> u64 {
        self.not_judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn life(round: u64, wants: (u64, u64), ran: &[(u64, u64)]) -> Life {
        let (from, to) = wants;
        let mut life = Life::new(round, Segment { from, to });
        for &(from, to) in ran {
            life.ran(from, to);
        }
        life
    }

    fn found(lives: &[Life]) -> Vec<(u64, u64, usize, usize)> {
        violations(lives, Nanos(10))
            .into_iter()
            .map(|v| (v.at.0, v.length.0, v.waiting, v.running))
            .collect()
    }

    #[test]
    fn lower_thread_may_await_higher_threads() {
        let lives = [
            life(0, (0, 1_000), &[(0, 300), (900, 1_000)]),
            life(0, (100, 1_000), &[(105, 1_000)]),
            life(0, (300, 1_000), &[(305, 1_000)]),
        ];
        assert_eq!(found(&lives), []);
    }

    #[test]
    fn lower_thread_running_before_higher_violates_priority() {
        let lives = [
            life(0, (0, 1_000), &[(0, 1_000)]),
            life(0, (100, 1_000), &[(105, 300), (700, 1_000)]),
            life(0, (300, 1_000), &[(310, 1_000)]),
        ];
        // The middle thread was preempted and waited for 400 ns.
        assert_eq!(found(&lives), [(300, 400, 1, 0)]);
    }

    #[test]
    fn two_lower_threads_at_once_count_once() {
        let lives = [
            life(0, (0, 1_000), &[(0, 500)]),
            life(0, (0, 1_000), &[(0, 600)]),
            life(0, (100, 1_000), &[(900, 1_000)]),
        ];
        // No thread ran from 600 to 900: that is a late timer, not a migration.
        assert_eq!(found(&lives), [(100, 500, 2, 0)]);
    }

    #[test]
    fn who_never_ran_waited_all_the_time() {
        let lives = [
            life(0, (0, 1_000), &[(0, 1_000)]),
            life(0, (400, 1_000), &[]),
        ];
        assert_eq!(found(&lives), [(400, 600, 1, 0)]);
    }

    #[test]
    fn rounds_are_judged_once_all_have_told() {
        let mut judge = PriorityCheck::new(2, Nanos(10), Nanos(500));
        let wants = |round: u64| (round * 1_000, round * 1_000 + 100);
        for round in 0..4 {
            let all = wants(round);
            judge.add(0, life(round, all, &[all]));
            // The other thread does not report round 2.
            if round != 2 {
                judge.add(1, life(round, all, &[(all.0 + 50, all.1)]));
            }
            judge.judge();
        }
        // Round 0 belongs to the warm-up. Rounds 1 and 3 have one violation each.
        assert_eq!(
            (judge.judged, judge.not_judged, judge.violations),
            (2, 1, 2)
        );
        assert_eq!(judge.total, Nanos(100));
        let tables = judge.tables(Nanos(500), |rank| rank as u64 + 40);
        assert_eq!(tables[1].rows[0][0], Cell::Count(500));
        assert_eq!(tables[1].rows[0][1], Cell::Count(41));
    }

    #[test]
    fn overly_fragmented_life_is_not_judged() {
        let mut judge = PriorityCheck::new(1, Nanos(0), Nanos(0));
        let mut life = Life::new(0, Segment { from: 0, to: 99 });
        (0..17).for_each(|n| life.ran(n, n + 1));
        judge.add(0, life);
        judge.judge();
        assert_eq!(judge.not_judged(), 1);
    }

    #[test]
    fn the_longest_are_kept() {
        let mut judge = PriorityCheck::new(1, Nanos(0), Nanos(0));
        for length in 0..100 {
            judge.keep(Violation {
                at: Nanos(0),
                length: Nanos(length * 7 % 100),
                waiting: 0,
                running: 0,
            });
        }
        let lengths: Vec<u64> = judge.longest.iter().map(|v| v.length.0).collect();
        assert_eq!(lengths, (80..100).rev().collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn time_is_covered_once(pieces in prop::collection::vec((0_u64..200, 0_u64..50), 0..12)) {
            let segments: Vec<Segment> = pieces
                .iter()
                .map(|&(from, length)| Segment { from, to: from + length })
                .collect();
            let one_by_one = (0..300)
                .filter(|ns| segments.iter().any(|s| (s.from..s.to).contains(ns)))
                .count() as u64;
            prop_assert_eq!(covered(segments), one_by_one);
        }
    }
}
