//! The options of cyclictest 2.10, and what became of older ones.

use crate::Takes::{Nothing, Optional, Required};
use crate::options::{DURATION, HISTFILE, JSON, MLOCKALL, QUIET, TRACEMARK};
use crate::{Difference, OptionSpec, Removed};

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        Some('a'),
        "affinity",
        Optional("CPUSET"),
        "bind the threads to CPUs in turn: CPUSET (0-3,8; !2: all others; +0-1: among the allowed; all) or all usable CPUs; default: not bound",
    ),
    OptionSpec::new(
        Some('A'),
        "aligned",
        Optional("USEC"),
        "start all threads at the same time, each USEC after the previous",
    ),
    OptionSpec::new(
        Some('b'),
        "breaktrace",
        Required("USEC"),
        "stop when a latency is above USEC, and print its thread",
    ),
    OptionSpec::new(
        Some('c'),
        "clock",
        Required("CLOCK"),
        "0: CLOCK_MONOTONIC (default), 1: CLOCK_REALTIME",
    ),
    OptionSpec::new(
        None,
        "deepest-idle-state",
        Required("N"),
        "disable idle states deeper than state N on the CPUs; -1: all states",
    ),
    OptionSpec::new(
        None,
        "default-system",
        Nothing,
        "do not limit the CPUs' exit latency",
    ),
    OptionSpec::new(
        Some('d'),
        "distance",
        Required("DIST"),
        "us added to each successive thread's interval; default 500, with a histogram 0",
    ),
    DURATION,
    OptionSpec::new(
        Some('F'),
        "fifo",
        Required("PATH"),
        "create a named pipe at PATH that returns the current lines",
    ),
    OptionSpec::new(
        Some('h'),
        "histogram",
        Required("US"),
        "print a histogram of latencies below US us after the run; all threads use one interval",
    ),
    OptionSpec::new(
        Some('H'),
        "histofall",
        Required("US"),
        "like -h, with a column for the sum of all threads",
    ),
    HISTFILE,
    OptionSpec::new(
        Some('i'),
        "interval",
        Required("INTV"),
        "interval of the first thread in us; default 1000",
    ),
    JSON,
    OptionSpec::new(
        None,
        "laptop",
        Nothing,
        "do not limit the CPUs' exit latency, to save power",
    ),
    OptionSpec::new(
        None,
        "latency",
        Required("PM_QOS"),
        "value written to /dev/cpu_dma_latency, in us; default 0",
    ),
    OptionSpec::new(
        Some('l'),
        "loops",
        Required("LOOPS"),
        "stop when a thread has made LOOPS cycles; default 0: endless",
    ),
    OptionSpec::new(
        None,
        "mainaffinity",
        Required("CPUSET"),
        "bind the main thread, which prints, to these CPUs",
    ),
    MLOCKALL,
    OptionSpec::new(
        Some('M'),
        "refresh_on_max",
        Nothing,
        "print the lines only after a new maximum",
    ),
    OptionSpec::new(
        Some('n'),
        "nanosleep",
        Nothing,
        "use clock_nanosleep: the default since rt-tests 1.2, which removed this option",
    ),
    OptionSpec::new(
        None,
        "notrace",
        Nothing,
        "no effect: since rt-tests 1.4 cyclictest sets up no trace",
    ),
    OptionSpec::new(
        Some('N'),
        "nsecs",
        Nothing,
        "print results in ns instead of us",
    ),
    OptionSpec::new(
        Some('o'),
        "oscope",
        Required("RED"),
        "with -v: print the largest of RED values",
    ),
    OptionSpec::new(
        Some('p'),
        "priority",
        Required("PRIO"),
        "real-time priority of the threads, 1 to 99; SCHED_FIFO unless --policy says rr",
    ),
    OptionSpec::new(
        None,
        "policy",
        Required("NAME"),
        "scheduling policy: other, normal, batch, idle, fifo, rr",
    ),
    OptionSpec::new(
        None,
        "priospread",
        Nothing,
        "decrease the priority by one for each successive thread",
    ),
    QUIET,
    OptionSpec::new(
        Some('r'),
        "relative",
        Nothing,
        "use relative instead of absolute sleeps",
    ),
    OptionSpec::new(
        Some('R'),
        "resolution",
        Nothing,
        "measure the clock resolution first; warn if coarser than the kernel's; -v: print it always",
    ),
    OptionSpec::new(
        None,
        "secaligned",
        Optional("USEC"),
        "start all threads at the next full second of the clock, or USEC after it",
    ),
    OptionSpec::new(
        Some('s'),
        "system",
        Nothing,
        "use nanosleep: relative sleeps",
    ),
    OptionSpec::new(
        Some('S'),
        "smp",
        Nothing,
        "one thread bound to each usable CPU, all of the same priority: -a -t",
    ),
    OptionSpec::new(
        None,
        "spike",
        Required("TRIGGER"),
        "list every latency above TRIGGER, with its time, after the run",
    ),
    OptionSpec::new(
        None,
        "spike-nodes",
        Required("NUM"),
        "list at most NUM spikes; default 1024; give it after --spike",
    ),
    OptionSpec::new(
        None,
        "smi",
        Nothing,
        "count SMIs of each thread's CPU; needs an Intel processor, -a or -S, and the msr module",
    ),
    OptionSpec::new(
        Some('t'),
        "threads",
        Optional("NUM"),
        "number of threads; without NUM one per CPU; default 1",
    ),
    TRACEMARK,
    OptionSpec::new(Some('u'), "unbuffered", Nothing, "write each line at once"),
    OptionSpec::new(
        Some('v'),
        "verbose",
        Nothing,
        "print every value as n:c:v: thread, cycle, value",
    ),
    OptionSpec::new(
        None,
        "dbg_cyclictest",
        Nothing,
        "with -R: print each reading of the clock",
    ),
    OptionSpec::new(
        Some('x'),
        "posix_timers",
        Nothing,
        "use POSIX timers instead of clock_nanosleep",
    ),
    OptionSpec::new(None, "help", Nothing, "print this"),
];

