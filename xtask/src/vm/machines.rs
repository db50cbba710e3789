//! The machines and their tests. Each row is a test that runs there.

/// A machine: the way to boot its kernel, and the tests to run.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// Purpose of the machine.
    pub(crate) summary: &'static str,
    /// Kernel arguments in addition to those of every machine.
    pub(crate) kernel_words: &'static str,
    /// CPUs of the machine, in the syntax of the emulator.
    pub(crate) cpus: &'static str,
    /// Commands that its init script runs after everything is mounted.
    pub(crate) prepare: &'static str,
    /// Whether it runs only if requested by name.
    pub(crate) on_request: bool,
    pub(crate) suites: &'static [Suite],
}

/// The tests of one program.
pub(crate) struct Suite {
    pub(crate) package: &'static str,
    pub(crate) target: Target,
    /// Filters and options for the test program. Empty: all tests.
    pub(crate) arguments: &'static [&'static str],
}

impl Suite {
    /// Returns the name of its package's folder.
    pub(crate) fn folder(&self) -> &'static str {
        self.package
            .strip_prefix("punctual-")
            .unwrap_or(self.package)
    }
}

/// A test program of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The unit tests of the library.
    Unit,
    /// A file in its `tests` folder.
    Integration(&'static str),
}

impl Target {
    /// Returns the name of its file. `None` for the library's unit tests.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Unit => None,
            Self::Integration(name) => Some(name),
        }
    }
}

/// All tests of a program.
const fn whole(package: &'static str, target: Target) -> Suite {
    some(package, target, &[])
}

