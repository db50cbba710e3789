//! Times at which one cause becomes another. Each case is checked at its limit, and a nanosecond
//! above it.

use punctual_culprit::find;
use punctual_model::cause::{Activity, Cause, Detail, Source};
use punctual_model::{
    Delay, EventKind, KernelPriority, Nanos, ShareKind, StealCount, StealRise, TraceEvent, Window,
};

use crate::stream::*;

const NANO: f64 = 0.001;
const FAULTS: &str = "exceptions:page_fault_user";

/// Returns the cause at a time.
pub(crate) fn cause_at(window: &Window, us: f64) -> Cause {
    let found = find(window);
    let mut segments = found.segments.iter();
    let segment = segments.find(|one| (one.from..one.to).contains(&at(us)));
    segment
        .unwrap_or_else(|| panic!("nothing at {us}"))
        .cause
        .clone()
}

pub(crate) fn kind_at(stream: Stream, us: f64) -> ShareKind {
    cause_at(&stream.window, us).kind()
}

/// Checks a stream whose decisive time is at the limit, and a nanosecond above it.
fn check(
    name: &str,
    limit: f64,
    (within, above): (ShareKind, ShareKind),
    kind: impl Fn(f64) -> ShareKind,
) {
    assert_eq!(kind(limit), within, "{name}: {limit} µs");
    assert_eq!(kind(limit + NANO), above, "{name}: more than {limit} µs");
}

/// A softirq is raised, which ends the span before it.
fn mark() -> EventKind {
    EventKind::SoftirqRaise { vec: 9 }
}

