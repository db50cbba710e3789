//! Tests that causes keep their content when written as JSON, and that their text depends on
//! nothing else.

#![allow(clippy::unwrap_used)]

mod any;

use any::{any_blame, any_cause};
use proptest::prelude::*;
use punctual_model::cause::{Cause, Source, Thief};
use punctual_model::{Blame, Nanos, Share, ShareKind};
use serde_json::Value;

proptest! {
    #[test]
    fn a_cause_survives_its_json(cause in any_cause()) {
        let json = serde_json::to_string(&cause).unwrap();
        let back: Cause = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(back.words(), cause.words());
        prop_assert_eq!(back, cause);
    }

    #[test]
    fn a_blame_survives_its_json(blame in any_blame()) {
        let json = serde_json::to_string(&blame).unwrap();
        let back: Blame = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(back.sentence(), blame.sentence());
        prop_assert_eq!(back, blame);
    }

    /// A delivery could contain a sentence that blames another thread.
    #[test]
    fn words_in_json_cannot_contradict_the_shares(blame in any_blame(), with in "\\PC{0,20}") {
        let mut shown = blame.clone();
        shown.put_into_words();
        let mut json = serde_json::to_value(&shown).unwrap();
        prop_assert_eq!(&json["sentence"], &Value::from(blame.sentence()));
        json["sentence"] = with.as_str().into();
        json["culprit"] = with.as_str().into();
        for share in json["shares"].as_array_mut().unwrap() {
            share["who"] = with.as_str().into();
            share["detail"] = with.as_str().into();
            share["kind"] = "softirq".into();
        }
        let back: Blame = serde_json::from_value(json).unwrap();
        prop_assert_eq!(back, blame);
    }

    #[test]
    fn sentence_names_largest_share_and_sum(blame in any_blame()) {
        let sentence = blame.sentence();
        let Some(largest) = blame.largest() else {
            prop_assert!(sentence.ends_with("was not late."));
            return Ok(());
        };
        prop_assert!(blame.shares.iter().all(|share| share.ns <= largest.ns));
        prop_assert!(sentence.contains(&blame.latency().to_string()), "{}", sentence);
        prop_assert!(sentence.contains(&largest.ns.to_string()), "{}", sentence);
        prop_assert!(blame.culprit().starts_with(largest.kind().name()));
        prop_assert!(blame.culprit().ends_with(&largest.who()));
    }

    /// The sums over a run combine threads of the same name.
    #[test]
    fn source_without_ids_keeps_its_kind(cause in any_cause()) {
        let combined = cause.source.without_ids();
        prop_assert_eq!(combined.kind(), cause.source.kind());
        prop_assert_eq!(combined.without_ids(), combined);
    }
}

#[test]
fn deeply_nested_cause_is_refused() {
    let mut source = Source::Nmi;
    for _ in 0..100 {
        source = Source::Undecided {
            source: Box::new(source),
            thief: Thief::Either,
        };
    }
    let json = serde_json::to_string(&Cause::new(source)).unwrap();
    assert!(serde_json::from_str::<Cause>(&json).is_err());
}

#[test]
fn each_share_kind_has_words() {
    for (kind, name) in ShareKind::NAMES {
        let share = Share::new(Cause::new(Source::Others(kind)), Nanos(1_000), 1);
        assert_eq!(share.cause.source.label(), format!("{name}: others"));
    }
}
