//! Latencies that the tracers osnoise and timerlat, and cyclictest, write into a trace.

use std::collections::{BTreeMap, BTreeSet};

use punctual_culprit::{LateFound, LateReactions, Reaction, TraceFacts, Wanted, find};
use punctual_model::{
    Comm, Delay, EventKind, KernelPriority, Nanos, NoiseSource, ShareKind, Task, TaskState,
    TraceEvent, event_names,
};

use crate::stream::{RUNNABLE, SLEEPS, VICTIM, idle, make, task, victim};

const SWITCH: &str = "sched:sched_switch";
const NOISES: [&str; 2] = ["osnoise:irq_noise", "osnoise:thread_noise"];
/// The tracer's thread.
const TRACER: u32 = 500;

fn us(us: f64) -> Nanos {
    Nanos((us * 1_000.0).round() as u64)
}

/// An event of CPU 1 at a time in µs.
fn event(at: f64, pid: u32, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time: us(at),
        cpu: 1,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    }
}

fn noise(at: f64, source: NoiseSource, length: f64) -> TraceEvent {
    let kind = EventKind::Noise {
        source,
        // A time on another clock.
        start: Nanos(7),
        duration: us(length),
    };
    event(at, TRACER, kind)
}

fn irq_noise(at: f64, desc: &str, length: f64) -> TraceEvent {
    let (vector, desc) = (236, desc.into());
    noise(at, NoiseSource::Irq { vector, desc }, length)
}

/// The thread writes the event when it leaves the CPU.
fn thread_noise(at: f64, name: &str, pid: u32, length: f64) -> TraceEvent {
    let comm = Comm::new(name.as_bytes());
    of(pid, noise(at, NoiseSource::Thread { pid, comm }, length))
}

/// Sets the thread that is current at an event.
fn of(pid: u32, event: TraceEvent) -> TraceEvent {
    TraceEvent { pid, ..event }
}

fn finished(finder: LateReactions, recorded: &[&str]) -> LateFound {
    let recorded: BTreeSet<String> = recorded.iter().map(|name| (*name).to_owned()).collect();
    let names = [
        (0xa1, "try_to_wake_up"),
        (0xa2, "ttwu_do_activate"),
        (0xa3, "swake_up_one"),
        (0xa4, "rcu_core"),
        (0xb1, "asm_sysvec_apic_timer_interrupt"),
        (0xb2, "console_unlock"),
    ];
    let symbols: BTreeMap<u64, String> = names.map(|(at, name)| (at, name.to_owned())).into();
    finder.finish(&TraceFacts {
        recorded: &recorded,
        clocks_differ: false,
        resolution: Nanos(1),
        may_have_vectors: true,
        kernel: None,
        symbols: &symbols,
        calls: &BTreeMap::new(),
    })
}

fn finder(wanted: Wanted, events: &[TraceEvent]) -> LateReactions {
    let mut finder = LateReactions::new(wanted);
    for event in events {
        finder.event(event.clone());
    }
    finder
}

fn reactions(events: &[TraceEvent], recorded: &[&str]) -> Vec<Reaction> {
    finished(finder(Wanted::longest(), events), recorded).reactions
}

/// Returns the time of a cause in µs.
fn share(reaction: &Reaction, kind: ShareKind, who: &str) -> f64 {
    let blame = find(&reaction.window).blame;
    let sum: u64 = blame.shares.iter().map(|share| share.ns.0).sum();
    assert_eq!(sum, reaction.window.latency().0);
    let own = blame.shares.iter().filter(|share| share.kind() == kind);
    let own = own.filter(|share| share.who().starts_with(who));
    own.map(|share| share.ns.0).sum::<u64>() as f64 / 1_000.0
}

/// Returns begin and length of each reaction in µs, and its only cause.
fn told(found: &[Reaction]) -> Vec<(u64, u64, String)> {
    let tell = |reaction: &Reaction| {
        let blame = find(&reaction.window).blame;
        assert_eq!(blame.shares.len(), 1, "{blame:#?}");
        let (window, share) = (&reaction.window, &blame.shares[0]);
        let (begin, length) = (window.expected.0 / 1_000, window.latency().0 / 1_000);
        (
            begin,
            length,
            format!("{}: {}", share.kind().name(), share.who()),
        )
    };
    found.iter().map(tell).collect()
}

