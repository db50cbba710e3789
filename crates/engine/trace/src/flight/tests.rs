//! Tests the recorder with a simulated kernel that can reject writes and lack features.

use std::fs;
use std::sync::Arc;

use punctual_model::{EventKind, Nanos, Vector};

use super::*;
use crate::testing::{FakeTracefs, PageBuilder, Piece, Value, layout, record};
use crate::{Files, Level, TraceError, Tracefs};

const OWNER: Owner = Owner {
    pid: 4_711,
    start: 99,
};

struct Machine {
    _folder: tempfile::TempDir,
    fake: Arc<FakeTracefs>,
    tracefs: Tracefs,
}

fn machine(but: &[&str]) -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let fake = Arc::new(FakeTracefs::new(folder.path(), "nop").unwrap());
    fake.with_events(but).unwrap();
    let files = Arc::clone(&fake) as Arc<dyn Files>;
    Machine {
        tracefs: Tracefs::find_with(folder.path(), files).unwrap(),
        _folder: folder,
        fake,
    }
}

impl Machine {
    fn arm(&self, level: Level) -> Result<Flight, TraceError> {
        let plan = Plan {
            level,
            bytes_per_cpu: 64 << 10,
        };
        self.tracefs.arm(plan, OWNER, None)
    }
}

/// Builds a page that starts at `time`, with records at these offsets from it.
fn page(time: u64, records: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut page = PageBuilder::new(layout(cfg!(target_endian = "big")));
    let mut before = 0;
    for (after, bytes) in records {
        page.write(&Piece::Event(after - before, bytes.clone()));
        before = *after;
    }
    page.page(time, None)
}

fn waking(pid: i64) -> Vec<u8> {
    let fields = [
        Value::Name("victim"),
        Value::Number(pid),
        Value::Number(20),
        Value::Number(0),
    ];
    record("sched/sched_waking", 1, 7, &fields)
}

fn timer(pid: u32) -> Vec<u8> {
    record("irq_vectors/local_timer_entry", 9, pid, &[])
}

#[test]
fn what_the_kernel_wrote_is_cut_out() {
    let machine = machine(&[]);
    let mut flight = machine.arm(Level::Default).unwrap();
    assert!(flight.has_same_clock());
    assert_eq!(flight.clock().offset_ns, 0);
    flight.switch(true).unwrap();
    let put = |page: &[u8]| assert_eq!(machine.fake.put_page(page).unwrap(), 1);
    put(&page(
        1_000,
        &[(0, timer(3)), (10, waking(5)), (20, timer(4))],
    ));
    put(&page(2_000, &[(0, timer(6)), (500, waking(5))]));
    flight.take_out().unwrap();
    let cut = flight.slice_for(5, Some(0), Nanos(1_015), Nanos(2_100));
    let found: Vec<_> = cut
        .events
        .iter()
        .map(|event| (event.time.0, event.pid))
        .collect();
    // The result includes the last event before the interval.
    assert_eq!(found, [(1_010, 7), (1_020, 4), (2_000, 6)]);
    assert_eq!((cut.lost, cut.pages.len()), (0, 2));
    let EventKind::VectorEntry { vector } = &cut.events[1].kind else {
        panic!("{:?}", cut.events[1]);
    };
    assert_eq!(*vector, Vector::LocalTimer);
    // An overlapping second interval can use the same pages.
    let again = flight.slice_for(5, Some(0), Nanos(2_400), Nanos(2_600));
    assert_eq!(again.events.len(), 2);
    assert_eq!(flight.slice_for(5, Some(0), Nanos(0), Nanos(10)).events, []);
    flight.stop().unwrap();
    assert_eq!(machine.fake.instances().unwrap(), [""; 0]);
}

#[test]
fn later_records_stay_with_the_kernel() {
    let machine = machine(&[]);
    let mut flight = machine.arm(Level::Default).unwrap();
    flight.switch(true).unwrap();
    for start in [1_000, 2_000, 3_000] {
        machine
            .fake
            .put_page(&page(start, &[(0, timer(3))]))
            .unwrap();
    }
    let found = |flight: &mut Flight| {
        flight
            .slice_for(3, Some(0), Nanos(0), Nanos(9_000))
            .events
            .len()
    };
    flight.take_out_until(Nanos(1_500)).unwrap();
    // The page that begins after this time has already been read.
    assert_eq!(found(&mut flight), 2);
    flight.take_out_until(Nanos(1_700)).unwrap();
    assert_eq!(found(&mut flight), 2);
    flight.take_out().unwrap();
    assert_eq!(found(&mut flight), 3);
}

