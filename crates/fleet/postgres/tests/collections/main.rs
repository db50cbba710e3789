//! Guarantees of every collection, in a file or a database.

#![allow(clippy::unwrap_used)]

mod database;
mod days;
mod limits;
mod names;
mod texts;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual_model::{
    ChangeAnnotation, ChangeDecision, Fact, Nanos, Note, Recording, RecordingId, SeriesEpoch, Slot,
    SlotCause, SlotState, WakeWindow,
};
use punctual_postgres::PostgresCollection;
use punctual_store::{
    AuditLine, Collection, Delivery, Filter, Received, Refused, Role, SlotFilter, SqliteCollection,
    Token, Wanted,
};
use punctual_testing::postgres::Cluster;
use punctual_testing::skip;
use uuid::Uuid;

/// Runs a test on an empty collection of each kind.
fn each(test: fn(&dyn Collection)) {
    let folder = tempfile::tempdir().unwrap();
    test(&SqliteCollection::open(&folder.path().join("all.db")).unwrap());
    if let Some((_cluster, url, _)) = database() {
        test(&PostgresCollection::open(&url).unwrap());
    }
}

/// Returns an empty database: its server, its URL and its name.
fn database() -> Option<(Arc<Cluster>, String, String)> {
    match Cluster::shared() {
        Ok(cluster) => {
            let (name, url) = cluster.database().unwrap();
            Some((cluster, url, name))
        }
        Err(why) => {
            skip!(Program, "a collection in PostgreSQL: {why}");
            None
        }
    }
}

const AT: &str = "2026-11-03T07:10:00Z";

fn time(minutes: u64) -> Timestamp {
    AT.parse::<Timestamp>().unwrap() + Duration::from_secs(minutes * 60)
}

/// Returns the recording with this number, of this machine.
fn recording(number: u64, host: &str) -> Recording {
    let mut one = punctual_model::testing::recording(2, 3);
    let ms = u128::try_from(time(number).as_millisecond()).unwrap();
    one.id = RecordingId(Uuid::from_u128(
        ms << 80 | 0x7000_8000 << 48 | u128::from(number.wrapping_mul(0x9e37_79b9)),
    ));
    one.started = time(number);
    one.host.hostname = Fact::known(host.to_owned(), "uname");
    one.samples = None;
    one
}

fn json(one: &Recording) -> Vec<u8> {
    serde_json::to_vec(one).unwrap()
}

fn receive(
    all: &dyn Collection,
    machine: &str,
    one: &Recording,
    series: Option<&SeriesEpoch>,
) -> Received {
    let body = json(one);
    all.receive(&Delivery {
        machine,
        sha256: &format!("{:064x}", crc32fast::hash(&body)),
        received: time(10_000),
        series,
        recording: one,
        body: &body,
    })
    .unwrap()
}

fn of_machine(machine: &str, after: Option<(Timestamp, RecordingId)>) -> Wanted {
    Wanted {
        machine: Some(machine.to_owned()),
        after,
        most: 3,
        ..Wanted::default()
    }
}

#[test]
fn recording_is_kept_once_and_readable() {
    each(|all| {
        all.ready().unwrap();
        let one = recording(1, "host");
        assert_eq!(receive(all, "board", &one, None), Received::New);
        assert_eq!(receive(all, "board", &one, None), Received::Known);
        let mut other = one.clone();
        other.label = Some("changed".to_owned());
        assert_eq!(
            receive(all, "board", &other, None),
            Received::Conflict { aside: true }
        );
        assert_eq!(
            receive(all, "board", &other, None),
            Received::Conflict { aside: true }
        );
        assert_eq!(all.load(one.id).unwrap(), ("board".to_owned(), one.clone()));
        assert_eq!(all.recording(one.id).unwrap(), one);
        let aside = all.quarantined(9).unwrap();
        assert_eq!(aside.len(), 1, "{aside:?}");
        assert_eq!(
            (aside[0].id, aside[0].bytes),
            (one.id, json(&other).len() as u64)
        );
        assert_eq!(all.quarantined_of("board").unwrap(), (1, aside[0].bytes));
        assert_eq!(all.quarantined_of("another").unwrap(), (0, 0));
        assert!(all.load(RecordingId(Uuid::nil())).is_err());
        let missing = recording(2, "host").id;
        assert_eq!(all.lacking(&[missing, one.id]).unwrap(), [missing]);
        let machines = all.machines().unwrap();
        assert_eq!(
            (machines[0].name.as_str(), machines[0].recordings),
            ("board", 1)
        );
        assert_eq!(machines[0].last_seen, Some(time(10_000)));
        assert_eq!(machines[0].latest.as_ref().unwrap().id, one.id);
        let (name, total) = all.totals().unwrap().remove(0);
        let mut expected = punctual_store::Total::default();
        expected.add(&one);
        assert_eq!((name.as_str(), total), ("board", expected));
    });
}