#[test]
fn each_noise_is_a_delay_of_the_tracer() {
    let events = [
        irq_noise(1_020.0, "local_timer", 20.0),
        irq_noise(2_030.0, "eth0", 30.0),
        noise(3_040.0, NoiseSource::Softirq { vector: 3 }, 40.0),
        noise(4_050.0, NoiseSource::Nmi, 50.0),
        thread_noise(5_060.0, "cc1", 61, 60.0),
    ];
    let found = reactions(&events, &NOISES);
    let expected = [
        (1_000, 20, "interrupt: local_timer"),
        (2_000, 30, "interrupt: eth0"),
        (3_000, 40, "softirq: NET_RX"),
        (4_000, 50, "NMI: non-maskable interrupt"),
        (5_000, 60, "other thread: cc1-61"),
    ];
    let expected = expected.map(|(begin, length, text)| (begin, length, text.to_owned()));
    assert_eq!(told(&found), expected);
    let first = &found[0];
    assert_eq!(first.stated.as_deref(), Some("osnoise: noise of 20.0 µs"));
    assert_eq!(first.window.delay, Delay::Step);
    let victim = &first.window.victim;
    assert_eq!((victim.tid, victim.cpu), (Task::UNKNOWN_PID, 1));
    assert_eq!(victim.comm.to_string(), "osnoise/1");
}

#[test]
fn thread_of_the_tracer_is_known_by_its_marks() {
    let mut finder = finder(Wanted::longest(), &[irq_noise(1_020.0, "eth0", 20.0)]);
    let tracer = task("osnoise/1", TRACER, 120);
    assert!(!finder.mark(us(1_100.0), 1, tracer, "hello"));
    finder.mark(us(1_101.0), 2, task("cat", 9, 120), "hello");
    let found = finished(finder, &NOISES).reactions;
    assert_eq!(found[0].window.victim.tid, TRACER);
}

#[test]
fn longest_noises_are_kept() {
    let lengths = |most: usize| {
        let noises = [10.0, 30.0, 20.0, 5.0, 20.0].into_iter().zip(1..);
        let events: Vec<TraceEvent> = noises
            .map(|(length, at)| irq_noise(f64::from(at) * 1_000.0, "eth0", length))
            .collect();
        let wanted = Wanted {
            most,
            ..Wanted::longest()
        };
        let found = finished(finder(wanted, &events), &NOISES).reactions;
        let lengths = found.iter().map(|one| one.window.latency().0 / 1_000);
        lengths.collect::<Vec<u64>>()
    };
    assert_eq!(lengths(20), [10, 30, 20, 5, 20]);
    assert_eq!(lengths(3), [30, 20, 20]);
    // Of equal ones, the first is kept.
    assert_eq!(lengths(2), [30, 20]);
    assert_eq!(lengths(1), [30]);
}

/// Noises count as delays only if the trace states nothing better.
#[test]
fn noises_are_no_delays_beside_samples_and_switches() {
    let events = [irq_noise(1_020.0, "eth0", 20.0)];
    let with_switches = [NOISES[0], NOISES[1], SWITCH];
    assert_eq!(reactions(&events, &with_switches), []);
    for wanted in [
        Wanted {
            pids: vec![TRACER],
            ..Wanted::longest()
        },
        Wanted {
            comm: Some(Comm::new(b"osnoise/1")),
            ..Wanted::longest()
        },
    ] {
        let found = finished(finder(wanted, &events), &NOISES);
        assert_eq!(found.reactions, []);
    }
    let sample = EventKind::SampleThreshold {
        start: Nanos(7),
        duration: us(25.0),
        interference: 1,
    };
    let mut events = events.to_vec();
    events.push(event(1_025.0, TRACER, sample));
    let found = reactions(&events, &NOISES);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].window.latency(), us(25.0));
}

/// The stack of a wake-up just before a noise shows who wanted it.
#[test]
fn wake_up_before_a_noise_is_named() {
    let detail = |at: f64, frames: &[u64]| {
        let frames = frames.to_vec();
        let stack = event(at, TRACER, EventKind::KernelStack { frames });
        let mut events = vec![thread_noise(1_060.0, "rcu_sched", 17, 60.0), stack];
        events.sort_by_key(|event| event.time);
        let found = reactions(&events, &NOISES);
        find(&found[0].window).blame.shares[0].detail()
    };
    let wakes = [0xa1, 0xa2, 0xa3, 0xa4];
    let named = Some("after a wake-up in swake_up_one < rcu_core".to_owned());
    assert_eq!(detail(950.0, &wakes), named);
    assert_eq!(detail(1_060.0, &wakes), named);
    // It is too old, or later, or no wake-up, or without a caller.
    assert_eq!(detail(949.999, &wakes), None);
    assert_eq!(detail(1_060.001, &wakes), None);
    assert_eq!(detail(1_000.0, &[0xa3, 0xa4]), None);
    assert_eq!(detail(1_000.0, &[0xa1]), None);
    // An address without a name.
    let unknown = detail(1_000.0, &[0xa1, 0x99]);
    assert_eq!(unknown.as_deref(), Some("after a wake-up in ?"));
}

