//! Proofs over the runs of a series in a store.

use jiff::{SignedDuration, Timestamp};
use punctual_model::{
    Completion, Fact, Histogram, LoopRequirement, Nanos, Outcome, Recording, RecordingId, Sampling,
    SeriesEpoch, SeriesProof, Slot, SlotCause, SlotState, testing,
};
use punctual_store::{Lease, Store};

use crate::{HistoryError, ProofQuery, prove, prove_newest};

struct Bench {
    _folder: tempfile::TempDir,
    store: Store,
    epoch: SeriesEpoch,
    sample: Sampling,
}

fn begun() -> Timestamp {
    "2026-11-02T09:30:00Z".parse().unwrap()
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store.db")).unwrap();
        let sample: Sampling = "24 x 10s in 1h".parse().unwrap();
        let epoch = put(&store, "machine", sample, 0);
        Self {
            _folder: folder,
            store,
            epoch,
            sample,
        }
    }

    fn due(&self, number: u64) -> Timestamp {
        let epoch = &self.epoch;
        self.sample.due(epoch.seed(), epoch.begun, number).unwrap()
    }

    fn slot(&self, number: u64, state: SlotState, recording: Option<RecordingId>) {
        let slot = Slot {
            machine: self.epoch.machine.clone(),
            series: self.epoch.name.clone(),
            epoch: self.epoch.epoch,
            due: self.due(number),
            cause: SlotCause::Sample,
            state,
            reason: (state == SlotState::Missed).then(|| "the machine was suspended".to_owned()),
            recording,
        };
        self.store.set_slot(&self.epoch, &slot).unwrap();
    }

    /// Stores a quiet run, with some changes.
    fn run(&self, number: u64, change: impl Fn(&mut Recording)) {
        let mut recording = testing::recording(1, 10);
        recording.id = RecordingId::new();
        recording.started = self.due(number) + SignedDuration::from_millis(30);
        recording.requirement.limits.clear();
        recording.requirement.periodic = self.epoch.periodic();
        recording.load.clear();
        let thread = &mut recording.threads[0];
        (thread.accounting.missed, thread.missed_histogram) = (0, None);
        for row in &mut recording.series.rows {
            (row.missed, row.max_ns) = (0, Some(Nanos(20_000)));
        }
        change(&mut recording);
        recording.verdict = recording.judge();
        let lease = Lease {
            pid: 1,
            process_start: 1,
            boot_id: "boot".to_owned(),
            namespaces: None,
        };
        let start = Recording {
            completion: Completion::Running,
            ..recording.clone()
        };
        let writer = self.store.begin(&start, &lease).unwrap();
        writer.finish(&recording).unwrap();
        self.slot(number, SlotState::Recorded, Some(recording.id));
    }

    fn proof(&self, minutes: i64) -> SeriesProof {
        self.prove(minutes, None).unwrap()
    }

    fn prove(&self, minutes: i64, host: Option<&str>) -> Result<SeriesProof, HistoryError> {
        let query = ProofQuery {
            host: host.map(str::to_owned),
            at: None,
            now: begun() + SignedDuration::from_mins(minutes),
            max_late_seconds_per_day: None,
        };
        prove(&self.store, "week", &query)
    }
}

fn put(store: &Store, machine: &str, sample: Sampling, minutes: i64) -> SeriesEpoch {
    let asked = LoopRequirement {
        period_ns: Nanos::from_millis(1),
        budget_ns: Nanos(200_000),
        jobs: false,
        max_late_seconds_per_day: Some(2_000.0),
        misses: None,
        max_misses_per_day: None,
        sample: Some(sample),
    };
    let definition = serde_json::json!({ "periodic": asked }).to_string();
    let now = begun() + SignedDuration::from_mins(minutes);
    store
        .put_series(machine, Some(machine), "week", &definition, now)
        .unwrap()
}

#[test]
fn whole_period_is_judged() {
    let bench = Bench::new();
    (0..24).for_each(|number| bench.run(number, |_| ()));
    let held = bench.proof(61);
    assert_eq!(held.outcome, Outcome::Held, "{}", held.sentence);
    assert_eq!(held.runs.len(), 24);
    assert!(held.sentence.contains("0 late seconds in 24 of 24 runs"));
    assert_eq!(held.asked.max_late_seconds_per_day, Some(2_000.0));
    // The next period has begun and has a run, but only the first one is complete.
    bench.run(24, |_| ());
    assert_eq!(bench.proof(70), held);
    // Later, the second period is the newest complete one. The third has no run at all, and an older
    // period says nothing about it.
    for (minutes, missing) in [(130, "23 missing runs"), (200, "24 missing runs")] {
        let later = bench.proof(minutes);
        assert_eq!(later.outcome, Outcome::NotProven);
        assert!(later.sentence.contains(missing), "{}", later.sentence);
    }
}