#[test]
fn the_list_is_turned_and_searched() {
    each(|all| {
        for number in 0..8 {
            let machine = if number % 2 == 0 { "even" } else { "odd" };
            let mut one = recording(number, "host");
            one.label = Some(format!("kernel {}", number / 4));
            receive(all, machine, &one, None);
        }
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = all.list(&of_machine("even", after)).unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.summary.started, last.summary.id));
            assert!(page.iter().all(|one| one.machine == "even"));
            seen.extend(page.iter().map(|one| one.summary.id));
        }
        let expected = [6, 4, 2, 0].map(|number| recording(number, "host").id);
        assert_eq!(seen, expected);
        let one = recording(3, "host").id;
        let digits = one.0.simple().to_string();
        assert_eq!(all.find("last").unwrap(), recording(7, "host").id);
        assert_eq!(all.find("last~4").unwrap(), one);
        assert_eq!(all.find(&digits).unwrap(), one);
        assert_eq!(all.find(&digits[24..]).unwrap(), one);
        assert_eq!(all.find("kernel 0").unwrap(), one);
        let before = recording(2, "host").id;
        assert_eq!(all.find("kernel 0~1").unwrap(), before);
        for bad in ["last~8", "ffff0000", "no", "kernel 1~4", &digits[..4]] {
            assert!(all.find(bad).is_err(), "{bad}");
        }
        let filter = Filter {
            since: Some(time(5)),
            limit: Some(2),
            ..Filter::default()
        };
        let found: Vec<_> = all
            .list_by(&filter)
            .unwrap()
            .iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(found, [7, 6].map(|number| recording(number, "host").id));
    });
}

#[test]
fn tokens_and_the_audit_log_are_kept() {
    each(|all| {
        let token = |name: &str, role| Token {
            name: name.to_owned(),
            role,
            sha256: format!("hash of {name}"),
            created: time(1),
            machine: None,
        };
        assert!(all.add_token(&token("board", Role::Machine)).unwrap());
        assert!(!all.add_token(&token("board", Role::Admin)).unwrap());
        assert!(all.add_token(&token("admin", Role::Admin)).unwrap());
        let found = all.token("hash of board").unwrap();
        assert_eq!(found, Some(token("board", Role::Machine)));
        assert_eq!(all.token("").unwrap(), None);
        // The first machine is kept until it is removed.
        let of = |machine| Token {
            machine,
            ..token("board", Role::Machine)
        };
        let noted = || all.token("hash of board").unwrap();
        for (before, now, changes) in [
            (Some("one"), Some("two"), false),
            (None, Some("one"), true),
            (None, Some("two"), false),
            (Some("one"), Some("two"), true),
            (Some("two"), None, true),
        ] {
            let then = if changes {
                now
            } else {
                noted()
                    .and_then(|one| one.machine)
                    .as_deref()
                    .map(|_| "one")
            };
            assert_eq!(all.set_machine("board", before, now).unwrap(), changes);
            assert_eq!(noted(), Some(of(then.map(str::to_owned))));
        }
        assert!(!all.set_machine("nobody", None, Some("one")).unwrap());
        let asked = ["", "hash of board", "hash of none"].map(str::to_owned);
        assert_eq!(
            all.tokens_of(&asked).unwrap(),
            [token("board", Role::Machine)]
        );
        let names: Vec<_> = all
            .tokens()
            .unwrap()
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(names, ["admin", "board"]);
        let never = all.machines().unwrap();
        assert_eq!((never.len(), never[0].last_seen), (1, None));
        all.set_retired("board", Some(time(1))).unwrap();
        all.set_retired("board", Some(time(2))).unwrap();
        assert_eq!(all.machines().unwrap()[0].retired, Some(time(1)));
        assert!(all.machines_in_service().unwrap().is_empty());
        all.set_retired("board", None).unwrap();
        assert_eq!(all.machines_in_service().unwrap(), never);
        assert!(all.remove_token("admin").unwrap() && !all.remove_token("admin").unwrap());
        for number in 0..3 {
            let line = AuditLine {
                at: time(number),
                who: "admin".to_owned(),
                action: "enrol".to_owned(),
                what: number.to_string(),
            };
            all.log(&line).unwrap();
        }
        let log = all.audit(2).unwrap();
        assert_eq!(
            log.iter().map(|line| &line.what[..]).collect::<Vec<_>>(),
            ["2", "1"]
        );
    });
}

