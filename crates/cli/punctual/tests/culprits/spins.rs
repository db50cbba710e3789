//! `explain --pid` of a program with a thread that spins on memory.

use std::process::Command;

use crate::common::Sandbox;
use crate::jobs::{built, explained};
use crate::stage::Stage;
use punctual_model::cause::{Detail, Source};
use punctual_model::{Outlier, Recording};
use punctual_testing::Running;

/// Returns the outliers with a hint at a thread of this name.
fn hinted<'a>(recording: &'a Recording, name: &str) -> Vec<&'a Outlier> {
    let outliers = recording.explanation.as_ref().unwrap().outliers.iter();
    let is_hint = |outlier: &&Outlier| {
        let mut shares = outlier.blame.shares.iter();
        shares.any(|share| match &share.cause.detail {
            Some(Detail::PossiblyWaitsFor { thread, .. }) => {
                share.cause.source == Source::UserSpace && thread.comm.bytes() == name.as_bytes()
            }
            _ => false,
        })
    };
    outliers.filter(is_hint).collect()
}

#[test]
fn preempted_holder_of_spinner_is_hinted() {
    let Some(stage) = Stage::set(2) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "culprits/spins") else {
        return;
    };
    let cpus: Vec<String> = stage.cpus.iter().map(u32::to_string).collect();
    let app = Command::new(program).args(&cpus[..2]).spawn();
    let app = Running(app.unwrap());
    let recording = explained(&place, app.0.id(), "--budget 5ms -D 4s");
    let found = hinted(&recording, "mid");
    let outliers = recording.explanation.as_ref().unwrap().outliers.iter();
    let told: Vec<String> = outliers.map(|outlier| outlier.blame.sentence()).collect();
    match punctual_testing::crowded() {
        _ if !found.is_empty() => {}
        Some(crowd) => {
            punctual_testing::skip!(Quiet, "{crowd}: a spinning thread: {told:#?}");
            return;
        }
        None => panic!("{told:#?}"),
    }
    // The main thread is the first of the recording. Its hint is a part of the sentence.
    assert!(
        found.iter().all(|outlier| outlier.thread == 0),
        "{found:#?}"
    );
    let sentence = found[0].blame.sentence();
    assert!(sentence.contains("(possibly waits for mid-"), "{sentence}");
    // A page compares the longest job of all threads.
    let outliers = recording.explanation.as_ref().unwrap().outliers.iter();
    let longest = outliers.max_by_key(|outlier| outlier.latency_ns).unwrap();
    let in_user_space = longest.blame.shares.iter().any(|share| {
        share.cause.source == Source::UserSpace && share.ns.0 > longest.latency_ns.0 / 2
    });
    if longest.thread == 0 && in_user_space {
        let page = place.done("report last --format markdown -o -");
        assert!(page.contains("the median job of this thread"), "{page}");
    }
}