/// A sample of osnoise from 10,100 to 10,300 µs, with these events.
fn sampled(events: &[TraceEvent]) -> Reaction {
    let sample = EventKind::SampleThreshold {
        start: Nanos(7),
        duration: us(200.0),
        interference: 1,
    };
    let mut events = events.to_vec();
    events.push(event(10_300.0, TRACER, sample));
    let mut found = reactions(&events, &NOISES);
    assert_eq!(found.len(), 1);
    let reaction = found.remove(0);
    assert_eq!(reaction.window.expected, us(10_100.0));
    assert_eq!(reaction.stated.as_deref(), Some("osnoise sample_threshold"));
    reaction
}

#[test]
fn noises_explain_a_sample() {
    let found = sampled(&[
        irq_noise(9_990.0, "eth0", 9.0),
        // The time of a thread does not contain the handlers on top of it.
        of(61, irq_noise(10_200.0, "eth0", 20.0)),
        thread_noise(10_250.0, "cc1", 61, 100.0),
        noise(10_280.0, NoiseSource::Softirq { vector: 3 }, 10.0),
    ]);
    assert_eq!(share(&found, ShareKind::Unranked, "cc1-61"), 100.0);
    assert_eq!(share(&found, ShareKind::Interrupt, "eth0"), 20.0);
    assert_eq!(share(&found, ShareKind::Softirq, "NET_RX"), 10.0);
    // The thread of osnoise ran before and after it.
    assert_eq!(share(&found, ShareKind::Scheduling, ""), 0.0);
    assert_eq!(found.window.victim.comm.to_string(), "osnoise/1");
}

#[test]
fn threads_that_follow_each_other_leave_nothing_to_the_tracer() {
    let second = |gap: f64| {
        let found = sampled(&[
            thread_noise(10_200.0, "cc1", 61, 50.0),
            thread_noise(10_250.0 + gap, "ld", 62, 50.0),
        ]);
        assert_eq!(share(&found, ShareKind::Unranked, "cc1-61"), 50.0);
        share(&found, ShareKind::Unranked, "ld-62")
    };
    assert_eq!(second(0.0), 50.0);
    assert_eq!(second(2.0), 52.0);
    assert_eq!(second(2.001), 50.0);
}

/// Time of the tracer is not noise, and neither is time of other CPUs.
#[test]
fn noise_elsewhere_delays_nothing() {
    let mut elsewhere = thread_noise(10_200.0, "cc1", 61, 50.0);
    elsewhere.cpu = 2;
    let own = thread_noise(10_200.0, "osnoise/1", TRACER, 50.0);
    for event in [elsewhere, own] {
        let found = sampled(&[event]);
        assert_eq!(share(&found, ShareKind::Unranked, ""), 0.0);
    }
}

/// A timer of timerlat is due at 10,100 µs. Its interrupt comes at 10,160 µs, on top of `cc1`.
fn interrupt(finder: &mut LateReactions, activation: u64) -> bool {
    let text = format!("#{activation} context    irq timer_latency     60000 ns");
    finder.mark(us(10_160.0), 1, task("cc1", 61, i16::MAX), &text)
}

fn tracer() -> Task {
    task("timerlat/1", TRACER, 4)
}

fn thread_sample(finder: &mut LateReactions, at: f64, activation: u64, context: &str) -> bool {
    let latency = us(at) - us(10_100.0);
    let text = format!(
        "#{activation} context {context} timer_latency {} ns",
        latency.0
    );
    finder.mark(us(at), 1, tracer(), &text)
}

#[test]
fn return_to_user_space_contains_the_work_of_the_thread() {
    // The thread ran at 10,170 µs, and `ld` preempted it at 10,250 µs for 50 µs.
    let found = |ran: bool| {
        let mut finder = LateReactions::new(Wanted::longest());
        finder.event(of(61, irq_noise(9_990.0, "local_timer", 9.0)));
        assert!(interrupt(&mut finder, 12));
        if ran {
            assert!(thread_sample(&mut finder, 10_170.0, 12, "thread"));
        }
        finder.event(of(62, thread_noise(10_300.0, "ld", 62, 50.0)));
        assert!(thread_sample(&mut finder, 10_400.0, 12, "user-ret"));
        let found = finished(finder, &NOISES).reactions;
        let longest = found.into_iter().max_by_key(|one| one.window.latency());
        longest.unwrap()
    };
    let reaction = found(true);
    assert_eq!(reaction.window.latency(), us(300.0));
    assert_eq!(reaction.window.evidence.timer_interrupt, Some(us(10_160.0)));
    assert_eq!(share(&reaction, ShareKind::Unranked, "ld-62"), 50.0);
    // Until then, the interrupted thread had the CPU.
    assert_eq!(share(&reaction, ShareKind::Unranked, "cc1-61"), 10.0);
    // Without the sample of the thread, it is unknown when it began to work.
    let reaction = found(false);
    assert_eq!(reaction.window.evidence.timer_interrupt, None);
}

