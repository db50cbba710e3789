//! Statements about the runs of a series.

use jiff::SignedDuration;
use punctual_model::{
    Nanos, RecordingId, SampledSlot, Sampling, SeriesProof, SeriesRuns, SlotState,
};

use super::*;
use crate::canonical::digest;
use crate::statement::series_statement;

/// Returns a day of 24 runs, one of them missing, with their recordings.
fn day() -> (SeriesProof, Vec<Recording>) {
    let mut proof = testing::week(30_000.0, |_| Some(0));
    let sample: Sampling = "24 x 2s in 1d".parse().unwrap();
    proof.asked.sample = Some(sample);
    (proof.from, proof.until) = sample.period(proof.from, 0).unwrap();
    let due = |number| sample.due(7, proof.from, number).unwrap();
    proof.runs = (0..24)
        .map(|number| SampledSlot::new(number + 1, due(number)))
        .collect();
    let mut runs = SeriesRuns::default();
    let mut recordings = Vec::new();
    for place in 0..proof.runs.len() {
        let stated = &proof.runs[place];
        let mut slot = SampledSlot::new(stated.number, stated.due);
        if place == 20 {
            slot.state = Some(SlotState::Missed);
            slot.lacking = Some("missed: the machine was suspended".to_owned());
        } else {
            let recording = run(&proof, place);
            slot.state = Some(SlotState::Recorded);
            slot.recording = Some(recording.id);
            runs.fill(&mut slot, &recording, &mut proof);
            assert_eq!(slot.lacking, None);
            recordings.push(recording);
        }
        proof.runs[place] = slot;
    }
    proof.judge();
    assert_eq!(proof.outcome, Outcome::Held, "{}", proof.sentence);
    (proof, recordings)
}

fn run(proof: &SeriesProof, place: usize) -> Recording {
    let mut recording = testing::recording(1, 2);
    recording.id = RecordingId::new();
    recording.started = proof.runs[place].due + SignedDuration::from_millis(30);
    recording.load.clear();
    let thread = &mut recording.threads[0];
    (thread.accounting.missed, thread.missed_histogram) = (0, None);
    for row in &mut recording.series.rows {
        (row.missed, row.max_ns) = (0, Some(Nanos(20_000)));
    }
    recording
}

fn named(recordings: &[Recording]) -> Vec<(RecordingId, String)> {
    let named = recordings.iter().map(|one| (one.id, digest(one)));
    named.collect()
}

/// Verifies with these recordings at hand.
fn with(file: &str, key: &Signer, at_hand: &[Recording]) -> Verified {
    verify(
        file.as_bytes(),
        &trusting(key),
        &mut Known(at_hand.to_vec()),
    )
    .unwrap()
}

fn state_of(verified: &Verified, what: &str) -> State {
    let mut all = verified.integrity.iter().chain(&verified.assumptions);
    all.find(|one| one.what == what).unwrap().state
}

#[test]
fn verdict_is_computed_from_the_runs_at_hand() {
    let key = key("a");
    let (proof, recordings) = day();
    let file = crate::sign_series(&proof, &named(&recordings), Vec::new(), &key).unwrap();
    let all = with(&file, &key, &recordings);
    assert!(all.is_intact(), "{all:#?}");
    assert_eq!(state_of(&all, "runs"), State::Holds);
    // Without the recordings, the results of the runs are the word of the signer.
    for at_hand in [&recordings[..0], &recordings[..7]] {
        let some = with(&file, &key, at_hand);
        assert!(some.is_intact() && some.is_undisputed(), "{some:#?}");
        assert_eq!(state_of(&some, "runs"), State::Unknown);
    }
    // A recording whose time series was removed shows nothing.
    let mut old = recordings.clone();
    old[3].series.rows.clear();
    assert_eq!(state_of(&with(&file, &key, &old), "runs"), State::Unknown);
    // Another recording with this ID contradicts the statement.
    let mut other = recordings;
    other[3].series.rows[0].max_ns = Some(Nanos(1));
    let other = with(&file, &key, &other[..7]);
    assert!(!other.is_intact(), "{other:#?}");
    assert_eq!(state_of(&other, "runs"), State::Broken);
}

