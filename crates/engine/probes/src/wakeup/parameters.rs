//! The parameters of the wakeup probe.

use punctual_model::{Nanos, Parameter, Typed, parameters};

use super::locations::PAIRS_MAX;

parameters! {
    VIA: &'static str = Typed::choice(
        "via",
        "Wake-up mechanism",
        &[
            ("futex", "futex(2), which the locks of the C library use"),
            ("mutex", "a pthread mutex that one thread unlocks and the other locks"),
            ("mutex-pi", "a pthread mutex with priority inheritance"),
            ("condvar", "a condition variable with its mutex"),
            ("barrier", "a pthread barrier for two threads"),
            ("sem", "a POSIX semaphore"),
            ("sem-sysv", "a System V semaphore"),
            ("pipe", "a byte through a pipe"),
            ("eventfd", "an eventfd counter"),
            ("mq", "a POSIX message queue"),
            ("socket", "a byte through a pair of Unix stream sockets"),
            ("signal", "a signal to the thread, received with sigwaitinfo"),
        ],
    ).or("futex");
    // Two wake-ups and two switches must fit into the interval with room to spare.
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from one exchange to the next, over all pairs",
        Nanos::from_micros(50)..=Nanos::from_secs(10),
    ).short('i').or("1ms");
    PAIRS: &'static str = Typed::choice(
        "pairs",
        "Pairs of CPUs",
        &[
            ("all", "from each CPU to each CPU, including itself"),
            ("same", "from each CPU to itself"),
            ("neighbours", "from each CPU to the next, and from the last to the first"),
        ],
    ).or("all");
    WARM: bool = Typed::flag(
        "warm",
        "Precede each exchange with an unmeasured exchange, like rt-tests; needs one CPU per pair \
         and a real-time priority above 1",
    );
    TIMEOUT: Option<Nanos> = Typed::duration(
        "timeout",
        "With --via mq and --threads: end the run if a message is this late (mq_timedreceive)",
        Nanos::from_millis(1)..=Nanos::from_secs(24 * 3_600),
    );
    FORCE_TIMEOUT: Option<Nanos> = Typed::duration(
        "force-timeout",
        "With --timeout: delay each message by this time, so that the receiver times out and \
         waits again",
        Nanos::from_millis(1)..=Nanos::from_secs(24 * 3_600),
    );
    PROCESSES: bool = Typed::flag(
        "processes",
        "Run the posting thread of each pair in a separate process; supported for futex, \
         sem-sysv, pipe, eventfd, mq, socket and signal",
    );
    THREADS: Option<u64> = Typed::count(
        "threads",
        "Number of simultaneous pairs, each on one CPU; replaces the successive pairs of --pairs",
        1..=PAIRS_MAX as u64,
    );
    UNBOUND: bool = Typed::flag(
        "unbound",
        "With --threads: let the threads run on any of the CPUs",
    );
    DISTANCE: Nanos = Typed::duration(
        "distance",
        "With --threads: increase of the interval for each successive pair",
        Nanos::ZERO..=Nanos::from_secs(10),
    ).or("0s").of_older_tools();
    PRIORITY_SPREAD: bool = Typed::flag(
        "priority-spread",
        "With --threads: lower each successive pair's priority by one, down to 1",
    ).of_older_tools();
    WAKEUPS: Option<u64> = Typed::count(
        Parameter::WAKEUPS,
        "Stop a pair after this many samples, and the others soon after",
        1..=1_000_000_000_000,
    ).of_older_tools();
}
