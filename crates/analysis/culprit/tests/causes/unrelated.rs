//! Events of threads and CPUs that have nothing to do with the delay. They do not change its causes.

use punctual_culprit::{find, preempted_meanwhile};
use punctual_model::{
    Delay, EventKind, KernelPriority, Nanos, RealTimeLimit, Task, TaskState, TraceEvent, Vector,
    Window,
};

use crate::jobs::{READ, enter, exit, job, low};
use crate::stream::*;

const FUTEX: i64 = 202;
/// A CPU on which no thread of the windows runs.
const ELSEWHERE: u32 = 7;

fn stranger() -> Task {
    task("stranger", 777, 60)
}

/// Another thread that is not concerned.
fn friend() -> Task {
    task("friend", 778, 120)
}

fn lends(task: Task, prio: i16) -> EventKind {
    EventKind::PiSetprio {
        task,
        newprio: KernelPriority(prio),
    }
}

/// The victim waits for a lock of a thread on its own CPU.
fn locked() -> Stream {
    let (holder, boosted) = (task("holder", 50, 89), task("holder", 50, 4));
    Stream::late(520.0)
        .sleeping_beside(idle())
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .event(9.0, lends(holder, 4))
        .switch(11.0, victim(), SLEEPS, boosted)
        .event(400.0, enter(1, [0; 2]))
        .event(499.0, lends(boosted, 89))
        .waking(500.0)
        .wakeup(500.5, 1)
        .switch(510.0, boosted, RUNNABLE, victim())
}

/// The softirq of a server's call answers the victim.
fn answered() -> Stream {
    let server = task("echo", 200, 120);
    Stream::late(420.0)
        .change(|window| window.delay = Delay::Call)
        .on(0, 0)
        .switch(-200.0, server, SLEEPS, make())
        .on(1, 0)
        .switch(-50.0, idle(), RUNNABLE, victim())
        .waking_of(12.0, server, 0)
        .switch(22.0, victim(), SLEEPS, idle())
        .on(0, 0)
        .switch(350.0, make(), RUNNABLE, server)
        .event(383.5, EventKind::SoftirqEntry { vec: 3 })
        .waking_of(386.0, victim(), 1)
        .event(390.0, EventKind::SoftirqExit { vec: 3 })
        .on(1, 0)
        .wakeup(392.0, 1)
        .switch(405.0, idle(), RUNNABLE, victim())
}

/// A step with a page fault, a system call, an interrupt and a preemption.
fn step() -> Stream {
    let hog = task("hog", 61, 0);
    Stream::late(600.0)
        .change(|window| window.delay = Delay::Step)
        .switch(-200.0, make(), RUNNABLE, victim())
        .event(2.0, fault(0x2000))
        .event(40.0, enter(1, [0; 2]))
        .event(90.0, exit(1))
        .irq(100.0, 140.0, 24, "eth0")
        .switch(200.0, victim(), RUNNABLE, hog)
        .switch(480.0, hog, SLEEPS, victim())
}

/// A thread that another CPU wakes, and that moves before it runs.
fn moved() -> Stream {
    let stopper = task("migration/1", 21, 0);
    Stream::late(800.0)
        .change(|window| window.delay = Delay::Wakeup)
        .switch(-300.0, victim(), SLEEPS, make())
        .on(0, 33)
        .waking(0.0)
        .on(1, 12)
        .wakeup(40.0, 1)
        .switch(60.0, make(), RUNNABLE, stopper)
        .event(
            400.0,
            EventKind::Migrate {
                task: victim(),
                orig_cpu: 1,
                dest_cpu: 2,
            },
        )
        .on(2, 0)
        .switch(790.0, idle(), RUNNABLE, victim())
}

/// The victim is throttled.
fn passed_over() -> Stream {
    Stream::late(50_000.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim())
        .switch(9.0, victim(), RUNNABLE, make())
        .switch(20_000.0, make(), SLEEPS, idle())
        .switch(49_990.0, idle(), RUNNABLE, victim())
        .change(|window| window.evidence.real_time_limit = Some(RealTimeLimit::Throttling))
}

