//! Tests that decode the written file again and check its content.

use std::collections::BTreeMap;

use prost::Message as _;
use punctual_model::cause::{Cause, Role, Source};
use punctual_model::{
    Comm, Delay, EventGap, EventKind, Evidence, GapReason, KernelPriority, Nanos, Outlier, Segment,
    Share, Task, TaskState, TraceEvent, Vector, Victim, Window, testing,
};

use super::message::{
    Data, DebugAnnotation, Event, FtraceEvent, Trace, TracePacket, TrackEvent, Type, Value,
};
use super::{PerfettoWriter, TracedMachine};

const MS: u64 = 1_000_000;

fn task(pid: u32) -> Task {
    let name = if pid == 0 {
        "swapper/1".to_owned()
    } else {
        format!("t{pid}")
    };
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(120),
    }
}

fn event(time: u64, cpu: u32, pid: u32, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time: Nanos(time),
        cpu,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    }
}

fn switch(time: u64, cpu: u32, prev: u32, next: u32) -> TraceEvent {
    let kind = EventKind::Switch {
        prev: task(prev),
        prev_state: TaskState(1),
        next: task(next),
    };
    event(time, cpu, prev, kind)
}

fn vector(time: u64, cpu: u32, pid: u32, vector: Vector, begins: bool) -> TraceEvent {
    let kind = if begins {
        EventKind::VectorEntry { vector }
    } else {
        EventKind::VectorExit { vector }
    };
    event(time, cpu, pid, kind)
}

/// A window of the thread 7 on CPU 1.
fn window(expected: u64, actual: u64, events: Vec<TraceEvent>) -> Window {
    Window {
        victim: Victim {
            tid: 7,
            comm: Comm::new(b"t7"),
            scheduling: None,
            cpu: 1,
        },
        delay: Delay::Wakeup,
        expected: Nanos(expected),
        actual: Nanos(actual),
        events,
        lost: 0,
        left_out: 0,
        missing_events: Vec::new(),
        light_stage: None,
        clock_error: Nanos::ZERO,
        symbols: BTreeMap::from([(0xffff_0010, "hrtimer_wakeup".to_owned())]),
        calls: BTreeMap::new(),
        evidence: Evidence::default(),
        host: Vec::new(),
        segments: Vec::new(),
        activity: Vec::new(),
    }
}

/// Returns a window: thread 5 runs until thread 7, woken at `start`, gets its CPU.
fn late(start: u64) -> Window {
    let woken = EventKind::Waking {
        task: task(7),
        target_cpu: 1,
    };
    let events = vec![
        switch(start - 2 * MS, 1, 0, 5),
        event(start, 2, 9, woken),
        switch(start + MS, 1, 5, 7),
        switch(start + MS + 10, 1, 7, 0),
    ];
    window(start, start + MS, events)
}

fn written(write: impl FnOnce(&mut PerfettoWriter<&mut Vec<u8>>)) -> Vec<TracePacket> {
    let mut bytes = Vec::new();
    let mut writer = PerfettoWriter::new(&mut bytes);
    write(&mut writer);
    writer.finish(&TracedMachine::default()).unwrap();
    Trace::decode(&bytes[..]).unwrap().packet
}

fn of_windows(windows: &[Window]) -> Vec<TracePacket> {
    written(|writer| writer.windows(windows).unwrap())
}

/// Events of a CPU in the order of time, as Perfetto sorts them.
fn of_cpu(packets: &[TracePacket], cpu: u32) -> Vec<FtraceEvent> {
    let bundles = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::FtraceEvents(bundle)) if bundle.cpu == cpu => Some(&bundle.event),
        _ => None,
    });
    let mut events: Vec<FtraceEvent> = bundles.flatten().cloned().collect();
    events.sort_by_key(|event| event.timestamp);
    events
}

/// The threads of a CPU as shown by Perfetto, each with its start. Panics if a switch contradicts
/// the one before it.
fn shown(packets: &[TracePacket], cpu: u32) -> Vec<(u64, String)> {
    let mut shown: Vec<(u64, String)> = Vec::new();
    let mut current = None;
    for event in of_cpu(packets, cpu) {
        if let Some(Event::SchedSwitch(switch)) = event.event {
            assert!(
                current.is_none_or(|pid| pid == switch.prev_pid),
                "{switch:?}"
            );
            current = Some(switch.next_pid);
            shown.push((event.timestamp, switch.next_comm));
        }
    }
    shown
}

fn names(shown: &[(u64, String)]) -> Vec<&str> {
    shown.iter().map(|(_, name)| name.as_str()).collect()
}