#[test]
fn stop_handle_stops_and_releases_recording() {
    let machine = machine(&[]);
    let flight = machine.arm(Level::Default).unwrap();
    let handle = flight.stop_handle();
    let on = flight.file("tracing_on");
    let is_on = || std::fs::read_to_string(&on).unwrap().starts_with('1');
    assert!(is_on() && handle.stopped_at().is_none());
    handle.stop().unwrap();
    assert!(!is_on());
    let at = handle.stopped_at().unwrap();
    // Stopping a second time does not change the time of the stop.
    handle.stop().unwrap();
    assert_eq!(handle.stopped_at(), Some(at));
    flight.stop().unwrap();
    assert_eq!(machine.fake.instances().unwrap(), [""; 0]);
    // After the recorder has ended, the handle has no effect.
    let flight = machine.arm(Level::Default).unwrap();
    let handle = flight.stop_handle();
    drop(flight);
    handle.stop().unwrap();
    assert_eq!(handle.stopped_at(), None);
}

#[test]
fn few_events_enabled_some_for_watched_threads() {
    let machine = machine(&[]);
    let mut flight = machine.arm(Level::Default).unwrap();
    assert_eq!(machine.fake.switched_on().unwrap(), [""; 0]);
    flight.switch(true).unwrap();
    let usual = machine.fake.switched_on().unwrap();
    for name in [
        "sched:sched_switch none",
        "irq_vectors:reschedule_exit none",
    ] {
        assert!(usual.iter().any(|on| on == name), "{usual:?}");
    }
    for name in ["page_fault_user", "hrtimer", "sys_enter"] {
        assert!(!usual.iter().any(|on| on.contains(name)), "{name}");
    }
    flight.watch(&[12, 13]).unwrap();
    let watched = machine.fake.switched_on().unwrap();
    let faults = "exceptions:page_fault_user common_pid == 12 || common_pid == 13";
    assert!(watched.iter().any(|on| on == faults), "{watched:?}");
    assert!(watched.contains(&"signal:signal_generate pid == 12 || pid == 13".to_owned()));
    flight.watch(&[]).unwrap();
    assert_eq!(machine.fake.switched_on().unwrap(), usual);
    flight.switch(false).unwrap();
    assert_eq!(machine.fake.switched_on().unwrap(), [""; 0]);
    drop(flight);

    let mut flight = machine.arm(Level::Full).unwrap();
    flight.switch(true).unwrap();
    assert!(machine.fake.switched_on().unwrap().len() > usual.len());
    assert!(
        flight
            .recorded()
            .contains(&"timer:hrtimer_start".to_owned())
    );
    assert!(
        flight
            .recorded()
            .contains(&"irq_vectors:*_entry".to_owned())
    );
    assert!(!flight.missing().contains(&"irq_vectors:*_entry".to_owned()));
}

#[test]
fn what_a_kernel_lacks_is_reported() {
    let lacking = machine(&[
        "sched:sched_pi_setprio",
        "nmi:nmi_handler",
        "timer:hrtimer_start",
    ]);
    let flight = lacking.arm(Level::Default).unwrap();
    let found: Vec<_> = flight
        .not_recorded()
        .iter()
        .filter(|not| not.matters)
        .map(|not| (not.name.as_str(), not.why.as_str()))
        .collect();
    assert_eq!(found, [("sched:sched_pi_setprio", "not in this kernel")]);
    for name in [
        "sched:sched_pi_setprio",
        "nmi:nmi_handler",
        "timer:hrtimer_start",
    ] {
        assert!(flight.missing().contains(&name.to_owned()), "{name}");
    }
    drop(flight);
    // Without scheduler events, a recording is useless.
    let blind = machine(&["sched:sched_switch"]);
    let error = blind.arm(Level::Default).unwrap_err();
    assert!(error.to_string().contains("sched_switch"), "{error}");
    assert_eq!(blind.fake.instances().unwrap(), [""; 0]);
}

