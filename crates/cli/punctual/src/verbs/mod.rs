//! The verbs. Each verb has its own file and one line in [`VERBS`].

mod app;
mod candidates;
mod check;
mod compare;
pub(crate) mod compat;
mod doctor;
mod examples;
mod exec;
mod experiment;
mod explain;
mod export;
pub(crate) mod home;
mod import;
mod improve;
mod key;
mod list;
mod machine;
mod mcp;
mod measure;
mod monitor;
mod plot;
mod push;
mod renamed;
mod report;
mod schema;
mod show;
mod sign;
mod store;
mod trend;
mod tune;
mod verify;
mod watch;

use std::ffi::OsString;

use clap::ArgMatches;
use punctual_command::{PageTexts, Program};

use crate::exit;
use crate::processes;
use crate::verb::Verb;

/// The verbs that users start.
const VERBS: &[Verb] = &[
    check::VERB,
    measure::VERB,
    experiment::VERB,
    improve::VERB,
    watch::VERB,
    monitor::VERB,
    push::VERB,
    app::VERB,
    doctor::VERB,
    machine::VERB,
    list::VERB,
    show::VERB,
    explain::VERB,
    compare::VERB,
    trend::VERB,
    plot::VERB,
    report::VERB,
    export::VERB,
    import::VERB,
    sign::VERB,
    verify::VERB,
    key::VERB,
    store::VERB,
    tune::VERB,
    exec::VERB,
    compat::VERB,
    schema::VERB,
    mcp::VERB,
    home::VERB,
    punctual_command::COMPLETIONS,
    punctual_command::MAN,
    monitor::SERVE_SLOT,
    punctual_command::COMPLETE,
];

/// The program.
pub(crate) static PROGRAM: Program = Program {
    name: "punctual",
    version: env!("CARGO_PKG_VERSION"),
    about: "Real-time latency measurement, diagnosis and tuning for Linux",
    exit_codes: exit::HELP,
    verbs: &[VERBS, processes::VERBS],
    groups: GROUPS,
    examples: "\
Examples:
  punctual check --period 1ms --budget 100us   Is this machine fit for my loop?
  punctual measure timer -D 60s --load farm    Measure latency under load
  punctual doctor                              What costs latency here, and why?
  punctual compat cyclictest -D 60s            Run as an older tool does",
    explained: renamed::explained,
    pages: PageTexts {
        examples: examples::EXAMPLES,
        environment: ENVIRONMENT,
        files: FILES,
        see_also: &[
            "punctual-measure",
            "punctual-doctor",
            "punctual-tune",
            "punctual-server",
        ],
    },
    candidates: candidates::candidates,
    is_usage: exit::is_usage,
};

/// The verbs under their headings, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &["check", "measure", "watch", "explain", "app"]),
    ("Machine", &["doctor", "machine", "tune", "exec"]),
    ("Decide", &["compare", "experiment", "improve"]),
    (
        "Recordings",
        &[
            "list", "show", "plot", "report", "export", "import", "store",
        ],
    ),
    ("Years and fleets", &["monitor", "trend", "push"]),
];

/// Verbs that the overview omits, because few people need them: for scripts, packages, and those
/// who know an older tool. They have a help, a manual page and completions like the others.
#[cfg(test)]
const NOT_LISTED: &[&str] = &[
    "compat",
    "completions",
    "key",
    "man",
    "mcp",
    "schema",
    "sign",
    "verify",
];

/// Environment variables that affect every command.
const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "PUNCTUAL_STORE",
        "File that stores the recordings; --store takes precedence.",
    ),
    (
        "XDG_DATA_HOME",
        "Folder of the default store, if it is an absolute path.",
    ),
    (
        "XDG_STATE_HOME",
        "Folder of the journal of changed settings, if it is an absolute path.",
    ),
    (
        "NO_COLOR",
        "If not empty, disables colours; --color takes precedence.",
    ),
    (
        "TERM",
        "The value dumb disables colours and redrawn lines; --color takes precedence.",
    ),
];

/// Files that every command may read or write.
const FILES: &[(&str, &str)] = &[
    ("/var/lib/punctual/punctual.db", "Recordings of root."),
    (
        "~/.local/share/punctual/punctual.db",
        "Recordings of other users.",
    ),
    (
        "/var/lib/punctual/signing.key, ~/.local/state/punctual/signing.key",
        "Private key that signs recordings; signing.earlier lists the public keys that it replaced.",
    ),
    (
        "/var/lib/punctual/tune.journal, ~/.local/state/punctual/tune.journal",
        "Settings that a measurement has changed, with their old values. The next command \
         restores the settings that a killed command has left changed.",
    ),
];

/// Parses these words.
///
/// # Errors
/// Returns an error for an invalid command line, and for a request for help.
pub(crate) fn parse(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    PROGRAM.parse(words)
}

/// The verb that passes its scheduling policy on to another program.
pub(crate) const EXEC: &str = exec::VERB.name;

#[cfg(test)]
mod help_tests;
#[cfg(test)]
mod rule_tests;
