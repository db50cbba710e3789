//! Acts that need more than their kind: timers, callers, policies, names of files.

use punctual_model::{
    ActKind, Frame, LintFacts, Nanos, PlacedAct, Policy, TIMER_SIGNAL, WaitedFile, WaitedTimer,
};

use super::{act, facts, judged, rule, sleep, violated, violated_by};

fn in_function(mut placed: PlacedAct, symbol: &str) -> PlacedAct {
    placed.frames.push(Frame {
        address: 1,
        object: None,
        offset: None,
        symbol: Some(symbol.to_owned()),
        build_id: None,
    });
    placed
}

fn with_timer(mut placed: PlacedAct, number: u64, clock: u32) -> PlacedAct {
    placed.timers.push(WaitedTimer { number, clock });
    placed
}

/// Returns the facts of a program whose only wait is this one.
fn released_by(placed: PlacedAct) -> LintFacts {
    LintFacts {
        acts: vec![placed],
        ..facts()
    }
}

/// Returns the text of the first violation.
fn said(facts: &LintFacts, id: &str) -> String {
    rule(&judged(facts), id).violations[0].what.clone()
}

#[test]
fn timers_of_polled_files_are_judged() {
    for (call, arguments) in [
        ("epoll_wait", [4, 0]),
        ("epoll_pwait2", [4, 0]),
        ("poll", [1 << 5, 0]),
        ("pselect6", [1 << 5, 4]),
    ] {
        let steady = released_by(with_timer(sleep(call, arguments, 1_000), 5, 1));
        assert!(violated(&steady).is_empty(), "{call}");
        let settable = released_by(with_timer(sleep(call, arguments, 1_000), 5, 0));
        assert_eq!(violated(&settable), ["sleep-clock"], "{call}");
        assert_eq!(
            said(&settable, "sleep-clock"),
            format!("{call}(5: timer of CLOCK_REALTIME)")
        );
    }
    // A wait that is not the release, and one for no descriptor.
    assert_eq!(
        violated_by(sleep("poll", [1 << 5, 0], 9)),
        ["blocking-call"]
    );
    assert_eq!(violated_by(sleep("poll", [0, 6], 9)), ["sleep-relative"]);
    assert_eq!(violated_by(sleep("ppoll", [0, 2], 9)), ["blocking-call"]);
    let mut partial = facts();
    partial.acts.push(sleep("select", [0b101, 1], 9));
    assert_eq!(said(&partial, "blocking-call"), "select(0, 2, ...)");
}

#[test]
fn timeouts_on_settable_clock_are_found() {
    let both = ["sleep-clock", "futex-no-inheritance"];
    assert_eq!(violated_by(sleep("futex", [1, 0x189], 9)), both);
    // Without a timeout, the flag means nothing.
    assert_eq!(violated_by(sleep("futex", [0, 0x189], 9)), [both[1]]);
    assert_eq!(violated_by(sleep("futex", [1, 0x89], 9)), [both[1]]);
}

#[test]
fn callers_tell_conditions_and_sleeps() {
    let wait = |symbol| in_function(sleep("futex", [0, 0x189], 9), symbol);
    for symbol in [
        "pthread_cond_wait+0x21b",
        "pthread_cond_timedwait@@GLIBC_2.3.2",
    ] {
        assert_eq!(violated_by(wait(symbol)), ["condition-variable"]);
    }
    assert_eq!(
        violated_by(wait("pthread_mutex_lock+0x10")),
        ["futex-no-inheritance"]
    );
    // A wait with inheritance is correct from any caller.
    let inheriting = in_function(sleep("futex", [0, 11], 9), "pthread_cond_wait");
    assert!(violated_by(inheriting).is_empty());

    let python = in_function(sleep("clock_nanosleep", [1, 1], 9), "pysleep.isra.0+0x8");
    assert_eq!(violated_by(python), ["sleep-relative"]);
    let other = in_function(sleep("clock_nanosleep", [1, 1], 9), "my_pysleep");
    assert!(violated_by(other).is_empty());
}

#[test]
fn no_deadline_thread_is_to_be_pinned() {
    let mut facts = facts();
    facts.acts.push(act(ActKind::Migrate, "", [0, 0], 7));
    assert_eq!(violated(&facts), ["migration"]);
    facts.threads[0].policy = Policy::Deadline;
    assert_eq!(violated(&facts), ["deadline-migration"]);
    let report = judged(&facts);
    let advice = &rule(&report, "deadline-migration").remedy;
    assert!(advice.contains("Do not call sched_setaffinity"), "{advice}");
}

