use punctual_rt::{AllocationGuard, CountingAllocator};

use super::*;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::system();

fn worker(warm_up: u64) -> (Recorder, WorkerReader, Arc<Control>) {
    let control = Arc::new(Control::new());
    let settings = WorkerSettings {
        warm_up: Nanos(warm_up),
        break_above: Some(Nanos(500)),
        rate_hz: 1,
    };
    let (mut recorder, reader) = RecorderSlot::open(settings, &control);
    recorder.start(Nanos(1_000));
    (recorder, reader, control)
}

fn events(reader: &mut WorkerReader) -> Vec<Event> {
    let mut events = Vec::new();
    reader.drain(|event| events.push(event));
    let (at, tid) = (Nanos(1_000), Some(punctual_rt::current_tid()));
    assert_eq!(
        events.remove(0),
        Event::Started {
            at,
            tid,
            partner: None
        }
    );
    events
}

#[test]
fn warm_up_is_counted_and_not_recorded() {
    let (mut recorder, mut reader, _control) = worker(30);
    for period in 0..5 {
        recorder.sample(Nanos(1_000 + period * 10), SignedNanos(7));
    }
    assert_eq!(
        events(&mut reader)[0],
        Event::WarmedUp {
            periods: 3,
            missed: 0
        }
    );
    let outcome = recorder.finish(5, SelfCost::default());
    assert_eq!(outcome.accounting.warm_up, 3);
    assert_eq!(outcome.accounting.recorded, 2);
    assert!(outcome.accounting.balances());
}

/// Each limit counts exactly the samples and missed periods above it.
#[test]
fn each_limit_counts_periods_above_it() {
    let (mut recorder, _reader, _control) = worker(10);
    recorder.count_overruns();
    recorder.count_above(&[Nanos(100), Nanos(105)]);
    for (period, latency) in (0..).zip([900, 100, 101, 105, 106, -3]) {
        recorder.sample(Nanos(1_000 + period * 10), SignedNanos(latency));
    }
    // The missed periods are late by 130, 120, 110 and 100.
    recorder.overrun(Nanos(1_060), 4, Nanos(10), Nanos(1_190));
    let above = recorder.finish(10, SelfCost::default()).above;
    let counted: Vec<_> = above
        .iter()
        .map(|one| (one.limit_ns.0, one.periods))
        .collect();
    // The first sample belongs to the warm-up.
    assert_eq!(counted, [(100, 3 + 3), (105, 1 + 3)]);
}

#[test]
fn later_worker_has_its_own_warmup() {
    let (recorder, _reader, control) = worker(30);
    let (mut late, mut reader) = RecorderSlot::open(recorder.settings, &control);
    late.start_late(Nanos(1_000), Nanos(5_000));
    late.sample(Nanos(5_020), SignedNanos(7));
    late.sample(Nanos(5_030), SignedNanos(7));
    // `events` has consumed the start of the measurement.
    assert_eq!(
        events(&mut reader)[0],
        Event::WarmedUp {
            periods: 1,
            missed: 0
        }
    );
    let outcome = late.finish(2, SelfCost::default());
    assert_eq!(outcome.accounting.warm_up, 1);
    assert_eq!(outcome.accounting.recorded, 1);
}

#[test]
fn warmup_end_splits_missed_periods() {
    let (mut recorder, mut reader, _control) = worker(30);
    recorder.sample(Nanos(1_000), SignedNanos(64));
    recorder.missed(Nanos(1_010), 6, Nanos(10));
    recorder.sample(Nanos(1_070), SignedNanos(1));
    assert_eq!(
        events(&mut reader),
        [
            Event::WarmedUp {
                periods: 3,
                missed: 2
            },
            Event::Missed {
                first: Nanos(1_030),
                count: 4
            },
            Event::Sample {
                expected: Nanos(1_070),
                latency: SignedNanos(1)
            }
        ]
    );
    let outcome = recorder.finish(8, SelfCost::default());
    assert_eq!(outcome.accounting.missed, 4);
    assert_eq!(outcome.accounting.warm_up_missed, 2);
    assert!(outcome.accounting.balances());
}

#[test]
fn missed_periods_share_the_wake_up_lateness() {
    let (mut recorder, _reader, _control) = worker(30);
    recorder.count_overruns();
    // The thread was due at 1,000 and woke at 1,064. Six periods have passed, the first two of them
    // in the warm-up.
    recorder.sample(Nanos(1_000), SignedNanos(64));
    recorder.overrun(Nanos(1_010), 6, Nanos(10), Nanos(1_064));
    recorder.missed(Nanos(1_070), 1, Nanos(10));
    let outcome = recorder.finish(8, SelfCost::default());
    assert!(outcome.accounting.balances());
    let late = outcome.missed_histogram.unwrap();
    let rows: Vec<(u64, u64)> = late.rows().map(|(lower, _, n)| (lower, n)).collect();
    assert_eq!(rows, [(4, 1), (14, 1), (24, 1), (34, 1)]);
    // One more period was missed, and its lateness is unknown.
    assert_eq!(outcome.accounting.missed, 5);
}

