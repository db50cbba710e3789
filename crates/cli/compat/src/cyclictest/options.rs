//! The options of cyclictest 2.10, and the replacements for options of older versions.

use punctual_model::Policy;

use super::settings::{Affinity, Reader, using};
use crate::machine::Machine;
use crate::option_row::{OptionRow, put};
use crate::{CompatError, Difference, Given, NextWord, Removed, values};

/// Maximum number of histogram rows.
const MOST_ROWS: u64 = 1_000_000;
/// Shortest interval of the probe.
const SHORTEST_US: u64 = 20;

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionRow<Reader>] = &[
    OptionRow::or_next(
        "-a --affinity[=CPUSET]",
        NextWord::CpuList,
        "bind each thread to the next CPU of CPUSET, or of all usable CPUs; default: not bound; \
         CPUSET: 0-3,8; !2: all CPUs but 2; +0-1: the first two allowed CPUs; all",
        Reader::affinity,
    ),
    OptionRow::or_next(
        "-A --aligned[=USEC]",
        NextWord::Time,
        "start all threads at the same time, or each USEC after the previous one",
        |reader, given, _| {
            reader.aligned = true;
            reader.settings.offset_us = offset(given)?;
            Ok(())
        },
    ),
    OptionRow::new(
        "-b --breaktrace=USEC",
        "stop when a latency is above USEC, and print its thread",
        |reader, given, _| {
            let unit = reader.settings.unit;
            reader.settings.common.break_value = given.time(unit.into(), 0)?;
            Ok(())
        },
    ),
    OptionRow::new(
        "-c --clock=CLOCK",
        "monotonic or 0 (default), realtime or 1",
        |reader, given, _| {
            reader.settings.realtime_clock = match given.text() {
                "0" | "monotonic" => false,
                "1" | "realtime" => true,
                text if is_auxiliary(text) => {
                    return Err(given.bad(
                        "a supported clock: an auxiliary clock of Linux can run at a different \
                         rate; use monotonic or realtime",
                    ));
                }
                _ => return Err(given.bad("monotonic, realtime, 0 or 1")),
            };
            Ok(())
        },
    ),
    OptionRow::new(
        "--deepest-idle-state=N",
        "disable idle states deeper than state N on the CPUs; -1: all states",
        |reader, given, _| {
            let state = Some(given.whole()?.into());
            reader.settings.idle_state = state.filter(|state| *state >= -1);
            Ok(())
        },
    ),
    OptionRow::flag(
        "--default-system",
        "do not limit the CPUs' exit latency",
        |reader| reader.settings.default_system = true,
    ),
    OptionRow::new(
        "-d --distance=DIST",
        "add DIST us to the interval of each further thread; default 500, or 0 with a histogram",
        put!(distance = |given| Some(given.micros_from(0)?)),
    ),
    OptionRow::DURATION,
    OptionRow::new(
        "-F --fifo=PATH",
        "create a named pipe at PATH; reading it returns the current lines",
        put!(settings.fifo = |given| Some(given.text().to_owned())),
    ),
    OptionRow::new(
        "-h --histogram=US",
        "print a histogram of latencies below US us after the run; all threads use one interval",
        Reader::histogram,
    ),
    OptionRow::new(
        "-H --histofall=US",
        "like -h, with a column for the sum of all threads",
        |reader, given, machine| {
            reader.settings.histogram_sum = true;
            reader.histogram(given, machine)
        },
    ),
    OptionRow::HISTFILE,
    OptionRow::new(
        "-i --interval=INTV",
        "interval of the first thread in us; default 1000",
        put!(settings.interval_us = |given| given.micros_from(SHORTEST_US)?),
    ),
    OptionRow::JSON,
    OptionRow::flag(
        "--laptop",
        "do not limit the CPUs' exit latency, to save power",
        |reader| reader.settings.laptop = true,
    ),
    OptionRow::new(
        "--latency=PM_QOS",
        "value written to /dev/cpu_dma_latency, in us; default 0",
        |reader, given, _| {
            reader.settings.latency_us = match values::whole(given.text()) {
                // A negative value counts as zero.
                Some(..0) => 0,
                _ => given.micros_from(0)? as i32,
            };
            Ok(())
        },
    ),
    OptionRow::new(
        "-l --loops=LOOPS",
        "stop when one thread and all others with the same interval have made LOOPS cycles; \
         default 0: no limit",
        put!(settings.loops = |given| given.at_least(0)?),
    ),
    OptionRow::new(
        "--mainaffinity=CPUSET",
        "bind the main thread, which prints the output, to these CPUs",
        |reader, given, machine| {
            reader.settings.main_affinity = Some(machine.cpus(given, given.text())?);
            Ok(())
        },
    ),
    OptionRow::MLOCKALL,
    OptionRow::flag(
        "-M --refresh_on_max",
        "print the lines only after a new maximum",
        |reader| reader.settings.refresh_on_max = true,
    ),
    OptionRow::accepted(
        "-n --nanosleep",
        "no effect: clock_nanosleep is the default since rt-tests 1.2, which removed this option",
    ),
    OptionRow::accepted(
        "--notrace",
        "no effect: since rt-tests 1.4, cyclictest does not set up traces",
    ),
    // This option is read before the other options, because it sets their unit.
    OptionRow::accepted("-N --nsecs", "print results in ns instead of us"),
    OptionRow::new(
        "-o --oscope=RED",
        "with -v: print only the largest of every RED values",
        put!(settings.oscope = |given| given.at_least(1)?),
    ),
    OptionRow::new(
        "-p --priority=PRIO",
        "real-time priority of the threads, 1 to 99; uses SCHED_FIFO unless --policy is rr",
        Reader::priority,
    ),
    OptionRow::new(
        "--policy=NAME",
        "scheduling policy: other, normal, batch, idle, fifo, rr",
        put!(settings.policy = |given| policy(given)?),
    ),
    OptionRow::flag(
        "--priospread",
        "decrease the priority by one for each successive thread",
        |reader| reader.settings.priority_spread = true,
    ),
    OptionRow::QUIET,
    OptionRow::flag(
        "-r --relative",
        "use relative instead of absolute sleeps",
        |reader| reader.settings.relative = true,
    ),
    OptionRow::flag(
        "-R --resolution",
        "measure the clock resolution first; warn if it is coarser than the kernel reports; with \
         -v: always print it",
        |reader| reader.settings.resolution = true,
    ),
    OptionRow::or_next(
        "--secaligned[=USEC]",
        NextWord::Time,
        "start all threads at the next full second of the clock, or USEC after it",
        |reader, given, _| {
            reader.full_second = true;
            reader.settings.offset_us = offset(given)?;
            Ok(())
        },
    ),
    OptionRow::flag("-s --system", "use nanosleep: relative sleeps", |reader| {
        reader.system = true
    }),
    OptionRow::new(
        "-S --smp",
        "bind one thread to each usable CPU, all with the same priority; same as -a -t",
        Reader::smp,
    ),
    OptionRow::new(
        "--spike=TRIGGER",
        "after the run, list every latency above TRIGGER with its time",
        |reader, given, _| {
            reader.settings.spike = given.time(reader.settings.unit.into(), 0)?;
            Ok(())
        },
    ),
    OptionRow::new(
        "--spike-nodes=NUM",
        "list at most NUM spikes; default 1024; must follow --spike",
        |reader, given, _| {
            let nodes = given.at_least(1)?;
            if reader.settings.spike > 0 {
                reader.settings.spike_nodes = nodes as usize;
            }
            Ok(())
        },
    ),
    OptionRow::flag(
        "--smi",
        "count SMIs of each thread's CPU; needs an Intel processor, -a or -S, and the msr module",
        |reader| reader.settings.smi = true,
    ),
    OptionRow::or_next(
        "-t --threads[=NUM]",
        NextWord::Number,
        "number of threads; without NUM one per CPU; default 1",
        Reader::threads_asked,
    ),
    OptionRow::TRACEMARK,
    OptionRow::flag("-u --unbuffered", "write each line at once", |reader| {
        reader.settings.unbuffered = true
    }),
    OptionRow::flag(
        "-v --verbose",
        "print every value as n:c:v (thread:cycle:value)",
        |reader| reader.settings.verbose = true,
    ),
    OptionRow::flag(
        "--dbg_cyclictest",
        "with -R: print each reading of the clock",
        |reader| reader.settings.debug = true,
    ),
    OptionRow::flag(
        "-x --posix_timers",
        "use POSIX timers instead of clock_nanosleep",
        |reader| reader.settings.posix_timers = true,
    ),
    // `--help` is handled before the options are read. The letter -h belongs to the histogram.
    OptionRow::accepted("--help", "print this"),
];