/// A thread whose noise ends just before the sample of the tracer's thread had the CPU until then.
#[test]
fn thread_that_ran_until_then_had_the_cpu() {
    let found = |until: f64| {
        let mut finder = LateReactions::new(Wanted::longest());
        finder.event(of(61, irq_noise(9_990.0, "local_timer", 9.0)));
        interrupt(&mut finder, 12);
        finder.event(of(61, thread_noise(until, "cc1", 61, until - 10_162.0)));
        thread_sample(&mut finder, 10_180.0, 12, "thread");
        thread_sample(&mut finder, 10_400.0, 12, "user-ret");
        let found = finished(finder, &NOISES).reactions;
        let longest = found.into_iter().max_by_key(|one| one.window.latency());
        share(&longest.unwrap(), ShareKind::Unranked, "cc1-61")
    };
    assert_eq!(found(10_180.0), 20.0);
    assert_eq!(found(10_178.0), 18.0);
    assert_eq!(found(10_177.0), 17.0);
}

#[test]
fn samples_of_other_activations_do_not_belong_together() {
    let interrupt_of = |activation: u64| {
        let mut finder = LateReactions::new(Wanted::longest());
        finder.event(of(61, irq_noise(9_990.0, "local_timer", 9.0)));
        interrupt(&mut finder, activation);
        thread_sample(&mut finder, 10_300.0, 12, "thread");
        let found = finished(finder, &NOISES).reactions;
        found[0].window.evidence.timer_interrupt
    };
    assert_eq!(interrupt_of(12), Some(us(10_160.0)));
    assert_eq!(interrupt_of(11), None);
}

/// Only timer interrupts have samples in this trace: they stopped the tracer.
fn stopped(thread: Task, stack: Option<f64>, texts: &[&str]) -> LateFound {
    let mut finder = LateReactions::new(Wanted::longest());
    finder.event(of(61, irq_noise(9_990.0, "local_timer", 9.0)));
    let text = "#12 context    irq timer_latency     60000 ns";
    finder.mark(us(10_160.0), 1, thread, text);
    if let Some(at) = stack {
        let frames = vec![0xb1, 0xb2];
        finder.event(event(at, thread.pid, EventKind::KernelStack { frames }));
    }
    for text in texts {
        finder.mark(us(10_200.0), 2, idle(), text);
    }
    finished(finder, &NOISES)
}

#[test]
fn interrupt_that_stopped_timerlat_is_a_delay() {
    let cc1 = task("cc1", 61, 120);
    let told = |found: &LateFound| {
        let own = found
            .reactions
            .iter()
            .filter(|one| one.window.victim.cpu == 1);
        let own: Vec<Reaction> = own.cloned().collect();
        told(&own)
    };
    let late = vec![(10_100, 60, "timer late: the timer's interrupt".to_owned())];
    let found = stopped(cc1, None, &[]);
    assert_eq!(told(&found), late);
    let reaction = &found.reactions[0];
    assert_eq!(reaction.window.victim.comm.to_string(), "timerlat/1");
    assert_eq!(reaction.stated.as_deref(), Some("timerlat: 60.0 µs"));
    // The stack shows who had interrupts disabled.
    let off = vec![(10_100, 60, "interrupts off: cc1-61".to_owned())];
    assert_eq!(told(&stopped(cc1, Some(10_170.0), &[])), off);
    // The idle thread disables none.
    assert_eq!(told(&stopped(idle(), Some(10_170.0), &[])), late);
    // Another CPU has a sample of its thread, so the thread of this one was not late.
    let sample = "#9 context thread timer_latency     20000 ns";
    assert_eq!(told(&stopped(cc1, None, &[sample])), []);
    let stop = "stop tracing hit on cpu 1";
    assert_eq!(told(&stopped(cc1, None, &[sample, stop])), late);
    let other = "stop tracing hit on cpu 2";
    assert_eq!(told(&stopped(cc1, None, &[sample, other])), []);
}