#[test]
fn thread_is_not_shown_where_no_event_is_kept() {
    let (first, second) = (late(100 * MS), late(900 * MS));
    let packets = of_windows(&[first, second]);
    let shown = shown(&packets, 1);
    let gap = "(not recorded)";
    assert_eq!(
        names(&shown),
        [
            "t5",
            "t7",
            "swapper/1",
            gap,
            "swapper/1",
            "t5",
            "t7",
            "swapper/1",
            gap
        ]
    );
    // The gap lasts from the last event of the first window to the first event of the second one.
    assert_eq!((shown[3].0, shown[4].0), (101 * MS + 10, 898 * MS));
    // The waker's CPU has no switches, so nothing is shown as running there.
    let others = of_cpu(&packets, 2);
    assert!(
        others
            .iter()
            .all(|event| matches!(event.event, Some(Event::SchedWaking(_))))
    );
    assert_eq!(others.len(), 2);
}

#[test]
fn overlapping_windows_are_one() {
    let first = late(100 * MS);
    let mut second = first.clone();
    second.expected = Nanos(100 * MS + 5);
    second.events.push(switch(101 * MS + 20, 1, 0, 5));
    let both = shown(&of_windows(&[first, second.clone()]), 1);
    assert_eq!(both, shown(&of_windows(&[second]), 1));
    assert_eq!(
        names(&both),
        ["t5", "t7", "swapper/1", "t5", "(not recorded)"]
    );
}

#[test]
fn two_equal_events_of_one_window_stay_two() {
    let mut twice = late(100 * MS);
    twice.events.insert(1, twice.events[1].clone());
    assert_eq!(of_cpu(&of_windows(&[twice.clone(), twice]), 2).len(), 2);
}

#[test]
fn single_events_long_before_a_window_show_no_thread() {
    let mut window = late(100 * MS);
    // The thread went to sleep long ago on the same CPU. The last switch before the window is the
    // switch to t5.
    window.events.insert(0, switch(MS, 1, 7, 0));
    assert_eq!(
        shown(&of_windows(&[window]), 1)[0],
        (98 * MS, "t5".to_owned())
    );
}

#[test]
fn gaps_and_dropped_middle_of_a_window_are_not_recorded() {
    let mut gap = late(100 * MS);
    gap.evidence.gaps.push(EventGap {
        cpu: 1,
        from: Nanos(99 * MS),
        to: Nanos(100 * MS + 500),
        reason: GapReason::Lost,
    });
    // The last event before the gap is the switch to t5. After the gap, t5 switches to t7.
    let shown_gap = shown(&of_windows(&[gap]), 1);
    assert_eq!(names(&shown_gap)[..4], ["t5", "(not recorded)", "t5", "t7"]);

    let mut long = late(100 * MS);
    let begin = 100 * MS + 100;
    let pairs = (0..3_000).flat_map(|n| {
        let at = begin + 20 * n;
        [switch(at, 1, 5, 0), switch(at + 10, 1, 0, 5)]
    });
    long.events.splice(2..2, pairs);
    let long = long.shortened();
    assert!(long.left_out > 0);
    let shown = shown(&of_windows(&[long]), 1);
    assert_eq!(
        names(&shown)
            .iter()
            .filter(|name| **name == "(not recorded)")
            .count(),
        2
    );
}

#[test]
fn contradiction_or_loss_ends_thread_and_handlers() {
    let none = window(0, 0, Vec::new());
    let begin = [
        switch(10, 1, 0, 5),
        vector(20, 1, 5, Vector::LocalTimer, true),
        vector(30, 1, 5, Vector::IrqWork, true),
    ];
    let packets = written(|writer| {
        begin
            .iter()
            .for_each(|event| writer.event(event, &none).unwrap());
        writer.lost(1);
        writer.event(&switch(90, 1, 6, 7), &none).unwrap();
        // The event was not written by t7, so a switch is missing.
        writer.event(&switch(95, 1, 8, 0), &none).unwrap();
    });
    let events = of_cpu(&packets, 1);
    let at = |time| events.iter().filter(move |event| event.timestamp == time);
    let ends: Vec<&Event> = at(30)
        .filter_map(|event| event.event.as_ref())
        .skip(1)
        .collect();
    assert!(
        matches!(
            ends[..],
            [
                Event::IrqHandlerExit(_),
                Event::LocalTimerExit(_),
                Event::SchedSwitch(_)
            ]
        ),
        "{ends:?}"
    );
    let gap = "(not recorded)";
    let shown = shown(&packets, 1);
    assert_eq!(
        names(&shown),
        ["t5", gap, "t6", "t7", gap, "t8", "swapper/1"]
    );
    assert!(packets.iter().any(|packet| {
        matches!(&packet.data, Some(Data::FtraceEvents(bundle)) if bundle.lost_events)
    }));
}

