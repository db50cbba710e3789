//! Statements of a host's trace about the guest, and their limits.

use super::*;
use crate::testing::{RUNNABLE, VICTIM, event, idle, on, switch, task, us, window};

const THREAD: u32 = 1_000;
const ALWAYS: (Nanos, Nanos) = (Nanos::ZERO, Nanos(u64::MAX));

fn of_thread(time: Nanos, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time,
        ..on(0, event(0, THREAD, kind))
    }
}

/// The virtual CPU 0 is in guest mode from 110 to 200 µs, and again after this length. `guest`: times
/// of events of the guest.
fn view(wanted: Vec<(Nanos, Nanos)>, length: Nanos, guest: &[Nanos]) -> HostView {
    let mut vcpus = VirtualCpus::new(&BTreeMap::from([(0, THREAD)]), wanted, false);
    vcpus.learn(&event_names().map(str::to_owned).collect());
    let thread = task("CPU 0/KVM", THREAD, 120);
    vcpus.event(on(0, switch(100, idle(), RUNNABLE, thread)));
    vcpus.event(of_thread(us(110), EventKind::KvmEntry {}));
    // The guest runs.
    vcpus.guest(0, us(150));
    vcpus.event(of_thread(us(200), EventKind::KvmExit {}));
    for time in guest {
        vcpus.guest(0, *time);
        // Nothing is known about this CPU.
        vcpus.guest(1, us(250));
    }
    vcpus.event(of_thread(us(200) + length, EventKind::KvmEntry {}));
    vcpus.finish()
}

/// The guest writes no event while its CPU does not run, but its clock may be wrong by 20 µs.
#[test]
fn event_of_the_guest_contradicts_a_long_absence() {
    // Length, time of the event in it, whether it is long enough to be checked, whether it is
    // contradicted, and the error of the clocks, in ns.
    let cases = [
        (100_000, None, 1, 0, 0),
        (40_001, None, 1, 0, 0),
        (40_000, None, 0, 0, 0),
        (100_000, Some(0), 1, 0, 0),
        (100_000, Some(1), 1, 0, 1),
        (100_000, Some(20_000), 1, 0, 20_000),
        (100_000, Some(20_001), 1, 1, 0),
        (100_000, Some(79_999), 1, 1, 0),
        (100_000, Some(80_000), 1, 0, 20_000),
        (100_000, Some(99_000), 1, 0, 1_000),
        (10_000, Some(9_000), 0, 0, 1_000),
    ];
    for (length, time, checked, contradicted, error) in cases {
        let name = format!("{length} {time:?}");
        let guest: Vec<Nanos> = time.map(|time| us(200) + Nanos(time)).into_iter().collect();
        let view = view(vec![ALWAYS], Nanos(length), &guest);
        assert_eq!(view.contradicted, (checked, contradicted), "{name}");
        assert_eq!(view.error, Nanos(error), "{name}");
        // A contradicted absence is not used.
        let last = view.spans[&0].last().unwrap();
        let end = us(200) + Nanos(if contradicted > 0 { 0 } else { length });
        assert_eq!(last.to, end, "{name}");
        assert_eq!(last.away.is_none(), contradicted > 0, "{name}");
        assert_eq!(view.span, Some((us(100), us(200) + Nanos(length))));
    }
}

/// The first event far inside an absence decides, and the last one near its begin.
#[test]
fn later_events_of_the_guest_do_not_hide_earlier_ones() {
    let events = [us(205), us(215), us(230), us(290)];
    let found = view(vec![ALWAYS], us(100), &events);
    assert_eq!(found.contradicted, (1, 1));
    let found = view(vec![ALWAYS], us(100), &[us(205), us(215), us(290), us(299)]);
    assert_eq!((found.contradicted, found.error), ((1, 0), us(15)));
}