/// The victim is ready from 5 µs on, and `make` keeps its CPU for this long.
fn blocked(long: f64) -> Stream {
    Stream::late(long + 20.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(5.0 + long, make(), RUNNABLE, victim())
}

#[test]
fn short_run_of_a_lower_thread_is_the_scheduler() {
    use ShareKind::{Blocking, Scheduling};
    check("until the switch", 10.0, (Scheduling, Blocking), |long| {
        kind_at(blocked(long), 5.0)
    });
    // Between two events, a thread needs no more than this.
    check("until another event", 2.0, (Scheduling, Blocking), |long| {
        let stream = Stream::late(100.0)
            .sleeping_beside(make())
            .timer(2.0)
            .event(5.0 + long, mark())
            .switch(80.0, make(), RUNNABLE, victim());
        kind_at(stream, 5.0)
    });
    // A switch to another thread is not the one that ends the wait.
    check(
        "until another thread",
        2.0,
        (Scheduling, Blocking),
        |long| {
            let other = task("other", 13, 120);
            let stream = Stream::late(100.0)
                .sleeping_beside(make())
                .timer(2.0)
                .switch(5.0 + long, make(), RUNNABLE, other)
                .switch(80.0, other, RUNNABLE, victim());
            kind_at(stream, 5.0)
        },
    );
    // Without the events of interrupts, one may have run on top of the thread.
    let unknown = ShareKind::Unexplained;
    check("without softirqs", 10.0, (Scheduling, unknown), |long| {
        kind_at(blocked(long).missing("irq:softirq_entry"), 5.0)
    });
}

/// Another CPU has woken the victim, and its own CPU enqueues it this much later, or never.
#[test]
fn wake_up_takes_a_moment_to_arrive() {
    use ShareKind::{Blocking, Scheduling, Unexplained};
    let pending = |long: f64, arrives: bool| {
        let mut stream = Stream::late(long + 100.0)
            .sleeping_beside(make())
            .on(0, 33)
            .waking(2.0)
            .on(1, 12);
        if arrives {
            stream = stream.wakeup(2.0 + long, 1);
        }
        stream.switch(40.0 + long, make(), RUNNABLE, victim())
    };
    check("pending", 10.0, (Scheduling, Unexplained), |long| {
        kind_at(pending(long, true), 2.0)
    });
    let never = pending(10.0, false);
    assert_eq!(kind_at(never, 2.0), Blocking);
}

#[test]
fn idle_cpu_takes_no_longer_than_its_deepest_state() {
    use ShareKind::{IdleExit, Silence, TimerLate, Unexplained};
    let late = |long: f64| {
        Stream::late(long + 20.0)
            .sleeping_beside(idle())
            .timer(long)
            .switch(long + 10.0, idle(), RUNNABLE, victim())
    };
    check("unknown states", 1_010.0, (IdleExit, Silence), |long| {
        kind_at(late(long), 0.0)
    });
    check("known states", 15.0, (IdleExit, Silence), |long| {
        let known = late(long).change(|window| {
            window.evidence.idle_exit = Some(Nanos::from_micros(5));
        });
        kind_at(known, 0.0)
    });
    // An interrupt that is not recorded may have run.
    let unrecorded = |long: f64| late(long).missing("irq:irq_handler_entry");
    check("no interrupts", 2.0, (IdleExit, Unexplained), |long| {
        kind_at(unrecorded(long), 0.0)
    });
    // The timer came late, regardless of the thread that ran.
    check("armed timer", 2.0, (IdleExit, TimerLate), |long| {
        let armed = EventKind::HrtimerStart {
            hrtimer: 1,
            function: 0xa1,
            expires_ns: 5_000_000,
            softexpires_ns: 5_000_000,
        };
        let mut stream = unrecorded(long);
        let event = TraceEvent {
            time: at(-310.0),
            cpu: 1,
            pid: VICTIM,
            flags: 0,
            preempt_count: 0,
            kind: armed,
        };
        stream.window.events.insert(0, event);
        kind_at(stream, 0.0)
    });
}

/// The CPU was idle for 100 µs. The hypervisor stole some of it.
#[test]
fn stolen_half_of_an_idle_time_is_no_idle_exit() {
    let idle_for = |long: f64, stolen: f64| {
        let stream = Stream::late(long + 20.0)
            .sleeping_beside(idle())
            .timer(long)
            .switch(long + 10.0, idle(), RUNNABLE, victim())
            .change(|window| {
                window.evidence.virtual_machine = Some(true);
                window.evidence.stolen = vec![exactly(&[(0.0, long, stolen)])];
            });
        kind_at(stream, 0.0)
    };
    assert_eq!(idle_for(100.0, 50.0), ShareKind::Silence);
    assert_eq!(idle_for(100.0, 49.999), ShareKind::IdleExit);
    // A time as short as an idle exit is one.
    assert_eq!(idle_for(10.0, 10.0), ShareKind::IdleExit);
}

#[test]
fn ready_thread_beside_an_idle_cpu_is_first_scheduled_then_not_run() {
    use ShareKind::{IdleExit, NotRun, Scheduling};
    let waits = |long: f64| {
        Stream::late(long + 20.0)
            .sleeping_beside(idle())
            .timer(2.0)
            .switch(5.0 + long, idle(), RUNNABLE, victim())
    };
    check("switch", 10.0, (Scheduling, IdleExit), |long| {
        kind_at(waits(long), 5.0)
    });
    check("idle exit", 1_010.0, (IdleExit, NotRun), |long| {
        kind_at(waits(long), 5.0)
    });
}

#[test]
fn time_without_events_is_a_gap_above_a_limit() {
    use ShareKind::{OwnWork, PageFault, ReturnToUser, Silence, TimerLate, Unexplained};
    check("timer", 10.0, (TimerLate, Silence), |long| {
        let stream = Stream::late(long + 20.0)
            .sleeping_beside(make())
            .timer(long)
            .switch(long + 10.0, make(), RUNNABLE, victim());
        kind_at(stream, 0.0)
    });
    let runs = |long: f64| {
        Stream::late(8.0 + long)
            .sleeping_beside(make())
            .timer(2.0)
            .switch(8.0, make(), RUNNABLE, victim())
    };
    check("way to user space", 25.0, (ReturnToUser, Silence), |long| {
        kind_at(runs(long), 8.0)
    });
    check(
        "without faults",
        25.0,
        (ReturnToUser, Unexplained),
        |long| kind_at(runs(long).missing(FAULTS), 8.0),
    );
    let step = |long: f64| {
        Stream::late(long)
            .change(|window| window.delay = Delay::Step)
            .switch(-200.0, make(), RUNNABLE, victim())
    };
    check("step", 25.0, (OwnWork, Silence), |long| {
        kind_at(step(long), 0.0)
    });
    // A probe only reads the clock, so a fault in its step takes all the time.
    let faulted = |from: f64| kind_at(step(300.0).event(from, fault(0x1000)), 10.0);
    assert_eq!(faulted(0.0), PageFault);
    assert_eq!(faulted(-NANO), Silence);
    // An application continues after a fault.
    check(
        "fault of an application",
        25.0,
        (PageFault, Silence),
        |long| {
            let stream = Stream::late(10.0 + long)
                .change(|window| window.delay = Delay::Wakeup)
                .on(0, 33)
                .waking(0.0)
                .on(1, 0)
                .switch(5.0, idle(), RUNNABLE, victim())
                .event(10.0, fault(0x1000));
            kind_at(stream, 10.0)
        },
    );
}

/// A thread that blocks the victim had a page fault at -3 µs.
#[test]
fn page_fault_of_another_thread_ends_at_some_time() {
    let activity = |until: f64| {
        let stream = Stream::late(until + 10.0)
            .sleeping_beside(make())
            .event(-3.0, fault(0x1000))
            .timer(2.0)
            .switch(until, make(), RUNNABLE, victim());
        match cause_at(&stream.window, 5.0).detail {
            Some(Detail::Rank(rank)) => rank.activity,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(activity(22.0), Some(Activity::PageFault { user: true }));
    assert_eq!(activity(22.0 + NANO), Some(Activity::Faulted));
}

/// A thread in user space can go to sleep only by a call or a fault. Here, calls are not recorded.
#[test]
fn uninterruptible_sleep_soon_after_a_fault_is_for_its_page() {
    use ShareKind::{PageFault, Waiting};
    let slept = |long: f64, state: u32| {
        let stream = Stream::late(900.0)
            .missing("raw_syscalls:sys_enter")
            .sleeping_beside(idle())
            .timer(1.0)
            .switch(6.0, idle(), RUNNABLE, victim())
            .event(8.0, fault(0x1000))
            .switch(8.0 + long, victim(), state, idle())
            .timer(880.0)
            .switch(890.0, idle(), RUNNABLE, victim());
        kind_at(stream, 500.0)
    };
    check("fault", 25.0, (PageFault, Waiting), |long| slept(long, 2));
    assert_eq!(slept(5.0, SLEEPS), Waiting);
}

/// A thread at the end of a gap: the stack of the late timer is written this long after the gap.
#[test]
fn stack_of_the_late_timer_belongs_to_the_gap_just_before() {
    let ended_in = |after: f64, late: f64| {
        let late = EventKind::TimerLate {
            late: Nanos((late * 1_000.0).round() as u64),
            function: 0xa1,
            frames: vec![0xa1, 0xb1, 0xb2],
        };
        let stream = Stream::late(930.0)
            .sleeping_beside(make())
            .timer_entry(815.0)
            .event(815.0 + after, late)
            .waking(890.0)
            .wakeup(891.0, 1)
            .timer_exit(895.0)
            .switch(922.0, make(), RUNNABLE, victim())
            .change(|window| {
                let names = ["asm_sysvec_apic_timer_interrupt", "console_unlock"];
                let names = names.map(str::to_owned);
                window.symbols.extend([0xb1, 0xb2].into_iter().zip(names));
            });
        match cause_at(&stream.window, 400.0).detail {
            Some(Detail::Hypotheses { ended_in, .. }) => ended_in.is_some(),
            other => panic!("{other:?}"),
        }
    };
    assert!(ended_in(50.0, 800.0));
    assert!(!ended_in(50.0 + NANO, 800.0));
    // The timer was due in the gap, or just after it.
    assert!(ended_in(10.0, 10.0 + NANO));
    assert!(!ended_in(10.0, 10.0));
}

/// A sample without switches: from the interrupt on, it is unknown what ran.
#[test]
fn missing_switches_are_named_by_what_they_would_show() {
    let said = |interrupt: Option<Nanos>| {
        let stream = Stream::late(100.0)
            .missing("sched:sched_switch")
            .timer(20.0)
            .change(|window| window.evidence.timer_interrupt = interrupt);
        cause_at(&stream.window, 60.0).who()
    };
    let after = "what ran from the timer's interrupt to the thread";
    assert!(said(Some(at(20.0))).contains(after));
    let unknown = said(None);
    assert!(unknown.contains("what ran") && !unknown.contains(after));
}

/// A wait between two readings of the steal counter, which are this far apart.
#[test]
fn steal_time_counts_if_its_readings_are_near() {
    let knows = |apart_ms: i64| {
        let stream = Stream::late(2_000.0)
            .sleeping_beside(make())
            .timer(2.0)
            .switch(1_980.0, make(), RUNNABLE, victim())
            .change(|window| {
                window.evidence.virtual_machine = Some(true);
                window.evidence.stolen = vec![StealCount {
                    cpu: 1,
                    from: at_ms(-2_000),
                    to: at_ms(2_000),
                    step: Nanos(1),
                    rises: vec![StealRise {
                        from: at_ms(100 - apart_ms),
                        to: at_ms(100),
                        stolen: Nanos::from_millis(50),
                    }],
                }];
            });
        kind_at(stream, 1_000.0) == ShareKind::Undecided
    };
    assert!(knows(1_000));
    assert!(!knows(1_001));
}

/// The victim waits for a thread of CPU 0, where another one runs instead.
#[test]
fn lower_thread_delays_the_caller_for_a_moment_only() {
    use ShareKind::{Blocking, IdleExit, Scheduling};
    let caller = || task("post", 200, 5);
    let instead = |next: punctual_model::Task, long: f64| {
        let stream = Stream::late(500.0)
            .change(|window| window.delay = Delay::Call)
            .sleeping_beside(idle())
            .on(0, 0)
            .switch(-50.0, next, RUNNABLE, caller())
            .switch(2.0, caller(), RUNNABLE, next)
            .switch(2.0 + long, next, RUNNABLE, caller())
            .waking_of(400.0, victim(), 1)
            .on(1, 0)
            .wakeup(405.0, 1)
            .switch(420.0, idle(), RUNNABLE, victim());
        kind_at(stream, 2.0)
    };
    check("idle", 10.0, (Scheduling, IdleExit), |long| {
        instead(task("swapper/0", 0, 120), long)
    });
    check("thread", 2.0, (Scheduling, Blocking), |long| {
        instead(make(), long)
    });
}

/// Ordinary threads are allowed a slack of 50 µs. The victim's own timer may have another one.
#[test]
fn timer_may_be_late_by_its_slack() {
    let ordinary = task("victim", VICTIM, 120);
    let slack_of = |delay: Delay, own: Option<i64>, policy: KernelPriority, us: f64| {
        let mut stream = Stream::late(300.0).change(|window| {
            window.delay = delay;
            window.victim.scheduling = Some(policy.scheduling());
        });
        let thread = punctual_model::Task {
            prio: policy,
            ..ordinary
        };
        if let Some(slack) = own {
            let kind = EventKind::HrtimerStart {
                hrtimer: 1,
                function: 0xa1,
                expires_ns: 5_000_000 + slack,
                softexpires_ns: 5_000_000,
            };
            stream = stream.on(1, VICTIM).event(-310.0, kind);
        }
        let stream = stream
            .switch(-300.0, thread, SLEEPS, make())
            .timer_entry(200.0)
            .waking_of(201.0, thread, 1)
            .timer_exit(202.0)
            .switch(290.0, make(), RUNNABLE, thread);
        cause_at(&stream.window, us).source == Source::TimerSlack
    };
    let due = |own, policy, us| slack_of(Delay::Timer, own, policy, us);
    let (fair, real_time) = (KernelPriority(120), KernelPriority(4));
    // A wait for something else has no slack.
    for own in [None, Some(70_000)] {
        assert!(due(own, fair, 20.0) && !slack_of(Delay::Call, own, fair, 20.0));
    }
    assert!(due(None, fair, 49.999) && !due(None, fair, 50.0));
    assert!(!due(None, real_time, 0.0));
    assert!(due(Some(70_000), real_time, 69.999) && !due(Some(70_000), real_time, 70.0));
    // A timer that expires too early has no slack.
    assert!(!due(Some(-70_000), fair, 0.0));
}