#[test]
fn absent_field_makes_event_unknown() {
    let machine = machine(&[]);
    let file = machine
        .tracefs
        .path()
        .join("events/sched/sched_waking/format");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(" target_cpu;", " other;")).unwrap();
    let flight = machine.arm(Level::Default).unwrap();
    let not = flight
        .not_recorded()
        .iter()
        .find(|not| not.matters)
        .unwrap();
    assert_eq!(not.name, "sched:sched_waking");
    assert!(not.why.contains("target_cpu"), "{}", not.why);
}

#[test]
fn another_clock_is_measured() {
    let machine = machine(&[]);
    machine.fake.without_mono(5_000_000_000);
    let mut flight = machine.arm(Level::Default).unwrap();
    assert!(!flight.has_same_clock());
    let clock = flight.clock();
    let off = clock.offset_ns.abs_diff(5_000_000_000);
    assert!(
        off <= clock.error.0 && clock.error < Nanos::from_secs(1),
        "{clock:?}"
    );
    flight.switch(true).unwrap();
    machine
        .fake
        .put_page(&page(1_000, &[(0, timer(3))]))
        .unwrap();
    flight.take_out().unwrap();
    let from = Nanos(5_000_000_000);
    let cut = flight.slice_for(
        5,
        Some(0),
        from.saturating_sub(Nanos::from_millis(900)),
        from + from,
    );
    assert_eq!(cut.events.iter().filter(|event| event.pid == 3).count(), 1);
}

#[test]
fn kernel_refusal_leaves_nothing_behind() {
    let machine = machine(&[]);
    let attempt = |first: usize| {
        machine.fake.refuse(first, 1);
        let flight = machine.arm(Level::Default).and_then(|mut flight| {
            flight.switch(true)?;
            flight.watch(&[1])?;
            flight.stop()
        });
        let written = machine.fake.written();
        assert_eq!(machine.fake.instances().unwrap(), [""; 0], "write {first}");
        (flight, written)
    };
    let (whole, writes) = attempt(usize::MAX / 2);
    whole.unwrap();
    let mut refused = 0;
    for first in 0..writes {
        let (result, _) = attempt(first);
        if let Err(error) = result {
            refused += 1;
            let text = error.to_string();
            assert!(text.contains("lockdown"), "{text}");
        }
    }
    // Some failures do not prevent recording, such as that of the clock or of one of many events.
    assert!(refused > 4 && refused < writes, "{refused} of {writes}");
}

#[test]
fn an_event_that_is_refused_is_reported() {
    let machine = machine(&[]);
    let mut flight = machine.arm(Level::Default).unwrap();
    machine.fake.refuse(1, 1);
    flight.switch(true).unwrap();
    let warnings = flight.warnings();
    assert!(
        warnings[0].contains("an event is not recorded"),
        "{warnings:?}"
    );
}

#[test]
fn instances_of_a_program_have_distinct_names() {
    let machine = machine(&[]);
    let (one, two) = (machine.arm(Level::Default), machine.arm(Level::Default));
    let mut names = machine.fake.instances().unwrap();
    names.sort();
    assert_eq!(
        names,
        ["punctual-flight-4711.99.0", "punctual-flight-4711.99.1"]
    );
    drop((one, two));
    assert_eq!(machine.fake.instances().unwrap(), [""; 0]);
}

#[test]
fn only_killed_programs_leftovers_are_cleared() {
    let machine = machine(&[]);
    let flight = machine.arm(Level::Default).unwrap();
    std::mem::forget(flight);
    let own = machine.tracefs.path().join("instances/mine");
    machine.fake.make_folder(&own).unwrap();
    let lives = |pid, start| (pid, start) == (4_711, Some(99));
    assert_eq!(machine.tracefs.clear_left_behind(lives).unwrap(), [""; 0]);
    // Another process now has the same process ID.
    let other = |pid, start| (pid, start) == (4_711, Some(100));
    let cleared = machine.tracefs.clear_left_behind(other).unwrap();
    assert_eq!(cleared, ["punctual-flight-4711.99.0"]);
    assert_eq!(machine.fake.instances().unwrap(), ["mine"]);
}

