//! Latencies that tracers and rtla state as a whole.

use punctual_model::cause::Activity;
use punctual_model::{StatedPart, TraceEvent};

use super::*;

const HARDIRQ: u8 = TraceEvent::HARDIRQ;
const SOFTIRQ_FLAG: u8 = TraceEvent::SOFTIRQ;
const OFF: u8 = TraceEvent::IRQS_OFF;

fn task(pid: u32, name: &str, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(prio),
    }
}

fn bash() -> Task {
    task(9, "bash", 120)
}

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

/// A statement about CPU 3 from 100 to 1,100 µs.
fn statement(latency_of: LatencyOf, parts: Vec<StatedPart>) -> TracerStatement {
    TracerStatement {
        latency_of,
        tracer: "tracer".into(),
        latency: us(1_000),
        begin: us(100),
        cpu: 3,
        thread: Some(task(7, "own", 19)),
        ends: None,
        calls: Vec::new(),
        stacks: Vec::new(),
        parts,
    }
}

fn call(at: u64, function: &str, caller: Option<&str>, flags: u8) -> TracedCall {
    TracedCall {
        time: us(at),
        cpu: 3,
        thread: bash(),
        flags,
        preempt_count: 0,
        function: function.into(),
        caller: caller.map(Text::from),
    }
}

fn part(kind: PartKind, name: &str, number: Option<u32>, length: Option<u64>) -> StatedPart {
    StatedPart {
        kind,
        name: name.into(),
        number,
        ns: length.map(us),
    }
}

/// The segments as text: begin and end in µs, and the cause.
fn told(statement: &TracerStatement) -> Vec<(u64, u64, String)> {
    let segments = segments(statement);
    let text = |one: &Segment| {
        assert_eq!(one.cpu, 3);
        (one.from.0 / 1_000, one.to.0 / 1_000, one.cause.label())
    };
    segments.iter().map(text).collect()
}

fn sources(statement: &TracerStatement) -> Vec<Source> {
    let segments = segments(statement).into_iter();
    segments.map(|one| one.cause.source).collect()
}

#[test]
fn parts_of_rtla_follow_each_other() {
    let parts = vec![
        part(PartKind::IrqDelay, "", None, Some(50)),
        part(PartKind::TimerIrq, "", None, Some(10)),
        part(PartKind::Nmi, "", None, Some(20)),
        part(PartKind::Irq, "local_timer", Some(236), Some(30)),
        part(PartKind::Irq, "eth0", Some(24), Some(40)),
        part(PartKind::Softirq, "NET_RX", Some(3), Some(60)),
        part(PartKind::Thread, "hog", Some(61), Some(70)),
        part(PartKind::IdleExit, "", None, Some(5)),
    ];
    let found = told(&statement(LatencyOf::TimerThread, parts));
    let ends: Vec<(u64, u64)> = found.iter().map(|(from, to, _)| (*from, *to)).collect();
    assert_eq!(
        ends,
        [
            (100, 150),
            (150, 160),
            (160, 180),
            (180, 210),
            (210, 250),
            (250, 310),
            (310, 380),
            (380, 385),
            // rtla does not tell the rest.
            (385, 1_100),
        ]
    );
    let texts: Vec<&str> = found.iter().map(|(.., text)| text.as_str()).collect();
    for (text, expected) in texts.iter().zip([
        "timer late",
        "interrupt: local_timer",
        "NMI",
        "interrupt: local_timer",
        "interrupt: eth0",
        "softirq: NET_RX",
        "higher priority: hog-61",
        "idle exit: CPU 3",
        "unexplained: what ran",
    ]) {
        assert!(text.starts_with(expected), "{text}: {expected}");
    }
}

#[test]
fn parts_end_with_the_latency() {
    let parts = vec![
        part(PartKind::Nmi, "", None, Some(900)),
        part(PartKind::Softirq, "", None, Some(900)),
        part(PartKind::Nmi, "", None, Some(900)),
        part(PartKind::Nmi, "", None, None),
    ];
    let found = told(&statement(LatencyOf::TimerThread, parts));
    let ends: Vec<(u64, u64)> = found.iter().map(|(from, to, _)| (*from, *to)).collect();
    assert_eq!(ends, [(100, 1_000), (1_000, 1_100)]);
}