/// The victim is stopped, and then preempted.
fn stopped() -> Stream {
    let hog = task("hog", 61, 0);
    let signal = EventKind::SignalGenerate {
        sig: 19,
        pid: VICTIM,
        comm: victim().comm,
    };
    Stream::late(700.0)
        .change(|window| window.delay = Delay::Taken)
        .on(0, 12)
        .event(-5.0, signal)
        .switch(0.0, victim(), STOPS, hog)
        .on(0, 12)
        .waking_of(400.0, victim(), 1)
        .on(1, 61)
        .wakeup(402.0, 1)
        .switch(690.0, hog, SLEEPS, victim())
}

/// The idle CPU leaves a deep state.
fn asleep_cpu() -> Stream {
    let (state, cpu_id) = (3, 1);
    Stream::late(160.0)
        .sleeping_beside(idle())
        .event(-290.0, EventKind::IdleEntry { state, cpu_id })
        .event(140.0, EventKind::IdleExit { cpu_id })
        .timer(142.0)
        .switch(150.0, idle(), RUNNABLE, victim())
}

/// A job that waits for a lock whose owner is preempted, for a disk, and for its own timer.
fn busy_job() -> Stream {
    let mid = task("mid", 21, 49);
    let disk = EventKind::BlockComplete {
        dev: 254 << 20,
        sector: 8,
    };
    job(2_000.0)
        .on(0, 20)
        .event(-100.0, exit(READ))
        .on(1, VICTIM)
        .event(50.0, enter(FUTEX, [0x7f10, 6 | 128]))
        .switch(52.0, victim(), SLEEPS, idle())
        .on(0, 20)
        .switch(200.0, low(), RUNNABLE, mid)
        .switch(700.0, mid, SLEEPS, low())
        .waking_of(800.0, victim(), 1)
        .on(1, 0)
        .switch(810.0, idle(), RUNNABLE, victim())
        .event(812.0, exit(FUTEX))
        .event(850.0, enter(READ, [5, 0]))
        .switch(860.0, victim(), SLEEPS, idle())
        .event(
            1_100.0,
            EventKind::IrqEntry {
                irq: 36,
                name: "virtio1".into(),
            },
        )
        .event(1_102.0, disk)
        .waking(1_104.0)
        .event(1_106.0, EventKind::IrqExit { irq: 36, ret: 1 })
        .switch(1_110.0, idle(), RUNNABLE, victim())
        .event(1_112.0, exit(READ))
        .event(1_200.0, fault(0x7000))
        .event(1_210.0, EventKind::PageFaultEnd { address: 0x7000 })
        .switch(1_300.0, victim(), RUNNABLE, mid)
        .switch(1_500.0, mid, SLEEPS, victim())
        .event(1_600.0, enter(230, [1, 0]))
        .switch(1_610.0, victim(), SLEEPS, idle())
        .timer(1_800.0)
        .switch(1_810.0, idle(), RUNNABLE, victim())
        .event(1_812.0, exit(230))
}

/// A job that spins for a lock of a running thread.
fn spinning_job() -> Stream {
    let owner = task("owner", 20, 89);
    job(1_000.0)
        .on(0, 0)
        .switch(-100.0, idle(), RUNNABLE, owner)
        .on(1, VICTIM)
        .event(50.0, enter(FUTEX, [0x7f10, 6 | 128]))
        .event(52.0, lends(owner, 4))
        .on(0, 20)
        .event(900.0, lends(task("owner", 20, 4), 89))
        .on(1, VICTIM)
        .event(905.0, exit(FUTEX))
}

fn streams() -> Vec<(&'static str, Window)> {
    vec![
        ("interrupts and threads", sample(520.0)),
        ("idle state", asleep_cpu().window),
        ("lock", locked().window),
        ("call", answered().window),
        ("step", step().window),
        ("migration", moved().window),
        ("limit", passed_over().window),
        ("stop", stopped().window),
        ("job", busy_job().window),
        ("spin", spinning_job().window),
    ]
}

