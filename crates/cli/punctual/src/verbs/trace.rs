//! `trace`: the trace events around outliers, for other tools.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Parser, value_parser};

use super::select::OneRecording;
use super::{Run, Verb};
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Output, note};

pub(super) const VERB: Verb = Verb::of::<Trace>("trace");

/// The default file name of trace-cmd.
const USUAL: &str = "trace.dat";

const LONG: &str = "Write a trace.dat for trace-cmd, KernelShark and, converted, Perfetto.\n\nIt contains the \
                     pages of the kernel's ring buffer around the explained outliers of a \
                     recording (measure --threshold 100us --explain), unchanged, and the \
                     events of --event merged into them. Between \
                     two outliers no events were kept: the file marks them as missing. \
                     Times are those of CLOCK_MONOTONIC where the kernel offers it to traces. \
                     Read it with: trace-cmd report -i trace.dat. For \
                     Perfetto: trace-cmd report -N -i trace.dat > trace.txt.";

/// Export the trace events kept with a recording
#[derive(Parser)]
#[command(disable_help_subcommand = true)]
enum Trace {
    /// Write a trace.dat for trace-cmd, KernelShark and, converted, Perfetto
    #[command(long_about = LONG)]
    Export(Export),
}

#[derive(Args)]
struct Export {
    #[command(flatten)]
    selected: OneRecording,
    /// Only the events around this outlier [default: of all kept ones]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    outlier: Option<u64>,
    /// File [default: trace.dat]
    #[arg(short, long, value_name = "FILE", default_value = USUAL, hide_default_value = true)]
    output: PathBuf,
}

impl Run for Trace {
    fn run(self, context: &Context) -> Result<Exit> {
        let Self::Export(Export {
            selected,
            outlier,
            output: path,
        }) = self;
        let store = context.store_to_read()?;
        let recording = selected.load(&store)?;
        let bytes = punctual_session::export_trace(&store, recording.id, outlier)?;
        Output::open(&path)?.put(&bytes)?;
        if path != Path::new("-") {
            note(&format!(
                "{} bytes in {place}; read them with: trace-cmd report -i {place}",
                bytes.len(),
                place = path.display()
            ));
        }
        Ok(Exit::Done)
    }
}