/// A reply that comes after its period makes the lateness of the missed period known.
#[test]
fn late_reply_gives_a_missed_period_its_lateness() {
    let (mut recorder, _reader, _control) = worker(30);
    recorder.count_overruns();
    recorder.sample(Nanos(1_000), SignedNanos(5));
    for due in [1_010, 1_030, 1_040] {
        recorder.missed(Nanos(due), 1, Nanos(10));
    }
    // The first one is in the warm-up, and the last one never gets a reply.
    recorder.answered_late(Nanos(1_010), Nanos(17));
    recorder.answered_late(Nanos(1_030), Nanos(15));
    let outcome = recorder.finish(4, SelfCost::default());
    assert!(outcome.accounting.balances());
    assert_eq!(outcome.accounting.missed, 2);
    let late = outcome.missed_histogram.unwrap();
    let rows: Vec<(u64, u64)> = late.rows().map(|(lower, _, n)| (lower, n)).collect();
    assert_eq!(rows, [(15, 1)]);
}

#[test]
fn overruns_allocate_nothing() {
    let (mut recorder, _reader, _control) = worker(0);
    recorder.count_overruns();
    let period = Nanos::from_millis(1);
    let mut guard = AllocationGuard::new().unwrap();
    guard.region(|| {
        // The values go beyond the range. Each value also fills the decades below it.
        for late in [0, 7, 900_000, 1_000_000_000, 999_999_999_999, 1 << 51] {
            let passed = late / period.0 + 1;
            recorder.overrun(Nanos(2_000), passed, period, Nanos(2_000 + late));
        }
    });
    assert_eq!(guard.violations().count, 0);
    let outcome = recorder.finish(0, SelfCost::default());
    assert!(outcome.missed_histogram.unwrap().recorded() > 1_000_000);
}

#[test]
fn open_periods_are_missed_with_minimum_lateness() {
    let (mut recorder, mut reader, _control) = worker(30);
    recorder.count_overruns();
    recorder.sample(Nanos(1_000), SignedNanos(5));
    // Two periods are in the warm-up, and three after it.
    recorder.still_open(Nanos(1_010), 5, Nanos(10), Nanos(1_500));
    assert_eq!(
        events(&mut reader)[1],
        Event::Missed {
            first: Nanos(1_030),
            count: 3
        }
    );
    let outcome = recorder.finish(6, SelfCost::default());
    assert!(outcome.accounting.balances());
    assert_eq!(outcome.accounting.missed, 3);
    let open = OpenPeriods {
        periods: 3,
        late_ns: Nanos(470),
        period_ns: Nanos(10),
    };
    assert_eq!(outcome.open, Some(open));
    assert!(outcome.missed_histogram.is_none());
}

#[test]
fn an_event_takes_24_bytes() {
    assert_eq!(size_of::<Event>(), 24);
    // Size of the ring of each CPU in a typical run.
    assert_eq!(RecorderSlot::ring_bytes(1_000), 30_000);
    assert_eq!(RecorderSlot::rate_within(30_000), 1_000);
}

#[test]
fn full_ring_reports_drops_histogram_keeps_all() {
    let (mut recorder, reader, _control) = worker(0);
    for period in 0..5_000 {
        recorder.sample(Nanos(1_000 + period), SignedNanos(3));
    }
    // Two entries were used for the start and the end of the warm-up.
    let dropped = 5_000 - (RecorderSlot::FEWEST_HELD - 2);
    assert_eq!(reader.dropped(), dropped);
    let outcome = recorder.finish(5_000, SelfCost::default());
    assert_eq!(outcome.dropped, dropped);
    assert_eq!(outcome.histogram.recorded(), 5_000);
}

#[test]
fn sample_above_break_value_ends_run() {
    let (mut recorder, _reader, control) = worker(0);
    recorder.sample(Nanos(1_000), SignedNanos(500));
    assert!(!control.stopping());
    recorder.sample(Nanos(1_010), SignedNanos(501));
    assert!(control.stopping() && control.broke().is_some());
}

#[test]
fn early_samples_are_recorded_as_early() {
    let (mut recorder, _reader, _control) = worker(0);
    recorder.sample(Nanos(1_000), SignedNanos(-2));
    recorder.sample(Nanos(1_010), SignedNanos(2));
    let outcome = recorder.finish(2, SelfCost::default());
    assert_eq!(outcome.accounting.early, 1);
    assert_eq!(outcome.accounting.recorded, 2);
    assert_eq!(outcome.largest, [(Nanos(2), Nanos(1_010))]);
}
