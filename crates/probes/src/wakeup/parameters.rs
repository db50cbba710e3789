//! What can be asked of the wakeup probe.

use punctual_model::{Nanos, Parameter, ParameterKind};

use super::places::PAIRS_MAX;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "via",
        short: None,
        kind: ParameterKind::Choice(&[
            ("futex", "futex(2), what the locks of the C library wait in"),
            (
                "mutex",
                "a pthread mutex, unlocked by the one, locked by the other",
            ),
            ("mutex-pi", "the same with priority inheritance"),
            ("condvar", "a condition variable with its mutex"),
            ("barrier", "a pthread barrier of two"),
            ("sem", "a POSIX semaphore"),
            ("sem-sysv", "a System V semaphore"),
            ("pipe", "a byte through a pipe"),
            ("eventfd", "an eventfd counter"),
            ("mq", "a POSIX message queue"),
            ("socket", "a byte through a pair of Unix stream sockets"),
            ("signal", "a signal to the thread, taken with sigwaitinfo"),
        ]),
        default: Some("futex"),
        help: "What the one thread wakes the other with",
    },
    Parameter {
        name: "interval",
        short: Some('i'),
        kind: ParameterKind::Duration {
            // Two wake-ups and two switches have to fit in with room to spare.
            min: Nanos::from_micros(50),
            max: Nanos::from_secs(10),
        },
        default: Some("1ms"),
        help: "Time from one exchange to the next, of whichever pair",
    },
    Parameter {
        name: "pairs",
        short: None,
        kind: ParameterKind::Choice(&[
            ("all", "from each CPU to each, itself included"),
            ("same", "from each CPU to itself"),
            (
                "neighbours",
                "from each CPU to the next, from the last to the first",
            ),
        ]),
        default: Some("all"),
        help: "Between which of the CPUs",
    },
    Parameter {
        name: "warm",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Let an exchange that is not measured go before each, as rt-tests do; on one CPU each, with a real-time priority above 1",
    },
    Parameter {
        name: "timeout",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::from_millis(1),
            max: Nanos::from_secs(24 * 3_600),
        },
        default: None,
        help: "With --via mq and --threads: wait with mq_timedreceive, and end the run where a message is later than its time by this",
    },
    Parameter {
        name: "force-timeout",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::from_millis(1),
            max: Nanos::from_secs(24 * 3_600),
        },
        default: None,
        help: "With --timeout: send each message so much later than --interval says; the thread that waits gives up after each timeout, and waits again",
    },
    Parameter {
        name: "processes",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "Have the posting thread of each pair in a process of its own; for futex, sem-sysv, pipe, eventfd, mq, socket and signal",
    },
    Parameter {
        name: "threads",
        short: None,
        kind: ParameterKind::Count {
            min: 1,
            max: PAIRS_MAX as u64,
        },
        default: None,
        help: "So many pairs, both threads of each on one CPU, on the CPUs in turn, all at the same time, instead of one pair after the other as --pairs says",
    },
    Parameter {
        name: "unbound",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "With --threads: let the threads run on all of the CPUs",
    },
    Parameter {
        name: "distance",
        short: None,
        kind: ParameterKind::Duration {
            min: Nanos::ZERO,
            max: Nanos::from_secs(10),
        },
        default: Some("0s"),
        help: "With --threads: each pair's interval is longer by this than that of the one before",
    },
    Parameter {
        name: "priority-spread",
        short: None,
        kind: ParameterKind::Flag,
        default: Some("no"),
        help: "With --threads: each pair's priority is lower by one than that of the one before, down to 1",
    },
    Parameter {
        name: "wakeups",
        short: None,
        kind: ParameterKind::Count {
            min: 1,
            max: 1_000_000_000_000,
        },
        default: None,
        help: "Stop all pairs as soon as one of them has this many samples",
    },
];
