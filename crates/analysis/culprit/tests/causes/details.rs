//! Details of causes: nested handlers, and threads that others wait for.

use punctual_culprit::find;
use punctual_model::cause::{Activity, Cause, Detail, Missing, Rank, Role, Source, Unknown};
use punctual_model::{Delay, EventGap, EventKind, GapReason, ShareKind, Task};

use crate::stream::*;

/// Returns the cause at a time.
fn cause_at(stream: &Stream, us: f64) -> Cause {
    let found = find(&stream.window);
    let mut segments = found.segments.iter();
    let segment = segments.find(|one| (one.from..one.to).contains(&at(us)));
    segment.unwrap().cause.clone()
}

/// Returns the role, the name and the activity of the thread that a cause names.
fn thread_at(stream: &Stream, us: f64) -> (Role, String, Option<Activity>) {
    let cause = cause_at(stream, us);
    let rank = rank(&cause);
    match cause.source {
        Source::Thread { role, thread } => (role, thread.comm.to_string(), rank.activity),
        other => panic!("{other:?} at {us}"),
    }
}

fn rank(cause: &Cause) -> Rank {
    match &cause.detail {
        Some(Detail::Rank(rank)) => rank.clone(),
        other => panic!("{other:?}"),
    }
}

/// The victim is ready, and interrupts come on top of the thread that runs.
#[test]
fn innermost_handler_is_named_beside_the_outermost() {
    let irq = |irq: u32, name: &str| EventKind::IrqEntry {
        irq,
        name: name.into(),
    };
    let stream = Stream::late(300.0)
        .sleeping_beside(make())
        .timer(2.0)
        .event(100.0, irq(24, "eth0"))
        .event(120.0, irq(25, "nvme"))
        .event(150.0, EventKind::IrqExit { irq: 25, ret: 1 })
        .event(200.0, EventKind::IrqExit { irq: 24, ret: 1 })
        .switch(290.0, make(), RUNNABLE, victim());
    let eth0 = Source::Irq {
        irq: 24,
        name: "eth0".into(),
    };
    for (us, detail) in [
        (110.0, None),
        (130.0, Some(Detail::Nested("nvme".into()))),
        (160.0, None),
    ] {
        let cause = cause_at(&stream, us);
        assert_eq!((cause.source, cause.detail), (eth0.clone(), detail), "{us}");
    }
}

#[test]
fn timer_function_is_named() {
    let (hrtimer, function, now_ns) = (7, 0xa2, 0);
    let begins = EventKind::HrtimerExpireEntry {
        hrtimer,
        function,
        now_ns,
    };
    let stream = Stream::late(300.0)
        .sleeping_beside(make())
        .timer(2.0)
        .timer_entry(100.0)
        .event(110.0, begins)
        .event(190.0, EventKind::HrtimerExpireExit { hrtimer })
        .timer_exit(200.0)
        .switch(290.0, make(), RUNNABLE, victim());
    let detail = |us| cause_at(&stream, us).detail;
    let function = Detail::Function("tick_nohz_handler".into());
    assert_eq!(
        (detail(105.0), detail(150.0), detail(195.0)),
        (None, Some(function), None)
    );
}

/// The timer expires in a softirq. The interrupt of the timer has raised it.
fn raised(runs: Task) -> Stream {
    Stream::late(300.0)
        .sleeping_beside(runs)
        .timer_entry(1.0)
        .event(2.0, EventKind::SoftirqRaise { vec: 1 })
        .timer_exit(3.0)
        .event(200.0, EventKind::SoftirqEntry { vec: 1 })
        .flags(0x10)
        .waking(250.0)
        .wakeup(251.0, 1)
        .flags(0)
        .event(260.0, EventKind::SoftirqExit { vec: 1 })
        .switch(290.0, runs, RUNNABLE, victim())
}

#[test]
fn raised_softirq_waits_for_the_thread_that_runs() {
    let stream = raised(make());
    let delays = Some(Activity::DelaysSoftirq);
    assert_eq!(
        thread_at(&stream, 100.0),
        (Role::Blocking, "make".to_owned(), delays)
    );
    let softirq = cause_at(&stream, 220.0);
    assert_eq!(softirq.source, Source::Softirq(1));
    assert_eq!(softirq.detail, Some(Detail::On(Some(make()))));
    // Nothing delays it on an idle CPU but the kernel itself.
    assert_eq!(cause_at(&raised(idle()), 100.0).source, Source::Scheduling);
}

/// A softirq that does not wake the sleeping thread does not delay it.
#[test]
fn other_softirq_does_not_delay_a_sleeping_thread() {
    let stream = Stream::late(300.0)
        .sleeping_beside(make())
        .softirq(50.0, 100.0, 3)
        .timer(200.0)
        .softirq(210.0, 250.0, 3)
        .switch(290.0, make(), RUNNABLE, victim());
    assert_ne!(cause_at(&stream, 75.0).kind(), ShareKind::Softirq);
    // A thread that is ready has to wait for it.
    assert_eq!(cause_at(&stream, 230.0).kind(), ShareKind::Softirq);
}