/// Options that need several steps.
impl Reader {
    fn affinity(&mut self, given: &Given, machine: &Machine) -> Result<(), CompatError> {
        self.affinity_given = true;
        if self.settings.affinity == Affinity::Smp {
            return Ok(());
        }
        self.settings.affinity = match given.value.as_deref() {
            None => Affinity::All,
            Some(list) => {
                let cpus = machine.cpus(given, list)?;
                if self.settings.verbose {
                    self.settings.first_lines.push(using(&cpus));
                }
                Affinity::Chosen(cpus)
            }
        };
        Ok(())
    }

    fn priority(&mut self, given: &Given, _: &Machine) -> Result<(), CompatError> {
        let settings = &mut self.settings;
        settings.priority = match u8::try_from(given.whole()?) {
            Ok(priority @ 0..=99) => priority,
            _ => return Err(given.bad("a priority from 0 to 99")),
        };
        if !matches!(settings.policy, Policy::Fifo | Policy::RoundRobin) {
            settings.policy = Policy::Fifo;
        }
        Ok(())
    }

    fn smp(&mut self, _: &Given, _: &Machine) -> Result<(), CompatError> {
        if self.affinity_given && self.settings.affinity != Affinity::Smp {
            // The message of the original.
            let text = "numa and smp options are mutually exclusive";
            return Err(CompatError::Fatal(text.to_owned()));
        }
        self.settings.affinity = Affinity::Smp;
        self.threads = None;
        Ok(())
    }

