//! `trace`: the trace events around outliers, for other tools.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};

use super::{Verb, output_option, recording_argument, select};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{Output, note};

pub(super) const VERB: Verb = Verb { command, run };

/// The default file name of trace-cmd.
const USUAL: &str = "trace.dat";

fn command() -> Command {
    Command::new("trace")
        .about("Export the trace events kept with a recording")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("export")
                .about("Write a trace.dat for trace-cmd, KernelShark and, converted, Perfetto")
                .long_about(
                    "Write a trace.dat for trace-cmd, KernelShark and, converted, Perfetto.\n\nIt contains the \
                     pages of the kernel's ring buffer around the explained outliers of a \
                     recording (measure --threshold 100us --explain), unchanged. Between \
                     two outliers no events were kept: the file marks them as missing. \
                     Times are those of CLOCK_MONOTONIC where the kernel offers it to traces. \
                     Read it with: trace-cmd report -i trace.dat. For \
                     Perfetto: trace-cmd report -N -i trace.dat > trace.txt.",
                )
                .arg(recording_argument())
                .arg(
                    Arg::new("outlier")
                        .long("outlier")
                        .value_name("N")
                        .value_parser(value_parser!(u64).range(1..))
                        .help("Only the events around this outlier [default: of all kept ones]"),
                )
                .arg(output_option("File [default: trace.dat]").default_value(USUAL)),
        )
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    match matches.subcommand() {
        Some(("export", matches)) => export(matches, context),
        _ => Err(UsageError("see punctual trace --help".to_owned()).into()),
    }
}

fn export(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let store = context.store_to_read()?;
    let recording = select::one(matches, &store)?;
    let outlier = matches.get_one::<u64>("outlier").copied();
    let bytes = punctual_session::export_trace(&store, recording.id, outlier)?;
    let path = matches.get_one::<PathBuf>("output");
    let path = path.map_or(Path::new(USUAL), PathBuf::as_path);
    Output::open(path)?.put(&bytes)?;
    if path != Path::new("-") {
        note(&format!(
            "{} bytes in {place}; read them with: trace-cmd report -i {place}",
            bytes.len(),
            place = path.display()
        ));
    }
    Ok(Exit::Done)
}