/// The signer states another result than that of the recordings, and computes the verdict from it.
#[test]
fn signer_cannot_hide_a_late_run() {
    let key = key("a");
    let (honest, recordings) = day();
    let accepted = |proof: &SeriesProof, runs: &[(RecordingId, String)], at_hand: &[Recording]| {
        let file = crate::sign_series(proof, runs, Vec::new(), &key).unwrap();
        with(&file, &key, at_hand).is_intact()
    };
    let runs = named(&recordings);
    let changes: [fn(&mut SeriesProof); 5] = [
        |proof| proof.runs[2].late_seconds_at_most = Some(2),
        |proof| proof.runs[2].measured_ns = Some(Nanos::from_secs(1)),
        |proof| proof.asked.budget_ns = Nanos(10_000),
        |proof| proof.loads = vec!["cpu".to_owned()],
        |proof| proof.refused = vec!["the kernel changed".to_owned()],
    ];
    for (place, change) in changes.into_iter().enumerate() {
        let mut proof = honest.clone();
        change(&mut proof);
        proof.judge();
        assert!(!accepted(&proof, &runs, &recordings), "{place}");
    }
    // Without the recordings, the statement can still contradict itself.
    let changes: [fn(&mut SeriesProof); 6] = [
        |proof| proof.outcome = Outcome::Broken,
        |proof| proof.sentence.push_str(" for ever"),
        |proof| proof.runs[2].late_seconds = Some(2),
        |proof| proof.runs[20].due += SignedDuration::from_secs(1),
        |proof| proof.seed = "8".to_owned(),
        |proof| drop(proof.runs.pop()),
    ];
    for (place, change) in changes.into_iter().enumerate() {
        let mut proof = honest.clone();
        change(&mut proof);
        assert!(!accepted(&proof, &runs, &[]), "{place}");
    }
    // Each run that counts has a digest.
    assert!(accepted(&honest, &runs, &[]));
    assert!(!accepted(&honest, &runs[1..], &[]));
    // A run that was late is not named as another recording.
    let mut late = recordings.clone();
    late[3].series.rows[0].max_ns = Some(Nanos::from_secs(1));
    assert!(!accepted(&honest, &named(&late), &late));
}

#[test]
fn each_mutation_of_a_series_is_refused() {
    use base64::Engine;
    let key = key("a");
    let (proof, recordings) = day();
    let page = pdf::page(PAGE.as_bytes());
    let file = crate::sign_series(&proof, &named(&recordings), vec![page], &key).unwrap();
    let envelope = Envelope::from_json(file.as_bytes()).unwrap();
    let payload = envelope.payload().unwrap();
    let mut state = 13_u64;
    for round in 0..500 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let place = (state >> 20) as usize % payload.len();
        let mut changed = payload.clone();
        match round % 3 {
            0 => changed[place] ^= 1 << (state >> 60 & 7),
            1 => drop(changed.remove(place)),
            _ => changed.insert(place, b'0'),
        }
        let mut forged = envelope.to_value();
        let packed = base64::engine::general_purpose::STANDARD.encode(&changed);
        forged["payload"] = packed.into();
        assert!(!accepted(forged.to_string().as_bytes(), &key), "{round}");
    }
    // The page is part of the statement.
    let whole = pdf::attach(PAGE.as_bytes(), &file).unwrap();
    assert!(accepted(&whole, &key));
    let other = PAGE.replace("the page", "page two");
    let other = pdf::attach(other.as_bytes(), &file).unwrap();
    assert!(!accepted(&other, &key));
    // A statement about both a recording and a series could show each reader another one.
    let mut both = series_statement(&proof, &named(&recordings), &key.key.public());
    let recording = recording();
    let one = statement(&recording, &recording.verdict, &key.key.public());
    both.predicate.recording = one.predicate.recording;
    both.predicate.verdict = one.predicate.verdict;
    let sealed = Envelope::seal(both.to_json().as_bytes(), &key).unwrap();
    assert!(!accepted(sealed.to_json().as_bytes(), &key));
}

/// No run of the period is measured, as on a machine that is always busy.
#[test]
fn runs_that_are_not_measured_can_be_elsewhere() {
    let key = key("a");
    let (mut proof, recordings) = day();
    for run in &mut proof.runs {
        (run.late_seconds, run.lacking) = (None, Some("it was starved".to_owned()));
    }
    proof.judge();
    let file = crate::sign_series(&proof, &named(&recordings), Vec::new(), &key).unwrap();
    let none = with(&file, &key, &[]);
    assert!(none.is_intact(), "{none:#?}");
    assert_eq!(state_of(&none, "runs"), State::Holds);
}
