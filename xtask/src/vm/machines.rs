//! What is run, and on which machine: a line here is a test there.

/// A machine: how its kernel is booted, and the tests that it runs.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) summary: &'static str,
    /// Words for the kernel's command line, beside the usual ones.
    pub(crate) kernel_words: &'static str,
    /// Its CPUs, as the emulator takes them.
    pub(crate) cpus: &'static str,
    /// Lines of its first program, after everything is mounted.
    pub(crate) prepare: &'static str,
    /// Whether it runs only if it is named.
    pub(crate) on_request: bool,
    pub(crate) suites: &'static [Suite],
}

/// Tests of one program.
pub(crate) struct Suite {
    pub(crate) package: &'static str,
    pub(crate) target: Target,
    /// Which of its tests, as the test program takes them: filters and options;
    /// empty: all.
    pub(crate) arguments: &'static [&'static str],
}

impl Suite {
    /// The name of the folder of its package.
    pub(crate) fn folder(&self) -> &'static str {
        self.package
            .strip_prefix("punctual-")
            .unwrap_or(self.package)
    }
}

/// Which test program of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The unit tests of the library.
    Unit,
    /// A file of its `tests` folder.
    Integration(&'static str),
}

impl Target {
    /// The name of its file; none for the library's own.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Unit => None,
            Self::Integration(name) => Some(name),
        }
    }
}

/// A whole test program.
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

/// Two CPUs, each with a core of its own.
pub(crate) const TWO: &str = "2";

/// Two hardware threads of one core. (The emulator warns that its AMD processor has none; the
/// kernel sees them all the same, which the tests hold.)
const ONE_CORE: &str = "2,cores=1,threads=2";

/// Takes away what a kernel built without it does not have either: event tracing, types for
/// BPF programs, symbols. The kernel is locked down, so that what is hidden cannot be mounted
/// anew. (It is not unmounted: Linux 6.12 crashes when an empty tracefs ends.)
const POOR: &str = "mkdir /tmp/none\n\
     mount -o bind /tmp/none /sys/kernel/tracing\n\
     : > /tmp/empty\n\
     mount -o bind /tmp/empty /sys/kernel/btf/vmlinux\n\
     mount -o bind /tmp/empty /proc/kallsyms\n\
     export PUNCTUAL_POOR=1\n";

const POOR_WORDS: &str = "lockdown=confidentiality debugfs=off";

/// Those of arm64, outside the gate: what a board does, on a kernel that is not emulated
/// x86.
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
        summary: "PREEMPT_RT on arm64: measure, explain, watch, doctor, tune, record",
        kernel_words: "",
        cpus: TWO,
        prepare: "",
        on_request: false,
        suites: &[
            some(
                "punctual",
                Target::Integration("every_probe"),
                &["each_measures"],
            ),
            whole("punctual", Target::Integration("settings")),
            whole("punctual", Target::Integration("preempt_rt")),
            whole("punctual", Target::Integration("everyday")),
            whole("punctual", Target::Integration("watch")),
            some(
                "punctual",
                Target::Integration("explaining"),
                &["a_break", "what_cannot", "a_lock"],
            ),
            // What is imported does not depend on the processor, and its files are not there.
            some(
                "punctual",
                Target::Integration("recording"),
                &["--skip", "dated_files"],
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

/// Those of x86-64: what the gate runs.
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
            // The examples in C and C++ are built outside, and run there.
            some("punctual-capi", Target::Integration("c"), &["the_examples"]),
            whole("punctual-app", Target::Integration("figures")),
            whole("punctual-host", Target::Integration("live")),
            whole("punctual-tune", Target::Integration("machine")),
            // The others work on made-up trees, as they do outside.
            some("punctual-trace", Target::Unit, &["bpf::types"]),
        ],
    },
    // Those that take long, on machines of their own, beside the first.
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
                Target::Integration("every_probe"),
                &["each_measures"],
            ),
            whole("punctual", Target::Integration("settings")),
            whole("punctual", Target::Integration("everyday")),
            some(
                "punctual",
                Target::Integration("compat"),
                &["hwlatdetect::"],
            ),
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
            // The others explain hundreds of outliers, which takes minutes there.
            some(
                "punctual",
                Target::Integration("explaining"),
                &["a_break", "what_cannot", "a_lock"],
            ),
            // What the tests' own module of the kernel does.
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
            // What does not depend on it has run on the other machine.
            some(
                "punctual",
                Target::Integration("preempt_rt"),
                &[
                    "isolated",
                    "the_kernel_is_known",
                    "the_audit",
                    "control_group",
                ],
            ),
        ],
    },
    // `PUNCTUAL_VM_KERNEL` can name a kernel that was built without all of it.
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