#[test]
fn functions_have_names_before_their_events() {
    let mut window = late(100 * MS);
    let expire = EventKind::HrtimerExpireEntry {
        hrtimer: 1,
        function: 0xffff_0010,
        now_ns: 5,
    };
    window.events.insert(2, event(100 * MS + 10, 1, 5, expire));
    let packets = of_windows(&[window]);
    let named = packets.iter().position(|packet| {
        let symbols = packet
            .interned_data
            .iter()
            .flat_map(|data| &data.kernel_symbols);
        symbols
            .map(|symbol| (symbol.iid, symbol.str.as_str()))
            .eq([(0xffff_0010, "hrtimer_wakeup")])
    });
    let bundle = packets
        .iter()
        .position(|packet| matches!(packet.data, Some(Data::FtraceEvents(_))));
    assert!(named.unwrap() < bundle.unwrap());
    assert_eq!(packets[0].sequence_flags, super::CLEARED);
    assert!(
        packets[1..]
            .iter()
            .all(|packet| packet.sequence_flags == super::NEEDS_NAMES)
    );
}

/// An outlier of `window`: half of it is an interrupt, the rest another thread.
fn outlier(number: u64, window: &mut Window) -> Outlier {
    let middle = Nanos((window.expected.0 + window.actual.0) / 2);
    let causes = [
        testing::interrupt("eth0"),
        Cause::new(Source::Thread {
            role: Role::HigherPriority,
            thread: (&task(5)).into(),
        }),
    ];
    let spans = [(window.expected, middle), (middle, window.actual)];
    let segment = |(cause, (from, to)): (&Cause, (Nanos, Nanos))| Segment {
        from,
        to,
        cpu: 1,
        cause: cause.clone(),
        words: None,
    };
    window.segments = causes.iter().zip(spans).map(segment).collect();
    let shares = causes.iter().zip(spans);
    let shares = shares.map(|(cause, (from, to))| Share::new(cause.clone(), to - from, 1));
    let mut blame = testing::blame(shares.collect());
    blame.victim = window.victim.clone();
    Outlier {
        light_stage: false,
        number,
        time: jiff::Timestamp::UNIX_EPOCH,
        monotonic_ns: window.expected,
        cpu: Some(1),
        thread: 0,
        latency_ns: window.latency(),
        blame,
    }
}

/// A slice: track, start, end, depth, name, and the annotations.
type Slice = (u64, u64, u64, usize, String, Vec<DebugAnnotation>);

fn track_events(packets: &[TracePacket]) -> impl Iterator<Item = (u64, &TrackEvent)> {
    packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackEvent(event)) => Some((packet.timestamp.unwrap(), event)),
        _ => None,
    })
}

/// The slices of all tracks. Panics if a slice does not end or is not properly nested.
fn slices(packets: &[TracePacket]) -> Vec<Slice> {
    let mut events: Vec<_> = track_events(packets).collect();
    events.sort_by_key(|(time, _)| *time);
    let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    let mut slices = Vec::new();
    for (time, event) in events {
        let track = open.entry(event.track_uuid).or_default();
        if event.r#type() == Type::SliceBegin {
            let name = event.name.clone().unwrap();
            let about = event.debug_annotations.clone();
            track.push((event.track_uuid, time, 0, track.len(), name, about));
        } else if event.r#type() == Type::SliceEnd {
            let mut slice = track.pop().unwrap();
            slice.2 = time;
            slices.push(slice);
        }
    }
    assert!(open.values().all(Vec::is_empty));
    slices.sort_by_key(|slice| (slice.0, slice.1, slice.3));
    slices
}

/// Number of the first track of culprits.
const CULPRITS: u64 = 1 << 32;

