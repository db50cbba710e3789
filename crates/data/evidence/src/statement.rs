//! The statement about a recording or a series: an in-toto statement with a test result.

use punctual_model::{
    FromJson, Outcome, Recording, RecordingId, SeriesProof, ToJson, Verdict, from_json, to_json,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::canonical::{canonical, canonical_of, digest, hex};
use crate::envelope::Envelope;
use crate::{PublicKey, SignedFile, Signer, SshError};

/// in-toto statements, version 1.
pub(crate) const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// The predicate with the result of a test.
pub(crate) const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// A statement.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Statement {
    #[serde(rename = "_type")]
    pub(crate) kind: String,
    pub(crate) subject: Vec<Subject>,
    pub(crate) predicate_type: String,
    pub(crate) predicate: Predicate,
}

to_json!(Statement);
from_json!(Statement);

/// Subject of the statement: first the recording, or the series and the recordings of its runs, then
/// files.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) digest: Sha256Digest,
}

impl Subject {
    fn new(name: String, sha256: String) -> Self {
        let digest = Sha256Digest { sha256 };
        Self { name, digest }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Sha256Digest {
    pub(crate) sha256: String,
}

/// The result of the test, and everything that is needed to compute it again.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Predicate {
    /// PASSED, FAILED, or WARNED if the requirement is undecided or missing.
    pub(crate) result: String,
    configuration: Vec<Subject>,
    /// The program that signed.
    pub(crate) program: String,
    /// The key that signed, for readers who know it.
    pub(crate) public_key: String,
    /// The verdict of the program on the data of the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
    /// The recording, as its canonical bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recording: Option<Value>,
    /// The verdict over the runs of a series, with the requirement and the result of each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) series: Option<Value>,
}

/// Returns the result in the words of the predicate.
pub(crate) const fn result(outcome: Outcome) -> &'static str {
    if outcome.is_good() {
        "PASSED"
    } else if outcome.is_bad() {
        "FAILED"
    } else {
        "WARNED"
    }
}

/// Returns a signed statement about a recording as JSON: its data, requirement and verdict. The
/// verdict is that of its data; a verdict of a check-up or experiment is based on more. The statement
/// is also about `files`, such as those of a bundle.
///
/// # Errors
/// Returns an error if the SSH key of the signer cannot be used.
pub fn sign(
    recording: &Recording,
    files: Vec<SignedFile>,
    signer: &Signer,
) -> Result<String, SshError> {
    let mut own = recording.clone();
    own.verdict = own.judge_data();
    let statement = statement(&own, &own.verdict, &signer.key.public());
    seal(statement, files, signer)
}

/// Returns a signed statement about the runs of a series as JSON: their digests, the requirement, the
/// result of each run and the verdict. `runs` has the recordings of the runs with their [`digest`].
/// The statement is also about `files`, such as the page of a certificate.
///
/// # Errors
/// Returns an error if the SSH key of the signer cannot be used.
pub fn sign_series(
    proof: &SeriesProof,
    runs: &[(RecordingId, String)],
    files: Vec<SignedFile>,
    signer: &Signer,
) -> Result<String, SshError> {
    let statement = series_statement(proof, runs, &signer.key.public());
    seal(statement, files, signer)
}

fn seal(
    mut statement: Statement,
    files: Vec<SignedFile>,
    signer: &Signer,
) -> Result<String, SshError> {
    let subjects = files.into_iter();
    let subjects = subjects.map(|file| Subject::new(file.name, file.sha256));
    statement.subject.extend(subjects);
    Ok(Envelope::seal(statement.to_json().as_bytes(), signer)?.to_json())
}

/// Name of a recording in a statement.
pub(crate) fn name_of(id: RecordingId) -> String {
    format!("recording {id}")
}

pub(crate) fn statement(recording: &Recording, verdict: &Verdict, key: &PublicKey) -> Statement {
    let subject = Subject::new(name_of(recording.id), digest(recording));
    let predicate = Predicate {
        verdict: Some(verdict.clone()),
        // The canonical bytes are JSON.
        recording: Value::from_json(&canonical(recording)).ok(),
        ..Predicate::new(verdict.outcome, &subject, key)
    };
    Statement::new(vec![subject], predicate)
}

pub(crate) fn series_statement(
    proof: &SeriesProof,
    runs: &[(RecordingId, String)],
    key: &PublicKey,
) -> Statement {
    let bytes = canonical_of(proof.to_value());
    let name = format!(
        "series {} from {} to {}",
        proof.series, proof.from, proof.until
    );
    let subject = Subject::new(name, hex(&Sha256::digest(&bytes)));
    let predicate = Predicate {
        series: Value::from_json(&bytes).ok(),
        ..Predicate::new(proof.outcome, &subject, key)
    };
    let runs = runs.iter();
    let runs = runs.map(|(id, sha256)| Subject::new(name_of(*id), sha256.clone()));
    Statement::new([subject].into_iter().chain(runs).collect(), predicate)
}

impl Predicate {
    fn new(outcome: Outcome, subject: &Subject, key: &PublicKey) -> Self {
        Self {
            result: result(outcome).to_owned(),
            configuration: vec![subject.clone()],
            program: format!("punctual {}", env!("CARGO_PKG_VERSION")),
            public_key: key.hex(),
            verdict: None,
            recording: None,
            series: None,
        }
    }
}

impl Statement {
    fn new(subject: Vec<Subject>, predicate: Predicate) -> Self {
        Self {
            kind: STATEMENT.to_owned(),
            subject,
            predicate_type: TEST_RESULT.to_owned(),
            predicate,
        }
    }
}
