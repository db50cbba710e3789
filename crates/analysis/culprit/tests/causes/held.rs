//! A runnable thread that the scheduler does not run: the CPU is idle, or equal threads run and the
//! trace cannot show a CPU quota.

use punctual_model::{Delay, ShareKind};

use crate::stream::*;

const REFILL: &str = "timer:hrtimer_expire_entry";

fn ordinary() -> punctual_model::Task {
    task("victim", VICTIM, 120)
}

fn outsider() -> punctual_model::Task {
    task("outsider", 61, 120)
}

/// An ordinary thread that another CPU wakes.
fn woken(late: f64) -> Stream {
    Stream::late(late)
        .change(|window| {
            window.delay = Delay::Wakeup;
            window.victim.scheduling = ORDINARY;
        })
        .missing("sched:sched_wakeup")
        .switch(-300.0, ordinary(), SLEEPS, idle())
        .on(0, 33)
        .waking_of(0.0, ordinary(), 1)
        .on(1, 0)
}

/// A real-time thread runs every millisecond, and then the CPU is idle again.
fn passed_over(stream: Stream) -> Stream {
    let audio = task("audio", 900, 11);
    let turn = |stream: Stream, number| {
        let at = 500.0 + f64::from(number) * 1_000.0;
        stream
            .switch(at, idle(), RUNNABLE, audio)
            .switch(at + 100.0, audio, SLEEPS, idle())
    };
    (0..9)
        .fold(stream, turn)
        .switch(9_990.0, idle(), RUNNABLE, ordinary())
}

#[test]
fn idle_cpu_is_no_gap() {
    let summary = passed_over(woken(9_990.0).missing(REFILL)).summary();
    assert!(
        summary.contains("runnable while CPU 1 was idle, 9 times"),
        "{summary}"
    );
    assert!(summary.contains("higher priority  audio-900"), "{summary}");
    assert!(summary.contains("an error of the scheduler"), "{summary}");
    for innocent in ["gap", "hypervisor", "SMI", "NMI", "throttled"] {
        assert!(!summary.contains(innocent), "{summary}");
    }
}

/// The kernel lost the switch from the idle thread to another thread. The CPU only seems idle, so
/// the scheduler is not accused.
#[test]
fn lost_switch_of_idle_thread_is_no_idle_time() {
    let hog = task("hog", 900, 39);
    let stream = woken(4_000.0)
        .missing(REFILL)
        .switch(3_980.0, hog, SLEEPS, ordinary());
    let summary = stream.summary();
    assert!(!summary.contains("runnable while"), "{summary}");
    assert!(!summary.contains("an error of the scheduler"), "{summary}");
}

/// The event that would decide is recorded, and no quota was refilled.
#[test]
fn recorded_timers_rule_out_a_quota() {
    let open = passed_over(woken(9_990.0).missing(REFILL)).summary();
    assert_eq!(open.matches(REFILL).count(), 2, "{open}");
    let known = woken(9_990.0).change(|window| window.evidence.quotas_known = true);
    let known = passed_over(known).summary();
    assert!(known.contains("no known limit explains this"), "{known}");
    assert!(!known.contains("quota"), "{known}");
}

#[test]
fn enabled_sched_ext_scheduler_is_named() {
    let stream = woken(9_990.0).change(|window| window.evidence.sched_ext = Some("lavd".into()));
    let summary = passed_over(stream).summary();
    assert!(summary.contains("sched_ext scheduler: lavd"), "{summary}");
}

/// The first switch to idle may come before the wake-up arrives.
#[test]
fn one_idle_period_is_no_refusal() {
    let stream = woken(200.0).switch(150.0, idle(), RUNNABLE, make()).switch(
        160.0,
        make(),
        SLEEPS,
        ordinary(),
    );
    let summary = stream.summary();
    assert!(!summary.contains("not run"), "{summary}");
}

/// The thread leaves its CPU while it is runnable, and the CPU is idle for most of the wait.
fn used_up() -> Stream {
    Stream::late(90_000.0)
        .change(|window| {
            window.delay = Delay::Taken;
            window.victim.scheduling = ORDINARY;
        })
        .on(1, VICTIM)
        .switch(0.0, ordinary(), RUNNABLE, idle())
        .switch(50_000.0, idle(), RUNNABLE, outsider())
        .switch(70_000.0, outsider(), SLEEPS, idle())
        .switch(90_000.0, idle(), RUNNABLE, ordinary())
}

#[test]
fn quota_is_not_blamed_on_bystanders() {
    let summary = used_up().missing(REFILL).summary();
    assert!(summary.contains("not run"), "{summary}");
    assert!(
        summary.contains("threads of equal rank, or a CPU quota"),
        "{summary}"
    );
    assert!(!summary.contains("equal rank  outsider"), "{summary}");
    assert!(!summary.contains("throttled"), "{summary}");
}

#[test]
fn refill_proves_the_quota() {
    let stream = used_up().change(|window| {
        window.evidence.quotas_known = true;
        window.evidence.quota_refilled = Some(at(89_990.0));
    });
    let summary = stream.summary();
    assert!(
        summary.contains("CPU quota of a control group"),
        "{summary}"
    );
    assert!(summary.contains("throttled for"), "{summary}");
}