/// A thread sleeps, is woken at 10,005 µs, and runs from 10,015 µs on.
fn periodic() -> LateReactions {
    let switch = |at: f64, prev: Task, state: u32, next: Task| {
        let prev_state = TaskState(state);
        let kind = EventKind::Switch {
            prev,
            prev_state,
            next,
        };
        event(at, prev.pid, kind)
    };
    let (task, target_cpu) = (victim(), 1);
    let events = [
        switch(9_000.0, victim(), SLEEPS, make()),
        event(10_005.0, 12, EventKind::Waking { task, target_cpu }),
        switch(10_015.0, make(), RUNNABLE, victim()),
    ];
    finder(Wanted::longest(), &events)
}

fn all() -> Vec<&'static str> {
    event_names().collect()
}

/// Returns expected and actual time of the stated latency in µs.
fn stated(mut finder: LateReactions, at: f64, latency: u64) -> (f64, f64) {
    let text = format!("hit latency threshold ({latency} > 1)");
    assert!(finder.mark(us(at), 1, victim(), &text));
    let found = finished(finder, &all()).reactions;
    let stated = found.into_iter().find(|one| one.stated.is_some()).unwrap();
    assert_eq!(stated.window.delay, Delay::Timer);
    let us = |time: Nanos| time.0 as f64 / 1_000.0;
    (us(stated.window.expected), us(stated.window.actual))
}

/// cyclictest computes the latency between its wait and the write of the text.
#[test]
fn stated_latency_ends_between_the_wait_and_the_write() {
    let with_calls = || {
        let mut finder = periodic();
        let (id, ret) = (230, 0);
        finder.event(event(10_018.0, VICTIM, EventKind::SysExit { id, ret }));
        let (id, args) = (1, [0; 2]);
        finder.event(event(10_030.0, VICTIM, EventKind::SysEnter { id, args }));
        finder
    };
    // The latency began before the thread was switched in.
    assert_eq!(stated(with_calls(), 10_035.0, 20), (10_010.0, 10_030.0));
    assert_eq!(stated(with_calls(), 10_035.0, 5), (10_015.0, 10_020.0));
    assert_eq!(stated(with_calls(), 10_035.0, 1), (10_017.0, 10_018.0));
    // Without the calls, it ends with the text.
    assert_eq!(stated(periodic(), 10_035.0, 20), (10_015.0, 10_035.0));
}

/// With its option -N, cyclictest prints nanoseconds. A thread is not late while it still runs.
#[test]
fn unit_of_a_stated_latency_follows_from_the_sleep() {
    let length = |number: u64| {
        let (from, to) = stated(periodic(), 10_035.0, number);
        ((to - from) * 1_000.0).round() as u64
    };
    assert_eq!(length(20), 20_000);
    assert_eq!(length(1_035), 1_035_000);
    assert_eq!(length(1_036), 1_036);
}

/// A program states a latency up to 1 ms after its end. The wait that is a part of it counts once.
#[test]
fn stated_latency_replaces_the_wait_within_it() {
    let waits = |after: f64| {
        let mut finder = periodic();
        let text = "hit latency threshold (1400 > 1)";
        finder.mark(us(10_015.0 + after), 1, victim(), text);
        let found = finished(finder, &all());
        let stated = found.reactions.iter().filter(|one| one.stated.is_some());
        let own = found.threads.iter().find(|one| one.task.pid == VICTIM);
        let count = own.unwrap().histogram.recorded();
        (stated.count(), found.reactions.len(), count)
    };
    assert_eq!(waits(1_000.0), (1, 1, 1));
    assert_eq!(waits(1_000.001), (1, 1, 2));
}

#[test]
fn other_texts_state_no_latency() {
    let mut finder = periodic();
    for text in [
        "hello",
        "stop tracing hit on cpu 1",
        "#1 context thread timer_latency x ns",
    ] {
        assert!(!finder.mark(us(10_035.0), 1, victim(), text), "{text}");
    }
    let found = finished(finder, &all());
    assert!(found.reactions.iter().all(|one| one.stated.is_none()));
}

/// The priority of a thread is that of its events.
#[test]
fn thread_of_a_stated_latency_keeps_its_priority() {
    let mut finder = periodic();
    let unknown = Task {
        prio: KernelPriority::UNKNOWN,
        ..victim()
    };
    finder.mark(us(10_035.0), 1, unknown, "hit latency threshold (30 > 1)");
    let found = finished(finder, &all());
    let stated = found.reactions.iter().find(|one| one.stated.is_some());
    let scheduling = stated.unwrap().window.victim.scheduling.unwrap();
    assert_eq!(scheduling.priority, 95);
}
