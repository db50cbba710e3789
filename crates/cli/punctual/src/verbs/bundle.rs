//! `bundle`: the data of a support request for a recording, in one file.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use jiff::Timestamp;
use punctual_host::Host;
use punctual_model::{Recording, Sample};
use punctual_store::{Lease, Store, StoreError};

use super::explain::timelines;
use super::select::OneRecording;
use super::{Run, Verb, extension};
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Output, note};

pub(super) const VERB: Verb = Verb::of::<BundleFile>("bundle");

/// Fast, with most of the possible compression.
const LEVEL: i32 = 6;

const CONTENTS: &str = "The archive contains the recording as JSON and as a separate store, the trace events \
             (trace.dat, if kept) and the causes of its outliers; and, of this machine in its \
             present state, hardware and settings, the kernel's configuration, command line and \
             log, interrupts and modules. Unreadable files are listed. Check it before you send \
             it: the log and the command line can contain names and addresses.";

/// Pack a recording with the facts of its machine, for others
#[derive(Parser)]
#[command(after_help = CONTENTS)]
struct BundleFile {
    #[command(flatten)]
    selected: OneRecording,
    /// File (.tar.zst), - for stdout [default: punctual-ID.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Omit this machine's facts: another machine was measured
    #[arg(long)]
    without_machine: bool,
    /// Let other users read the bundle [default: mode 0600]
    #[arg(long)]
    public: bool,
}

/// The readers of the bundle and of its unpacked files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    Owner,
    All,
}

impl Readers {
    fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::All => 0o644,
        }
    }
}

impl Run for BundleFile {
    fn run(self, context: &Context) -> Result<Exit> {
        let store = context.store_to_read()?;
        let mut recording = self.selected.load(&store)?;
        timelines::complete_in(&mut recording);
        let short = recording.id.short();
        let path = self
            .output
            .unwrap_or_else(|| format!("punctual-{short}.tar.zst").into());
        extension::check(&path, &["zst"])?;
        let readers = match self.public {
            true => Readers::All,
            false => Readers::Owner,
        };
        let mut output = match readers {
            Readers::Owner => Output::private(&path)?,
            Readers::All => Output::open(&path)?,
        };
        let with_machine = !self.without_machine;
        pack(&mut output, Some(&store), &recording, readers, with_machine)?;
        output.finish()?;
        if path != Path::new("-") {
            note(&format!("bundle written to {}", path.display()));
        }
        Ok(Exit::Done)
    }
}

/// Writes a bundle. `with_machine`: with the present state of this machine, which a server
/// leaves out, as the recording may be of another one. Without a store there are neither
/// samples nor events.
pub(super) fn pack(
    to: impl Write,
    store: Option<&Store>,
    recording: &Recording,
    readers: Readers,
    with_machine: bool,
) -> Result<()> {
    let mut bundle = Bundle::new(to, format!("punctual-{}", recording.id.short()), readers)?;
    recorded(&mut bundle, store, recording)?;
    if with_machine {
        machine(&mut bundle, recording)?;
    }
    bundle.finish(recording)
}

/// An archive while it is written.
struct Bundle<W: Write> {
    archive: tar::Builder<zstd::Encoder<'static, W>>,
    folder: String,
    readers: Readers,
    time: u64,
    /// Each file, or the reason why it is missing.
    contents: Vec<String>,
}

impl<W: Write> Bundle<W> {
    fn new(to: W, folder: String, readers: Readers) -> Result<Self> {
        let packed = zstd::Encoder::new(to, LEVEL).context("cannot compress")?;
        Ok(Self {
            archive: tar::Builder::new(packed),
            folder,
            readers,
            time: u64::try_from(Timestamp::now().as_second()).unwrap_or(0),
            contents: Vec::new(),
        })
    }

    fn put(&mut self, name: &str, about: &str, content: &[u8]) -> Result<()> {
        self.contents.push(format!("{name}: {about}"));
        self.file(name, content)
    }

    fn lack(&mut self, name: &str, why: &str) {
        self.contents.push(format!("{name}: missing: {why}"));
    }

    fn file(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(self.readers.mode());
        header.set_mtime(self.time);
        let path = format!("{}/{name}", self.folder);
        self.archive
            .append_data(&mut header, path, content)
            .context("cannot write the bundle")
    }

