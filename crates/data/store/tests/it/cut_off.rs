//! Data of a run that may be killed at any time: the lateness of its missed periods, and its
//! suspensions.

use crate::common::{at_start, batch, lease, recording, store_path};
use punctual_model::{Histogram, Nanos, OpenPeriods, Suspension, SuspensionKind};
use punctual_store::{Batch, Lateness, Store};

#[test]
fn latest_commit_determines_lateness_and_suspensions() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(2, 6);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    let mut late = Histogram::new();
    late.record_run(Nanos(70_000), Nanos(1_000), 2);
    let open = OpenPeriods {
        periods: 40,
        late_ns: Nanos::from_millis(40),
        period_ns: Nanos::from_millis(1),
    };
    let suspension = Suspension {
        kind: SuspensionKind::StoppedBySignal,
        started: recording.started,
        from_monotonic_ns: Nanos::from_secs(1),
        until_monotonic_ns: Nanos::from_secs(3),
        length_ns: Nanos::from_secs(2),
    };
    let mut first = Batch {
        lateness: vec![
            Lateness {
                missed_histogram: Some(Box::new(late.clone())),
                open: Some(open),
            },
            Lateness::default(),
        ],
        suspensions: vec![suspension.clone()],
        ..batch(&recording, 0)
    };
    first.accounting[0].missed += 42;
    first.accounting[0].expected += 42;
    writer.commit(&first).unwrap();
    let seen = store.load(recording.id).unwrap();
    assert_eq!(seen.suspensions, [suspension]);
    assert_eq!(seen.threads[0].missed_histogram.as_deref(), Some(&late));
    assert_eq!(seen.threads[0].open, Some(open));
    assert!(seen.threads[0].accounting.balances());
    assert_eq!(seen.threads[0].due().unknown(), 0);
    assert_eq!(seen.threads[1].open, None);

    // The wake-up came, so the period is no longer open.
    writer.commit(&batch(&recording, 1)).unwrap();
    let seen = store.load(recording.id).unwrap();
    assert!(seen.threads.iter().all(|thread| thread.open.is_none()));
    assert_eq!(seen.suspensions, []);

    // At the end, the recording itself contains everything.
    writer.commit(&first).unwrap();
    writer.finish(&recording).unwrap();
    assert_eq!(store.load(recording.id).unwrap(), recording);
}
