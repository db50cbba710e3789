//! A machine gets another name, with all its data.

use std::collections::BTreeMap;

use punctual_model::{Nanos, Note, RecordingId, Slot, SlotCause, SlotState, WakeWindow};
use punctual_store::{
    Collection, Lease, MachineNames, RenameRefusal, Role, SlotFilter, SqliteCollection, StoreError,
    Token, Wanted, copy,
};

use crate::{each, epoch, receive, recording, time};

fn token(name: &str, role: Role) -> Token {
    Token {
        name: name.to_owned(),
        role,
        sha256: format!("hash of {name}"),
        created: time(1),
        machine: None,
    }
}

fn window(machine: &str, minute: u64) -> WakeWindow {
    WakeWindow {
        machine: machine.to_owned(),
        start: time(minute),
        length_ns: Nanos::from_secs(10),
        real_time: punctual_model::WaitHistogram::default(),
        ordinary: punctual_model::WaitHistogram::default(),
        longest: Vec::new(),
        lost: minute,
    }
}

/// Stores data of every kind for the machine, and of another machine.
fn fill(all: &dyn Collection, name: &str) {
    all.add_token(&token(name, Role::Machine)).unwrap();
    let series = epoch(name, 1, "{}");
    receive(all, name, &recording(0, "host"), Some(&series));
    receive(
        all,
        "other",
        &recording(1, "host"),
        Some(&epoch("other", 1, "{}")),
    );
    all.add_windows(&[window(name, 0), window("other", 0)])
        .unwrap();
    let slot = Slot {
        machine: name.to_owned(),
        series: series.name.clone(),
        epoch: 1,
        due: time(0),
        cause: SlotCause::At,
        state: SlotState::Missed,
        reason: None,
        recording: None,
    };
    all.put_slot(&series, &slot).unwrap();
    all.put_note(&Note {
        id: RecordingId::new(),
        recording: None,
        series: None,
        machine: Some(name.to_owned()),
        at: time(1),
        author: "me".to_owned(),
        text: "new kernel".to_owned(),
        written: time(2),
    })
    .unwrap();
    all.keep_dictionary(name, "text").unwrap();
    all.set_retired(name, Some(time(3))).unwrap();
}

/// Returns how many entries of each kind the machine has.
fn counts(all: &dyn Collection, name: &str) -> [usize; 9] {
    let machines = all.machines().unwrap();
    let own = machines.iter().find(|one| one.name == name);
    let host = Some(name.to_owned());
    let wanted = Wanted {
        machine: host.clone(),
        most: 99,
        ..Wanted::default()
    };
    let slots = SlotFilter {
        host,
        ..SlotFilter::default()
    };
    let notes = all.notes().unwrap().into_iter();
    [
        own.map_or(0, |one| one.recordings as usize),
        usize::from(own.is_some_and(|one| one.retired.is_some())),
        all.list(&wanted).unwrap().len(),
        all.runs("osadl", Some(name), None).unwrap().len(),
        all.slots(&slots).unwrap().len(),
        all.windows(name, time(0), 99).unwrap().len(),
        notes
            .filter(|note| note.machine.as_deref() == Some(name))
            .count(),
        all.totals()
            .unwrap()
            .iter()
            .filter(|one| one.0 == name)
            .count(),
        all.tokens()
            .unwrap()
            .iter()
            .filter(|one| one.name == name)
            .count(),
    ]
}

fn refusal(all: &dyn Collection, old: &str, new: &str) -> RenameRefusal {
    match all.rename(old, new) {
        Err(StoreError::NotRenamed { refusal, .. }) => refusal,
        other => panic!("{old} to {new}: {other:?}"),
    }
}

