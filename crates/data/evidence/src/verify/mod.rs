//! Verifies a statement: its signature, its digest, its verdict, and what the verdict assumes.

mod members;
mod recording;
mod series;

use punctual_model::{FromJson, Recording, RecordingId, counted, to_json};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use self::members::Member;

use crate::canonical::{canonical_of, hex};
use crate::envelope::{Envelope, PAYLOAD_TYPE};
use crate::files::{Opened, SignedFile};
use crate::statement::{STATEMENT, Statement, Subject, TEST_RESULT};
use crate::{Check, KnownKey, NotVerified, PublicKey, SshError, State, Trusted, bundle, pdf};

/// The result of a verification.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// Subject of the statement: a recording with its ID, or a series with its period.
    pub about: String,
    /// The program that signed.
    pub program: String,
    /// Signature, digest, verdict, and agreement of the data with itself. Each must hold.
    pub integrity: Vec<Check>,
    /// Assumptions of the verdict.
    pub assumptions: Vec<Check>,
    /// Recordings and statements in a bundle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
}

to_json!(Verified);

/// Recordings that a reader has.
pub trait Recordings {
    /// Returns a recording if it is at hand. The verdict about a series is computed again from these.
    fn recording(&mut self, id: RecordingId) -> Option<Recording>;

    /// Returns the recordings of a store in a bundle.
    ///
    /// # Errors
    /// Returns the reason if the store cannot be read.
    fn of_store(&mut self, store: &[u8]) -> Result<Vec<Recording>, String>;
}

impl Verified {
    /// Returns whether the statement is what its signer said, with the verdict of its data.
    pub fn is_intact(&self) -> bool {
        self.integrity().all(|one| one.state == State::Holds)
    }

    fn integrity(&self) -> impl Iterator<Item = &Check> {
        let of_members = self.members.iter().flat_map(|one| &one.integrity);
        self.integrity.iter().chain(of_members)
    }

    /// Returns whether the statement is intact except that its signer is not known.
    pub fn lacks_only_signer(&self) -> bool {
        let is_broken = |one: &Check| one.state == State::Broken;
        !self.is_intact() && !self.integrity().any(is_broken)
    }

    /// Returns whether nothing contradicts what the verdict takes for granted.
    pub fn is_undisputed(&self) -> bool {
        let of_members = self.members.iter().flat_map(|one| &one.assumptions);
        let mut all = self.assumptions.iter().chain(of_members);
        all.all(|one| one.state != State::Broken)
    }
}

/// Verifies a signed statement, or a certificate (PDF) or bundle that contains one.
///
/// # Errors
/// Returns an error if the file contains no statement, or if no key matches its signature.
pub fn verify(
    file: &[u8],
    trusted: &Trusted,
    at_hand: &mut dyn Recordings,
) -> Result<Verified, NotVerified> {
    let mut opened = open(file)?;
    let (found, statement) = verify_opened(&opened, trusted, at_hand)?;
    let members = std::mem::take(&mut opened.members);
    Ok(Verified {
        about: found.about,
        integrity: found.integrity,
        assumptions: found.assumptions,
        members: members::members(members, &statement, trusted, at_hand),
        program: statement.predicate.program,
    })
}

/// Verifies the statement of an opened file.
fn verify_opened(
    opened: &Opened,
    trusted: &Trusted,
    at_hand: &mut dyn Recordings,
) -> Result<(Findings, Statement), NotVerified> {
    let envelope = Envelope::from_json(&opened.statement).map_err(NotVerified::NotAnEnvelope)?;
    expect(&envelope.payload_type, PAYLOAD_TYPE)?;
    let unreadable = |why: &dyn std::fmt::Display| NotVerified::Payload(why.to_string());
    let payload = (envelope.payload()).ok_or_else(|| unreadable(&"it is not base64"))?;
    let known = known_signer(&envelope, trusted, &payload)?;
    let statement = Statement::from_json(&payload);
    let statement = statement.map_err(|error| match &known {
        Some(_) => unreadable(&error),
        None => NotVerified::Signature,
    })?;
    let signature = signature(&envelope, &statement, known, &payload)?;
    expect(&statement.kind, STATEMENT)?;
    expect(&statement.predicate_type, TEST_RESULT)?;
    let predicate = &statement.predicate;
    let (mut found, first_file) = match (&predicate.recording, &predicate.series) {
        (Some(data), None) => {
            let found = recording::findings(&statement, data);
            (found.map_err(|error| unreadable(&error))?, 1)
        }
        (None, Some(data)) => {
            let found = series::findings(&statement, data, at_hand);
            let runs = series::runs(&statement).len();
            (found.map_err(|error| unreadable(&error))?, 1 + runs)
        }
        _ => return Err(unreadable(&"it is about neither a recording nor a series")),
    };
    found.integrity.insert(0, signature);
    let named = statement.subject.get(first_file..).unwrap_or_default();
    match &opened.files {
        Some(files) => found.integrity.push(same_files(named, files)),
        None if named.is_empty() => {}
        None => found.assumptions.push(Check {
            what: "files",
            state: State::Unknown,
            found: format!(
                "the statement is also about {}: verify the certificate or bundle that contains it",
                counted(named.len() as u64, "file", "files")
            ),
        }),
    }
    Ok((found, statement))
}