/// Everything that a thread can do on its own CPU.
fn acts() -> Vec<EventKind> {
    let (hrtimer, function, address) = (0x99, 0xa1, 0x7000);
    let vector = || Vector::LocalTimer;
    let switch = |prev, state, next| EventKind::Switch {
        prev,
        prev_state: TaskState(state),
        next,
    };
    vec![
        switch(stranger(), RUNNABLE, friend()),
        switch(stranger(), SLEEPS, friend()),
        switch(stranger(), STOPS, idle()),
        EventKind::Waking {
            task: friend(),
            target_cpu: 1,
        },
        EventKind::Wakeup {
            task: friend(),
            target_cpu: 1,
            new: false,
        },
        EventKind::Migrate {
            task: friend(),
            orig_cpu: 1,
            dest_cpu: 0,
        },
        lends(friend(), 3),
        lends(stranger(), 120),
        EventKind::ProcessExit { task: friend() },
        EventKind::IrqEntry {
            irq: 24,
            name: "eth0".into(),
        },
        EventKind::IrqExit { irq: 24, ret: 1 },
        EventKind::SoftirqRaise { vec: 1 },
        EventKind::SoftirqEntry { vec: 3 },
        EventKind::SoftirqExit { vec: 3 },
        EventKind::VectorEntry { vector: vector() },
        EventKind::VectorExit { vector: vector() },
        EventKind::HrtimerStart {
            hrtimer,
            function,
            expires_ns: 60_000,
            softexpires_ns: 10_000,
        },
        EventKind::HrtimerExpireEntry {
            hrtimer,
            function,
            now_ns: 0,
        },
        EventKind::HrtimerExpireExit { hrtimer },
        EventKind::IdleEntry {
            state: 3,
            cpu_id: ELSEWHERE,
        },
        EventKind::IdleExit { cpu_id: ELSEWHERE },
        EventKind::WorkqueueStart { work: 1, function },
        EventKind::WorkqueueEnd { work: 1, function },
        fault(address),
        EventKind::PageFaultEnd { address },
        EventKind::IrqDisable {
            caller: function,
            parent: 0,
        },
        EventKind::PreemptDisable {
            caller: function,
            parent: 0,
        },
        EventKind::ContentionBegin {
            lock_addr: 0xd1,
            flags: 1,
        },
        EventKind::ContentionEnd {
            lock_addr: 0xd1,
            ret: 0,
        },
        enter(FUTEX, [0x7f10, 7 | 128]),
        exit(FUTEX),
        EventKind::BlockComplete { dev: 9, sector: 1 },
        EventKind::KernelStack { frames: vec![1, 2] },
    ]
}

/// The window, with an event of the stranger just after the event with this number.
fn with(window: &Window, place: usize, kind: &EventKind) -> Window {
    let mut window = window.clone();
    let event = TraceEvent {
        time: window.events[place].time,
        cpu: ELSEWHERE,
        pid: stranger().pid,
        flags: 0,
        preempt_count: 0,
        kind: kind.clone(),
    };
    window.events.insert(place + 1, event);
    window
}

#[test]
fn acts_of_a_stranger_elsewhere_change_no_cause() {
    for (name, window) in streams() {
        let found = find(&window);
        assert!(found.blame.shares.len() > 1, "{name}: {found:#?}");
        for place in 0..window.events.len() {
            for kind in acts() {
                let with = find(&with(&window, place, &kind));
                assert_eq!(with, found, "{name}: {kind:?} after event {place}");
            }
        }
    }
}

/// Whatever the clock shows at the beginning, the causes are the same.
#[test]
fn causes_do_not_depend_on_the_time_of_day() {
    let shift = Nanos::from_secs(86_400);
    for (name, window) in streams() {
        let mut later = window.clone();
        for time in [&mut later.expected, &mut later.actual] {
            *time += shift;
        }
        for event in &mut later.events {
            event.time += shift;
        }
        let (mut found, before) = (find(&later), find(&window));
        for segment in &mut found.segments {
            (segment.from, segment.to) = (segment.from - shift, segment.to - shift);
        }
        let end = found.blame.culprit_end_ns.map(|end| end - shift);
        found.blame.culprit_end_ns = end;
        assert_eq!(found, before, "{name}");
    }
}

/// A thread that is preempted elsewhere while the job computes is a hint only for its own process.
#[test]
fn hint_needs_a_thread_that_the_job_can_wait_for() {
    let hint = |spoilt: bool| {
        let (above, low) = (task("above", 30, 39), low());
        let mut stream = job(1_000.0)
            .on(2, 20)
            .switch(-40.0, idle(), RUNNABLE, low)
            .switch(50.0, low, RUNNABLE, above)
            .switch(900.0, above, SLEEPS, low)
            .on(1, VICTIM);
        if spoilt {
            stream = stream.switch(60.0, victim(), SLEEPS, idle());
        }
        stream.window.events.sort_by_key(|event| event.time);
        preempted_meanwhile(&stream.window, &|tid| tid == 20)
    };
    assert!(hint(false).is_some());
    // The thread of the job sleeps instead of computing.
    assert_eq!(hint(true), None);
}