fn epoch(machine: &str, number: u32, definition: &str) -> SeriesEpoch {
    SeriesEpoch {
        machine: machine.to_owned(),
        host: Some(machine.to_owned()),
        name: "osadl".to_owned(),
        epoch: number,
        definition: definition.to_owned(),
        begun: time(0),
    }
}

#[test]
fn a_recording_joins_its_series() {
    each(|all| {
        let [a, b] = ["a", "b"].map(|machine| epoch(machine, 1, "{}"));
        // Two machines with the same host name are two machines.
        for number in 0..3 {
            receive(all, "a", &recording(number, "same"), Some(&a));
        }
        receive(all, "b", &recording(3, "same"), Some(&b));
        // A recording that was delivered without its series is added later.
        assert_eq!(
            receive(all, "a", &recording(4, "same"), None),
            Received::New
        );
        assert_eq!(
            receive(all, "a", &recording(4, "same"), Some(&a)),
            Received::Known
        );
        assert_eq!(all.series().unwrap(), [a.clone(), b.clone()]);
        let named = |name, host| all.series_named(name, host).unwrap();
        assert_eq!(named("osadl", None), [a.clone(), b.clone()]);
        assert_eq!(named("osadl", Some("b")), [b]);
        assert_eq!(named("osadl", Some("c")), []);
        assert_eq!(named("other", None), []);
        let runs = all.runs("osadl", Some("a"), None).unwrap();
        let numbers: Vec<_> = runs.iter().map(|run| run.started).collect();
        assert_eq!(numbers, [0, 1, 2, 4].map(time));
        assert!(
            runs.iter()
                .all(|run| run.host.as_deref() == Some("a") && run.epoch == 1)
        );
        let expected = punctual_model::run_groups(&recording(0, "same"));
        assert_eq!(runs[0].groups, expected);
        let facts = all.facts(runs[0].facts.as_deref().unwrap()).unwrap();
        assert_eq!(facts, Some(recording(0, "same").host));
        assert_eq!(all.runs("osadl", None, Some(time(3))).unwrap().len(), 2);
        // A reinstalled machine counts from 1 again.
        receive(
            all,
            "a",
            &recording(5, "same"),
            Some(&epoch("a", 1, "{\"new\":1}")),
        );
        let epochs: Vec<_> = all.series().unwrap().iter().map(|one| one.epoch).collect();
        assert_eq!(epochs, [1, 2, 1]);
        assert_eq!(
            all.runs("osadl", Some("a"), None)
                .unwrap()
                .last()
                .unwrap()
                .epoch,
            2
        );
    });
}

#[test]
fn slots_notes_and_decisions_are_kept() {
    each(|all| {
        let a = epoch("a", 1, "{}");
        let mut slot = Slot {
            machine: "a".to_owned(),
            series: a.name.clone(),
            epoch: 1,
            due: time(0),
            cause: SlotCause::At,
            state: SlotState::Running,
            reason: None,
            recording: None,
        };
        all.put_slot(&a, &slot).unwrap();
        slot.state = SlotState::Missed;
        slot.reason = Some("the machine was off".to_owned());
        all.put_slot(&a, &slot).unwrap();
        assert_eq!(all.slots(&SlotFilter::default()).unwrap(), [slot]);
        let of_state = |state| SlotFilter {
            state: Some(state),
            ..SlotFilter::default()
        };
        assert!(all.slots(&of_state(SlotState::Running)).unwrap().is_empty());
        for (host, slots) in [("a", 1), ("b", 0)] {
            let filter = SlotFilter {
                host: Some(host.to_owned()),
                ..SlotFilter::default()
            };
            assert_eq!(all.slots(&filter).unwrap().len(), slots, "{host}");
        }
        let mut note = Note {
            id: RecordingId::new(),
            recording: None,
            series: Some("osadl".to_owned()),
            machine: None,
            at: time(1),
            author: "me".to_owned(),
            text: "new kernel".to_owned(),
            written: time(2),
        };
        all.put_note(&note).unwrap();
        note.text = "newer kernel".to_owned();
        all.put_note(&note).unwrap();
        assert_eq!(all.notes().unwrap(), [note]);
        let mark = ChangeAnnotation {
            id: RecordingId::new(),
            series: "osadl".to_owned(),
            figure: "idle/general/tail/worse".to_owned(),
            recording: recording(1, "a").id,
            decision: ChangeDecision::Acknowledged,
            who: "me".to_owned(),
            why: "known".to_owned(),
            at: time(3),
        };
        all.put_change_mark(&mark).unwrap();
        assert_eq!(all.change_marks(Some("osadl")).unwrap(), [mark]);
        assert!(all.change_marks(Some("other")).unwrap().is_empty());
    });
}

