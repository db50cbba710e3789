//! Jobs that were seen in the light stage, which records only the switches, sleeps and wake-ups of
//! watched threads.

use punctual_culprit::{find, keep_concerned};
use punctual_model::cause::{Device, InterruptSource, InterruptWakeup, Name};
use punctual_model::{Blame, Comm, EventKind, Nanos, ShareKind, Task, TraceEvent};

use crate::jobs::{READ, job, low, share};
use crate::stream::*;

const FUTEX: i64 = 202;
const LOCK: u64 = 128;
const INTERRUPT: u8 = TraceEvent::HARDIRQ | TraceEvent::SOFTIRQ;

/// A job of 1 ms in the light stage, in which only these threads are watched.
fn light(watched: &[Task]) -> Stream {
    let tids: Vec<u32> = watched.iter().map(|task| task.pid).collect();
    let mut stream = job(1_000.0).change(|window| {
        for event in [
            "raw_syscalls:sys_enter",
            "irq:softirq_entry",
            "irq_vectors:*_entry",
        ] {
            window.missing_events.push(event.to_owned());
        }
        window.light_stage = Some(tids);
    });
    let recorded = |event: &TraceEvent| {
        matches!(
            event.kind,
            EventKind::Switch { .. } | EventKind::Waking { .. } | EventKind::Migrate { .. }
        )
    };
    stream.window.events.retain(recorded);
    stream
}

fn sleeps(id: i64, args: [u64; 2]) -> EventKind {
    EventKind::SleepsIn { id, args }
}

fn explained(stream: &Stream) -> Blame {
    let mut window = stream.window.clone();
    keep_concerned(&mut window);
    let found = find(&window).blame;
    let sum: u64 = found.shares.iter().map(|share| share.ns.0).sum();
    assert_eq!(sum, Nanos::from_millis(1).0, "{found:#?}");
    for kind in [
        ShareKind::OwnWork,
        ShareKind::SystemCall,
        ShareKind::Interrupt,
        ShareKind::Softirq,
        ShareKind::Throttled,
        ShareKind::IdleExit,
    ] {
        assert_eq!(share(&found, kind, ""), 0.0, "{found:#?}");
    }
    found
}

#[test]
fn activity_on_cpu_is_unknown() {
    let found = explained(&light(&[victim()]));
    let running = share(&found, ShareKind::Unexplained, "the thread on its CPU");
    assert_eq!(running, 990.0, "{found:#?}");
}

#[test]
fn watched_lock_holder_is_named() {
    let stream = light(&[victim(), low()])
        .event(100.0, sleeps(FUTEX, [0x5000, LOCK]))
        .switch(100.0, victim(), SLEEPS, idle())
        .on(0, 0)
        .switch(110.0, idle(), RUNNABLE, low())
        .waking_of(900.0, victim(), 1)
        .on(1, 0)
        .switch(905.0, idle(), RUNNABLE, victim());
    let found = explained(&stream);
    let holder = share(&found, ShareKind::LockHolder, "low-20");
    assert!((785.0..=800.0).contains(&holder), "{found:#?}");
}

/// The only event of the other thread is its wake-up of the victim. What it did before is unknown.
#[test]
fn activity_of_other_threads_is_unknown() {
    let stream = light(&[victim()])
        .event(100.0, sleeps(READ, [4, 0]))
        .switch(100.0, victim(), SLEEPS, low())
        .waking_of(900.0, victim(), 1)
        .switch(905.0, low(), RUNNABLE, victim());
    let found = explained(&stream);
    assert_eq!(
        share(&found, ShareKind::Waiting, "low-20"),
        800.0,
        "{found:#?}"
    );
    let words = format!("{found:?}");
    assert!(
        words.contains("leaf: Unknown") && words.contains("\"read\""),
        "{words}"
    );
}

#[test]
fn wake_up_by_interrupt_is_no_thread() {
    let stream = light(&[victim()])
        .event(100.0, sleeps(READ, [4, 0]))
        .switch(100.0, victim(), SLEEPS, low())
        .flags(INTERRUPT)
        .waking_of(900.0, victim(), 1)
        .flags(0)
        .switch(905.0, low(), RUNNABLE, victim());
    let found = explained(&stream);
    assert_eq!(share(&found, ShareKind::Waiting, ""), 0.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::Device, ""), 0.0, "{found:#?}");
    let unknown = share(&found, ShareKind::Unexplained, "a timer, a device");
    assert_eq!(unknown, 800.0, "{found:#?}");
}