/// Returns the kind of the main cause if one equal thread runs during the whole wait.
fn equal(late: f64, known: bool) -> ShareKind {
    let stream = Stream::late(late)
        .change(|window| {
            window.delay = Delay::Taken;
            window.evidence.quotas_known = known;
            window.victim.scheduling = ORDINARY;
        })
        .missing(REFILL)
        .on(1, VICTIM)
        .switch(0.0, ordinary(), RUNNABLE, outsider())
        .switch(late, outsider(), RUNNABLE, ordinary());
    let blame = punctual_culprit::find(&stream.window).blame;
    blame.largest().unwrap().kind()
}

#[test]
fn equal_thread_is_charged_for_its_turn_only() {
    assert_eq!(equal(20_000.0, false), ShareKind::Competing);
    assert_eq!(equal(80_000.0, false), ShareKind::Unexplained);
    assert_eq!(equal(80_000.0, true), ShareKind::Competing);
}

/// Returns the kind of the main cause if two equal threads run in turn, `turns` times each.
fn in_turn(turns: u32, turn: f64) -> ShareKind {
    let other = task("other", 62, 120);
    let mut stream = Stream::late(turn * 2.0 * f64::from(turns))
        .change(|window| {
            window.delay = Delay::Taken;
            window.victim.scheduling = ORDINARY;
        })
        .missing(REFILL)
        .on(1, VICTIM)
        .switch(0.0, ordinary(), RUNNABLE, outsider());
    for round in 0..turns {
        let begin = turn * 2.0 * f64::from(round);
        let next = if round + 1 < turns {
            outsider()
        } else {
            ordinary()
        };
        stream = stream
            .switch(begin + turn, outsider(), RUNNABLE, other)
            .switch(begin + 2.0 * turn, other, RUNNABLE, next);
    }
    let blame = punctual_culprit::find(&stream.window).blame;
    blame.largest().unwrap().kind()
}

/// A fair scheduler would have run the thread in between.
#[test]
fn repeated_turns_of_equal_threads_look_like_a_quota() {
    assert_eq!(in_turn(2, 4_000.0), ShareKind::Competing);
    assert_eq!(in_turn(3, 4_000.0), ShareKind::Unexplained);
    assert_eq!(in_turn(3, 400.0), ShareKind::Competing);
}

/// A turn takes up to 30 ms, and a further thread adds up to 4 ms to the turns of all.
#[test]
fn turns_of_equal_threads_have_a_limit() {
    assert_eq!(equal(30_000.0, false), ShareKind::Competing);
    assert_eq!(equal(30_000.001, false), ShareKind::Unexplained);
    assert_eq!(in_turn(1, 17_000.0), ShareKind::Competing);
    assert_eq!(in_turn(1, 17_000.001), ShareKind::Unexplained);
    // Shorter runs are not turns: the thread may have slept in between.
    assert_eq!(in_turn(3, 1_000.0), ShareKind::Unexplained);
    assert_eq!(in_turn(3, 999.999), ShareKind::Competing);
}

/// The events that would show quotas are recorded, or counters are.
#[test]
fn long_turn_is_no_quota_if_quotas_would_be_seen() {
    let stream = |missing: bool| {
        let stream = Stream::late(80_000.0)
            .change(|window| {
                window.delay = Delay::Taken;
                window.victim.scheduling = ORDINARY;
            })
            .on(1, VICTIM)
            .switch(0.0, ordinary(), RUNNABLE, outsider())
            .switch(80_000.0, outsider(), RUNNABLE, ordinary());
        let stream = if missing {
            stream.missing(REFILL)
        } else {
            stream
        };
        punctual_culprit::find(&stream.window).blame
    };
    let kind = |missing| stream(missing).largest().unwrap().kind();
    assert_eq!(kind(true), ShareKind::Unexplained);
    assert_eq!(kind(false), ShareKind::Competing);
    // The thread that ran is still named.
    let detail = stream(true).largest().unwrap().detail().unwrap();
    assert!(
        detail.contains("outsider-61 (nice 0) ran meanwhile"),
        "{detail}"
    );
}

/// The thread ran between two turns of an equal one, so they are two waits.
#[test]
fn turns_in_different_waits_do_not_add_up() {
    let largest = |between: f64| {
        let stream = Stream::late(60_000.0)
            .change(|window| {
                window.delay = Delay::Job;
                window.victim.scheduling = ORDINARY;
            })
            .missing(REFILL)
            .on(1, VICTIM)
            .switch(-10.0, idle(), RUNNABLE, ordinary())
            .switch(1_000.0, ordinary(), RUNNABLE, outsider())
            .switch(21_000.0, outsider(), RUNNABLE, ordinary())
            .switch(21_000.0 + between, ordinary(), RUNNABLE, outsider())
            .switch(41_000.0 + between, outsider(), RUNNABLE, ordinary());
        let blame = punctual_culprit::find(&stream.window).blame;
        blame.largest().unwrap().kind()
    };
    assert_eq!(largest(1_000.0), ShareKind::Competing);
    // One turn of 40 ms is too long.
    assert_eq!(largest(0.0), ShareKind::Unexplained);
}