fn number(about: &[DebugAnnotation], name: &str) -> u64 {
    let is_it = |one: &&DebugAnnotation| one.name.as_deref() == Some(name);
    match about.iter().find(is_it).unwrap().value {
        Some(Value::UintValue(value)) => value,
        ref other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn outlier_is_a_slice_with_its_causes_inside() {
    let mut window = late(100 * MS);
    let outlier = outlier(3, &mut window);
    let packets = written(|writer| {
        writer
            .outlier(&outlier, Some(&window), Some("hit latency threshold"))
            .unwrap();
    });
    let slices = slices(&packets);
    let [whole, first, second, interrupt, thread] = &slices[..] else {
        panic!("{slices:?}");
    };
    // Each cause has a slice of its own, from which an arrow leads to the share.
    for (culprit, cause) in [(interrupt, first), (thread, second)] {
        assert_eq!((culprit.1, culprit.2), (cause.1, cause.2));
        assert_eq!(culprit.4, cause.4);
        let event = |slice: &Slice| {
            let mut events = track_events(&packets).map(|(_, event)| event);
            let is_it = |event: &&TrackEvent| {
                event.track_uuid == slice.0 && event.name.as_ref() == Some(&slice.4)
            };
            events.find(is_it).unwrap().clone()
        };
        let arrow = event(culprit).flow_ids;
        assert_eq!(arrow.len(), 1);
        assert_eq!(arrow, event(cause).terminating_flow_ids);
    }
    assert_ne!(interrupt.0, thread.0);
    assert_eq!((whole.1, whole.2, whole.3), (100 * MS, 101 * MS, 0));
    assert_eq!(whole.4, outlier.blame.sentence());
    assert_eq!(number(&whole.5, "latency_ns"), MS);
    let stated = Some(Value::StringValue("hit latency threshold".to_owned()));
    assert!(whole.5.iter().any(|one| one.value == stated));
    for (slice, share) in [first, second].into_iter().zip(&outlier.blame.shares) {
        assert_eq!((slice.0, slice.3), (whole.0, 1));
        assert_eq!(slice.4, share.cause.source.label());
        assert_eq!(number(&slice.5, "share_ns"), share.ns.0);
        assert_eq!(slice.2 - slice.1, number(&slice.5, "ns"));
    }
    assert_eq!((first.2, second.2), (second.1, whole.2));
}

#[test]
fn overlapping_outliers_of_one_thread_have_tracks_of_their_own() {
    let mut windows = [late(100 * MS), late(100 * MS + 10), late(200 * MS)];
    let outliers: Vec<Outlier> = (1..)
        .zip(&mut windows)
        .map(|(n, window)| outlier(n, window))
        .collect();
    let packets = written(|writer| {
        for (outlier, window) in outliers.iter().zip(&windows) {
            writer.outlier(outlier, Some(window), None).unwrap();
        }
    });
    let slices = slices(&packets);
    let whole: Vec<(u64, u64)> = slices
        .iter()
        .filter(|slice| slice.3 == 0 && slice.0 < CULPRITS)
        .map(|slice| (slice.0, slice.1))
        .collect();
    assert_eq!(whole, [(2, 100 * MS), (2, 200 * MS), (3, 100 * MS + 10)]);
    let tracks = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackDescriptor(track)) if track.uuid < CULPRITS => {
            Some((track.parent_uuid, track.name.as_str()))
        }
        _ => None,
    });
    let tracks: Vec<_> = tracks.collect();
    assert_eq!(
        tracks,
        [
            (None, "Late reactions"),
            (Some(1), "t7-7"),
            (Some(1), "t7-7")
        ]
    );
}

#[test]
fn outlier_of_damaged_or_missing_window_has_no_causes() {
    let mut window = late(100 * MS);
    let outlier = outlier(1, &mut window);
    window.segments.reverse();
    for window in [Some(&window), None] {
        let packets = written(|writer| writer.outlier(&outlier, window, None).unwrap());
        let slices = slices(&packets);
        assert_eq!(slices.len(), 1);
        assert_eq!((slices[0].1, slices[0].2), (100 * MS, 101 * MS));
    }
}

#[test]
fn other_events_and_marks_are_instants_of_their_cpu() {
    let none = window(0, 0, Vec::new());
    let fault = EventKind::PageFaultUser {
        address: 0x1000,
        ip: 0,
        error_code: 0,
    };
    let packets = written(|writer| {
        writer.event(&event(5, 1, 7, fault.clone()), &none).unwrap();
        writer.mark(Nanos(6), 1, 7, "a\u{1b}[31mb").unwrap();
        // Perfetto refuses a file with such a CPU.
        writer.event(&event(7, 5_000, 7, fault), &none).unwrap();
        writer.mark(Nanos(8), 5_000, 7, "c").unwrap();
        writer.lost(5_000);
    });
    let names: Vec<_> = track_events(&packets)
        .map(|(_, event)| (event.track_uuid, event.name.clone().unwrap()))
        .collect();
    let of_cpu = super::OTHERS + 2;
    let expected = [(of_cpu, "page fault at 0x1000"), (of_cpu, "a\u{fffd}[31mb")];
    assert_eq!(
        names,
        expected.map(|(track, name)| (track, name.to_owned()))
    );
}
