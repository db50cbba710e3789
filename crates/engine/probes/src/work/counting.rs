//! The hardware counters of the slowest piece of work, and of the usual one.

use punctual_model::{JobCounts, Nanos, Table};
use punctual_rt::{CounterValues, PerfEvent, ThreadCounters, missing_counters};

/// Number of pieces whose counters are kept for the median.
const KEPT: usize = 512;

/// Number of counters.
const COUNTERS: usize = 3;

/// The values of the counters at one time.
pub(super) type Values = CounterValues<COUNTERS>;

/// The counted events. A test uses events of the kernel, which exist on every machine.
pub(super) type Events = [PerfEvent; COUNTERS];

/// The counters of the processor.
pub(super) const HARDWARE: Events = [
    PerfEvent::CYCLES,
    PerfEvent::INSTRUCTIONS,
    PerfEvent::CACHE_MISSES,
];

/// A piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    time: Nanos,
    counts: JobCounts,
}

/// Counts each piece of one thread.
#[derive(Debug)]
pub(super) struct Counting {
    counters: ThreadCounters<COUNTERS>,
    pieces: Pieces,
}

/// The slowest piece, and a selection of all pieces that is spread evenly over the run.
#[derive(Debug)]
struct Pieces {
    slowest: Option<Counted>,
    /// The selection: the first `count` of these.
    kept: Box<[Counted]>,
    count: usize,
    /// Every how many pieces one is kept.
    every: u64,
    seen: u64,
}

impl Counting {
    /// Opens the counters of the calling thread.
    ///
    /// # Errors
    /// Returns the reason if there are none.
    pub(super) fn open(events: Events) -> Result<Self, String> {
        let counters = ThreadCounters::open(events).map_err(|error| missing_counters(&error))?;
        Ok(Self {
            counters,
            pieces: Pieces::new(),
        })
    }

    /// Reads the counters with one system call.
    #[inline]
    pub(super) fn read(&self) -> Option<Values> {
        self.counters.read()
    }

    /// Adds a piece. Part of the loop: does not allocate.
    #[inline]
    pub(super) fn add(&mut self, time: Nanos, before: Option<Values>, after: Option<Values>) {
        let is_user_only = self.counters.is_user_only();
        let counts = before.zip(after);
        let counts = counts.map(|(before, after)| counted(&before, &after, is_user_only));
        self.pieces.add(Counted {
            time,
            counts: counts.unwrap_or_default(),
        });
    }

    /// Returns what the reader must know about the counters, without the name of the thread.
    pub(super) fn warning(&self) -> Option<String> {
        if let Some(error) = self.counters.refusal() {
            let why = missing_counters(error);
            return Some(format!("some hardware counters are unknown: {why}"));
        }
        let slowest = self.pieces.slowest?;
        if slowest.counts == JobCounts::default() {
            return Some(
                "the hardware counters of the slowest piece are unknown: the processor did not \
                 count all the time, because something else (perf, the NMI watchdog) uses its \
                 counters"
                    .to_owned(),
            );
        }
        self.counters.is_user_only().then(|| {
            "the hardware counters cover only user space, so the frequency is unknown: counting \
             in the kernel needs CAP_PERFMON (/proc/sys/kernel/perf_event_paranoid)"
                .to_owned()
        })
    }

    /// Adds the rows of one thread.
    pub(super) fn add_to(&self, table: &mut Table, title: &str) {
        let Some(slowest) = self.pieces.slowest else {
            return;
        };
        let median = format!("median of {}", self.pieces.count);
        for (name, piece) in [("slowest", slowest), (&median, self.pieces.median())] {
            let counts = piece.counts;
            table.push([
                title.into(),
                name.into(),
                piece.time.into(),
                counts.instructions.into(),
                counts.cycles.into(),
                counts.llc_misses.into(),
                counts.frequency_mhz().into(),
            ]);
        }
    }
}

/// Returns the table of counters, without rows.
pub(super) fn table() -> Table {
    Table::new(
        "work_counters",
        "Hardware counters of the slowest piece and of the median piece",
        &[
            ("where", "where"),
            ("piece", "piece"),
            ("time_ns", "time"),
            ("instructions", "instructions"),
            ("cycles", "cycles"),
            ("llc_misses", "LLC misses"),
            ("frequency_mhz", "MHz"),
        ],
    )
}

/// Returns what was counted between two readings. A count is unknown if the processor did not count
/// all the time.
fn counted(before: &Values, after: &Values, is_user_only: bool) -> JobCounts {
    let ran = after.enabled.saturating_sub(before.enabled);
    let running = after.running.saturating_sub(before.running);
    if ran != running || ran.is_zero() {
        return JobCounts::default();
    }
    let difference = |place: usize| after.counts[place]?.checked_sub(before.counts[place]?);
    let cycles = difference(0);
    JobCounts {
        cycles,
        instructions: difference(1),
        llc_misses: difference(2),
        // The time includes interrupts, whose cycles are missing if only user space is counted.
        on_cpu_ns: cycles
            .filter(|_| !is_user_only)
            .map(|_| Nanos::from(running)),
    }
}