fn caller() -> Task {
    task("caller", 70, 50)
}

/// The victim waits for a call of another thread, which sleeps on CPU 0 until 140 µs. `runs` has
/// that CPU until 170 µs.
fn called(runs: Task) -> Stream {
    let idle_0 = || task("swapper/0", 0, 120);
    let stream = Stream::late(300.0)
        .change(|window| window.delay = Delay::Call)
        .sleeping_beside(idle())
        .on(0, 70)
        .switch(-200.0, caller(), SLEEPS, idle_0());
    let stream = if runs.is_idle() {
        stream
    } else {
        stream.switch(130.0, idle_0(), RUNNABLE, runs)
    };
    stream
        .waking_of(140.0, caller(), 0)
        .switch(170.0, runs, RUNNABLE, caller())
        .event(
            180.0,
            EventKind::SysEnter {
                id: 1,
                args: [0; 2],
            },
        )
        .waking(200.0)
        .on(1, 0)
        .switch(290.0, idle(), RUNNABLE, victim())
}

#[test]
fn activity_of_the_caller_delays_its_call() {
    let stream = called(task("above", 80, 10));
    let told = |us| thread_at(&stream, us);
    let of_caller = |activity| (Role::Waker, "caller".to_owned(), activity);
    assert_eq!(told(50.0), of_caller(Some(Activity::Asleep)));
    assert_eq!(told(135.0), of_caller(Some(Activity::Asleep)));
    assert_eq!(told(175.0), of_caller(None));
    assert_eq!(
        told(190.0),
        of_caller(Some(Activity::Syscall("write".into())))
    );
    // A thread above the caller has its CPU.
    assert_eq!(
        told(150.0),
        (Role::HigherPriority, "above".to_owned(), None)
    );
    assert_eq!(rank(&cause_at(&stream, 150.0)).before, Some(caller()));
    assert_eq!(rank(&cause_at(&stream, 175.0)).before, None);
}

#[test]
fn idle_cpu_of_the_caller_takes_its_time_to_run_it() {
    let stream = called(task("swapper/0", 0, 120));
    assert_eq!(cause_at(&stream, 150.0).source, Source::IdleExit(0));
    assert_eq!(thread_at(&stream, 50.0).2, Some(Activity::Asleep));
}

/// Two events show a wake-up. The record of one of them suffices to rule out a wake-up.
#[test]
fn missing_wake_up_is_unknown_only_without_its_events() {
    const WAKING: &str = "sched:sched_waking";
    const WAKEUP: &str = "sched:sched_wakeup";
    let source = |missing: &[&str]| {
        let stream = missing
            .iter()
            .fold(Stream::late(300.0), |stream, name| stream.missing(name));
        let stream = stream
            .sleeping_beside(make())
            .switch(290.0, make(), RUNNABLE, victim());
        cause_at(&stream, 100.0).source
    };
    for missing in [&[][..], &[WAKING], &[WAKEUP]] {
        assert_eq!(
            source(missing),
            Source::Unexplained(Unknown::NoWaker),
            "{missing:?}"
        );
    }
    let unknown = Cause::not_recorded(Missing::WakeUp, &[WAKING]).source;
    assert_eq!(source(&[WAKING, WAKEUP]), unknown);
}

/// Whatever ran instead: once its timer was due, the sleeping thread was late because of its timer.
#[test]
fn contradiction_while_the_timer_is_due_is_a_late_timer() {
    let source = |reason: GapReason, armed: bool, us: f64| {
        let arms = EventKind::HrtimerStart {
            hrtimer: 1,
            function: 0xa1,
            expires_ns: 5_000_000 + 70_000,
            softexpires_ns: 5_000_000,
        };
        let mut stream = Stream::late(300.0).change(|window| {
            window.evidence.gaps = vec![EventGap {
                cpu: 1,
                from: at(10.0),
                to: at(150.0),
                reason,
            }];
        });
        if armed {
            stream = stream.on(1, VICTIM).event(-310.0, arms);
        }
        let stream =
            stream
                .sleeping_beside(make())
                .timer(200.0)
                .switch(290.0, make(), RUNNABLE, victim());
        cause_at(&stream, us).source
    };
    let (contradiction, lost) = (GapReason::Contradiction, GapReason::Lost);
    let gap = |reason| Source::Unexplained(Unknown::Gap { reason, cpu: 1 });
    // The timer may be late by 70 µs.
    assert_eq!(source(contradiction, true, 69.0), gap(contradiction));
    assert_eq!(source(contradiction, true, 70.0), Source::TimerLate);
    assert_eq!(source(contradiction, true, 149.0), Source::TimerLate);
    // The thread may sleep for another reason, and lost events may show one.
    assert_eq!(source(contradiction, false, 100.0), gap(contradiction));
    assert_eq!(source(lost, true, 100.0), gap(lost));
}
