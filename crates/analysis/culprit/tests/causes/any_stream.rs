//! For any stream of events, the shares add up and none is negative.

use proptest::prelude::*;
use punctual_culprit::{Found, explain, find};
use punctual_model::{
    Blame, Comm, Delay, EventKind, KernelPriority, Nanos, NoiseSource, TaskState, TraceEvent,
    Vector, Window, event_names,
};

use crate::stream::{DUE, Stream, VICTIM, task};

fn any_task() -> impl Strategy<Value = punctual_model::Task> {
    let pid = prop_oneof![Just(VICTIM), Just(0), Just(12), Just(50), any::<u32>()];
    let prio = prop_oneof![-1i16..140, any::<i16>()];
    let comm = prop_oneof![Just("make"), Just("migration/1"), Just("")];
    (pid, prio, comm).prop_map(|(pid, prio, comm)| task(comm, pid, prio))
}

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![DUE - 50_000..DUE + 150_000, Just(DUE), any::<u64>()]
}

fn handlers() -> impl Strategy<Value = EventKind> {
    let irq = 0u32..3;
    let vec = prop_oneof![0u32..10, any::<u32>()];
    let vector = prop_oneof![
        Just(Vector::LocalTimer),
        Just(Vector::Reschedule),
        Just(Vector::CallFunction),
        Just(Vector::Other("odd".into()))
    ];
    prop_oneof![
        irq.clone().prop_map(|irq| EventKind::IrqEntry {
            irq,
            name: "eth0".into()
        }),
        irq.prop_map(|irq| EventKind::IrqExit { irq, ret: 0 }),
        vec.clone().prop_map(|vec| EventKind::SoftirqRaise { vec }),
        vec.clone().prop_map(|vec| EventKind::SoftirqEntry { vec }),
        vec.prop_map(|vec| EventKind::SoftirqExit { vec }),
        vector
            .clone()
            .prop_map(|vector| EventKind::VectorEntry { vector }),
        vector.prop_map(|vector| EventKind::VectorExit { vector }),
        (any::<u64>(), 0u64..200_000).prop_map(|(handler, delta)| EventKind::NmiHandler {
            handler,
            delta: Nanos(delta),
            handled: 1,
        }),
        (any_time(), any::<u64>()).prop_map(|(start, duration)| EventKind::Noise {
            source: NoiseSource::Nmi,
            start: Nanos(start),
            duration: Nanos(duration),
        }),
        (0u64..3, 0u64..3).prop_map(|(hrtimer, function)| EventKind::HrtimerExpireEntry {
            hrtimer,
            function,
            now_ns: 0,
        }),
        (0u64..3).prop_map(|hrtimer| EventKind::HrtimerExpireExit { hrtimer }),
        (proptest::collection::vec(0u32..3, 0..3), 0u64..2).prop_map(|(cpus, callback)| {
            EventKind::IpiSend {
                cpus,
                callsite: 0xa1,
                callback,
            }
        }),
        (0u32..4).prop_map(|state| EventKind::IdleEntry { state, cpu_id: 1 }),
        Just(EventKind::IdleExit { cpu_id: 1 }),
        (0u64..3).prop_map(|caller| EventKind::IrqDisable { caller, parent: 0 }),
        (0u64..3).prop_map(|caller| EventKind::IrqEnable { caller, parent: 0 }),
    ]
}