impl Pieces {
    fn new() -> Self {
        // Not zero, because the kernel would map pages of zeros only in the loop.
        let touched = Counted {
            time: Nanos(1),
            ..Counted::default()
        };
        Self {
            slowest: None,
            kept: vec![touched; KEPT].into(),
            count: 0,
            every: 1,
            seen: 0,
        }
    }

    fn add(&mut self, piece: Counted) {
        if self.slowest.is_none_or(|slowest| piece.time > slowest.time) {
            self.slowest = Some(piece);
        }
        if self.count == self.kept.len() && self.seen.is_multiple_of(self.every) {
            self.count /= 2;
            for place in 0..self.count {
                self.kept[place] = self.kept[2 * place];
            }
            self.every *= 2;
        }
        if self.seen.is_multiple_of(self.every) {
            self.kept[self.count] = piece;
            self.count += 1;
        }
        self.seen += 1;
    }

    /// Returns the median of the times, and of each counter.
    fn median(&self) -> Counted {
        let of = |get: &dyn Fn(&Counted) -> Option<u64>| {
            let mut values: Vec<u64> = self.kept[..self.count].iter().filter_map(get).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        Counted {
            time: of(&|piece| Some(piece.time.0)).map_or(Nanos::ZERO, Nanos),
            counts: JobCounts {
                instructions: of(&|piece| piece.counts.instructions),
                cycles: of(&|piece| piece.counts.cycles),
                llc_misses: of(&|piece| piece.counts.llc_misses),
                on_cpu_ns: of(&|piece| piece.counts.on_cpu_ns.map(|time| time.0)).map(Nanos),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_model::Cell;

    use super::*;

    fn values(counts: [Option<u64>; COUNTERS], enabled: u64, running: u64) -> Values {
        Values {
            counts,
            enabled: Duration::from_nanos(enabled),
            running: Duration::from_nanos(running),
        }
    }

    #[test]
    fn counts_are_differences_of_readings() {
        let before = values([Some(100), Some(50), None], 1_000, 900);
        let after = values([Some(300_100), Some(900_050), None], 101_000, 100_900);
        let found = counted(&before, &after, false);
        assert_eq!(
            found,
            JobCounts {
                cycles: Some(300_000),
                instructions: Some(900_000),
                llc_misses: None,
                on_cpu_ns: Some(Nanos(100_000)),
            }
        );
        assert_eq!(found.frequency_mhz(), Some(3_000));
        let user = counted(&before, &after, true);
        assert_eq!((user.cycles, user.frequency_mhz()), (Some(300_000), None));
    }

    #[test]
    fn shared_counters_are_unknown() {
        let before = values([Some(100), Some(50), Some(1)], 1_000, 900);
        for after in [
            values([Some(300), Some(90), Some(2)], 101_000, 100_899),
            values([Some(300), Some(90), Some(2)], 1_000, 900),
            values([Some(300), Some(90), Some(2)], 0, 0),
        ] {
            assert_eq!(counted(&before, &after, false), JobCounts::default());
        }
    }

    fn pieces(times: impl IntoIterator<Item = u64>) -> Pieces {
        let mut pieces = Pieces::new();
        for time in times {
            pieces.add(Counted {
                time: Nanos(time),
                counts: JobCounts {
                    cycles: Some(3 * time),
                    ..JobCounts::default()
                },
            });
        }
        pieces
    }

    #[test]
    fn slowest_piece_keeps_its_counters() {
        let found = pieces([100, 102, 101, 500, 100]);
        let slowest = found.slowest.unwrap();
        assert_eq!(
            (slowest.time, slowest.counts.cycles),
            (Nanos(500), Some(1_500))
        );
        let median = found.median();
        assert_eq!((median.time, median.counts.cycles), (Nanos(101), Some(303)));
        assert_eq!(median.counts.instructions, None);
    }

    proptest::proptest! {
        #[test]
        fn selection_is_spread_over_the_run(count in 1_u64..5_000) {
            let found = pieces(0..count);
            let kept = &found.kept[..found.count];
            for (place, piece) in (0..).zip(kept) {
                proptest::prop_assert_eq!(piece.time.0, place * found.every);
            }
            // None is missing at the end.
            proptest::prop_assert_eq!(found.count as u64, count.div_ceil(found.every));
            proptest::prop_assert!(found.count as u64 >= count.min(KEPT as u64 / 2));
        }
    }

    #[test]
    fn counters_of_the_kernel_reach_the_table() {
        let events = [
            PerfEvent::CPU_CLOCK,
            PerfEvent::CONTEXT_SWITCHES,
            PerfEvent::PAGE_FAULTS,
        ];
        let mut counting = match Counting::open(events) {
            Ok(counting) => counting,
            Err(why) => return punctual_testing::skip_refused("perf_event_open", why),
        };
        for _ in 0..3 {
            let before = counting.read();
            punctual_rt::spin_for(Duration::from_micros(100));
            let after = counting.read();
            counting.add(Nanos(100_000), before, after);
        }
        let mut table = table();
        counting.add_to(&mut table, "CPU 1");
        assert_eq!(table.rows.len(), 2);
        for (row, name) in table.rows.iter().zip(["slowest", "median of 3"]) {
            assert_eq!(row[..2], ["CPU 1".into(), name.into()]);
            let Cell::Count(clock) = row[4] else {
                panic!("{row:?}");
            };
            assert!(clock > 0);
        }
    }
}