#[test]
fn invalid_pages_are_only_lost() {
    let machine = machine(&[]);
    let mut flight = machine.arm(Level::Default).unwrap();
    flight.switch(true).unwrap();
    machine
        .fake
        .put_page(&page(1_000, &[(0, timer(3))]))
        .unwrap();
    let mut broken = page(2_000, &[(0, timer(3))]);
    broken[8..16].copy_from_slice(&0x3fff_u64.to_ne_bytes());
    machine.fake.put_page(&broken).unwrap();
    machine
        .fake
        .put_page(&page(3_000, &[(0, timer(3))]))
        .unwrap();
    flight.take_out().unwrap();
    let cut = flight.slice_for(3, Some(0), Nanos(900), Nanos(4_000));
    assert_eq!((cut.events.len(), cut.lost), (2, 1));
}

fn choices(texts: &[&str]) -> Vec<EventChoice> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn requested_events_have_own_instance_and_filters() {
    let machine = machine(&[]);
    let mut usual = machine.arm(Level::Default).unwrap();
    usual.switch(true).unwrap();
    let before = machine.fake.switched_on().unwrap();
    let asked = choices(&["sched:sched_waking/pid == 5/", "timer:timer_expire_exit"]);
    let mut flight = machine.tracefs.arm_requested(&asked, OWNER).unwrap();
    assert_eq!(machine.fake.instances().unwrap().len(), 2);
    assert_eq!(machine.fake.switched_on().unwrap(), before);
    flight.switch(true).unwrap();
    let on = machine.fake.switched_on().unwrap();
    assert!(on.contains(&"sched:sched_waking pid == 5".to_owned()));
    assert_eq!(on.len(), before.len() + 2);
    machine
        .fake
        .put_page(&page(1_000, &[(0, timer(3)), (10, waking(5))]))
        .unwrap();
    flight.take_out().unwrap();
    let cut = flight.slice_all(Nanos(0), Nanos(2_000));
    let [event] = &cut.events[..] else {
        panic!("{:?}", cut.events);
    };
    let EventKind::Requested { name, fields } = &event.kind else {
        panic!("{event:?}");
    };
    assert_eq!(
        (event.time, event.pid, event.is_requested()),
        (Nanos(1_010), 7, true)
    );
    assert_eq!(name.to_string(), "sched:sched_waking");
    assert_eq!(fields, "comm=victim pid=5 prio=20 target_cpu=0");
    flight.stop().unwrap();
    usual.stop().unwrap();
    assert_eq!(machine.fake.instances().unwrap(), [""; 0]);
}

#[test]
fn unrecordable_requested_event_leaves_nothing() {
    let machine = machine(&[]);
    for (asked, expected) in [
        ("sched:sched_swich", "did you mean sched:sched_switch"),
        (
            "nothing:alike",
            "no event 'nothing:alike'; for all events, see available_events",
        ),
        ("ftrace:print", "tracers write this event"),
        (
            "sched:sched_waking/pd == 5/",
            "refuses the filter 'pd == 5' of sched:sched_waking: Field not found at 'pd == 5'",
        ),
    ] {
        let error = machine.tracefs.arm_requested(&choices(&[asked]), OWNER);
        let error = error.unwrap_err();
        assert!(error.is_of_choice(), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(machine.fake.instances().unwrap(), [""; 0]);
    }
}

/// Simulates `trace-cmd stop -a` and `trace-cmd reset -a`.
#[test]
fn a_reset_by_somebody_else_is_said() {
    let machine = machine(&[]);
    let flight = machine.arm(Level::Default).unwrap();
    assert_eq!(flight.reset_by_others(), None);
    let clock = flight.file("trace_clock");
    let chosen = std::fs::read_to_string(&clock).unwrap();
    std::fs::write(&clock, "[local] global mono\n").unwrap();
    let said = flight.reset_by_others().unwrap();
    assert!(said.contains("trace_clock is local"), "{said}");
    assert!(said.contains("punctual-flight-4711.99.0"), "{said}");
    std::fs::write(&clock, chosen).unwrap();
    std::fs::write(flight.file("tracing_on"), "0\n").unwrap();
    let said = flight.reset_by_others().unwrap();
    assert!(said.contains("tracing_on is 0"), "{said}");
    // If the recorder stops itself, this does not count as a reset.
    flight.stop_handle().stop().unwrap();
    assert_eq!(flight.reset_by_others(), None);
    flight.stop().unwrap();
    assert_eq!(machine.fake.instances().unwrap(), [""; 0]);
}
