//! Threads of higher or equal rank, and threads that the scheduler passes over.

use insta::assert_snapshot;
use punctual_model::{KernelPriority, RealTimeLimit};

use crate::stream::*;

#[test]
fn of_higher_priority() {
    let hog = task("hog", 61, 0);
    let stream = Stream::late(2_100.0)
        .sleeping_beside(make())
        .switch(-30.0, make(), RUNNABLE, hog)
        .timer(2.0)
        .switch(2_090.0, hog, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn of_higher_priority_that_came_twice() {
    let hog = task("hog", 61, 1);
    let stream = Stream::late(400.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, hog)
        .switch(150.0, hog, SLEEPS, victim())
        .switch(152.0, victim(), RUNNABLE, hog)
        .switch(390.0, hog, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn of_the_same_priority() {
    let twin = task("twin", 61, 4);
    let stream =
        Stream::late(400.0)
            .sleeping_beside(twin)
            .timer(2.0)
            .switch(390.0, twin, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn ordinary_threads_share() {
    let ordinary = task("victim", VICTIM, 120);
    let stream = Stream::late(3_100.0)
        .change(|window| {
            window.victim.scheduling = ORDINARY;
        })
        .switch(-300.0, ordinary, SLEEPS, make())
        .timer_entry(52.0)
        .waking_of(53.5, ordinary, 1)
        .timer_exit(55.0)
        .switch(3_090.0, make(), RUNNABLE, ordinary);
    assert_snapshot!(stream.summary());
}

#[test]
fn its_own_timer_has_slack() {
    let stream = Stream::late(70.0)
        .on(1, VICTIM)
        .event(
            -310.0,
            punctual_model::EventKind::HrtimerStart {
                hrtimer: 0x1,
                function: 0xa1,
                expires_ns: 5_060_000,
                softexpires_ns: 5_000_000,
            },
        )
        .sleeping_beside(make())
        .timer(61.0)
        .switch(66.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn its_budget_is_used_up() {
    let stream = Stream::late(50_000.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim())
        .switch(9.0, victim(), RUNNABLE, make())
        .switch(20_000.0, make(), SLEEPS, idle())
        .switch(49_990.0, idle(), RUNNABLE, victim())
        .change(|window| window.evidence.real_time_limit = Some(RealTimeLimit::Throttling));
    assert_snapshot!(stream.summary());
}

/// The victim is woken while it is throttled, so no event shows that it is in the run queue.
#[test]
fn thread_is_woken_while_throttled() {
    let stream = Stream::late(50_000.0)
        .sleeping_beside(make())
        .timer_entry(2.0)
        .waking(3.0)
        .timer_exit(5.0)
        .switch(8_000.0, make(), SLEEPS, idle())
        .switch(49_990.0, idle(), RUNNABLE, victim())
        .change(|window| window.evidence.real_time_limit = Some(RealTimeLimit::Throttling));
    assert_snapshot!(stream.summary());
}

/// An ordinary thread was chosen before the victim, which is in the run queue.
fn passed_over(limit: Option<RealTimeLimit>, next: punctual_model::Task) -> String {
    Stream::late(50_000.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim())
        .switch(9.0, victim(), RUNNABLE, next)
        .switch(49_990.0, next, RUNNABLE, victim())
        .change(|window| window.evidence.real_time_limit = limit)
        .summary()
}

/// Since Linux 6.12, a deadline server runs ordinary threads and does not throttle.
#[test]
fn throttling_cause_depends_on_kernel_version() {
    use RealTimeLimit::{FairServer, FairServerOrThrottling, None as Nothing, Throttling};
    let (server, throttling) = (
        "the deadline server let ordinary threads run",
        "real-time throttling",
    );
    let open = "possible: real-time throttling, the deadline server";
    for (limit, next, expected) in [
        (Some(Throttling), make(), throttling),
        (Some(Throttling), idle(), throttling),
        (Some(FairServer), make(), server),
        (Some(FairServer), idle(), "no known limit explains this"),
        (Some(FairServerOrThrottling), make(), open),
        (Some(FairServerOrThrottling), idle(), throttling),
        (Some(Nothing), make(), open),
        (None, make(), open),
    ] {
        let said = passed_over(limit, next);
        assert!(said.contains(expected), "{limit:?}: {said}");
        let claims = said.contains("throttled for") && said.contains(throttling);
        assert_eq!(claims, expected == throttling, "{limit:?}: {said}");
    }
}

/// The wake-up of the victim is still pending. Until the victim's CPU emits `sched_wakeup`, the
/// victim is not in the run queue, so other threads to which that CPU switches were not chosen over
/// it.
#[test]
fn pending_wake_up_is_no_throttle() {
    let stream = Stream::late(3_000.0)
        .sleeping_beside(make())
        .on(0, 33)
        .waking(2.0)
        .on(1, 12)
        .switch(900.0, make(), SLEEPS, task("find", 13, 120))
        .wakeup(2_980.0, 1)
        .switch(2_990.0, task("find", 13, 120), RUNNABLE, victim())
        .change(|window| window.evidence.real_time_limit = Some(RealTimeLimit::Throttling));
    assert_snapshot!(stream.summary());
}

#[test]
fn it_slept_until_a_thread_woke_it() {
    let worker = task("worker", 33, 120);
    let stream = Stream::late(700.0)
        .sleeping_beside(idle())
        .on(0, 33)
        .switch(-100.0, idle(), RUNNABLE, worker)
        .waking(680.0)
        .on(1, 0)
        .wakeup(684.0, 1)
        .switch(690.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// A probe's loop does no work, so a longer time cannot be work of the probe.
#[test]
fn due_thread_ran_without_events() {
    let stream = Stream::late(5_100.0).switch(-900.0, make(), SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

/// The probe's wait for the timer is not work either.
#[test]
fn waiting_thread_ran_without_events() {
    let stream = Stream::late(5_100.0)
        .switch(-900.0, make(), SLEEPS, victim())
        .event(
            -3.0,
            punctual_model::EventKind::SysEnter {
                id: 230,
                args: [0; 2],
            },
        );
    assert_snapshot!(stream.summary());
}

#[test]
fn its_loop_took_a_moment() {
    let stream = Stream::late(20.0).switch(-900.0, make(), SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

/// Interrupts cannot be disabled in user space.
#[test]
fn thread_ran_in_user_space_without_events() {
    let stream = Stream::late(5_100.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim())
        .event(12.0, punctual_model::EventKind::SysExit { id: 230, ret: 0 });
    assert_snapshot!(stream.summary());
}

#[test]
fn priorities_read_as_they_are_set() {
    assert_eq!(KernelPriority(-1).to_string(), "deadline");
    assert_eq!(KernelPriority::real_time(80).to_string(), "real-time 80");
    assert_eq!(KernelPriority(125).to_string(), "nice 5");
}