/// Some tests of a program.
const fn some(package: &'static str, target: Target, arguments: &'static [&'static str]) -> Suite {
    Suite {
        package,
        target,
        arguments,
    }
}

/// Two CPUs on separate cores.
pub(crate) const TWO: &str = "2";

/// Two hardware threads of one core. The emulator warns that its AMD processor does not have
/// hardware threads, but the kernel sees them, as the tests confirm.
const ONE_CORE: &str = "2,cores=1,threads=2";

/// Removes features that a poor kernel lacks: event tracing, types for BPF programs, and symbols.
/// The kernel is locked down, so that these cannot be mounted again. Tracefs is hidden and not
/// unmounted, because Linux 6.12 crashes when an empty tracefs is removed.
const POOR: &str = "mkdir /tmp/none\n\
     mount -o bind /tmp/none /sys/kernel/tracing\n\
     : > /tmp/empty\n\
     mount -o bind /tmp/empty /sys/kernel/btf/vmlinux\n\
     mount -o bind /tmp/empty /proc/kallsyms\n\
     export PUNCTUAL_POOR=1\n";

const POOR_WORDS: &str = "lockdown=confidentiality debugfs=off";

/// Name of the machine with modules for network interfaces, and with ip(8) and tc(8).
pub(crate) const NETWORK: &str = "network";

/// The machines for arm64, outside the gate: they represent a board, with a kernel for a processor
/// other than x86.
pub(crate) const ARM64: &[Machine] = &[
    Machine {
        name: "plain",
        summary: "PREEMPT_RT on arm64: threads, facts, settings, tracing",
        kernel_words: "",
        cpus: TWO,
        prepare: "",
        on_request: false,
        suites: &[
            whole("punctual-rt", Target::Integration("threads")),
            whole("punctual-rt", Target::Integration("privilege")),
            whole("punctual-host", Target::Integration("live")),
            whole("punctual-tune", Target::Integration("machine")),
            whole("punctual-trace", Target::Integration("live")),
            whole("punctual-trace", Target::Integration("watch")),
            whole("punctual-trace", Target::Integration("jobs")),
        ],
    },
    Machine {
        name: "verbs",
        summary: "PREEMPT_RT on arm64: measure, explain, watch, doctor, tune, monitor",
        kernel_words: "",
        cpus: TWO,
        prepare: "",
        on_request: false,
        suites: &[
            // Importing does not depend on the processor, and the files to import are missing on
            // the emulated machine.
            some(
                "punctual",
                Target::Integration("it"),
                &[
                    "every_probe::each_measures",
                    "everyday::",
                    "monitoring::",
                    "--skip",
                    "dated_files",
                ],
            ),
            whole("punctual", Target::Integration("settings")),
            whole("punctual", Target::Integration("preempt_rt")),
            whole("punctual", Target::Integration("kernel_tracers")),
            whole("punctual", Target::Integration("watch")),
            some(
                "punctual",
                Target::Integration("explaining"),
                &["break_stops", "unexplainable", "lock_wait"],
            ),
        ],
    },
    Machine {
        name: "poor",
        summary: "arm64 without tracing, types for BPF, symbols, kernel configuration",
        kernel_words: POOR_WORDS,
        cpus: TWO,
        prepare: POOR,
        on_request: false,
        suites: &[whole("punctual", Target::Integration("poor_kernel"))],
    },
];

/// The machines for x86-64, which the gate runs.
pub(crate) const MACHINES: &[Machine] = &[
    Machine {
        name: "plain",
        summary: "PREEMPT_RT as a distribution boots it",
        kernel_words: "",
        cpus: TWO,
        prepare: "",
        on_request: false,
        suites: &[
            whole("punctual-rt", Target::Integration("threads")),
            whole("punctual-rt", Target::Integration("privilege")),
            whole("punctual-rt", Target::Integration("examples")),
            // The examples in C and C++ are built on the host, because the emulated machine has no
            // compiler.
            some(
                "punctual-capi",
                Target::Integration("c"),
                &["examples_build"],
            ),
            whole("punctual-app", Target::Integration("figures")),
            whole("punctual-host", Target::Integration("live")),
            whole("punctual-tune", Target::Integration("machine")),
            // A kernel module of the tests is the GPIO chip.
            whole("punctual", Target::Integration("gpio")),
            // The other tests use simulated trees, as they do on this machine.
            some("punctual-trace", Target::Unit, &["bpf::types"]),
        ],
    },
    // Slow tests run on other machines, at the same time as those on the first machine.
    Machine {
        name: "probes",
        summary: "PREEMPT_RT, and what measures for long",
        kernel_words: "",
        cpus: TWO,
        prepare: "",
        on_request: false,
        suites: &[
            some(
                "punctual",
                Target::Integration("it"),
                &[
                    "every_probe::each_measures",
                    "everyday::",
                    "compat::hwlatdetect::",
                ],
            ),
            whole("punctual", Target::Integration("settings")),
        ],
    },
    Machine {
        name: "causes",
        summary: "PREEMPT_RT, and what traces and explains",
        kernel_words: "",
        cpus: TWO,
        prepare: "",
        on_request: false,
        suites: &[
            whole("punctual", Target::Integration("preempt_rt")),
            whole("punctual", Target::Integration("kernel_tracers")),
            // The other tests explain hundreds of outliers, which takes minutes on the emulated
            // machine.
            some(
                "punctual",
                Target::Integration("explaining"),
                &["break_stops", "unexplainable", "lock_wait"],
            ),
            // A kernel module of the tests causes these delays.
            some("punctual", Target::Integration("culprits"), &["kernel::"]),
        ],
    },
    Machine {
        name: "isolated",
        summary: "PREEMPT_RT with one CPU kept free of everything else, and one core for both CPUs",
        kernel_words: "isolcpus=domain,managed_irq,1 nohz_full=1 rcu_nocbs=1 irqaffinity=0",
        cpus: ONE_CORE,
        prepare: "",
        on_request: false,
        suites: &[
            // Tests that do not depend on the isolation run on the other machine.
            some(
                "punctual",
                Target::Integration("preempt_rt"),
                &[
                    "isolated",
                    "kernel_is_recognised",
                    "audit_sees",
                    "control_group",
                ],
            ),
        ],
    },
    Machine {
        name: NETWORK,
        summary: "PREEMPT_RT with modules for network interfaces and queueing disciplines",
        kernel_words: "",
        cpus: TWO,
        prepare: "",
        on_request: false,
        suites: &[
            some(
                "punctual",
                Target::Integration("it"),
                &["measuring::launch_times::"],
            ),
            // This machine has queueing disciplines that the host of the gate lacks.
            some(
                "punctual-host",
                Target::Unit,
                &["queueing::", "timestamping::"],
            ),
        ],
    },
    // `PUNCTUAL_VM_KERNEL` can name a kernel that was built without any of these features.
    Machine {
        name: "poor",
        summary: "without tracing, types for BPF, symbols, kernel configuration",
        kernel_words: POOR_WORDS,
        cpus: TWO,
        prepare: POOR,
        on_request: true,
        suites: &[whole("punctual", Target::Integration("poor_kernel"))],
    },
];