    fn threads_asked(&mut self, given: &Given, _: &Machine) -> Result<(), CompatError> {
        if self.settings.affinity == Affinity::Smp {
            let note = "WARN: -t ignored due to smp mode".to_owned();
            self.settings.notes.push(note);
            return Ok(());
        }
        // In the original, -1 means "all".
        self.threads = given.number()?.filter(|threads| *threads != -1);
        match self.threads {
            Some(..=0 | 4_097..) => Err(given.bad("a number of threads from 1 to 4096")),
            _ => Ok(()),
        }
    }

    fn histogram(&mut self, given: &Given, _: &Machine) -> Result<(), CompatError> {
        let rows = given.time(self.settings.unit.into(), 1)?.min(MOST_ROWS);
        self.settings.histogram = rows as usize;
        Ok(())
    }
}

/// Returns the value of `-A` or `--secaligned`, which is optional.
fn offset(given: &Given) -> Result<u32, CompatError> {
    match given.value {
        Some(_) => given.micros_from(0).map(|micros| micros as u32),
        None => Ok(0),
    }
}

/// Returns whether the text is `aux0` to `aux7`.
fn is_auxiliary(text: &str) -> bool {
    text.strip_prefix("aux")
        .is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'7']))
}

/// Finds a policy by a prefix of its name, as in the original.
fn policy(given: &Given) -> Result<Policy, CompatError> {
    const NAMES: [(&str, Policy); 6] = [
        ("other", Policy::Other),
        ("normal", Policy::Other),
        ("batch", Policy::Batch),
        ("idle", Policy::Idle),
        ("fifo", Policy::Fifo),
        ("rr", Policy::RoundRobin),
    ];
    let name = given.text().to_ascii_lowercase();
    NAMES
        .iter()
        .find(|(known, _)| name.starts_with(known))
        .map(|(_, policy)| *policy)
        .ok_or_else(|| given.bad("one of other, normal, batch, idle, fifo, rr"))
}