/// Findings about the data of a statement.
struct Findings {
    about: String,
    integrity: Vec<Check>,
    assumptions: Vec<Check>,
}

/// Compares the data with the digest in the statement, and with its canonical form: otherwise,
/// another reader could see a field that this program does not know.
fn digest_of(statement: &Statement, data: &Value, own: &Value) -> Check {
    let own = canonical_of(own.clone());
    let sha256 = hex(&Sha256::digest(&own));
    let is_named = (statement.subject.first()).is_some_and(|one| one.digest.sha256 == sha256);
    let is_canonical = canonical_of(data.clone()) == own;
    let found = match (is_named, is_canonical) {
        (true, true) => format!("SHA-256 {sha256}"),
        (_, false) => "the data has fields that this program does not know".to_owned(),
        (false, true) => {
            format!("the data has the SHA-256 {sha256}, but the statement is about another")
        }
    };
    Check::new("digest", is_named && is_canonical, found)
}

/// Compares the stated verdict with that of the data.
fn verdict(is_same: bool, stated: &str, own: String) -> Check {
    let found = if is_same {
        own
    } else {
        format!("the statement says \"{stated}\", but its data says \"{own}\"")
    };
    Check::new("verdict", is_same, found)
}

/// Takes the statement from a certificate or a bundle, by the first bytes of the file.
fn open(file: &[u8]) -> Result<Opened, NotVerified> {
    if file.starts_with(b"%PDF-") {
        pdf::open(file)
    } else if file.starts_with(bundle::MAGIC) {
        bundle::open(file)
    } else {
        Ok(Opened {
            statement: file.to_owned(),
            files: None,
            members: Vec::new(),
        })
    }
}

/// Returns the known signer in words.
fn known_signer(
    envelope: &Envelope,
    trusted: &Trusted,
    payload: &[u8],
) -> Result<Option<String>, SshError> {
    if let Some(allowed) = &trusted.ssh_signers
        && let Some(name) = envelope.person(allowed, payload)?
    {
        return Ok(Some(format!("by {name}, an allowed signer")));
    }
    let mut keys = trusted.keys.iter();
    let known = keys.find(|known| envelope.is_signed_by(&known.key, payload));
    Ok(known.map(|KnownKey { key, name }| {
        let key = key.hex();
        if name.is_empty() {
            format!("by the known key {key}")
        } else {
            format!("by the key of {name}: {key}")
        }
    }))
}

/// Checks that the statement names exactly these files.
fn same_files(named: &[Subject], files: &[SignedFile]) -> Check {
    let is_named = |file: &SignedFile| {
        let is = |one: &&Subject| one.name == file.name && one.digest.sha256 == file.sha256;
        named.iter().filter(is).count() == 1
    };
    let changed = files.iter().filter(|file| !is_named(file));
    let mut wrong: Vec<&str> = changed.map(|file| file.name.as_str()).collect();
    let is_there = |one: &&Subject| files.iter().filter(|file| file.name == one.name).count() == 1;
    let missing = named.iter().filter(|one| !is_there(one));
    wrong.extend(missing.map(|one| one.name.as_str()));
    wrong.sort_unstable();
    wrong.dedup();
    let found = if wrong.is_empty() {
        let count = counted(files.len() as u64, "file has", "files have");
        format!("{count} the signed digest")
    } else {
        format!("changed, added or missing: {}", wrong.join(", "))
    };
    Check::new("files", wrong.is_empty(), found)
}

fn expect(found: &str, expected: &'static str) -> Result<(), NotVerified> {
    if found == expected {
        return Ok(());
    }
    Err(NotVerified::OtherKind {
        found: found.to_owned(),
        expected,
    })
}

fn signature(
    envelope: &Envelope,
    statement: &Statement,
    known: Option<String>,
    payload: &[u8],
) -> Result<Check, NotVerified> {
    if let Some(known) = known {
        return Ok(Check::new("signature", true, known));
    }
    let stated = PublicKey::from_hex(&statement.predicate.public_key);
    let stated = stated.map_err(|_| NotVerified::Signature)?;
    if !envelope.is_signed_by(&stated, payload) {
        return Err(NotVerified::Signature);
    }
    let hex = stated.hex();
    let found = format!(
        "by a key that is not known here: ask its owner for the output of punctual key, on another \
         way than this file; if it names this key, pass --key {hex}"
    );
    Ok(Check {
        what: "signature",
        state: State::Unknown,
        found,
    })
}

#[cfg(test)]
mod tests;
