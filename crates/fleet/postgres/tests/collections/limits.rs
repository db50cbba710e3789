//! Collections refuse texts that exceed their limits, and entries that exceed a quota.

use punctual_model::{
    ChangeAnnotation, ChangeDecision, LONGEST_HOST_NAME, LONGEST_LABEL, LONGEST_NOTE, MOST_NOTES,
    Nanos, Note, RecordingId, Slot, SlotCause, SlotState, WakeWindow,
};
use punctual_store::{
    Collection, Delivery, Lease, MOST_ASIDE, MOST_DICTIONARIES, Received, Refused, Role,
    SqliteCollection, Store, StoreError, Token, copy,
};

use super::{each, epoch, json, receive, recording, time};

fn note(text: &str) -> Note {
    Note {
        id: RecordingId::new(),
        recording: None,
        series: None,
        machine: Some("a".to_owned()),
        at: time(1),
        text: text.to_owned(),
        author: "somebody".to_owned(),
        written: time(1),
    }
}

fn slot(reason: &str, minutes: u64) -> Slot {
    Slot {
        machine: "a".to_owned(),
        series: "osadl".to_owned(),
        epoch: 1,
        due: time(minutes),
        cause: SlotCause::Every,
        state: SlotState::Failed,
        reason: Some(reason.to_owned()),
        recording: None,
    }
}

fn window(machine: &str) -> WakeWindow {
    WakeWindow {
        machine: machine.to_owned(),
        start: time(1),
        length_ns: Nanos::from_secs(60),
        real_time: punctual_model::WaitHistogram::default(),
        ordinary: punctual_model::WaitHistogram::default(),
        longest: Vec::new(),
        lost: 0,
    }
}

fn token(name: &str) -> Token {
    Token {
        name: name.to_owned(),
        role: Role::Machine,
        sha256: format!("{:064x}", name.len()),
        created: time(1),
        machine: None,
    }
}

#[test]
fn collections_refuse_overlong_texts() {
    each(|all| {
        let is_refused = |result: Result<(), StoreError>| {
            let refused = matches!(&result, Err(StoreError::LongText { .. }));
            assert!(refused, "{result:?}");
        };
        let long = "x".repeat(LONGEST_NOTE + 1);
        let name = "m".repeat(LONGEST_HOST_NAME + 1);
        is_refused(all.put_note(&note(&long)));
        all.put_note(&note("short")).unwrap();
        let mut mark = ChangeAnnotation {
            id: RecordingId::new(),
            series: "osadl".to_owned(),
            figure: "max".to_owned(),
            recording: RecordingId::new(),
            decision: ChangeDecision::Acknowledged,
            who: "somebody".to_owned(),
            why: long.clone(),
            at: time(1),
        };
        is_refused(all.put_change_mark(&mark));
        mark.why = "known".to_owned();
        all.put_change_mark(&mark).unwrap();
        let series = epoch("a", 1, "{}");
        is_refused(all.put_slot(&series, &slot(&long, 1)));
        all.put_slot(&series, &slot("failed", 1)).unwrap();
        let mut named = series.clone();
        named.name = "s".repeat(LONGEST_LABEL + 1);
        is_refused(all.put_slot(&named, &slot("failed", 1)));
        is_refused(all.add_windows(&[window(&name)]).map(drop));
        assert_eq!(all.add_windows(&[window("a")]).unwrap(), 1);
        is_refused(all.add_token(&token(&name)).map(drop));
        assert!(all.add_token(&token("a")).unwrap());
        let mut one = recording(1, "a");
        let deliver = |one: &punctual_model::Recording, machine| {
            let body = json(one);
            let delivery = Delivery {
                machine,
                sha256: &"0".repeat(64),
                received: time(2),
                series: None,
                recording: one,
                body: &body,
            };
            all.receive(&delivery).map(drop)
        };
        is_refused(deliver(&one, &name));
        one.label = Some("l".repeat(LONGEST_LABEL + 1));
        is_refused(deliver(&one, "a"));
        assert_eq!(all.lacking(&[one.id]).unwrap(), [one.id]);
    });
}