pub(super) const REMOVED: &[Removed] = &[
    Removed {
        letters: &['B', 'C', 'E', 'f', 'I', 'O', 'P', 'T', 'w', 'W'],
        advice: "cyclictest no longer sets up traces, since rt-tests 1.4: start one with trace-cmd \
                 or perf, and stop it at the break with -b and --tracemark",
    },
    Removed {
        letters: &['U'],
        advice: "cyclictest finds memory nodes without it, since rt-tests 1.4",
    },
];

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "`Avg` is computed from the exact sum in ns; all figures are rounded down to whole µs, as in \
               the original. `avg` in JSON keeps two decimals, and is not above `max`.",
        why: "The original adds up values that are rounded down already, and so is up to 1 µs below \
              the mean.",
    },
    Difference {
        what: "An overrun is counted as missed, under `punctual` in JSON \
               and in the recording; `C:` counts samples, as in the original.",
        why: "The original skips it silently.",
    },
    Difference {
        what: "Intervals below 20 µs are refused.",
        why: "A SCHED_FIFO thread that never sleeps takes its CPU from everything else.",
    },
    Difference {
        what: "CPUs that are offline are refused, and so is `-c 2`.",
        why: "The original warns and measures elsewhere, or reads a clock that is not there.",
    },
    Difference {
        what: "Without the privilege for a real-time policy only runs that need one are refused.",
        why: "The original refuses every run, also of SCHED_OTHER threads.",
    },
    Difference {
        what: "With `-h -N` rows from 1000 ns on hold what a bucket of the recording holds (10 ns up \
               to 10 µs, 100 ns up to 100 µs and so on); with `-h` so do those from 1 ms on.",
        why: "The histogram keeps three digits, of any latency up to 1000 s.",
    },
    Difference {
        what: "`-x` accounts for expirations that were missed; with `-r` its first expiration is not \
               later.",
        why: "The original adds the same overruns twice and can print latencies below zero, as its \
              version 2.4 does.",
    },
    Difference {
        what: "`--smi` reads the counters once a second, and with `-v` prints the new ones beside the \
               first value after that.",
        why: "The original reads them in each cycle, which makes each cycle longer.",
    },
    Difference {
        what: "With `-v` the last values are printed too, and `-M` shows the final figures.",
        why: "The original drops values after its last read.",
    },
    Difference {
        what: "`--json` and `--histfile` are checked before the run, and written whole or not at \
               all; `-F` replaces only a named pipe.",
        why: "A run of hours is not lost to a folder that is missing, and no file is deleted.",
    },
    Difference {
        what: "Starts of threads are spread over an interval, unless `-A` or `--secaligned` is given; \
               memory is locked also without `-m`, where that is allowed.",
        why: "Threads that wake in the same instant measure each other.",
    },
];
