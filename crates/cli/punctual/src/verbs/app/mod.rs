//! `app`: the user's applications: those that measure themselves, and the rules for real-time
//! threads of any program.

mod lint;
mod list;
mod record;

use anyhow::Result;
use clap::Parser;

use crate::context::Context;
use crate::exit::Exit;
use crate::verb::{Run, Verb};

pub(in crate::verbs) use list::ApplicationJson;

pub(super) const VERB: Verb = Verb::new::<App>("app");

const LONG: &str = "`lint` checks the real-time threads of any program. `list` and `record` show \
    the figures of applications that measure their own jobs: latency, response and execution time, \
    missed periods. An application publishes its figures \
    with the crate punctual-app, or from C and C++ with libpunctual (docs/kit.md). The figures are \
    in sealed memory. Publishing costs about 10 ns per sample, and needs no file, socket or \
    thread.\n\n\
    The application is neither stopped nor changed. With --explain, punctual traces the kernel's \
    events around each sample above its channel's budget and names the cause. The application \
    itself supplies the release and the latency of each sample. The application must belong to the \
    same user, or punctual needs CAP_SYS_PTRACE.";

/// Check an application, or record one that measures itself
#[derive(Parser)]
#[command(long_about = LONG, disable_help_subcommand = true)]
enum App {
    /// List the applications, their channels and counters
    List(list::List),
    /// Record the figures of an application, with the machine's facts
    Record(record::Record),
    Lint(lint::Lint),
}

impl Run for App {
    fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Record(record) => record.run(context),
            Self::Lint(lint) => lint.run(context),
        }
    }
}