#[test]
fn only_wanted_times_are_kept() {
    let kept = |wanted: &[(u64, u64)]| {
        let wanted = wanted.iter().map(|(from, to)| (us(*from), us(*to)));
        let view = view(wanted.collect(), us(100), &[]);
        let spans = view.spans[&0].iter().map(|span| {
            let micros = |time: Nanos| time.0 / 1_000;
            (micros(span.from), micros(span.to), span.away.is_some())
        });
        spans.collect::<Vec<_>>()
    };
    let (before, ran, away) = ((100, 110, true), (110, 200, false), (200, 300, true));
    assert_eq!(kept(&[(0, 900)]), [before, ran, away]);
    assert_eq!(kept(&[(150, 160)]), [ran]);
    assert_eq!(kept(&[(0, 100), (200, 201)]), [away]);
    assert_eq!(kept(&[(299, 300), (105, 111)]), [before, ran, away]);
    assert_eq!(kept(&[(300, 400)]), []);
    assert_eq!(kept(&[]), []);
}

#[test]
fn wanted_times_are_joined() {
    let wanted = |times: &[(u64, u64)]| {
        let times = times.iter().map(|(from, to)| (us(*from), us(*to)));
        VirtualCpus::new(&BTreeMap::new(), times.collect(), false).wanted
    };
    let joined = wanted(&[(90, 100), (0, 50), (40, 45), (60, 70), (50, 60)]);
    assert_eq!(joined, [(us(0), us(70)), (us(90), us(100))]);
}

fn known(spans: &[(u32, u64, u64)], contradicted: (u64, u64)) -> HostView {
    let mut by_cpu: BTreeMap<u32, Vec<HostSpan>> = BTreeMap::new();
    for (cpu, from, to) in spans {
        by_cpu.entry(*cpu).or_default().push(HostSpan {
            cpu: *cpu,
            from: us(*from),
            to: us(*to),
            away: None,
        });
    }
    HostView {
        spans: by_cpu,
        error: us(7),
        contradicted,
        span: None,
    }
}

/// Up to a hundredth of the checked absences may be contradicted.
#[test]
fn clocks_that_differ_contradict_many_absences() {
    let mismatch = |checked, contradicted| known(&[], (checked, contradicted)).mismatch();
    assert_eq!(mismatch(0, 0), None);
    assert_eq!(mismatch(200, 0), None);
    assert_eq!(mismatch(200, 2), None);
    assert_eq!(mismatch(199, 2), Some((2, 199)));
    assert_eq!(mismatch(200, 3), Some((3, 200)));
}

#[test]
fn reaction_gets_what_the_host_did_meanwhile() {
    let spans = [
        (1, 10, 100),
        (1, 99, 101),
        (1, 120, 130),
        (1, 199, 300),
        (1, 200, 300),
        (3, 100, 150),
        (4, 100, 150),
    ];
    let view = known(&spans, (0, 0));
    let event = on(3, event(90, VICTIM, EventKind::IrqExit { irq: 1, ret: 1 }));
    for (error, expected) in [(us(2), us(7)), (us(9), us(9))] {
        let mut window = window(100, 200, vec![event.clone()]);
        window.clock_error = error;
        view.add_to(&mut window);
        let added = window.host.iter().map(|span| (span.cpu, span.from));
        let in_time = [(1, us(99)), (1, us(120)), (1, us(199)), (3, us(100))];
        assert_eq!(added.collect::<Vec<_>>(), in_time);
        assert_eq!(window.clock_error, expected);
        assert_eq!(window.evidence.virtual_machine, Some(true));
    }
}

/// The thread is outside guest mode from 200 to 300 µs. It may move to another CPU of the host.
fn away(clocks_differ: bool, moves: bool) -> Source {
    let threads = BTreeMap::from([(0, THREAD)]);
    let mut vcpus = VirtualCpus::new(&threads, vec![ALWAYS], clocks_differ);
    vcpus.learn(&event_names().map(str::to_owned).collect());
    let thread = task("CPU 0/KVM", THREAD, 120);
    vcpus.event(on(0, switch(100, idle(), RUNNABLE, thread)));
    vcpus.event(of_thread(us(110), EventKind::KvmEntry {}));
    vcpus.event(of_thread(us(200), EventKind::KvmExit {}));
    if moves {
        let (task, orig_cpu, dest_cpu) = (thread, 0, 1);
        let migrates = EventKind::Migrate {
            task,
            orig_cpu,
            dest_cpu,
        };
        vcpus.event(on(0, switch(220, thread, RUNNABLE, idle())));
        vcpus.event(on(1, event(230, 0, migrates)));
        vcpus.event(on(1, switch(240, idle(), RUNNABLE, thread)));
    }
    let cpu = u32::from(moves);
    vcpus.event(on(cpu, of_thread(us(300), EventKind::KvmEntry {})));
    let view = vcpus.finish();
    let last = view.spans[&0].last().unwrap();
    assert_eq!(last.to, us(300));
    match &last.away.as_ref().unwrap().source {
        Source::Host(source) => (**source).clone(),
        other => other.clone(),
    }
}

