//! Verifies a statement: its signature, its digest, its verdict, and what the verdict assumes.

use punctual_model::{FromJson, IntervalRow, Recording, ThreadRecord, ToJson, counted, to_json};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::assumptions::assumptions;
use crate::canonical::{canonical, canonical_of, hex};
use crate::envelope::{Envelope, PAYLOAD_TYPE};
use crate::files::{Opened, SignedFile};
use crate::statement::{STATEMENT, Statement, Subject, TEST_RESULT, result};
use crate::{Check, NotVerified, PublicKey, SshError, State, Trusted, bundle, pdf};

/// The result of a verification.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// ID of the recording.
    pub recording: String,
    /// The program that signed.
    pub program: String,
    /// Signature, digest, verdict, and agreement of the data with itself. Each must hold.
    pub integrity: Vec<Check>,
    /// Assumptions of the verdict.
    pub assumptions: Vec<Check>,
}

to_json!(Verified);

impl Verified {
    /// Returns whether the statement is what its signer said, with the verdict of its data.
    pub fn is_intact(&self) -> bool {
        self.integrity.iter().all(|one| one.state == State::Holds)
    }

    /// Returns whether nothing contradicts what the verdict takes for granted.
    pub fn is_undisputed(&self) -> bool {
        self.assumptions
            .iter()
            .all(|one| one.state != State::Broken)
    }
}

/// Verifies a signed statement, or a certificate (PDF) or bundle that contains one.
///
/// # Errors
/// Returns an error if the file contains no statement, or if no key matches its signature.
pub fn verify(file: &[u8], trusted: &Trusted) -> Result<Verified, NotVerified> {
    let opened = open(file)?;
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
    let mut recording = recording(&statement).map_err(|error| unreadable(&error))?;
    let stated = recording.verdict.clone();
    recording.judge_anew();
    let mut integrity = vec![signature, digest_of(&statement, &recording)];
    let own = &recording.verdict;
    let is_same = *own == stated && result(own.outcome) == statement.predicate.result;
    integrity.push(Check::new(
        "verdict",
        is_same,
        if is_same {
            own.sentence.clone()
        } else {
            format!(
                "the statement says \"{}\", but its data says \"{}\"",
                stated.sentence, own.sentence
            )
        },
    ));
    integrity.push(accounting(&recording));
    let mut assumptions = assumptions(&recording);
    let named = statement.subject.get(1..).unwrap_or_default();
    match &opened.files {
        Some(files) => integrity.push(same_files(named, files)),
        None if named.is_empty() => {}
        None => assumptions.push(Check {
            what: "files",
            state: State::Unknown,
            found: format!(
                "the statement is also about {}: verify the certificate or bundle that contains it",
                counted(named.len() as u64, "file", "files")
            ),
        }),
    }
    Ok(Verified {
        recording: recording.id.to_string(),
        program: statement.predicate.program,
        integrity,
        assumptions,
    })
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
    let key = keys.find(|key| envelope.is_signed_by(key, payload));
    Ok(key.map(|key| format!("by the known key {}", key.hex())))
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
    let found =
        format!("by a key that is not known here: if its owner confirms it, pass --key {hex}");
    Ok(Check::new("signature", false, found))
}

/// Returns the recording with the verdict of the statement.
fn recording(statement: &Statement) -> Result<Recording, punctual_model::ReadError> {
    let mut predicate = statement.to_value()["predicate"].take();
    let verdict = predicate["verdict"].take();
    let mut recording = predicate["recording"].take();
    if let Some(fields) = recording.as_object_mut() {
        fields.insert("verdict".to_owned(), verdict);
    }
    Recording::from_json(&recording.to_string())
}

/// The data must have its canonical form. Otherwise, another reader could see a field that this
/// program does not know.
fn digest_of(statement: &Statement, recording: &Recording) -> Check {
    let own = canonical(recording);
    let sha256 = hex(&Sha256::digest(&own));
    let is_named = matches!(statement.subject.as_slice(), [one, ..] if one.digest.sha256 == sha256);
    let is_canonical = canonical_of(statement.predicate.recording.clone()) == own;
    let found = match (is_named, is_canonical) {
        (true, true) => format!("SHA-256 {sha256}"),
        (_, false) => "the data has fields that this program does not know".to_owned(),
        (false, true) => {
            format!("the data has the SHA-256 {sha256}, but the statement is about another")
        }
    };
    Check::new("digest", is_named && is_canonical, found)
}

/// Checks that the data of the recording agree with each other.
fn accounting(recording: &Recording) -> Check {
    let threads = (0..).zip(&recording.threads);
    let wrong = threads.filter_map(|(place, thread)| contradiction(recording, place, thread));
    let wrong: Vec<String> = wrong.collect();
    let count = counted(recording.threads.len() as u64, "thread", "threads");
    let found = if wrong.is_empty() {
        format!("samples, missed periods and histograms of {count} agree")
    } else {
        wrong.join("; ")
    };
    Check::new("accounting", wrong.is_empty(), found)
}

fn contradiction(recording: &Recording, place: u32, thread: &ThreadRecord) -> Option<String> {
    let account = thread.accounting;
    let title = thread.title();
    if !account.balances() {
        return Some(format!("the periods of {title} do not add up"));
    }
    if thread.histogram.recorded() != account.recorded {
        return Some(format!(
            "the histogram of {title} has another number of samples"
        ));
    }
    let rows = recording
        .series
        .rows
        .iter()
        .filter(|row| row.thread == place);
    let sum = |of: fn(&IntervalRow) -> u64| rows.clone().map(of).fold(0, u64::saturating_add);
    let (count, missed) = (sum(|row| row.count), sum(|row| row.missed));
    // Old rows may have been removed, and a full ring buffer drops rows.
    let has_rows = rows.clone().next().is_some() && recording.series.dropped == 0;
    if has_rows && (count, missed) != (account.recorded, account.missed) {
        return Some(format!(
            "the time series of {title} has another number of periods"
        ));
    }
    let samples = recording.top_samples.iter();
    let largest = samples.filter(|sample| sample.thread == place);
    let largest = largest.map(|sample| sample.latency_ns).max();
    (largest > thread.histogram.max() && thread.missed_histogram.is_none())
        .then(|| format!("a sample of {title} is larger than its maximum"))
}

#[cfg(test)]
mod tests;