/// The stack of the interrupted thread names the code that delayed the interrupt, or the switch.
#[test]
fn stack_of_rtla_names_the_interrupted_code() {
    let parts = || {
        vec![
            part(PartKind::IrqDelay, "", None, Some(400)),
            part(PartKind::BlockingThread, "bash", Some(9), Some(500)),
        ]
    };
    let mut stated = statement(LatencyOf::TimerThread, parts());
    let plain = segments(&stated);
    assert_eq!(plain[0].cause.source, Source::TimerLate);
    let blocks = |cause: &Cause| match &cause.detail {
        Some(Detail::Rank(rank)) => rank.activity.clone(),
        other => panic!("{other:?}"),
    };
    let name = Name::from(&bash());
    let blocking = Source::Thread {
        role: Role::Blocking,
        thread: name,
    };
    assert_eq!(plain[1].cause.source, blocking);
    assert_eq!(blocks(&plain[1].cause), None);
    stated.stacks = vec![
        vec!["other".into()],
        ["asm_sysvec_apic_timer_interrupt", "spin_unlock", "vprintk"]
            .map(Text::from)
            .to_vec(),
    ];
    let found = segments(&stated);
    assert_eq!(found[0].cause.source, Source::IrqsOff(name));
    let at: Text = "spin_unlock < vprintk".into();
    let stay = Stay {
        ns: None,
        at: at.clone(),
        until: None,
    };
    assert_eq!(found[0].cause.detail, Some(Detail::Stays(vec![stay])));
    assert_eq!(blocks(&found[1].cause), Some(Activity::PreemptionOff(at)));
    // In user space, nothing delays an interrupt.
    stated.stacks = vec![vec!["asm_sysvec_apic_timer_interrupt".into()]];
    assert_eq!(segments(&stated), plain);
    // If the interrupt itself stopped rtla, the rest is its delay.
    let stopped = statement(LatencyOf::TimerIrq, parts());
    let rest = segments(&stopped).pop().unwrap();
    assert_eq!(rest.cause.source, Source::TimerLate);
    assert_eq!((rest.from, rest.to), (us(1_000), us(1_100)));
}