fn threads() -> impl Strategy<Value = EventKind> {
    let cpu = 0u32..3;
    let state = prop_oneof![0u32..0x101, any::<u32>()];
    prop_oneof![
        (any_task(), state, any_task()).prop_map(|(prev, state, next)| EventKind::Switch {
            prev,
            prev_state: TaskState(state),
            next,
        }),
        (any_task(), cpu.clone())
            .prop_map(|(task, target_cpu)| EventKind::Waking { task, target_cpu }),
        (any_task(), cpu.clone()).prop_map(|(task, target_cpu)| EventKind::Wakeup {
            task,
            target_cpu,
            new: false,
        }),
        (any_task(), cpu.clone(), cpu).prop_map(|(task, orig_cpu, dest_cpu)| {
            EventKind::Migrate {
                task,
                orig_cpu,
                dest_cpu,
            }
        }),
        (any_task(), any::<i16>()).prop_map(|(task, prio)| EventKind::PiSetprio {
            task,
            newprio: KernelPriority(prio),
        }),
        (any::<i64>(), 0u64..14).prop_map(|(id, operation)| EventKind::SysEnter {
            id,
            args: [0, operation]
        }),
        (0u64..3).prop_map(|address| EventKind::PageFaultEnd { address }),
        any_time().prop_map(|until| EventKind::SleepUntil {
            until: Nanos(until)
        }),
        (any_time(), any_time()).prop_map(|(due, latest)| EventKind::TimerDue {
            pid: VICTIM,
            due: Nanos(due),
            latest: Nanos(latest)
        }),
        any_task().prop_map(|task| EventKind::FutexOwner {
            futex: 0,
            owner: task.pid
        }),
        any::<i64>().prop_map(|id| EventKind::SysExit { id, ret: 0 }),
        (0u64..3).prop_map(|address| EventKind::PageFaultUser {
            address,
            ip: 0,
            error_code: 0
        }),
        Just(EventKind::SignalGenerate {
            sig: 19,
            pid: VICTIM,
            comm: Comm::new(b"victim")
        }),
    ]
}

fn any_event() -> impl Strategy<Value = TraceEvent> {
    let pid = prop_oneof![Just(VICTIM), Just(0u32), Just(12u32)];
    let kind = prop_oneof![handlers(), threads()];
    (any_time(), 0u32..3, pid, any::<u8>(), kind).prop_map(|(time, cpu, pid, flags, kind)| {
        TraceEvent {
            time: Nanos(time),
            cpu,
            pid,
            flags,
            preempt_count: 0,
            kind,
        }
    })
}

fn any_window() -> impl Strategy<Value = Window> {
    let delay = prop_oneof![
        Just(Delay::Timer),
        Just(Delay::Call),
        Just(Delay::Step),
        Just(Delay::Wakeup),
        Just(Delay::Taken),
        Just(Delay::Job),
        Just(Delay::Work)
    ];
    let events = proptest::collection::vec(any_event(), 0..60);
    let missing = proptest::sample::subsequence(event_names().collect::<Vec<_>>(), 0..6);
    let latency = prop_oneof![0u64..200_000, any::<u64>()];
    (delay, events, missing, latency).prop_map(|(delay, events, missing, latency)| {
        let mut window = Stream::late(0.0).window;
        window.delay = delay;
        window.actual = window.expected + Nanos(latency);
        window.events = events;
        window.missing_events = missing.into_iter().map(str::to_owned).collect();
        window
    })
}

/// A job with few events of its thread, whose switches are missing.
fn job_with_few_events() -> impl Strategy<Value = Window> {
    let task = crate::stream::victim();
    let cpu = 0u32..3;
    let kind = prop_oneof![
        (cpu.clone()).prop_map(move |target_cpu| EventKind::Waking { task, target_cpu }),
        (cpu.clone(), cpu.clone()).prop_map(move |(orig_cpu, dest_cpu)| EventKind::Migrate {
            task,
            orig_cpu,
            dest_cpu,
        }),
    ];
    let event = (DUE - 10_000..DUE + 100_000, cpu, kind);
    let events = proptest::collection::vec(event, 1..6);
    (events, 1u64..200_000).prop_map(|(mut events, latency)| {
        events.sort_by_key(|event| event.0);
        let mut window = Stream::late(0.0).window;
        window.delay = Delay::Job;
        window.actual = window.expected + Nanos(latency);
        let events = events.into_iter().map(|(time, cpu, kind)| TraceEvent {
            time: Nanos(time),
            cpu,
            pid: 12,
            flags: 0,
            preempt_count: 0,
            kind,
        });
        window.events = events.collect();
        window
    })
}

/// Checks the invariants that hold for any events.
fn check(window: &Window) -> Result<(), TestCaseError> {
    let Found {
        blame: found,
        segments,
    } = find(window);
    let sum: u128 = found
        .shares
        .iter()
        .map(|share| u128::from(share.ns.0))
        .sum();
    prop_assert_eq!(sum, u128::from(window.latency().0));
    prop_assert!(
        found
            .shares
            .iter()
            .all(|share| share.ns > Nanos::ZERO && share.count > 0)
    );
    prop_assert!(!found.sentence().is_empty() && !found.culprit().is_empty());
    let mut at = window.expected;
    for segment in segments {
        prop_assert_eq!(segment.from, at);
        prop_assert!(segment.to > segment.from);
        at = segment.to;
    }
    prop_assert!(at == window.actual || window.latency() == Nanos::ZERO);
    Ok(())
}

