//! `verify`: verifies a signed statement about a recording.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_evidence::{Check, PublicKey, SigningKey, State, Trusted, Verified};
use punctual_files::Budget;

use crate::context::{Context, signing_key};
use crate::exit::Exit;
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Verify>("verify");

/// Maximum size of a statement, certificate or bundle, in bytes.
const LARGEST: u64 = 256 << 20;

const LONG: &str = "Verify a signed statement about a recording: as punctual sign writes it, in the PDF \
    of a certificate (report --certificate), or in a bundle (store bundle).\n\n\
    Checks the signature, the digest of the data, and whether the samples, missed periods and \
    histograms agree. Computes the verdict again from the data, and shows what the recording says \
    about each assumption of the verdict. A signature counts if it is by a key of --key, by the \
    key of this machine, or by the SSH key of a person in the file of --ssh-signers. In a certificate, \
    each byte of the PDF is signed; the signer vouches for the text of the page. In a bundle, each file \
    is signed.";

const AFTER: &str = "Exit codes:\n  \
    0  the statement holds\n  \
    1  it does not: it was changed, or its key is not known\n  \
    4  it holds, but an assumption of its verdict does not";

/// Verify a signed statement about a recording
#[derive(Parser)]
#[command(long_about = LONG, after_long_help = AFTER)]
struct Verify {
    /// Statement (.json), certificate (.pdf) or bundle (.tar.zst)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Public key of the signer (sign --public-key), in hexadecimal digits
    #[arg(long, value_name = "KEY", value_parser = PublicKey::from_hex)]
    key: Vec<PublicKey>,
    /// File with SSH keys of people whose signatures count (ssh-keygen(1), ALLOWED SIGNERS)
    #[arg(long, value_name = "FILE")]
    ssh_signers: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Run for Verify {
    fn run(self, context: &Context) -> Result<Exit> {
        let mut trusted = Trusted {
            keys: self.key,
            ssh_signers: self.ssh_signers,
        };
        // A reader who never signed has no key, and none is made for reading.
        if let Ok(path) = signing_key()
            && path.exists()
        {
            trusted.keys.push(SigningKey::open(&path)?.public());
        }
        let file = Budget::bytes(LARGEST).read(&self.file)?;
        let verified = punctual_evidence::verify(&file, &trusted)
            .with_context(|| format!("{} is not verified", self.file.display()))?;
        let exit = match (verified.is_intact(), verified.is_undisputed()) {
            (false, _) => Exit::Failed,
            (true, false) => Exit::NotProven,
            (true, true) => Exit::Done,
        };
        context.ends_with(exit);
        output::print(&if self.json {
            output::json(&verified)
        } else {
            text(&verified)
        })?;
        Ok(exit)
    }
}

fn text(verified: &Verified) -> String {
    let mut text = format!(
        "statement about recording {}, signed with {}\n",
        verified.recording, verified.program
    );
    for check in verified.integrity.iter().chain(&verified.assumptions) {
        text.push_str(&line(check));
    }
    text.push_str(match (verified.is_intact(), verified.is_undisputed()) {
        (false, _) => "the statement does not hold\n",
        (true, false) => "the statement holds, but not every assumption of its verdict\n",
        (true, true) => "the statement holds\n",
    });
    punctual_model::sanitize_lines(&text, false).into_owned()
}

fn line(check: &Check) -> String {
    let sign = match check.state {
        State::Holds => "\u{2713}",
        State::Broken => "\u{2717}",
        State::Unknown => "?",
    };
    format!("{sign} {:<11} {}\n", check.what, check.found)
}