#[test]
fn timer_signals_are_told_from_others() {
    let signal = |other| {
        let mut placed = act(ActKind::Signal, "", [0, 0], 9);
        placed.act.other = other;
        placed
    };
    assert_eq!(violated_by(signal(10)), ["signal"]);
    assert_eq!(violated_by(signal(14 | TIMER_SIGNAL)), ["signal-timer"]);
    let mut settable = facts();
    let placed = with_timer(signal(34 | TIMER_SIGNAL), 34, 0);
    settable.acts.push(placed);
    assert_eq!(violated(&settable), ["sleep-clock", "signal-timer"]);
    assert_eq!(
        said(&settable, "signal-timer"),
        "signal 34 of a timer of CLOCK_REALTIME"
    );
    // The call of a signal is the call that it interrupted, and proves nothing about the signal.
    let mut interrupts = act(ActKind::Signal, "futex", [0, 0], 9);
    interrupts.act.other = 34 | TIMER_SIGNAL;
    let placed = with_timer(interrupts, 34, 0);
    assert_eq!(violated_by(placed), ["sleep-clock", "signal-timer"]);
    let mut interrupts = act(ActKind::Signal, "clock_nanosleep", [0, 1], 9);
    interrupts.act.other = 10;
    assert_eq!(violated_by(interrupts), ["signal"]);
    let wait = sleep("rt_sigtimedwait", [1 << 33, 0], 9);
    assert_eq!(violated_by(wait.clone()), ["blocking-call"]);
    assert_eq!(violated_by(with_timer(wait, 34, 1)), ["signal-timer"]);
}

#[test]
fn output_and_log_are_told_from_files() {
    let call = |call: &str, descriptor, mode, name: &str| {
        let mut placed = act(ActKind::File, call, [descriptor, 0], 9);
        placed.act.other = mode;
        placed.act.name = name.to_owned();
        placed
    };
    const PIPE: u32 = 0o010_000;
    const DEVICE: u32 = 0o020_000;
    const REGULAR: u32 = 0o100_000;
    const SOCKET: u32 = 0o140_000;
    for (placed, rules) in [
        (call("write", 1, PIPE, ""), &["standard-output"][..]),
        (call("writev", 2, DEVICE, ""), &["standard-output"]),
        (call("write", 1, REGULAR, ""), &["file-io"]),
        (call("read", 1, PIPE, ""), &["pipe-socket-device"]),
        (call("write", 3, PIPE, ""), &["pipe-socket-device"]),
        (call("sendto", 3, SOCKET, "/dev/log"), &["system-log"]),
        (call("connect", 3, SOCKET, "/dev/log"), &["system-log"]),
        (
            call("write", 1, SOCKET, "/run/systemd/journal/stdout"),
            &["system-log"],
        ),
        (
            call("sendto", 3, SOCKET, "/run/bus"),
            &["pipe-socket-device"],
        ),
        // A regular file can have the name of the log.
        (call("write", 3, REGULAR, "/dev/log"), &["file-io"]),
        (
            call("openat", 0, DEVICE, "/dev/ttyS0"),
            &["pipe-socket-device"],
        ),
        (call("openat", 0, DEVICE, "/dev/null"), &[]),
        (call("openat", 0, 0, "/etc/none"), &["file-io"]),
    ] {
        let what = format!("{} {:?}", placed.act.name, placed.call);
        assert_eq!(violated_by(placed), rules, "{what}");
    }
    let mut null = call("write", 1, DEVICE, "");
    null.file = Some(WaitedFile {
        target: "/dev/null".to_owned(),
        clock: None,
        kind: None,
    });
    assert!(violated_by(null).is_empty());
    let mut facts = facts();
    facts.acts.push(call("openat", 0, REGULAR, "/tmp/log"));
    assert_eq!(said(&facts, "file-io"), "openat(regular file /tmp/log)");
}

/// The report can show a rate, because a count comes with its time.
#[test]
fn counts_have_their_time() {
    let mut facts = facts();
    let mut waited = act(ActKind::Queue, "", [0, 0], 3);
    waited.act.max = Some(Nanos::from_millis(2));
    waited.act.other_comm = "vision".to_owned();
    facts.acts.push(waited);
    let report = judged(&facts);
    let queued = rule(&report, "cpu-of-other");
    assert_eq!(
        (queued.count, queued.max_ns, queued.counted_ns),
        (3, Some(Nanos::from_millis(2)), Some(facts.duration))
    );
    let what = &queued.violations[0].what;
    assert_eq!(what, "waited for the CPU of vision (0, nice 0)");
    let io = rule(&report, "file-io");
    assert_eq!(io.counted_ns, Some(facts.calls_traced));
    assert_eq!(rule(&report, "priority-99").counted_ns, None);
}