#[test]
fn stack_of_interrupt_shows_the_source() {
    let by = |by: InterruptSource, at: u64| {
        let wakeup = InterruptWakeup {
            at: Nanos(at),
            woken: victim().pid,
            by,
        };
        let stream = light(&[victim()])
            .event(100.0, sleeps(READ, [4, 0]))
            .switch(100.0, victim(), SLEEPS, low())
            .flags(INTERRUPT)
            .waking_of(900.0, victim(), 1)
            .flags(0)
            .switch(905.0, low(), RUNNABLE, victim())
            .change(|window| window.evidence.interrupt_wakeups = vec![wakeup]);
        explained(&stream)
    };
    let woken = light(&[victim()]).waking_of(900.0, victim(), 1);
    let at = woken.window.events.iter().rev().find_map(|event| {
        let is_waking = matches!(event.kind, EventKind::Waking { .. });
        is_waking.then_some(event.time.0)
    });
    let at = at.unwrap();
    let timer = by(InterruptSource::Timer, at);
    assert_eq!(share(&timer, ShareKind::OwnSleep, ""), 800.0, "{timer:#?}");
    let card = by(InterruptSource::Device(Device::Softirq(3)), at);
    let network = share(&card, ShareKind::Device, "softirq NET_RX");
    assert_eq!(network, 800.0, "{card:#?}");
    let peer = by(InterruptSource::Peer, at);
    assert_eq!(
        share(&peer, ShareKind::Waiting, "low-20"),
        800.0,
        "{peer:#?}"
    );
    // The stack of another wake-up shows nothing.
    let other = by(InterruptSource::Timer, at + 1);
    assert_eq!(share(&other, ShareKind::OwnSleep, ""), 0.0, "{other:#?}");
}

#[test]
fn wake_up_record_names_an_unseen_waker() {
    let stranger = Name {
        pid: Some(77),
        comm: Comm::new(b"stranger"),
    };
    let stream = light(&[victim()])
        .event(100.0, sleeps(READ, [4, 0]))
        .switch(100.0, victim(), SLEEPS, idle())
        .on(0, 77)
        .waking_of(900.0, victim(), 1)
        .on(1, 0)
        .switch(905.0, idle(), RUNNABLE, victim())
        .change(|window| window.evidence.wakers = vec![stranger]);
    let found = explained(&stream);
    let waited = share(&found, ShareKind::Waiting, "stranger-77");
    assert_eq!(waited, 800.0, "{found:#?}");
}

/// Before the victim was woken, its CPU switched unseen from one thread to another.
#[test]
fn unseen_switch_blames_no_thread() {
    let (first, second) = (task("first", 40, 120), task("second", 41, 120));
    let stream = light(&[victim()])
        .event(100.0, sleeps(READ, [4, 0]))
        .switch(100.0, victim(), SLEEPS, first)
        .on(0, 50)
        .waking_of(300.0, victim(), 1)
        .on(1, 41)
        .switch(900.0, second, RUNNABLE, victim());
    let found = explained(&stream);
    let competing = |who: &str| {
        let shares = found
            .shares
            .iter()
            .filter(|share| share.who().starts_with(who));
        shares.map(|share| share.ns.0).sum::<u64>() / 1_000
    };
    assert_eq!(
        (competing("first"), competing("second")),
        (0, 600),
        "{found:#?}"
    );
}

#[test]
fn idle_cpu_is_no_throttle() {
    let stream = light(&[victim()])
        .event(100.0, sleeps(-1, [0, 0]))
        .switch(100.0, victim(), SLEEPS, idle())
        .flags(INTERRUPT)
        .waking_of(200.0, victim(), 1)
        .flags(0)
        .switch(900.0, idle(), RUNNABLE, victim());
    let found = explained(&stream);
    let idle = share(&found, ShareKind::Unexplained, "idle CPU, or a handler");
    // Also before the thread first ran.
    assert_eq!(idle, 710.0, "{found:#?}");
}