#[test]
fn late_and_missing_runs_count() {
    let bench = Bench::new();
    for number in 0..22 {
        bench.run(number, |recording| {
            let row = &mut recording.series.rows[number as usize % 10];
            row.max_ns = Some(Nanos(900_000));
        });
    }
    bench.slot(22, SlotState::Missed, None);
    let broken = bench.proof(61);
    assert_eq!(broken.outcome, Outcome::Broken, "{}", broken.sentence);
    assert!(broken.sentence.contains("22 late seconds in 22 of 24 runs"));
    assert!(broken.sentence.contains("2 missing runs"));
    let why = |number: usize| broken.runs[number].lacking.as_deref();
    assert_eq!(why(22), Some("missed: the machine was suspended"));
    assert_eq!(why(23), Some("the service was not running"));
    // In the middle of the period, the rest is not due yet.
    let half = bench.proof(30);
    assert!(half.runs[23].pending && half.runs[23].lacking.is_none());
}

#[test]
fn changed_clock_machine_or_length_is_named() {
    let bench = Bench::new();
    for number in 0..24 {
        bench.run(number, |recording| match number {
            1 => recording.completion = Completion::Stopped,
            3 => recording.started += SignedDuration::from_mins(30),
            4 => recording.threads[0].histogram = Histogram::new(),
            // The next run begins within its time.
            6 => recording.duration_ns = Nanos::from_secs(300),
            9.. => recording.host.kernel.release = Fact::known("6.99".to_owned(), "test"),
            _ => (),
        });
    }
    let proof = bench.proof(61);
    assert_eq!(proof.outcome, Outcome::NotProven);
    assert_eq!(proof.claims[0].bound, None);
    assert!(
        proof.sentence.contains("to 6.99 by run 10"),
        "{}",
        proof.sentence
    );
    let why = |number: usize| proof.runs[number].lacking.as_deref().unwrap();
    assert!(why(1).contains("stopped"), "{}", why(1));
    assert!(why(3).contains("the clock was set"), "{}", why(3));
    assert!(why(4).contains("measured only"), "{}", why(4));
    assert!(why(7).contains("overlaps"), "{}", why(7));
    assert_eq!(proof.runs[9].lacking, None);
}

#[test]
fn epochs_and_machines_are_not_mixed() {
    let bench = Bench::new();
    (0..24).for_each(|number| bench.run(number, |_| ()));
    let other: Sampling = "30 x 10s in 1h".parse().unwrap();
    put(&bench.store, "machine", other, 62);
    let proof = bench.proof(90);
    assert_eq!((proof.epoch, proof.runs.len()), (2, 30));
    assert_eq!(proof.outcome, Outcome::NotProven);
    put(&bench.store, "second", other, 63);
    let refused = bench.prove(90, None).unwrap_err().to_string();
    assert!(
        refused.contains("pass --host with one of machine, second"),
        "{refused}"
    );
    assert_eq!(bench.prove(90, Some("machine")).unwrap().epoch, 2);
    let plain = bench.store.put_series("m", None, "plain", "{}", begun());
    plain.unwrap();
    let query = ProofQuery {
        host: None,
        at: None,
        now: begun(),
        max_late_seconds_per_day: None,
    };
    for (name, what) in [
        ("plain", "not at random times"),
        ("none", "no series 'none'"),
    ] {
        let refused = prove(&bench.store, name, &query).unwrap_err().to_string();
        assert!(refused.contains(what), "{refused}");
    }
}

/// A collection shows the period that has ended, unless the running one is already broken.
#[test]
fn running_period_counts_once_broken() {
    let bench = Bench::new();
    (0..24).for_each(|number| bench.run(number, |_| ()));
    let newest = |name: &str| {
        let query = ProofQuery {
            host: None,
            at: None,
            now: begun() + SignedDuration::from_mins(118),
            max_late_seconds_per_day: None,
        };
        prove_newest(&bench.store, name, &query).unwrap()
    };
    let held = newest("week").unwrap();
    assert_eq!((held.outcome, held.from), (Outcome::Held, begun()));
    for number in 24..46 {
        bench.run(number, |recording| {
            recording.series.rows[3].max_ns = Some(Nanos(900_000));
        });
    }
    let broken = newest("week").unwrap();
    assert_eq!(broken.outcome, Outcome::Broken, "{}", broken.sentence);
    assert!(broken.from > held.from);
    let plain = bench.store.put_series("m", None, "plain", "{}", begun());
    plain.unwrap();
    assert_eq!(newest("plain"), None);
}
