//! Samples stored along with a recording.

use crate::common::{at_start, batch, lease, recording, samples, store_path};
use proptest::prelude::*;
use punctual_model::{Nanos, RecordingId, Sample, SamplesKept, SignedNanos};
use punctual_store::{Batch, Store, StoreError};

/// Reads all samples of one thread.
fn read_samples(store: &Store, id: RecordingId, thread: u32) -> Vec<Sample> {
    let mut all = Vec::new();
    let count = store
        .samples(id, thread, &mut |samples| {
            assert!(samples.len() <= 65_536);
            all.extend_from_slice(samples);
            Ok::<_, StoreError>(())
        })
        .unwrap();
    assert_eq!(count, all.len() as u64);
    all
}

#[test]
fn samples_return_ordered_and_counted() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let mut recording = recording(2, 3);
    recording.samples = Some(SamplesKept {
        dropped: 5,
        ..SamplesKept::default()
    });
    let all = samples(150_000);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    for (second, part) in (1..).zip(all.chunks(9_973)) {
        writer.samples(0, part).unwrap();
        if second % 3 == 0 {
            writer.samples(1, &part[..100]).unwrap();
        }
        writer.commit(&batch(&recording, second)).unwrap();
        // Others immediately see everything that was committed.
        let so_far = (second as usize * 9_973).min(all.len());
        assert_eq!(read_samples(&store, recording.id, 0), all[..so_far]);
    }
    let kept = writer.seal().unwrap();
    assert_eq!(kept.count, 150_000 + 500);
    assert_eq!(writer.seal().unwrap(), kept);
    // Later samples are stored as well.
    writer.samples(1, &all[..7]).unwrap();
    writer.finish(&recording).unwrap();
    assert_eq!(read_samples(&store, recording.id, 0), all);
    assert_eq!(read_samples(&store, recording.id, 1).len(), 507);
    let loaded = store.load(recording.id).unwrap();
    let samples = loaded.samples.unwrap();
    assert_eq!((samples.count, samples.dropped), (150_507, 5));
    assert!(samples.bytes > kept.bytes);
    assert!(store.list().unwrap()[0].samples);
}

#[test]
fn reader_may_stop_amid_samples() {
    #[derive(Debug)]
    enum Stop {
        Enough,
        Store(#[allow(dead_code, reason = "shown by a failing test")] StoreError),
    }
    impl From<StoreError> for Stop {
        fn from(error: StoreError) -> Self {
            Self::Store(error)
        }
    }
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(1, 1);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    writer.samples(0, &samples(70_000)).unwrap();
    writer.finish(&recording).unwrap();
    let mut calls = 0;
    let result = store.samples(recording.id, 0, &mut |_| {
        calls += 1;
        Err(Stop::Enough)
    });
    assert!(matches!(result, Err(Stop::Enough)), "{result:?}");
    assert_eq!(calls, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Samples with any values, passed in parts of any size.
    #[test]
    fn samples_of_any_value_read_back(
        parts in prop::collection::vec(
            (prop::collection::vec((any::<u64>(), any::<i64>()), 0..400), any::<bool>()),
            0..6,
        ),
    ) {
        let (_folder, path) = store_path();
        let store = Store::open(&path).unwrap();
        let recording = recording(1, 1);
        let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
        let mut all = Vec::new();
        for (part, commit) in parts {
            let part: Vec<Sample> = part
                .into_iter()
                .map(|(expected, latency)| Sample {
                    expected: Nanos(expected),
                    latency: SignedNanos(latency),
                })
                .collect();
            writer.samples(0, &part).unwrap();
            all.extend(part);
            if commit {
                writer.commit(&Batch::default()).unwrap();
            }
        }
        writer.finish(&recording).unwrap();
        prop_assert_eq!(read_samples(&store, recording.id, 0), all);
    }
}