#[test]
fn renamed_machine_keeps_all_its_data() {
    each(|all| {
        fill(all, "old");
        let before = all.machines().unwrap();
        assert_eq!(counts(all, "old"), [1; 9]);
        all.rename("old", "new").unwrap();
        assert_eq!(counts(all, "new"), [1; 9]);
        assert_eq!(counts(all, "old"), [0; 9]);
        assert_eq!(all.load(recording(0, "host").id).unwrap().0, "new");
        assert_eq!(all.windows("new", time(0), 9).unwrap(), [window("new", 0)]);
        let found = all.token("hash of old").unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.role), ("new", Role::Machine));
        // To undo it, the machine is renamed back.
        all.rename("new", "old").unwrap();
        assert_eq!(counts(all, "old"), [1; 9]);
        assert_eq!(all.machines().unwrap(), before);
        let earlier = BTreeMap::from([("new".to_owned(), "old".to_owned())]);
        assert_eq!(all.earlier_names().unwrap(), earlier);
    });
}

#[test]
fn deliveries_under_earlier_names_reach_the_machine() {
    each(|all| {
        fill(all, "first");
        all.rename("first", "second").unwrap();
        all.rename("second", "third").unwrap();
        for (number, name) in [(2, "first"), (3, "second"), (4, "third")] {
            receive(
                all,
                name,
                &recording(number, "host"),
                Some(&epoch(name, 1, "{}")),
            );
            all.add_windows(&[window(name, number)]).unwrap();
            assert_eq!(all.current_name(name).unwrap(), "third");
        }
        let names: Vec<_> = all
            .machines()
            .unwrap()
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(names, ["other", "third"]);
        assert_eq!(counts(all, "third")[..4], [4, 1, 4, 4]);
        assert_eq!(all.windows("third", time(0), 9).unwrap().len(), 4);
        assert_eq!(all.window_machines().unwrap(), ["other", "third"]);
        assert_eq!(all.series().unwrap().len(), 2);
        // A new machine may get an earlier name.
        let token = Token {
            sha256: "another hash".to_owned(),
            ..token("first", Role::Machine)
        };
        assert!(all.add_token(&token).unwrap());
        receive(all, "first", &recording(5, "host"), None);
        assert_eq!(counts(all, "first")[0], 1);
    });
}

#[test]
fn rename_that_would_mix_machines_is_refused() {
    each(|all| {
        fill(all, "old");
        all.add_token(&token("eve", Role::Viewer)).unwrap();
        let taken = |name: &str| RenameRefusal::Taken(name.to_owned());
        for name in ["other", "eve", "old"] {
            assert_eq!(refusal(all, "old", name), taken(name));
        }
        for name in ["none", "eve"] {
            let expected = RenameRefusal::NoMachine(name.to_owned());
            assert_eq!(refusal(all, name, "new"), expected);
        }
        assert_eq!(counts(all, "old"), [1; 9]);
        all.rename("old", "new").unwrap();
        let (old, now) = ("old".to_owned(), "new".to_owned());
        let renamed = RenameRefusal::Renamed {
            old: old.clone(),
            now: now.clone(),
        };
        assert_eq!(refusal(all, "old", "newer"), renamed);
        let earlier = RenameRefusal::TakenEarlier { new: old, now };
        assert_eq!(refusal(all, "other", "old"), earlier);
    });
}

#[test]
fn machine_of_this_store_is_not_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let all = SqliteCollection::open(&path).unwrap();
    receive(&all, "board", &recording(0, "host"), None);
    let store = punctual_store::Store::open(&path).unwrap();
    let local = recording(1, "local");
    let writer = store.begin(&local, &Lease::default()).unwrap();
    writer.finish(&local).unwrap();
    let local = RenameRefusal::Local("local".to_owned());
    assert_eq!(refusal(&all, "local", "new"), local);
    let taken = RenameRefusal::Taken("local".to_owned());
    assert_eq!(refusal(&all, "board", "local"), taken);
    // The host name of a delivered recording is not a machine.
    all.rename("board", "host").unwrap();
}

#[test]
fn earlier_names_are_copied() {
    each(|all| {
        let folder = tempfile::tempdir().unwrap();
        let from = SqliteCollection::open(&folder.path().join("from.db")).unwrap();
        fill(&from, "old");
        from.rename("old", "new").unwrap();
        copy(&from, all, &mut |_| {}).unwrap();
        receive(all, "old", &recording(6, "host"), None);
        assert_eq!(counts(all, "new")[0], 2);
        assert_eq!(counts(all, "old"), [0; 9]);
    });
}
