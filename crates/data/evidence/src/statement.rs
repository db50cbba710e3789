//! The statement about a recording: an in-toto statement with a test result.

use punctual_model::{FromJson, Outcome, Recording, ToJson, Verdict, from_json, to_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::{canonical, digest};
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

/// Subject of the statement: first the recording, then files.
#[derive(Serialize, Deserialize)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) digest: Sha256Digest,
}

#[derive(Serialize, Deserialize)]
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
    pub(crate) verdict: Verdict,
    /// The recording, as its canonical bytes.
    pub(crate) recording: Value,
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
    own.judge_anew();
    let mut statement = statement(&own, &own.verdict, &signer.key.public());
    let subjects = files.into_iter().map(|file| Subject {
        name: file.name,
        digest: Sha256Digest {
            sha256: file.sha256,
        },
    });
    statement.subject.extend(subjects);
    Ok(Envelope::seal(statement.to_json().as_bytes(), signer)?.to_json())
}

pub(crate) fn statement(recording: &Recording, verdict: &Verdict, key: &PublicKey) -> Statement {
    let subject = || Subject {
        name: format!("recording {}", recording.id),
        digest: Sha256Digest {
            sha256: digest(recording),
        },
    };
    Statement {
        kind: STATEMENT.to_owned(),
        subject: vec![subject()],
        predicate_type: TEST_RESULT.to_owned(),
        predicate: Predicate {
            result: result(verdict.outcome).to_owned(),
            configuration: vec![subject()],
            program: format!("punctual {}", env!("CARGO_PKG_VERSION")),
            public_key: key.hex(),
            verdict: verdict.clone(),
            // The canonical bytes are JSON.
            recording: Value::from_json(&canonical(recording)).unwrap_or_default(),
        },
    }
}