    /// The list of contents is written last, when it is complete.
    fn finish(mut self, recording: &Recording) -> Result<()> {
        let text = format!(
            "Bundle of the recording {} of {}, made by punctual {} at {}.\n\n{}\n",
            recording.id,
            recording.started,
            env!("CARGO_PKG_VERSION"),
            Timestamp::now(),
            self.contents.join("\n")
        );
        self.file("CONTENTS.txt", text.as_bytes())?;
        let packed = self
            .archive
            .into_inner()
            .context("cannot write the bundle")?;
        packed.finish().context("cannot write the bundle")?;
        Ok(())
    }
}

/// The recording.
fn recorded<W: Write>(
    bundle: &mut Bundle<W>,
    store: Option<&Store>,
    recording: &Recording,
) -> Result<()> {
    let json = output::json(recording)?;
    bundle.put("recording.json", "the recording", json.as_bytes())?;
    let rows = copied(store, recording)?;
    bundle.put(
        "store.db",
        "the same with its samples and trace events: punctual --store store.db show",
        &rows,
    )?;
    let facts = output::json(&recording.host)?;
    bundle.put(
        "host.json",
        "the machine that was measured",
        facts.as_bytes(),
    )?;
    let Some(store) = store else {
        bundle.lack("trace.dat", "the store keeps no trace events");
        return Ok(());
    };
    if recording.explanation.is_some() {
        let style = punctual_report::text::TextStyle {
            width: 110,
            ..Default::default()
        };
        let mut text = String::new();
        for outlier in recording.explanation.iter().flat_map(|all| &all.outliers) {
            if let Some(timeline) = timelines::timeline(store, recording, outlier.number)? {
                let shown = punctual_report::document::outlier(&timeline, true);
                text += &punctual_report::text::render(&shown, &style);
                text.push('\n');
            }
        }
        bundle.put("outliers.txt", "causes of each outlier", text.as_bytes())?;
    }
    match punctual_session::export_trace(store, recording.id, None) {
        Ok(trace) => bundle.put(
            "trace.dat",
            "for trace-cmd and KernelShark; for Perfetto: trace-cmd report -N",
            &trace,
        ),
        Err(error) => {
            bundle.lack("trace.dat", &error.to_string());
            Ok(())
        }
    }
}

/// A store with this recording only and its attachments.
fn copied(store: Option<&Store>, recording: &Recording) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let path = folder.path().join("store.db");
    let copy = Store::open(&path)?;
    let mut running = recording.clone();
    running.completion = punctual_model::Completion::Running;
    // No writer is left.
    let mut writer = copy.begin(&running, &Lease::default())?;
    if let Some(store) = store {
        for thread in 0..recording.threads.len() as u32 {
            store.samples(recording.id, thread, &mut |samples: &[Sample]| {
                writer.samples(thread, samples)
            })?;
        }
        for attached in store.attachments(recording.id)? {
            let content = store.attachment(recording.id, &attached.kind, attached.number)?;
            if let Some((about, body)) = content {
                writer.attach(&attached.kind, attached.number, &about, &body)?;
            }
        }
    }
    match recording.completion {
        // A running recording continues; the copy has its present state.
        punctual_model::Completion::Running => {
            let stopped = Recording {
                completion: punctual_model::Completion::Interrupted,
                ..recording.clone()
            };
            writer.finish(&stopped)?;
        }
        _ => writer.finish(recording)?,
    }
    drop(copy);
    std::fs::read(&path)
        .map_err(|source| StoreError::Folder { path, source })
        .context("cannot read the copy of the store")
}

/// The machine's present state.
fn machine<W: Write>(bundle: &mut Bundle<W>, recording: &Recording) -> Result<()> {
    let host = Host::live();
    let facts = host.facts();
    let same = punctual_host::fingerprint(&facts) == punctual_host::fingerprint(&recording.host);
    let about = match same {
        true => "the machine's present state",
        false => {
            "the machine's present state: settings differ from the measurement, or another machine"
        }
    };
    let json = output::json(&facts)?;
    bundle.put("machine/host.json", about, json.as_bytes())?;
    for file in host.support_files() {
        let name = format!("machine/{}", file.name);
        match file.content {
            Ok(content) => bundle.put(&name, &file.source, &content)?,
            Err(why) => bundle.lack(&name, &format!("{}: {why}", file.source)),
        }
    }
    Ok(())
}