/// Checks that everything that is shown later depends on the stored causes alone. It must not
/// depend on the events, which may be dropped, or on the names of symbols or calls.
fn check_stored(mut window: Window) -> Result<(), TestCaseError> {
    let blame = explain(&mut window);
    let (sentence, labels) = (blame.sentence(), labels(&window));
    let json = serde_json::to_string(&(&blame, &window)).unwrap();
    let (read, mut later): (Blame, Window) = serde_json::from_str(&json).unwrap();
    prop_assert_eq!(&read, &blame);
    later.events.clear();
    later.symbols.clear();
    later.calls.clear();
    later.missing_events.clear();
    later.evidence = Default::default();
    prop_assert!(later.segments_fit());
    prop_assert_eq!(read.sentence(), sentence);
    prop_assert_eq!(self::labels(&later), labels);
    // The sums in the plot are the same as those of the shares.
    for share in &read.shares {
        let own = later.segments.iter();
        let own = own.filter(|segment| segment.cause.source == share.cause.source);
        let sum: u128 = own.map(|segment| u128::from(segment.length().0)).sum();
        prop_assert_eq!(sum, u128::from(share.ns.0), "{:?}", share);
    }
    Ok(())
}

fn labels(window: &Window) -> Vec<String> {
    let segments = window.segments.iter();
    segments.map(|segment| segment.cause.label()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn shares_add_up(window in any_window()) {
        check(&window)?;
    }

    #[test]
    fn shares_add_up_in_jobs_with_few_events(window in job_with_few_events()) {
        check(&window)?;
    }

    #[test]
    fn later_words_follow_from_the_stored_causes(window in any_window()) {
        check_stored(window)?;
    }

    /// Valid streams that are corrupted: shuffled, truncated, with duplicate parts.
    #[test]
    fn shares_add_up_in_spoilt_streams(
        keep in proptest::collection::vec((0usize..13, -50i64..50), 0..40),
        actual in 0.0f64..600.0,
    ) {
        let whole = crate::stream::sample(actual);
        let mut window = whole.clone();
        window.events = keep
            .iter()
            .filter_map(|(at, shift)| {
                let mut event = whole.events.get(*at)?.clone();
                event.time = Nanos(event.time.0.saturating_add_signed(shift * 1_000));
                Some(event)
            })
            .collect();
        check(&window)?;
    }

    /// The order of events in the window does not matter if their times differ.
    #[test]
    fn order_does_not_matter(order in Just((0..13).collect::<Vec<usize>>()).prop_shuffle()) {
        let whole = crate::stream::sample(520.0);
        let mut window = whole.clone();
        window.events = order.iter().filter_map(|at| whole.events.get(*at).cloned()).collect();
        prop_assert_eq!(find(&window), find(&whole));
    }
}

#[test]
fn early_actual_time_is_no_latency() {
    let mut window = crate::stream::sample(520.0);
    window.actual = window.expected - Nanos(5_000);
    let found = find(&window).blame;
    assert!(found.shares.is_empty());
    assert_eq!(found.sentence(), "CPU 1 was not late.");
}

/// A delivery is rejected if it has more shares than the analysis can produce.
#[test]
fn further_sources_are_summed_by_kind() {
    let first = task("fork", 1_000, 0);
    let mut stream =
        Stream::late(4_000.0)
            .sleeping_beside(first)
            .waking_of(0.5, crate::stream::victim(), 1);
    for pid in 0..2_000 {
        let (prev, next) = (task("fork", 1_000 + pid, 0), task("fork", 1_001 + pid, 0));
        stream = stream.switch(1.0 + f64::from(pid), prev, 0, next);
    }
    let blame = find(&stream.window).blame;
    assert!(blame.shares.len() > 900, "{}", blame.shares.len());
    assert_eq!(blame.check(), Ok(()));
    assert_eq!(blame.latency(), stream.window.latency());
    assert!(blame.shares.iter().any(|share| share.who() == "others"));
}
