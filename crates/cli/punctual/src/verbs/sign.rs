//! `sign`: writes a signed statement about a recording.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

use crate::context::Context;
use crate::exit::Exit;
use crate::options::select::OneRecording;
use crate::options::signing::Signing;
use crate::output::{self, Output};
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Sign>("sign");

const LONG: &str = "Write a signed statement about a recording: its data, requirement, machine and \
    verdict, for a reader who does not have the store.\n\n\
    The verdict is that of the data of the recording. The verdict of a check-up or an experiment is \
    based on more, so it is not part of the statement. The file is a DSSE envelope with an in-toto \
    statement (test-result). The key is made at the first use. Give the public key (punctual key) to \
    readers on another way than the file. With --ssh-key, a person signs also. report --certificate \
    (PDF) and store bundle contain such a statement.\n\n\
    punctual verify FILE verifies the statement. packaging/python/verify_statement.py does the same \
    without code of punctual.";

/// Write a signed statement about a recording
#[derive(Parser)]
#[command(long_about = LONG)]
struct Sign {
    #[command(flatten)]
    selected: OneRecording,
    #[command(flatten)]
    signing: Signing,
    /// File, - for stdout [default: statement-ID.json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Run for Sign {
    fn run(self, context: &Context) -> Result<Exit> {
        let signer = self.signing.signer()?;
        let recording = self.selected.load(&context.store_to_read()?)?;
        let path = self.output.unwrap_or_else(|| {
            let id = recording.id.short();
            format!("statement-{id}.json").into()
        });
        let statement = punctual_evidence::sign(&recording, Vec::new(), &signer)?;
        let file = Output::open(&path)?;
        file.put(format!("{statement}\n").as_bytes())?;
        if path.as_os_str() != "-" {
            output::note(&format!("statement written to {}", path.display()));
        }
        Ok(Exit::Done)
    }
}
