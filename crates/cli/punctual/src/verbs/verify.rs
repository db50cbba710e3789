//! `verify`: verifies a signed statement about a recording.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_evidence::{
    Check, KnownKey, Member, PublicKey, Recordings, SigningKey, State, Trusted, Verified,
};
use punctual_files::Budget;
use punctual_model::{Recording, RecordingId};
use punctual_store::{Store, StoreError};

use crate::context::{Context, earlier_keys, signing_key};
use crate::exit::{Exit, with_causes};
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Verify>("verify");

/// Maximum size of a statement, certificate or bundle, in bytes.
const LARGEST: u64 = 256 << 20;

const LONG: &str = "Verify a signed statement about a recording: as punctual sign writes it, in the PDF \
    of a certificate (report --certificate), or in a bundle (store bundle). Or verify the statement about \
    a sampled series: check --series NAME -o FILE.pdf or FILE.intoto.json.\n\n\
    Checks the signature, the digest of the data, and whether the samples, missed periods and \
    histograms agree. Computes the verdict again from the data, and shows what the recording says \
    about each assumption of the verdict. A signature counts if it is by a key of --key or --keys, by a \
    key of this machine, or by the SSH key of a person in the file of --ssh-signers. In a certificate, \
    each byte of the PDF is signed; the signer vouches for the text of the page. In a bundle, each file \
    is signed. Each recording and statement in it is verified also, and gets a line.\n\n\
    A statement about a series names the digests of the recordings of its runs. Those that are in the store \
    (--store) are judged again. Without them, the results of the runs are those of the signer.";

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
    /// Public key of the signer (punctual key), in hexadecimal digits
    #[arg(long, value_name = "KEY", value_parser = PublicKey::from_hex)]
    key: Vec<PublicKey>,
    /// File with public keys of signers (key -o): in each line a key and a name
    #[arg(long, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// File with SSH keys of people whose signatures count (ssh-keygen(1), ALLOWED SIGNERS)
    #[arg(long, value_name = "FILE")]
    ssh_signers: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Run for Verify {
    fn run(self, context: &Context) -> Result<Exit> {
        let mut keys: Vec<_> = (self.key.into_iter())
            .map(|key| KnownKey::new(key, ""))
            .collect();
        for list in &self.keys {
            keys.extend(KnownKey::read(list)?);
        }
        match own_keys() {
            Ok(own) => keys.extend(own),
            // Statements of other machines can be verified nevertheless.
            Err(error) => output::note(&with_causes(&error)),
        }
        let trusted = Trusted {
            keys,
            ssh_signers: self.ssh_signers,
        };
        let file = Budget::bytes(LARGEST).read(&self.file)?;
        let mut known = Known {
            context,
            store: None,
        };
        let verified = punctual_evidence::verify(&file, &trusted, &mut known)
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

/// The recordings of the store. It is opened for the first one.
struct Known<'a> {
    context: &'a Context,
    store: Option<Option<Store>>,
}

impl Recordings for Known<'_> {
    fn recording(&mut self, id: RecordingId) -> Option<Recording> {
        let said = |error: anyhow::Error| {
            output::note(&format!("not judged again: {}", with_causes(&error)));
        };
        let open = || self.context.store_to_read().map_err(said).ok();
        match self.store.get_or_insert_with(open).as_ref()?.load(id) {
            Err(StoreError::NoSuch { .. }) => None,
            loaded => loaded.map_err(|error| said(error.into())).ok(),
        }
    }

    fn of_store(&mut self, store: &[u8]) -> Result<Vec<Recording>, String> {
        punctual_store::bundle::recordings(store).map_err(|error| with_causes(&error.into()))
    }
}

/// Returns the keys of this machine. A reader who never signed has none, and none is made here.
fn own_keys() -> Result<Vec<KnownKey>> {
    let (Ok(path), Ok(earlier)) = (signing_key(), earlier_keys()) else {
        return Ok(Vec::new());
    };
    let mut keys = KnownKey::read_if_any(&earlier)?;
    if path.exists() {
        let own = SigningKey::open(&path)?.public();
        keys.insert(0, KnownKey::new(own, "this machine"));
    }
    Ok(keys)
}

fn text(verified: &Verified) -> String {
    let mut text = format!(
        "statement about {}, signed with {}\n",
        verified.about, verified.program
    );
    for check in verified.integrity.iter().chain(&verified.assumptions) {
        text.push_str(&line(check.state, check.what, &check.found));
    }
    for member in &verified.members {
        text.push_str(&member_line(member));
    }
    text.push_str(match (verified.is_intact(), verified.is_undisputed()) {
        (false, _) if verified.lacks_only_signer() => {
            "the statement agrees with its data, but its signer is not known\n"
        }
        (false, _) => "the statement does not hold\n",
        (true, false) => "the statement holds, but not every assumption of its verdict\n",
        (true, true) => "the statement holds\n",
    });
    punctual_model::sanitize_lines(&text, false).into_owned()
}

/// Returns the line of a recording or statement in a bundle: what does not hold, or its verdict.
fn member_line(member: &Member) -> String {
    let all = || member.integrity.iter().chain(&member.assumptions);
    let with = |state: State| all().filter(move |check| check.state == state);
    let broken = with(State::Broken).next().is_some();
    let unknown = (member.integrity.iter()).any(|check| check.state == State::Unknown)
        || member.integrity.is_empty();
    let (state, shown): (_, Vec<&Check>) = match (broken, unknown) {
        (true, _) => (State::Broken, with(State::Broken).collect()),
        (false, true) => (State::Unknown, with(State::Unknown).collect()),
        (false, false) => {
            let verdict = member
                .integrity
                .iter()
                .filter(|check| check.what == "verdict");
            (State::Holds, verdict.collect())
        }
    };
    let found = shown
        .iter()
        .map(|check| format!("{}: {}", check.what, check.found));
    let found: Vec<String> = [member.about.clone()].into_iter().chain(found).collect();
    line(
        state,
        &member.name,
        found.join("; ").trim_start_matches("; "),
    )
}

fn line(state: State, what: &str, found: &str) -> String {
    let sign = match state {
        State::Holds => "\u{2713}",
        State::Broken => "\u{2717}",
        State::Unknown => "?",
    };
    format!("{sign} {what:<11} {found}\n")
}
