//! Late reactions of a trace that are kept, and their events.

use std::collections::{BTreeMap, BTreeSet};

use punctual_culprit::{LateFound, LateReactions, TraceFacts, Wanted};
use punctual_model::{Comm, EventKind, FunctionRun, Nanos, Task, TraceEvent, event_names};

use crate::stream::{RUNNABLE, SLEEPS, make, task};
use crate::testing::{event, switch, us, waking};

/// A thread is woken at this time on the CPU of `make`, runs when `make` sleeps, and sleeps again.
pub(crate) fn turn(at: u64, thread: Task, wait: u64) -> Vec<TraceEvent> {
    vec![
        waking(at, make().pid, thread),
        switch(at + wait, make(), SLEEPS, thread),
        switch(at + wait + 1, thread, SLEEPS, make()),
    ]
}

/// A trace of these turns: the thread and the length of its wait. One begins each 10 ms.
fn trace(turns: &[(Task, u64)]) -> Vec<TraceEvent> {
    let turns = turns.iter().zip(1..);
    turns
        .flat_map(|((thread, wait), number)| turn(number * 10_000, *thread, *wait))
        .collect()
}

/// Facts that the trace file states.
#[derive(Default)]
pub(crate) struct Stated {
    pub(crate) missing: Vec<&'static str>,
    pub(crate) symbols: Vec<(u64, &'static str)>,
    pub(crate) without_vectors: bool,
}

pub(crate) fn finished(finder: LateReactions, stated: &Stated) -> LateFound {
    let is_recorded = |name: &&str| !stated.missing.contains(name);
    let recorded: BTreeSet<String> = event_names()
        .filter(is_recorded)
        .map(str::to_owned)
        .collect();
    let symbols = stated.symbols.iter();
    let symbols: BTreeMap<u64, String> = symbols
        .map(|(at, name)| (*at, (*name).to_owned()))
        .collect();
    finder.finish(&TraceFacts {
        recorded: &recorded,
        clocks_differ: false,
        resolution: Nanos(1),
        may_have_vectors: !stated.without_vectors,
        kernel: None,
        symbols: &symbols,
        calls: &[(1, "write".to_owned())].into(),
    })
}

pub(crate) fn finder(wanted: Wanted, events: &[TraceEvent]) -> LateReactions {
    let mut finder = LateReactions::new(wanted);
    for event in events {
        finder.event(event.clone());
    }
    finder
}

pub(crate) fn found(wanted: Wanted, turns: &[(Task, u64)]) -> LateFound {
    finished(finder(wanted, &trace(turns)), &Stated::default())
}

/// The threads and the lengths of the reactions in µs.
fn kept(found: &LateFound) -> Vec<(u32, u64)> {
    let reactions = found.reactions.iter();
    let told = reactions.map(|one| {
        let window = &one.window;
        (window.victim.tid, window.latency().0 / 1_000)
    });
    told.collect()
}

pub(crate) fn first() -> Task {
    task("first", 40, 9)
}

fn second() -> Task {
    task("second", 41, 9)
}

fn fair() -> Task {
    task("fair", 50, 120)
}

#[test]
fn longest_reactions_are_kept_in_order_of_time() {
    let turns = [
        (first(), 30),
        (second(), 50),
        (first(), 40),
        (second(), 40),
        (first(), 50),
    ];
    let most = |most| {
        let wanted = Wanted {
            most,
            ..Wanted::longest()
        };
        let found = found(wanted, &turns);
        assert_eq!((found.above, found.real_time), (5, true));
        kept(&found)
    };
    assert_eq!(most(9), [(40, 30), (41, 50), (40, 40), (41, 40), (40, 50)]);
    // Of equal ones, the earlier is kept.
    assert_eq!(most(3), [(41, 50), (40, 40), (40, 50)]);
    assert_eq!(most(1), [(41, 50)]);
    assert_eq!(most(0), []);
}

#[test]
fn reactions_are_above_the_threshold() {
    let turns = [(first(), 30), (first(), 31), (first(), 29)];
    let wanted = Wanted {
        threshold: Some(us(30)),
        ..Wanted::longest()
    };
    let found = found(wanted, &turns);
    assert_eq!((kept(&found), found.above), (vec![(40, 31)], 1));
    // The others are in the figures of the thread.
    let own = found.threads.iter().find(|one| one.task.pid == 40);
    assert_eq!(own.unwrap().histogram.recorded(), 3);
}

#[test]
fn ordinary_threads_are_shown_if_there_are_no_others() {
    let ordinary = found(Wanted::longest(), &[(fair(), 70), (fair(), 20)]);
    assert_eq!(kept(&ordinary), [(50, 70), (50, 20)]);
    assert_eq!((ordinary.above, ordinary.real_time), (2, false));
    assert_eq!(ordinary.ordinary.0, 0);
    let mixed = found(
        Wanted::longest(),
        &[(fair(), 70), (first(), 5), (fair(), 90), (fair(), 80)],
    );
    assert_eq!(kept(&mixed), [(40, 5)]);
    assert_eq!((mixed.above, mixed.real_time), (1, true));
    let (count, longest) = mixed.ordinary;
    assert_eq!(count, 3);
    assert_eq!(longest.unwrap().latency(), us(90));
    // A real-time thread within the threshold also counts.
    let wanted = Wanted {
        threshold: Some(us(10)),
        ..Wanted::longest()
    };
    let within = found(wanted, &[(first(), 5), (fair(), 90)]);
    assert_eq!((kept(&within), within.ordinary.0), (vec![], 1));
}

#[test]
fn selection_names_threads_cpus_and_times() {
    let turns = [(first(), 30), (fair(), 50), (second(), 40)];
    let of = |wanted: Wanted| kept(&found(wanted, &turns));
    let all = Wanted::longest;
    assert_eq!(of(all()), [(40, 30), (41, 40)]);
    let pids = |pids: &[u32]| Wanted {
        pids: pids.to_vec(),
        ..all()
    };
    assert_eq!(of(pids(&[50])), [(50, 50)]);
    assert_eq!(of(pids(&[40, 50])), [(40, 30), (50, 50)]);
    assert_eq!(of(pids(&[9])), []);
    let named = |name: &[u8]| Wanted {
        comm: Some(Comm::new(name)),
        ..all()
    };
    assert_eq!(
        (of(named(b"fair")), of(named(b"x"))),
        (vec![(50, 50)], vec![])
    );
    let both = Wanted {
        pids: vec![40],
        ..named(b"fair")
    };
    assert_eq!(of(both), []);
    let on = |cpu| Wanted {
        cpu: Some(cpu),
        ..all()
    };
    assert_eq!((of(on(1)).len(), of(on(0)).len()), (2, 0));
    // The first one lasts from 10,000 to 10,030 µs.
    let between = |from, to| {
        let wanted = Wanted {
            between: Some((us(from), us(to))),
            ..all()
        };
        of(wanted).len()
    };
    assert_eq!((between(0, 9_999), between(0, 10_000)), (0, 1));
    assert_eq!((between(10_030, 11_000), between(10_031, 11_000)), (1, 0));
    assert_eq!((between(10_010, 10_020), between(0, 40_000)), (1, 2));
}

#[test]
fn wait_across_lost_events_has_no_length() {
    // The events of this CPU before this time are lost, between the wake-up and the switch.
    let with_loss = |cpu: u32, until: u64| {
        let mut finder = LateReactions::new(Wanted::longest());
        for (number, event) in turn(10_000, first(), 100).into_iter().enumerate() {
            if number == 1 {
                finder.lost(cpu, None, us(until));
            }
            finder.event(event);
        }
        let found = finished(finder, &Stated::default());
        (kept(&found).len(), found.incomplete)
    };
    assert_eq!(with_loss(1, 10_050), (0, 1));
    assert_eq!(with_loss(1, 10_000), (1, 0));
    assert_eq!(with_loss(3, 10_050), (1, 0));
}

/// A trace that begins again at an earlier time is another one.
#[test]
fn traces_after_each_other_are_separate() {
    let mut events = vec![
        switch(9_000, first(), SLEEPS, make()),
        waking(10_000, 12, first()),
        event(10_050, 12, EventKind::SoftirqRaise { vec: 9 }),
    ];
    events.extend(turn(5_000, first(), 40));
    let found = finished(finder(Wanted::longest(), &events), &Stated::default());
    assert_eq!(kept(&found), [(40, 40)]);
    assert_eq!(found.reactions[0].window.events.len(), 3);
    assert_eq!(found.span, Some((us(5_000), us(10_050))));
    assert_eq!((found.events, found.open.len()), (6, 1));
    assert_eq!(found.cpus, [1].into());
}

#[test]
fn figures_of_many_threads_are_combined() {
    let threads = (0..205).map(|pid| task("many", 1_000 + pid, 9));
    let mut turns: Vec<(Task, u64)> = threads.map(|thread| (thread, 20)).collect();
    turns.push((task("many", 1_000, 9), 20));
    let found = found(Wanted::longest(), &turns);
    assert_eq!(found.threads.len(), 200);
    let count = |pid: u32| {
        let own = found.threads.iter().find(|one| one.task.pid == pid);
        own.map(|one| one.histogram.recorded())
    };
    assert_eq!(
        (count(1_000), count(1_001), count(1_204)),
        (Some(2), Some(1), None)
    );
    assert_eq!(found.other_threads.unwrap().recorded(), 5);
}

/// The longest waits that are cut off are shown, those of real-time threads first.
#[test]
fn longest_open_waits_come_first() {
    let mut events = Vec::new();
    for pid in 0..30 {
        let prio = if pid % 2 == 0 { 120 } else { 9 };
        let thread = task("open", 100 + pid, prio);
        let at = 1_000 + u64::from(pid) * 10;
        events.push(switch(at, thread, SLEEPS, make()));
        events.push(waking(at + 1, 12, thread));
        events.push(switch(at + 2, make(), RUNNABLE, task("open", 101 + pid, 0)));
    }
    let open = |wanted: Wanted| {
        let found = finished(finder(wanted, &events), &Stated::default());
        let open = found.open.iter();
        open.map(|wait| wait.thread.pid).collect::<Vec<u32>>()
    };
    let real_time = (0..15).map(|number| 101 + 2 * number);
    let ordinary = (0..5).map(|number| 100 + 2 * number);
    let expected: Vec<u32> = real_time.chain(ordinary).collect();
    assert_eq!(open(Wanted::longest()), expected);
    // Only these threads.
    let wanted = Wanted {
        pids: vec![100, 103],
        ..Wanted::longest()
    };
    assert_eq!(open(wanted), [100, 103]);
}

/// A run of a kernel function on CPU 1, in µs.
fn run(function: &str, end: u64, took: u64) -> FunctionRun {
    FunctionRun {
        function: function.into(),
        cpu: 1,
        pid: Some(12),
        end: Some(us(end)),
        took: us(took),
    }
}

/// The functions in the window of a wait from 10,000 to 10,100 µs.
fn within(before: &[FunctionRun], after: &[FunctionRun]) -> Vec<String> {
    let mut finder = LateReactions::new(Wanted::longest());
    let events = turn(10_000, first(), 100);
    for event in &events[..2] {
        finder.event(event.clone());
    }
    for run in before {
        finder.function(run.clone());
    }
    finder.event(events[2].clone());
    // Long enough after the wait, its window is complete.
    finder.event(event(20_000, 12, EventKind::SoftirqRaise { vec: 9 }));
    for run in after {
        finder.function(run.clone());
    }
    let found = finished(finder, &Stated::default());
    let functions = found.reactions[0].window.evidence.functions.iter();
    functions.map(|run| run.function.to_string()).collect()
}

#[test]
fn functions_of_the_wait_are_in_its_window() {
    let inside = || run("inside", 10_090, 10);
    assert_eq!(within(&[inside()], &[]), ["inside"]);
    // A function returns after the wait that it delayed.
    assert_eq!(within(&[], &[run("returns", 20_000, 9_990)]), ["returns"]);
    assert_eq!(within(&[run("short", 10_090, 9)], &[]), [""; 0]);
    // At least 10 µs of the run are within the wait.
    assert_eq!(within(&[run("before", 10_010, 500)], &[]), ["before"]);
    assert_eq!(within(&[run("before", 10_009, 500)], &[]), [""; 0]);
    assert_eq!(within(&[], &[run("after", 10_200, 110)]), ["after"]);
    assert_eq!(within(&[], &[run("after", 10_200, 109)]), [""; 0]);
    let mut without_time = inside();
    without_time.end = None;
    assert_eq!(within(&[without_time], &[]), [""; 0]);
}

#[test]
fn longest_functions_are_summed() {
    let mut finder = LateReactions::new(Wanted::longest());
    for number in 0..25 {
        let name = format!("f{number:02}");
        finder.function(run(&name, 1_000, 100 + number / 2));
    }
    finder.function(run("f24", 2_000, 50));
    finder.function(run("f00", 3_000, 900));
    let found = finished(finder, &Stated::default());
    let told: Vec<(String, u64, u64)> = (found.functions.iter())
        .map(|sum| (sum.function.to_string(), sum.runs, sum.longest_ns.0 / 1_000))
        .collect();
    assert_eq!(told.len(), 20);
    let first = [
        ("f00", 2, 900),
        ("f24", 2, 112),
        ("f22", 1, 111),
        ("f23", 1, 111),
    ];
    let first = first.map(|(name, runs, longest)| (name.to_owned(), runs, longest));
    assert_eq!(told[..4], first);
    assert_eq!(found.span, Some((us(888), us(3_000))));
}

/// A function of a later trace does not belong to the reactions of an earlier one.
#[test]
fn function_of_the_next_trace_is_in_no_window() {
    let mut finder = finder(Wanted::longest(), &turn(10_000, first(), 100));
    finder.event(event(100, 12, EventKind::SoftirqRaise { vec: 9 }));
    finder.function(run("later", 10_090, 50));
    let found = finished(finder, &Stated::default());
    assert_eq!(found.reactions[0].window.evidence.functions, []);
}