/// If the clocks of CPUs differ, the order of events of two of them is unknown.
#[test]
fn move_between_clocks_has_no_known_cause() {
    let differs = |source: &Source| {
        matches!(
            source,
            Source::Unexplained(punctual_model::cause::Unknown::Gap {
                reason: GapReason::ClocksDiffer,
                ..
            })
        )
    };
    assert!(differs(&away(true, true)));
    for (clocks_differ, moves) in [(false, false), (false, true), (true, false)] {
        let source = away(clocks_differ, moves);
        assert!(!differs(&source), "{clocks_differ} {moves}: {source:?}");
    }
}

/// The virtual CPU may have left guest mode while events are missing.
#[test]
fn guest_mode_across_lost_events_is_unknown() {
    let spans = |lost: Option<u32>| {
        let threads = BTreeMap::from([(0, THREAD)]);
        let mut vcpus = VirtualCpus::new(&threads, vec![ALWAYS], false);
        vcpus.learn(&event_names().map(str::to_owned).collect());
        let thread = task("CPU 0/KVM", THREAD, 120);
        vcpus.event(on(0, switch(100, idle(), RUNNABLE, thread)));
        vcpus.event(of_thread(us(110), EventKind::KvmEntry {}));
        if let Some(cpu) = lost {
            vcpus.lost(cpu, us(250));
        }
        vcpus.event(of_thread(us(300), EventKind::KvmExit {}));
        vcpus.event(of_thread(us(400), EventKind::KvmEntry {}));
        let view = vcpus.finish();
        let spans = view.spans[&0].iter();
        let told = spans.map(|span| {
            let micros = |time: Nanos| time.0 / 1_000;
            (micros(span.from), micros(span.to), span.away.is_some())
        });
        told.collect::<Vec<_>>()
    };
    let (before, ran, after) = ((100, 110, true), (110, 300, false), (300, 400, true));
    assert_eq!(spans(None), [before, ran, after]);
    assert_eq!(spans(Some(0)), [before, after]);
    // The thread runs on another CPU now, but it may have come from there.
    assert_eq!(spans(Some(1)), [ran, after]);
}

/// Without the end of an interrupt, its beginning explains nothing.
#[test]
fn interrupt_is_named_only_if_its_end_is_recorded() {
    let interrupts = |has_end: bool| {
        let threads = BTreeMap::from([(0, THREAD)]);
        let mut vcpus = VirtualCpus::new(&threads, vec![ALWAYS], false);
        let recorded = event_names().filter(|name| has_end || *name != "irq:irq_handler_exit");
        vcpus.learn(&recorded.map(str::to_owned).collect());
        let (irq, name) = (24, "eth0".into());
        let thread = task("CPU 0/KVM", THREAD, 120);
        vcpus.event(on(0, switch(100, idle(), RUNNABLE, thread)));
        vcpus.event(of_thread(us(110), EventKind::KvmEntry {}));
        vcpus.event(of_thread(us(200), EventKind::KvmExit {}));
        vcpus.event(of_thread(us(210), EventKind::IrqEntry { irq, name }));
        if has_end {
            vcpus.event(of_thread(us(220), EventKind::IrqExit { irq, ret: 1 }));
        }
        vcpus.event(of_thread(us(300), EventKind::KvmEntry {}));
        let view = vcpus.finish();
        let of_irq = view.spans[&0].iter().filter(|span| {
            let source = span.away.as_ref().map(|cause| &cause.source);
            matches!(source, Some(Source::Host(source)) if matches!(**source, Source::Irq { .. }))
        });
        of_irq.map(|span| (span.from, span.to)).collect::<Vec<_>>()
    };
    assert_eq!(interrupts(true), [(us(210), us(220))]);
    assert_eq!(interrupts(false), []);
}