pub(super) const REMOVED: &[Removed] = &[
    Removed {
        letters: &['B', 'C', 'E', 'f', 'I', 'O', 'P', 'T', 'w', 'W'],
        advice: "since rt-tests 1.4, cyclictest does not set up traces: start a trace with \
            trace-cmd or perf, and use -b and --tracemark to stop it at the break value",
    },
    Removed {
        letters: &['U'],
        advice: "since rt-tests 1.4, cyclictest finds the memory nodes without this option",
    },
];

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "`Avg` is computed from the exact sum in ns. All figures are rounded down to whole \
            µs, as in the original. `avg` in JSON has two decimals and never exceeds `max`.",
        why: "The original adds up values that are already rounded down, so its `Avg` is up to 1 \
            µs too low.",
    },
    Difference {
        what: "Periods skipped by an overrun count as missed, in the recording and in the key \
            `punctual` of JSON. `C:` counts samples, as in the original.",
        why: "The original skips these periods silently.",
    },
    Difference {
        what: "Intervals below 20 µs are refused.",
        why: "A SCHED_FIFO thread that never sleeps keeps all other threads off its CPU.",
    },
    Difference {
        what: "Offline CPUs are refused. So are `-c 2` and the auxiliary clocks `-c aux0` to `-c \
            aux7`, which rt-tests supports since version 2.10.",
        why: "The original warns and measures on other CPUs, or reads a clock that does not \
            exist. An auxiliary clock can run at a different rate, so its samples cannot be \
            converted to the clock of the recording or of the kernel's events.",
    },
    Difference {
        what: "Without the privilege to set a real-time policy, only runs that use such a policy \
            are refused.",
        why: "The original then refuses every run, even with SCHED_OTHER threads.",
    },
    Difference {
        what: "With `-h -N`, rows from 1000 ns on have the width of the recording's buckets: 10 ns \
            up to 10 µs, 100 ns up to 100 µs, and so on. With `-h` alone, this applies to rows \
            from 1 ms on.",
        why: "The histogram stores latencies up to 1000 s with three significant digits.",
    },
    Difference {
        what: "`-x` accounts for missed timer expirations. With `-r` as well, the first expiration \
            is not delayed.",
        why: "The original adds the same overruns twice and can print negative latencies, as \
            version 2.4 does.",
    },
    Difference {
        what: "`--smi` reads the counters once a second. With `-v`, the next line with a value \
            shows the new counts.",
        why: "The original reads the counters in each cycle, which makes each cycle longer.",
    },
    Difference {
        what: "With `-v`, the values at the end of the run are printed too, except the latency \
            that stopped the run, which is in the line `# Break value:`. `-M` shows the final \
            figures.",
        why: "The original drops all values after its last read, including the latency that \
            stopped the run.",
    },
    Difference {
        what: "The files of `--json` and `--histfile` are checked before the run, and written \
            completely or not at all. `-F` replaces only a named pipe.",
        why: "The results of a long run are not lost if a folder is missing, and no other file is \
              deleted.",
    },
    Difference {
        what: "The start times of the threads are spread over one interval, unless `-A` or \
            `--secaligned` is given. Memory is locked even without `-m`, if that is permitted.",
        why: "Threads that wake at the same time delay each other, so they would measure these \
            delays.",
    },
];