#[test]
fn latency_without_calls_is_unknown_unless_the_tracer_tells_it() {
    for (latency_of, expected) in [
        (LatencyOf::IrqsOff, "interrupts off: own-7"),
        (LatencyOf::PreemptOff, "preemption off: own-7"),
        (LatencyOf::Either, "preemption off: own-7"),
        (LatencyOf::WakeUp, "unexplained: what ran"),
        (LatencyOf::TimerThread, "unexplained: what ran"),
    ] {
        let found = told(&statement(latency_of, Vec::new()));
        assert_eq!(found.len(), 1, "{found:?}");
        let (from, to, text) = &found[0];
        assert_eq!((*from, *to), (100, 1_100));
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn calls_divide_the_latency() {
    let mut stated = statement(LatencyOf::IrqsOff, Vec::new());
    let mut elsewhere = call(500, "other", None, OFF);
    elsewhere.cpu = 2;
    stated.calls = vec![
        // The first call explains the time from the beginning on.
        call(200, "lock", Some("write"), OFF),
        elsewhere,
        call(600, "", None, HARDIRQ),
        call(700, "unlock", Some("write"), OFF),
        // Calls after the end of the latency.
        call(2_000, "later", None, OFF),
        call(3_000, "later", None, OFF),
    ];
    let found = told(&stated);
    let ends: Vec<(u64, u64)> = found.iter().map(|(from, to, _)| (*from, *to)).collect();
    assert_eq!(ends, [(100, 600), (600, 700), (700, 1_100)]);
    assert!(
        found[0].2.starts_with("interrupts off: bash-9"),
        "{found:?}"
    );
    assert!(found[1].2.starts_with("interrupt: "), "{found:?}");
}

/// Returns the stays of the first segment: its length in µs, the place and the next function.
fn stays(stated: &TracerStatement) -> Vec<(Option<u64>, String, Option<String>)> {
    let segments = segments(stated);
    let Some(Detail::Stays(stays)) = &segments[0].cause.detail else {
        return Vec::new();
    };
    let text = |text: &Text| text.0.to_string();
    let stay = |stay: &Stay| {
        let length = stay.ns.map(|ns| ns.0 / 1_000);
        (length, text(&stay.at), stay.until.as_ref().map(text))
    };
    stays.iter().map(stay).collect()
}

fn stay(length: u64, at: &str, until: Option<&str>) -> (Option<u64>, String, Option<String>) {
    (Some(length), at.to_owned(), until.map(str::to_owned))
}

#[test]
fn longest_stays_are_named() {
    let mut stated = statement(LatencyOf::IrqsOff, Vec::new());
    stated.calls = vec![
        call(100, "a", Some("f"), OFF),
        call(400, "b", Some("f"), OFF),
        call(500, "c", Some("f"), OFF),
        call(700, "d", Some("f"), OFF),
        call(1_050, "e", Some("f"), OFF),
    ];
    // Those at d and a and c took the longest, and that at e is too short in any case.
    assert_eq!(
        stays(&stated),
        [
            stay(350, "d < f", Some("e")),
            stay(300, "a < f", Some("b")),
            stay(200, "c < f", Some("d")),
        ]
    );
    // A stay of a twentieth of the time is too short.
    stated.calls = vec![
        call(100, "a", Some("f"), OFF),
        call(1_050, "b", Some("f"), OFF),
    ];
    assert_eq!(stays(&stated), [stay(950, "a < f", Some("b"))]);
    stated.calls[1].time = us(1_049);
    assert_eq!(stays(&stated).len(), 2);
    // The function may have returned to its caller, which does not say where it stayed.
    stated.calls[1] = call(1_050, "f", Some("g"), OFF);
    assert_eq!(stays(&stated), [stay(950, "a < f", None)]);
    // Without a call, the place is the beginning of the section.
    stated.calls.clear();
    stated.ends = Some(("begin".into(), "end".into()));
    assert_eq!(stays(&stated), [stay(1_000, "begin", None)]);
    stated.ends = None;
    assert_eq!(stays(&stated), []);
}

#[test]
fn handler_is_named_by_the_function_that_the_interrupt_code_calls() {
    let of = |calls: &[(&str, Option<&str>, u8)], place: usize| {
        let calls: Vec<TracedCall> = (calls.iter().zip(1..))
            .map(|((function, caller, flags), at)| call(at, function, *caller, *flags))
            .collect();
        let all: Vec<&TracedCall> = calls.iter().collect();
        handler(&all, place)
    };
    let irq = Some("__handle_irq_event_percpu");
    let other = |name: &str| Vector::Other(name.into());
    let device = [
        ("igb_msix", irq, HARDIRQ),
        ("napi", Some("igb_msix"), HARDIRQ),
    ];
    assert_eq!(of(&device, 0), other("igb_msix"));
    // Each call in the interrupt belongs to it.
    assert_eq!(of(&device, 1), other("igb_msix"));
    let entry = [
        ("handle_irq_event_percpu", Some("handle_irq_event"), HARDIRQ),
        (
            "__handle_irq_event_percpu",
            Some("handle_irq_event_percpu"),
            HARDIRQ,
        ),
        ("nvme_irq", irq, HARDIRQ),
    ];
    assert_eq!(of(&entry, 0), other("nvme_irq"));
    // Another interrupt, after a call of the thread.
    let two = [
        ("igb_msix", irq, HARDIRQ),
        ("copy", None, 0),
        ("hrtimer_interrupt", Some("sysvec"), HARDIRQ),
    ];
    assert_eq!(
        (of(&two, 0), of(&two, 2)),
        (other("igb_msix"), Vector::LocalTimer)
    );
    for function in [
        "hrtimer_wakeup",
        "local_apic_timer",
        "arch_timer_handler_phys",
        "tick_sched",
    ] {
        assert_eq!(
            of(&[(function, None, HARDIRQ)], 0),
            Vector::LocalTimer,
            "{function}"
        );
        assert_eq!(of(&[("f", Some(function), HARDIRQ)], 0), Vector::LocalTimer);
    }
    assert_eq!(of(&[("f", None, HARDIRQ)], 0), other("of unknown source"));
}

#[test]
fn flags_of_a_call_show_what_ran_after_it() {
    let mut stated = statement(LatencyOf::TimerThread, Vec::new());
    let of = |stated: &TracerStatement| sources(stated)[0].clone();
    stated.calls = vec![call(100, "f", None, TraceEvent::NMI | HARDIRQ)];
    assert_eq!(of(&stated), Source::Nmi);
    stated.calls = vec![call(100, "hrtimer_run", None, HARDIRQ | SOFTIRQ_FLAG)];
    assert_eq!(of(&stated), Source::Vector(Vector::LocalTimer));
    let receive = |flags| call(100, "f", Some("net_rx_action"), flags);
    stated.calls = vec![receive(SOFTIRQ_FLAG)];
    assert_eq!(of(&stated), Source::Softirq(3));
    // A thread calls the function.
    stated.calls = vec![receive(0)];
    assert!(
        matches!(of(&stated), Source::Thread { .. }),
        "{:?}",
        of(&stated)
    );
    // The softirq is unknown.
    stated.calls = vec![call(100, "f", None, SOFTIRQ_FLAG)];
    assert!(
        matches!(of(&stated), Source::Thread { .. }),
        "{:?}",
        of(&stated)
    );
}

/// A wakeup tracer without function tracing writes one call at the wake-up and one at the switch.
#[test]
fn two_functions_are_no_trace_of_functions() {
    let mut stated = statement(LatencyOf::WakeUp, Vec::new());
    let functions = |count: usize| -> Vec<TracedCall> {
        let names = ["ttwu", "f", "g"];
        let calls = names[..count].iter().zip(0..);
        calls
            .map(|(name, at)| call(100 + at, name, None, 0))
            .collect()
    };
    stated.calls = functions(2);
    let unknown = |source: &Source| matches!(source, Source::Unexplained(_));
    assert!(sources(&stated).iter().all(unknown));
    stated.calls = functions(3);
    assert!(!sources(&stated).iter().any(unknown));
    // Entries without a function do not count.
    stated.calls = functions(2);
    stated.calls.push(call(500, "", None, 0));
    assert!(sources(&stated).iter().all(unknown));
    // Another latency does not need them.
    stated.calls = functions(2);
    stated.latency_of = LatencyOf::TimerThread;
    assert!(!sources(&stated).iter().any(unknown));
}

#[test]
fn rank_decides_the_role_of_another_thread() {
    let own = task(7, "own", 19);
    let of = |prio: i16| role(Some(&own), &task(9, "other", prio));
    assert_eq!(of(18), Role::HigherPriority);
    assert_eq!(of(19), Role::Competing);
    assert_eq!(of(20), Role::Blocking);
    assert_eq!(of(120), Role::Blocking);
    assert_eq!(of(i16::MAX), Role::Unranked);
    assert_eq!(role(None, &bash()), Role::Unranked);
    let unknown = task(7, "own", i16::MAX);
    assert_eq!(role(Some(&unknown), &bash()), Role::Unranked);
}

#[test]
fn statement_without_a_thread_names_its_cpu() {
    let name = |latency_of| {
        let stated = TracerStatement {
            thread: None,
            ..statement(latency_of, Vec::new())
        };
        let thread = thread_of(&stated);
        assert_eq!(thread.pid, Task::UNKNOWN_PID);
        thread.comm.to_string()
    };
    assert_eq!(name(LatencyOf::IrqsOff), "CPU 3");
    assert_eq!(name(LatencyOf::TimerIrq), "timerlat/3");
    assert_eq!(name(LatencyOf::TimerThread), "timerlat/3");
    let known = statement(LatencyOf::IrqsOff, Vec::new());
    assert_eq!(thread_of(&known).pid, 7);
}

#[test]
fn statement_is_quoted_with_its_ends() {
    let mut stated = statement(LatencyOf::IrqsOff, Vec::new());
    assert_eq!(sentence(&stated), "tracer: 1.00 ms");
    stated.ends = Some(("lock".into(), "unlock".into()));
    assert_eq!(sentence(&stated), "tracer: 1.00 ms, from lock to unlock");
}
