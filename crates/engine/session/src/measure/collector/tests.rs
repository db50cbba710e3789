use super::*;
use crate::lifecycle::largest_of_all;
use punctual_model::{Policy, Scheduling};
use punctual_probes::{Control, Recorder, RecorderSlot, SelfCost, WorkerSettings};
use std::sync::Arc;

const SECOND: Nanos = Nanos::from_secs(1);

fn worker() -> (Recorder, Collector, Start) {
    let settings = WorkerSettings {
        warm_up: Nanos::ZERO,
        break_above: None,
        rate_hz: 10,
    };
    let (mut recorder, reader) = RecorderSlot::open(settings, &Arc::new(Control::new()));
    let spec = WorkerSpec {
        label: None,
        cpu: Some(3),
        from_cpu: None,
        scheduling: Scheduling {
            policy: Policy::Other,
            priority: 0,
        },
        rate_hz: 10,
    };
    let start = Start::now();
    recorder.start(start.monotonic);
    (
        recorder,
        Collector::new(0, &spec, reader, Nanos::ZERO, Nanos::ZERO, Some(Nanos(1))),
        start,
    )
}

#[test]
fn rows_hold_what_happened_in_them() {
    let (mut recorder, mut collector, start) = worker();
    let at = |tenths: u64| start.monotonic + Nanos(tenths * 100_000_000);
    for tenth in 0..25 {
        if tenth == 12 {
            recorder.missed(at(12), 2, Nanos(100_000_000));
        }
        if !(12..14).contains(&tenth) {
            recorder.sample(at(tenth), SignedNanos(1_000 + tenth as i64));
        }
    }
    collector.drain(SECOND);
    let rows = collector.take_finished();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].start_ns, rows[0].count, rows[0].missed),
        (Nanos(0), 10, 0)
    );
    assert_eq!(
        (rows[1].start_ns, rows[1].count, rows[1].missed),
        (SECOND, 8, 2)
    );
    assert_eq!(rows[1].max_ns, Some(Nanos(1_019)));
    let open = collector.open_row(SECOND).unwrap();
    assert_eq!((open.start_ns, open.count), (Nanos::from_secs(2), 5));
    collector.close_row(SECOND);
    assert_eq!(collector.take_finished(), [open]);
    assert_eq!(collector.open_row(SECOND), None);

    let outcome = recorder.finish(25, SelfCost::default());
    assert_eq!(collector.accounting, outcome.accounting);
    assert_eq!(collector.take_samples().len(), 23);
}

const TENTH: Nanos = Nanos(100_000_000);

#[test]
fn cut_off_run_knows_unwoken_periods() {
    let (mut recorder, mut collector, start) = worker();
    let at = |tenths: u64| start.monotonic + Nanos(tenths * TENTH.0);
    recorder.count_overruns();
    recorder.set_schedule(TENTH, at(30));
    recorder.sample(at(0), SignedNanos(250_000_000));
    recorder.overrun(at(1), 2, TENTH, at(0) + Nanos(250_000_000));
    recorder.sample(at(3), SignedNanos(1_000));
    collector.drain(SECOND);
    let (account, lateness) = collector.cut_off(at(4));
    assert_eq!((account.missed, lateness.open), (2, None));
    let late = lateness.missed_histogram.unwrap();
    assert_eq!(late.max(), Some(Nanos(150_000_000)));
    assert_eq!(late.min(), Some(Nanos(50_000_000)));
    // Due at 4 to 10, without wake-ups.
    let (account, lateness) = collector.cut_off(at(10) + Nanos(1));
    let open = lateness.open.unwrap();
    assert_eq!((open.periods, open.late_ns), (7, Nanos(600_000_001)));
    assert_eq!(account.missed, 9);
    assert!(account.balances());
    // Periods after the end of the run do not count.
    let open = collector.cut_off(at(90)).1.open.unwrap();
    assert_eq!((open.periods, open.late_ns), (26, Nanos(8_600_000_000)));
    // A worker that has finished has no open periods.
    recorder.finish(4, SelfCost::default());
    assert_eq!(collector.cut_off(at(90)).1.open, None);
}

#[test]
fn open_warmup_periods_are_not_counted() {
    let (mut recorder, mut collector, start) = worker();
    collector.schedule = Schedule::new(SECOND);
    recorder.set_schedule(TENTH, Nanos(u64::MAX));
    collector.drain(SECOND);
    let at = |tenths: u64| start.monotonic + Nanos(tenths * TENTH.0);
    assert_eq!(collector.cut_off(at(10)).1.open, None);
    let open = collector.cut_off(at(12)).1.open.unwrap();
    assert_eq!((open.periods, open.late_ns), (2, Nanos(200_000_000)));
}

#[test]
fn the_largest_have_their_wall_time() {
    let (mut recorder, mut collector, start) = worker();
    recorder.sample(start.monotonic + SECOND, SignedNanos(70_000));
    recorder.sample(start.monotonic + SECOND + SECOND, SignedNanos(90_000));
    collector.drain(SECOND);
    let largest = largest_of_all(collector.top_samples(&start));
    assert_eq!(largest[0].latency_ns, Nanos(90_000));
    assert_eq!(largest[0].cpu, Some(3));
    assert_eq!(largest[0].time, start.wall + SignedDuration::from_secs(2));
    use jiff::SignedDuration;
}
