//! Causes in a store: they are read back as data, with the same words, and within their limits.

#[path = "../../../../base/model/tests/causes/any.rs"]
mod any;

use crate::common::{self, lease, outlier, window};
use proptest::prelude::*;
use punctual_model::cause::{Cause, Source};
use punctual_model::{
    Blame, BoundedTexts, LONGEST_CAUSE, Nanos, Outlier, Segment, Share, TopSample, testing,
};
use punctual_store::{Store, StoreError};

fn with_blame(blame: Blame) -> punctual_model::Recording {
    let mut recording = testing::recording(1, 1);
    recording.top_samples.truncate(1);
    let sample: &mut TopSample = &mut recording.top_samples[0];
    sample.blame = Some(blame);
    recording
}

fn refused(blame: Blame) -> String {
    let error = with_blame(blame).check_texts().unwrap_err();
    error.to_string()
}

#[test]
fn long_name_in_cause_is_refused() {
    let share = |length| Share::new(testing::interrupt(&"x".repeat(length)), Nanos(1), 1);
    let text = refused(testing::blame(vec![share(LONGEST_CAUSE)]));
    assert!(text.starts_with("the cause has 16"), "{text}");
    let allowed = with_blame(testing::blame(vec![share(LONGEST_CAUSE / 2)]));
    assert_eq!(allowed.check_texts(), Ok(()));
}

#[test]
fn too_many_shares_are_refused() {
    let share = Share::new(Cause::new(Source::TimerLate), Nanos(1), 1);
    let most = Blame::MOST_SHARES;
    assert_eq!(
        refused(testing::blame(vec![share.clone(); most + 1])),
        format!(
            "the blame has {} shares: at most {most} are allowed",
            most + 1
        )
    );
    let allowed = with_blame(testing::blame(vec![share; most]));
    assert_eq!(allowed.check_texts(), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_blame_survives_a_store(blame in any::any_blame()) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("punctual.db")).unwrap();
        let recording = with_blame(blame.clone());
        let mut writer = store.begin(&recording, &lease()).unwrap();
        let explained = Outlier { blame: blame.clone(), ..outlier(1) };
        writer.keep_window(&explained, &window(3)).unwrap();
        writer.finish(&recording).unwrap();
        let read = store.load(recording.id).unwrap();
        let read = read.top_samples[0].blame.as_ref().unwrap();
        let (kept, _) = store.window(recording.id, 1).unwrap().unwrap();
        for back in [read, &kept.blame] {
            prop_assert_eq!(back, &blame);
            prop_assert_eq!(back.sentence(), blame.sentence());
        }
    }
}

#[test]
fn window_with_long_cause_is_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("punctual.db")).unwrap();
    let recording = common::recording(1, 1);
    let mut writer = store.begin(&recording, &lease()).unwrap();
    let mut long = window(3);
    long.segments.push(Segment {
        from: long.expected,
        to: long.actual,
        cpu: 1,
        cause: testing::interrupt(&"x".repeat(LONGEST_CAUSE)),
        words: None,
    });
    writer.keep_window(&outlier(1), &long).unwrap();
    let error = store.window(recording.id, 1).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}