#[test]
fn collections_limit_notes_per_machine() {
    each(|all| {
        for number in 0..MOST_NOTES {
            all.put_note(&note(&number.to_string())).unwrap();
        }
        let refused = all.put_note(&note("one more"));
        let is_quota = matches!(refused, Err(StoreError::ManyNotes { .. }));
        assert!(is_quota, "{refused:?}");
        let of_other = Note {
            machine: Some("b".to_owned()),
            ..note("another")
        };
        all.put_note(&of_other).unwrap();
    });
}

/// A copy leaves out refused entries and continues.
#[test]
fn copy_omits_and_counts_overlong_entries() {
    each(|all| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("foreign.db");
        let store = Store::open(&path).unwrap();
        let lease = Lease {
            pid: 1,
            process_start: 2,
            boot_id: String::new(),
            namespaces: None,
        };
        for number in 0..3 {
            let mut one = recording(number, "a");
            let writer = store.begin(&one, &lease).unwrap();
            if number == 1 {
                one.label = Some("l".repeat(60_000));
            }
            writer.finish(&one).unwrap();
        }
        // The service shortens the texts of a store's own slots; the store does not.
        let series = epoch("a", 1, "{}");
        for minutes in 0..4 {
            let reason = "x".repeat(if minutes == 2 { LONGEST_NOTE + 1 } else { 9 });
            store.set_slot(&series, &slot(&reason, minutes)).unwrap();
        }
        drop(store);
        let from = SqliteCollection::open(&path).unwrap();
        for _ in 0..2 {
            let copied = copy(&from, all, &mut |_| {}).unwrap();
            assert_eq!(copied.refused.left_out, 2, "{copied:?}");
            let why = copied.refused.left_out_why.unwrap();
            assert!(why.contains("the label has 60000 characters"), "{why}");
            assert_eq!(copied.recordings + copied.known, 2);
        }
        assert_eq!(all.slots(&Default::default()).unwrap().len(), 3);
        // Entries that are left out stay in the source.
        assert_eq!(
            from.load(recording(1, "a").id)
                .unwrap()
                .1
                .label
                .unwrap()
                .len(),
            60_000
        );
    });
}

#[test]
fn quarantine_of_machine_has_quota() {
    each(|all| {
        let one = recording(1, "a");
        assert_eq!(receive(all, "a", &one, None), Received::New);
        for number in 0..MOST_ASIDE {
            let refused = Refused {
                id: RecordingId::new(),
                machine: "a",
                sha256: &format!("{number:064x}"),
                received: time(1),
                reason: "no recording",
                body: b"x",
            };
            assert!(all.put_aside(&refused).unwrap());
        }
        let mut other = one.clone();
        other.label = Some("changed".to_owned());
        let full = Received::Conflict { aside: false };
        assert_eq!(receive(all, "a", &other, None), full);
        assert_eq!(all.quarantined_of("a").unwrap().0, MOST_ASIDE);
        // The quota is separate for each machine.
        assert_eq!(
            receive(all, "b", &other, None),
            Received::Conflict { aside: true }
        );
    });
}

fn dictionary(number: u64) -> String {
    format!("{{\"host\":{number}}}")
}

#[test]
fn dictionaries_of_a_machine_have_a_quota() {
    each(|all| {
        for number in 0..MOST_DICTIONARIES {
            let kept = all.keep_dictionary("a", &dictionary(number)).unwrap();
            assert!(kept.is_some(), "{number}");
        }
        let more = dictionary(MOST_DICTIONARIES);
        assert_eq!(all.keep_dictionary("a", &more).unwrap(), None);
        assert_eq!(all.text(&punctual_store::text_hash(&more)).unwrap(), None);
        // Known dictionaries are accepted. The quota is separate for each machine.
        assert!(all.keep_dictionary("a", &dictionary(0)).unwrap().is_some());
        assert!(all.keep_dictionary("b", &more).unwrap().is_some());
    });
}

#[test]
fn compacting_makes_room_for_dictionaries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.db");
    let all = SqliteCollection::open(&path).unwrap();
    for number in 0..=MOST_DICTIONARIES {
        all.keep_dictionary("a", &dictionary(number)).unwrap();
    }
    use punctual_store::TextStore as _;
    let first = punctual_store::text_hash(&dictionary(0));
    assert!(all.text(&first).unwrap().is_some());
    Store::open(&path).unwrap().compact().unwrap();
    assert_eq!(all.text(&first).unwrap(), None);
    assert!(
        all.keep_dictionary("a", &dictionary(MOST_DICTIONARIES))
            .unwrap()
            .is_some()
    );
}