#[test]
fn windows_are_kept_once() {
    each(|all| {
        let window = |machine: &str, minute| WakeWindow {
            machine: machine.to_owned(),
            start: time(minute),
            length_ns: Nanos::from_secs(10),
            real_time: punctual_model::WaitHistogram::default(),
            ordinary: punctual_model::WaitHistogram::default(),
            longest: Vec::new(),
            lost: minute,
        };
        let windows = [window("a", 0), window("a", 1), window("b", 0)];
        assert_eq!(all.add_windows(&windows).unwrap(), 3);
        assert_eq!(all.add_windows(&windows[1..]).unwrap(), 0);
        assert_eq!(all.windows("a", time(0), 9).unwrap(), windows[..2]);
        assert_eq!(all.windows("a", time(1), 9).unwrap(), windows[1..2]);
        assert_eq!(all.windows("a", time(0), 1).unwrap(), windows[..1]);
        // Several deliveries at once, two of which share a window. The new windows of each delivery
        // are counted.
        let deliveries = [
            vec![window("a", 0), window("a", 2)],
            vec![],
            vec![window("a", 2), window("b", 3), window("c\0", 0)],
        ];
        assert_eq!(all.add_windows_of(&deliveries).unwrap(), [1, 0, 2]);
        assert_eq!(all.add_windows_of(&deliveries).unwrap(), [0, 0, 0]);
        assert_eq!(all.windows("a", time(0), 9).unwrap().len(), 3);
    });
}

/// If a delivery has two slots with the same due time, the later one is kept.
#[test]
fn slots_are_kept_together() {
    each(|all| {
        let (a, b) = (epoch("a", 1, "{}"), epoch("b", 1, "{}"));
        let slot = |of: &SeriesEpoch, minute, state| Slot {
            machine: of.machine.clone(),
            series: of.name.clone(),
            epoch: 1,
            due: time(minute),
            cause: SlotCause::At,
            state,
            reason: Some("off\0".to_owned()).filter(|_| state == SlotState::Missed),
            recording: None,
        };
        let slots = [
            (a.clone(), slot(&a, 0, SlotState::Running)),
            (b.clone(), slot(&b, 0, SlotState::Running)),
            (a.clone(), slot(&a, 0, SlotState::Missed)),
            (a.clone(), slot(&a, 1, SlotState::Recorded)),
        ];
        all.put_slots(&slots).unwrap();
        all.put_slots(&slots).unwrap();
        all.put_slots(&[]).unwrap();
        let kept = all.slots(&SlotFilter::default()).unwrap();
        let of = |machine: &str| -> Vec<_> {
            let own = kept.iter().filter(|slot| slot.machine == machine);
            own.map(|slot| slot.state).collect()
        };
        assert_eq!(of("a"), [SlotState::Recorded, SlotState::Missed]);
        assert_eq!(of("b"), [SlotState::Running]);
    });
}

/// A machine may send any text and any number.
#[test]
fn hostile_data_is_kept_or_quarantined() {
    each(|all| {
        for number in 0..3 {
            let mut one = recording(number, "\0<script>\u{202e}");
            one.label = Some("a\0b'; DROP TABLE recording; --".to_owned());
            one.duration_ns = Nanos(u64::MAX);
            for thread in &mut one.threads {
                thread.accounting.missed = u64::MAX;
                thread.accounting.expected = u64::MAX;
            }
            let machine = one.host.hostname.get().unwrap().clone();
            assert_eq!(receive(all, &machine, &one, None), Received::New);
            assert_eq!(all.load(one.id).unwrap().1, one);
        }
        assert_eq!(
            all.list(&Wanted {
                most: 9,
                ..Wanted::default()
            })
            .unwrap()
            .len(),
            3
        );
        assert_eq!(all.totals().unwrap()[0].1.missed, u64::MAX);
        let refused = Refused {
            id: RecordingId(Uuid::nil()),
            machine: "\0",
            sha256: "",
            received: time(0),
            reason: "\0",
            body: b"\0\xff",
        };
        all.quarantine(&refused).unwrap();
        assert_eq!(all.quarantined(9).unwrap().len(), 1);
    });
}
