//! What is run, and on which machine: a line here is a test there.

/// A machine: how its kernel is booted, and the tests that it runs.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) summary: &'static str,
    /// Words for the kernel's command line, beside the usual ones.
    pub(crate) kernel_words: &'static str,
    pub(crate) suites: &'static [Suite],
}

/// Tests of one program.
pub(crate) struct Suite {
    pub(crate) package: &'static str,
    pub(crate) target: Target,
    /// Which of its tests, as the test program takes them: filters and options;
    /// empty: all.
    pub(crate) arguments: &'static [&'static str],
    /// Folders of the repository that they read.
    pub(crate) reads: &'static [&'static str],
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

/// All of them.
pub(crate) const MACHINES: &[Machine] = &[
    Machine {
        name: "plain",
        summary: "PREEMPT_RT as a distribution boots it",
        kernel_words: "",
        suites: &[
            Suite {
                package: "punctual-rt",
                target: Target::Integration("threads"),
                arguments: &[],
                reads: &[],
            },
            Suite {
                package: "punctual-rt",
                target: Target::Integration("privilege"),
                arguments: &[],
                reads: &[],
            },
            Suite {
                package: "punctual-rt",
                target: Target::Integration("examples"),
                arguments: &[],
                reads: &[],
            },
            // The examples in C and C++ are built outside, and run there.
            Suite {
                package: "punctual-capi",
                target: Target::Integration("c"),
                arguments: &["the_examples"],
                reads: &[],
            },
            Suite {
                package: "punctual-app",
                target: Target::Integration("figures"),
                arguments: &[],
                reads: &[],
            },
            Suite {
                package: "punctual-host",
                target: Target::Integration("live"),
                arguments: &[],
                reads: &[],
            },
            Suite {
                package: "punctual-tune",
                target: Target::Integration("machine"),
                arguments: &[],
                reads: &[],
            },
            Suite {
                package: "punctual-trace",
                target: Target::Unit,
                arguments: &[],
                reads: &["fuzz/seeds"],
            },
        ],
    },
    // Those that take long, on a machine of their own, beside the first.
    Machine {
        name: "probes",
        summary: "PREEMPT_RT, and what measures for long",
        kernel_words: "",
        suites: &[
            Suite {
                package: "punctual",
                target: Target::Integration("every_probe"),
                arguments: &["each_measures"],
                reads: &[],
            },
            Suite {
                package: "punctual",
                target: Target::Integration("settings"),
                arguments: &[],
                reads: &[],
            },
            Suite {
                package: "punctual",
                target: Target::Integration("preempt_rt"),
                arguments: &[],
                reads: &[],
            },
            // The others explain hundreds of outliers, which takes minutes there.
            Suite {
                package: "punctual",
                target: Target::Integration("explaining"),
                arguments: &["a_break", "what_cannot", "a_lock"],
                reads: &[],
            },
            // What the tests' own module of the kernel does.
            Suite {
                package: "punctual",
                target: Target::Integration("culprits"),
                arguments: &["kernel::"],
                reads: &[],
            },
            Suite {
                package: "punctual",
                target: Target::Integration("everyday"),
                arguments: &[],
                reads: &[],
            },
            Suite {
                package: "punctual",
                target: Target::Integration("compat"),
                arguments: &["hwlatdetect::"],
                reads: &[],
            },
        ],
    },
    Machine {
        name: "isolated",
        summary: "PREEMPT_RT with one CPU kept free of everything else",
        kernel_words: "isolcpus=domain,managed_irq,1 nohz_full=1 rcu_nocbs=1 irqaffinity=0",
        suites: &[Suite {
            package: "punctual",
            target: Target::Integration("preempt_rt"),
            // What does not depend on it has run on the other machine.
            arguments: &["isolated", "the_kernel_is_known", "the_audit"],
            reads: &[],
        }],
    },
];
