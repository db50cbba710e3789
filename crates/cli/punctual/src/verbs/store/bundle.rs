//! `store bundle`: packs a recording and the data that a support request needs into one file.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;
use punctual_evidence::{STATEMENT_FILE, SignedFile, Signer};
use punctual_host::Host;
use punctual_model::Recording;
use punctual_store::Store;
use punctual_store::bundle::{Bundle, Readers};

use crate::context::Context;
use crate::exit::Exit;
use crate::options::extension;
use crate::options::select::OneRecording;
use crate::options::signing::Signing;
use crate::output::{Output, note};
use crate::recordings::timelines;
use crate::verb::Run;

const CONTENTS: &str = "The archive contains the recording as JSON and as a separate store, the \
    causes of its outliers, their trace events (trace.dat) if they were kept, and a signed statement \
    about all files (punctual verify). It also contains \
    the current state of this machine: hardware, PCI devices, settings, interrupts, modules, and the \
    kernel's configuration, command line and log. Unreadable files are listed. Check the archive before you \
    send it: the log and the command line can contain names and addresses.";

/// Pack a recording with the facts of its machine into an archive
#[derive(Parser)]
#[command(after_help = CONTENTS)]
pub(super) struct BundleFile {
    #[command(flatten)]
    selected: OneRecording,
    #[command(flatten)]
    signing: Signing,
    /// File (.tar.zst), - for stdout [default: punctual-ID.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Omit this machine's facts, if another machine was measured
    #[arg(long)]
    without_machine: bool,
    /// Let other users read the bundle [default: mode 0600]
    #[arg(long)]
    public: bool,
}

impl Run for BundleFile {
    fn run(self, context: &Context) -> Result<Exit> {
        let store = context.store_to_read()?;
        let mut recording = self.selected.load(&store)?;
        // The statement is about the recording as it is stored.
        let stored = recording.clone();
        punctual_culprit::complete(&mut recording);
        let short = recording.id.short();
        let path = self
            .output
            .unwrap_or_else(|| format!("punctual-{short}.tar.zst").into());
        extension::check(&path, &["zst"])?;
        let readers = if self.public {
            Readers::All
        } else {
            Readers::Owner
        };
        let signer = self.signing.signer_if_possible()?;
        let mut output = match readers {
            Readers::Owner => Output::private(&path)?,
            Readers::All => Output::open(&path)?,
        };
        let mut bundle = Bundle::new(&mut output, Some(&store), &recording, readers)?;
        explained(&mut bundle, &store, &recording)?;
        if !self.without_machine {
            machine(&mut bundle, &recording)?;
        }
        if let Some(signer) = signer {
            sign(&mut bundle, &stored, &signer)?;
        }
        bundle.finish()?;
        output.finish()?;
        if path != Path::new("-") {
            note(&format!("bundle written to {}", path.display()));
        }
        Ok(Exit::Done)
    }
}

/// Adds a statement about the recording and all files.
fn sign<W: Write>(bundle: &mut Bundle<W>, recording: &Recording, signer: &Signer) -> Result<()> {
    let about = "signed statement about the recording and all other files; to verify it: punctual \
         verify BUNDLE";
    let files = bundle.list(&[(STATEMENT_FILE, about)])?;
    let files = files.into_iter();
    let files = files.map(|(name, sha256)| SignedFile { name, sha256 });
    let statement = punctual_evidence::sign(recording, files.collect(), signer)?;
    bundle.add(STATEMENT_FILE, about, format!("{statement}\n").as_bytes())?;
    Ok(())
}

/// Adds the causes of the outliers, and their trace.
fn explained<W: Write>(bundle: &mut Bundle<W>, store: &Store, recording: &Recording) -> Result<()> {
    if recording.explanation.is_some() {
        let text = punctual_report::outliers_text(&timelines::all(store, recording)?);
        bundle.add("outliers.txt", "causes of each outlier", text.as_bytes())?;
    }
    match punctual_session::export_trace(store, recording.id, None) {
        Ok(trace) => bundle.add(
            "trace.dat",
            "for trace-cmd and KernelShark; for Perfetto, convert it with: trace-cmd report -N",
            &trace,
        )?,
        Err(error) => bundle.lack("trace.dat", &error.to_string()),
    }
    Ok(())
}

/// Adds the current state of this machine.
fn machine<W: Write>(bundle: &mut Bundle<W>, recording: &Recording) -> Result<()> {
    let host = Host::live();
    let facts = host.facts();
    let same = punctual_host::fingerprint(&facts) == punctual_host::fingerprint(&recording.host);
    let about = if same {
        "the machine's current state"
    } else {
        "the machine's current state; the machine or its settings have changed since the \
         measurement"
    };
    bundle.put_json("machine/host.json", about, &facts)?;
    for file in host.support_files() {
        let name = format!("machine/{}", file.name);
        match file.content {
            Ok(content) => bundle.add(&name, &file.source, &content)?,
            Err(why) => bundle.lack(&name, &format!("{}: {why}", file.source)),
        }
    }
    Ok(())
}
