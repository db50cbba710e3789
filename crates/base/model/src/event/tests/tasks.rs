//! Tests of threads in events.

use super::*;
use crate::{Policy, Scheduling};

#[test]
fn kernel_priority_is_a_policy_and_a_priority() {
    for (kernel, policy, priority) in [
        (-1, Policy::Deadline, 0),
        (0, Policy::Fifo, 99),
        (19, Policy::Fifo, 80),
        (98, Policy::Fifo, 1),
        (100, Policy::Other, 0),
        (139, Policy::Other, 0),
        (i16::MAX, Policy::Other, 0),
    ] {
        let expected = Scheduling { policy, priority };
        assert_eq!(KernelPriority(kernel).scheduling(), expected, "{kernel}");
    }
    for priority in 1..=99 {
        let scheduling = KernelPriority::real_time(priority).scheduling();
        assert_eq!(
            (scheduling.policy, scheduling.priority),
            (Policy::Fifo, priority)
        );
    }
}

#[test]
fn kernel_priority_is_shown_as_on_the_command_line() {
    for (kernel, text) in [
        (-1, "deadline"),
        (0, "real-time 99"),
        (98, "real-time 1"),
        (100, "nice -20"),
        (125, "nice 5"),
        (139, "nice 19"),
        (i16::MAX, "unknown priority"),
    ] {
        assert_eq!(KernelPriority(kernel).to_string(), text);
    }
}

#[test]
fn thread_is_named_by_what_is_known_of_it() {
    for (shown, text, label) in [
        (task(4711, "make", 120), "make-4711", "make-4711"),
        (task(4711, "", 120), "thread 4711", "thread 4711"),
        (task(Task::UNKNOWN_PID, "make", 120), "make", "make"),
        (task(0, "swapper/1", 120), "swapper/1-0", "idle"),
    ] {
        assert_eq!(
            (shown.to_string().as_str(), shown.label().as_str()),
            (text, label)
        );
        assert_eq!(shown.is_idle(), shown.pid == 0);
    }
}

#[test]
fn comm_keeps_15_bytes_and_shows_only_text() {
    let comm = |name: &[u8]| Comm::new(name);
    assert_eq!(comm(b"0123456789abcdefgh").bytes(), b"0123456789abcde");
    assert_eq!(comm(b"ab\0cd").bytes(), b"ab");
    assert_eq!(comm(b"a\x1b[\xffb").to_string(), "a?[?b");
    assert_eq!(format!("{:?}", comm(b"make")), "\"make\"");
    assert_eq!(Comm([b'x'; 16]).bytes(), [b'x'; 16]);
    assert!(comm(b"").is_empty() && !comm(b"a").is_empty());
    let read: Comm = serde_json::from_str("\"make\"").unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), "\"make\"");
}

/// The bits of include/linux/sched.h, and what each says about a thread that left the CPU.
#[test]
fn state_of_a_thread_says_why_it_left_the_cpu() {
    let names = names(&[]);
    for (bits, [runnable, stopped, uninterruptible, traced, exit], says) in [
        (0x0, [true, false, false, false, false], "preempted"),
        (0x100, [true, false, false, false, false], "preempted"),
        (0x1, [false, false, false, false, false], "sleeps"),
        (0x2, [false, false, true, false, false], "sleeps"),
        (0x4, [false, true, false, false, false], "is stopped"),
        (0x8, [false, false, false, true, false], "is stopped"),
        (0x10, [false, false, false, false, true], "ends"),
        (0x20, [false, false, false, false, true], "ends"),
        (0x80, [false, false, false, false, false], "sleeps"),
        (0x82, [false, false, true, false, false], "sleeps"),
    ] {
        let state = TaskState(bits);
        let found = [
            state.is_runnable(),
            state.is_stopped(),
            state.is_uninterruptible(),
            state.is_traced(),
            state.is_exit(),
        ];
        let expected = [runnable, stopped, uninterruptible, traced, exit];
        assert_eq!(found, expected, "{bits:#x}");
        let kind = EventKind::Switch {
            prev: task(7, "loop", 19),
            prev_state: state,
            next: task(0, "swapper/0", 120),
        };
        let text = kind.describe(&names);
        assert_eq!(
            text,
            format!("loop-7 {says}, idle runs (nice 0)"),
            "{bits:#x}"
        );
    }
}
