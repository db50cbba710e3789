//! Behaviour of punctual when it is called by the name of an older tool.
//!
//! **For:** behaving like the older tool, with the same options and meanings, and identical output
//! lines, JSON and exit status. Scripts that use the tool gain punctual's accounting without a
//! change, because each run is also a full recording.
//!
//! **Knows:** an entry ([`Tool`]) for each tool. The entry contains the options with their setters,
//! their translation to a [`Request`](punctual_session::Request), the translation of the results to
//! output lines, and the intended differences. Session, store, host and the types in `formats` do
//! the rest.
//!
//! **Must not know:** how anything is measured; the command line of punctual itself; the
//! destination of stdout and stderr (it writes to the [`ToolContext`]).
//!
//! Each tool has one file (or folder) that contains its entry, and one line in [`TOOLS`]. Help
//! text, documentation page, links and dispatch are derived from the entry.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod cyclicdeadline;
mod cyclictest;
mod entry;
mod error;
mod getopt;
mod hwlatdetect;
mod install;
mod json;
mod lines;
mod live_output;
mod machine;
mod option_row;
mod option_spec;
mod options;
mod oslat;
mod page;
mod pairs;
mod programs;
mod rtla;
mod run;
mod shared;
mod signaltest;
#[cfg(test)]
mod testing;
mod times;
mod tool_context;
mod usage;
mod values;

pub use entry::{Difference, Family, NotReplaced, Removed, Tool};
pub use error::CompatError;
pub use getopt::{Given, Parsed};
pub use install::{InstallError, Installed, install};
pub use option_spec::{NextWord, OptionSpec, Takes};
pub use page::{COMMON, list, page};
pub use programs::{called, programs};
pub use run::run;
pub use tool_context::{Behaviour, Signals, ToolContext};

/// All tools. To add a tool, write a file that contains its entry and add a line here.
pub const TOOLS: &[Tool] = &[
    cyclictest::TOOL,
    signaltest::TOOL,
    pairs::PTSEMATEST,
    pairs::SVSEMATEST,
    pairs::SIGWAITTEST,
    pairs::PMQTEST,
    oslat::TOOL,
    hwlatdetect::TOOL,
    cyclicdeadline::TOOL,
    rtla::TIMERLAT_HIST,
    rtla::TIMERLAT_TOP,
    rtla::OSNOISE_HIST,
    rtla::OSNOISE_TOP,
    rtla::HWNOISE,
];

/// The tools of rt-tests that punctual does not replace.
pub const NOT_REPLACED: &[NotReplaced] = &[
    NotReplaced {
        name: "deadline_test",
        advice: "punctual measure deadline --work TIME counts missed deadlines and overruns",
    },
    NotReplaced {
        name: "hackbench",
        advice: "punctual measure timer --load messages measures latency while threads exchange \
            messages; punctual measure switch measures the cost of a switch between threads",
    },
    NotReplaced {
        name: "pi_stress",
        advice: "punctual measure inversion measures how long an inversion lasts with priority \
            inheritance, and without it (--lock)",
    },
    NotReplaced {
        name: "pip_stress",
        advice: "punctual measure inversion measures priority inheritance between threads; nothing \
            measures it between processes",
    },
    NotReplaced {
        name: "queuelat",
        advice: "nothing in punctual simulates the queue of a network card; punctual measure \
            network and punctual measure socket measure real frames",
    },
    NotReplaced {
        name: "rt-migrate-test",
        advice: "punctual measure migrate measures how long real-time threads wait for a CPU on \
            which a thread of lower priority runs",
    },
    NotReplaced {
        name: "ssdd",
        advice: "it is a test of ptrace(2), not a measurement",
    },
];
