//! Accepted reasons for skipping a test, and how they are recognised in the text of a refusal.

use std::fmt;

/// Reason why a test cannot run on a machine. The gate accepts a skipped test only if `.ci/skips`
/// lists the reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// The user lacks a right: real-time priority, locked memory, mounts, tracing, settings.
    Right,
    /// A program, or a package of an interpreter, is not installed.
    Program,
    /// A feature of the running kernel is missing: built without it, not mounted, disabled, or in
    /// use.
    Kernel,
    /// The machine lacks a part: a second CPU, a clock source, an interrupt, a property of the
    /// processor.
    Hardware,
    /// The test needs a machine of `cargo xtask vm`: PREEMPT_RT, an isolated CPU, the kernel module
    /// of the tests.
    Emulation,
    /// The test needs another user: root if it acts as two users, an ordinary user if it expects a
    /// refusal.
    User,
    /// The machine was not quiet: other programs used the CPUs, events were lost, or the event that
    /// the test waits for did not occur. The gate limits the number of such skips.
    Quiet,
}

impl Lacks {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::Right,
        Self::Program,
        Self::Kernel,
        Self::Hardware,
        Self::Emulation,
        Self::User,
        Self::Quiet,
    ];

    /// Returns the word for the reason in a SKIP line and in `.ci/skips`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Program => "program",
            Self::Kernel => "kernel",
            Self::Hardware => "hardware",
            Self::Emulation => "emulation",
            Self::User => "user",
            Self::Quiet => "quiet",
        }
    }

    /// Returns the reason with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lacks| lacks.word() == word)
    }

    /// Returns the reason that is contained in the text of a refusal by the program or the kernel.
    ///
    /// # Panics
    /// Panics with the whole text if it contains none of these reasons. In this case the feature is
    /// broken.
    #[track_caller]
    pub fn of_refusal(told: &str) -> Self {
        classify(told).unwrap_or_else(|| panic!("not a known reason to skip a test:\n{told}"))
    }
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Phrases of the program's messages about a missing right or a missing part of the kernel. These
/// messages contain no error number from the kernel. The test
/// `each_phrase_occurs_in_program_messages` checks that each phrase is still in use.
const PHRASES: &[(&str, Lacks)] = &[
    // punctual_rt::Error
    ("was refused (EPERM)", Lacks::Right),
    ("may not be changed (EPERM)", Lacks::Right),
    ("is not supported here: ", Lacks::Kernel),
    // punctual_probes, punctual_session::rights
    ("with the required privilege (CAP_SYS_NICE", Lacks::Right),
    ("needs priorities, but policy ", Lacks::Right),
    (": not permitted to this process; ", Lacks::Right),
    // punctual_probes::gpio
    ("this machine has no GPIO chip", Lacks::Hardware),
    ("no GPIO line is named ", Lacks::Hardware),
    // punctual_tune::accessors::irq
    (
        "or its interrupt controller cannot move it",
        Lacks::Hardware,
    ),
    // punctual_trace::TraceError, WatchError
    ("tracefs is not mounted", Lacks::Kernel),
    ("the kernel is locked down", Lacks::Kernel),
    ("this kernel has no tracer ", Lacks::Kernel),
    ("this kernel has no BTF in ", Lacks::Kernel),
    ("this kernel is too old for the BPF programs", Lacks::Kernel),
];

/// Separates the two errors in the text of `WatchError::Neither`. Each of them must be a reason to
/// skip the test.
const BOTH: &str = "; trace events: ";

fn classify(told: &str) -> Option<Lacks> {
    // The kernel's BPF verifier writes this if it rejects a program. In this case the BPF program
    // is wrong, so do not skip the test.
    if told.contains("processed ") && told.contains(" insns") {
        return None;
    }
    let mut reasons = told.split(BOTH).map(|part| {
        let phrase = PHRASES.iter().find(|(phrase, _)| part.contains(phrase));
        phrase.map(|(_, lacks)| *lacks).or_else(|| by_number(part))
    });
    let first = reasons.next()??;
    reasons.all(|reason| reason.is_some()).then_some(first)
}

/// Classifies a text by the error number of the [`std::io::Error`] in it, see errno(3).
fn by_number(told: &str) -> Option<Lacks> {
    let (_, rest) = told.split_once("(os error ")?;
    let is_of_the_kernel = ["/sys/", "/proc/", "/dev/"]
        .iter()
        .any(|folder| told.contains(folder));
    match rest.split_once(')')?.0.parse::<u32>().ok()? {
        // EPERM, EACCES
        1 | 13 => Some(Lacks::Right),
        // ENOENT of a file of the kernel
        2 if is_of_the_kernel => Some(Lacks::Kernel),
        // EROFS: containers mount these read-only.
        30 if is_of_the_kernel => Some(Lacks::Right),
        // ENODEV
        19 => Some(Lacks::Hardware),
        // ENOSYS, EOPNOTSUPP
        38 | 95 => Some(Lacks::Kernel),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_back() {
        for lacks in Lacks::ALL {
            assert_eq!(Lacks::from_word(lacks.word()), Some(lacks));
        }
        assert_eq!(Lacks::from_word("any"), None);
    }

    #[test]
    fn refusal_is_distinguished_from_defect() {
        for (told, lacks) in [
            (
                "cannot open /sys/kernel/tracing: Permission denied (os error 13)",
                Some(Lacks::Right),
            ),
            (
                "SCHED_FIFO with priority 95 was refused (EPERM): it needs",
                Some(Lacks::Right),
            ),
            (
                "/dev/mqueue: No such file or directory (os error 2)",
                Some(Lacks::Kernel),
            ),
            ("store.db: No such file or directory (os error 2)", None),
            (
                "the kernel refused the BPF programs: Permission denied (os error 13): processed 7 insns",
                None,
            ),
            (
                "the kernel refused the BPF programs: Invalid argument (os error 22)",
                None,
            ),
            (
                "wake-ups cannot be watched: BPF: Invalid argument (os error 22); trace events: \
                 tracefs is not mounted",
                None,
            ),
            (
                "wake-ups cannot be watched: BPF: Operation not permitted (os error 1); trace \
                 events: tracefs is not mounted",
                Some(Lacks::Right),
            ),
            ("thread 'main' panicked", None),
            ("", None),
        ] {
            assert_eq!(classify(told), lacks, "{told}");
        }
    }

    /// A phrase that no message contains could match a later message by mistake and hide its
    /// meaning.
    #[test]
    fn each_phrase_occurs_in_program_messages() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut messages = String::new();
        for file in [
            "kit/rt/src/error.rs",
            "engine/probes/src/gpio/chips.rs",
            "engine/probes/src/inversion/mod.rs",
            "engine/probes/src/migrate/mod.rs",
            "engine/session/src/machine/rights.rs",
            "engine/trace/src/error.rs",
            "machine/tune/src/accessors/irq.rs",
        ] {
            messages += &std::fs::read_to_string(crates.join(file)).unwrap();
        }
        // In the source, a backslash at the end of a line continues the text.
        let messages: Vec<&str> = messages.split_whitespace().filter(|w| *w != "\\").collect();
        let messages = messages.join(" ");
        for phrase in PHRASES.iter().map(|(phrase, _)| *phrase).chain([BOTH]) {
            assert!(messages.contains(phrase), "{phrase}");
        }
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_broken_feature_fails_its_test() {
        Lacks::of_refusal("thread panicked: index out of bounds");
    }
}
