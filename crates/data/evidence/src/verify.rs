//! Verifies a statement: its signature, its digest, its verdict, and what the verdict assumes.

use punctual_model::{
    Completion, FromJson, IntervalRow, Recording, SETTING_CHANGED, THREAD_MOVED, ThreadRecord,
    ToJson, counted, to_json,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::PublicKey;
use crate::canonical::{canonical, canonical_of, hex};
use crate::envelope::{Envelope, PAYLOAD_TYPE};
use crate::statement::{STATEMENT, Statement, TEST_RESULT, result};

/// Reason why a file is no statement that can be verified.
#[derive(Debug, thiserror::Error)]
pub enum NotVerified {
    /// The file is not an envelope.
    #[error("this is not a signed statement of punctual sign: {0}")]
    NotAnEnvelope(serde_json::Error),
    /// The envelope or its payload is of another kind.
    #[error("the envelope contains {found} instead of {expected}")]
    OtherKind {
        /// The kind in the file.
        found: String,
        /// The expected kind.
        expected: &'static str,
    },
    /// The signature does not belong to the payload.
    #[error("the signature does not match: the statement was changed, or its key was replaced")]
    Signature,
    /// The payload cannot be read.
    #[error("the payload cannot be read: {0}")]
    Payload(String),
}

/// Whether something that was checked holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It holds.
    Holds,
    /// It does not hold.
    Broken,
    /// The recording does not show it.
    Unknown,
}

/// One part of the verification.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Name of the check.
    pub what: &'static str,
    /// Whether it holds.
    pub state: State,
    /// Finding in words.
    pub found: String,
}

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

/// Verifies a signed statement. `trusted` are the keys whose signatures count.
///
/// # Errors
/// Returns an error if the file is not a statement, or if no key matches its signature.
pub fn verify(file: &[u8], trusted: &[PublicKey]) -> Result<Verified, NotVerified> {
    let envelope = Envelope::from_json(file).map_err(NotVerified::NotAnEnvelope)?;
    expect(&envelope.payload_type, PAYLOAD_TYPE)?;
    let unreadable = |why: &dyn std::fmt::Display| NotVerified::Payload(why.to_string());
    let payload = (envelope.payload()).ok_or_else(|| unreadable(&"it is not base64"))?;
    let known = trusted
        .iter()
        .find(|key| envelope.is_signed_by(key, &payload));
    let statement = Statement::from_json(&payload);
    let statement = statement.map_err(|error| match known {
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
    Ok(Verified {
        recording: recording.id.to_string(),
        program: statement.predicate.program,
        integrity,
        assumptions: assumptions(&recording),
    })
}

impl Check {
    fn new(what: &'static str, holds: bool, found: String) -> Self {
        let state = if holds { State::Holds } else { State::Broken };
        Self { what, state, found }
    }
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
    known: Option<&PublicKey>,
    payload: &[u8],
) -> Result<Check, NotVerified> {
    if let Some(key) = known {
        return Ok(Check::new(
            "signature",
            true,
            format!("by the known key {}", key.hex()),
        ));
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
    let is_named = matches!(statement.subject.as_slice(), [one] if one.digest.sha256 == sha256);
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

fn assumptions(recording: &Recording) -> Vec<Check> {
    let has = |text: &str| {
        recording
            .warnings
            .iter()
            .find(|warning| warning.contains(text))
    };
    let finished = recording.completion == Completion::Finished;
    let mut all = vec![Check::new(
        "finished",
        finished,
        format!("the run is {}", recording.completion),
    )];
    let failed: Vec<&str> = (recording.load.iter().filter(|load| load.failed))
        .map(|load| load.name.as_str())
        .collect();
    all.push(Check::new(
        "load",
        failed.is_empty(),
        match (recording.load.len(), failed.as_slice()) {
            (0, _) => "there was no load".to_owned(),
            (_, []) => "each load ran until the end".to_owned(),
            (_, failed) => format!("failed: {}", failed.join(", ")),
        },
    ));
    let changed = has(SETTING_CHANGED).or_else(|| has(THREAD_MOVED));
    all.push(Check::new(
        "settings",
        changed.is_none(),
        match changed {
            None => "no change was noticed".to_owned(),
            Some(warning) => warning.clone(),
        },
    ));
    let stops = recording.suspensions.len() as u64;
    all.push(Check::new(
        "clock",
        stops == 0,
        match (stops, recording.host.clock.source.get()) {
            (0, Some(source)) => {
                format!("the clock source was {source}, and the run was not suspended")
            }
            (0, None) => "the run was not suspended".to_owned(),
            (stops, _) => format!("the run was suspended {}", counted(stops, "time", "times")),
        },
    ));
    let dropped = recording.series.dropped;
    all.push(Check::new(
        "observer",
        dropped == 0,
        match dropped {
            0 => "no sample is missing in the time series".to_owned(),
            dropped => format!(
                "{} missing in the time series",
                counted(dropped, "sample is", "samples are")
            ),
        },
    ));
    all.push(Check {
        what: "stationary",
        state: State::Unknown,
        found: "whether the machine always behaves like this is not shown by one recording"
            .to_owned(),
    });
    all
}

#[cfg(test)]
mod tests {
    use punctual_model::{Limit, Metric, Outcome, testing};

    use super::*;
    use crate::statement::statement;
    use crate::{SigningKey, sign};

    fn key(name: &str) -> SigningKey {
        let folder = tempfile::tempdir().unwrap();
        SigningKey::open(&folder.path().join(name)).unwrap()
    }

    fn recording() -> Recording {
        let mut recording = testing::recording(2, 3);
        recording.requirement.limits = vec![Limit {
            metric: Metric::Max,
            at_most: 10_000_000_000,
        }];
        recording.judge_anew();
        recording
    }

    /// Returns whether a file is accepted.
    fn accepted(file: &[u8], key: &SigningKey) -> bool {
        verify(file, &[key.public()]).is_ok_and(|verified| verified.is_intact())
    }

    #[test]
    fn own_statement_is_verified() {
        let key = key("a");
        let file = sign(&recording(), &key);
        let verified = verify(file.as_bytes(), &[key.public()]).unwrap();
        assert!(verified.is_intact(), "{verified:#?}");
        // Another reader does not know the key.
        let verified = verify(file.as_bytes(), &[]).unwrap();
        assert!(!verified.is_intact());
        assert_eq!(verified.integrity[0].state, State::Broken);
        assert!(verified.integrity[0].found.contains(&key.public().hex()));
    }

    /// Changes of the statement under the old signature.
    #[test]
    fn each_mutation_of_the_payload_is_refused() {
        let key = key("a");
        let file = sign(&recording(), &key);
        let envelope = Envelope::from_json(file.as_bytes()).unwrap();
        let payload = envelope.payload().unwrap();
        let mut state = 7_u64;
        for round in 0..500 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let place = (state >> 20) as usize % payload.len();
            let mut changed = payload.clone();
            match round % 3 {
                0 => changed[place] ^= 1 << (state >> 60 & 7),
                1 => drop(changed.remove(place)),
                _ => changed.insert(place, b'0'),
            }
            let mut forged = envelope.to_value();
            use base64::Engine;
            let packed = base64::engine::general_purpose::STANDARD.encode(&changed);
            forged["payload"] = packed.into();
            assert!(!accepted(forged.to_string().as_bytes(), &key), "{round}");
        }
    }

    /// Changes of the data by someone who has the key: the digest, the verdict or the accounting
    /// disagrees.
    #[test]
    fn signer_cannot_state_another_verdict() {
        let key = key("a");
        let honest = recording();
        let signed =
            |statement: &Statement| Envelope::seal(statement.to_json().as_bytes(), &key).to_json();
        let made = || statement(&honest, &honest.verdict, &key.public());
        assert!(accepted(signed(&made()).as_bytes(), &key));
        let mut verdict = made();
        verdict.predicate.verdict.outcome = Outcome::Held;
        let mut sentence = made();
        sentence.predicate.verdict.sentence.push_str(" for ever");
        let mut word = made();
        word.predicate.result = "FAILED".to_owned();
        let mut data = made();
        data.predicate.recording["threads"][0]["missed"] = 12_345.into();
        let mut limit = made();
        limit.predicate.recording["requirement"]["limits"][0]["at_most"] = 1.into();
        let mut host = made();
        host.predicate.recording["host"]["hostname"]["value"] = "other".into();
        let mut field = made();
        field.predicate.recording["approved"] = true.into();
        for (place, forged) in [verdict, sentence, word, data, limit, host, field]
            .iter()
            .enumerate()
        {
            assert!(!accepted(signed(forged).as_bytes(), &key), "{place}");
        }
        // Data that was changed consistently with the digest still contradicts itself.
        let mut fewer = honest.clone();
        fewer.threads[0].accounting.recorded -= 1;
        fewer.threads[0].accounting.expected -= 1;
        fewer.judge_anew();
        let forged = statement(&fewer, &fewer.verdict, &key.public());
        assert!(!accepted(signed(&forged).as_bytes(), &key));
    }

    #[test]
    fn broken_assumptions_are_named() {
        let key = key("a");
        let mut recording = recording();
        let warning = format!("the governor of CPU 1 {SETTING_CHANGED}, from a to b");
        recording.warnings.push(warning);
        recording.completion = Completion::Stopped;
        let file = sign(&recording, &key);
        let verified = verify(file.as_bytes(), &[key.public()]).unwrap();
        assert!(verified.is_intact() && !verified.is_undisputed());
        let broken = verified
            .assumptions
            .iter()
            .filter(|one| one.state == State::Broken);
        let broken: Vec<&str> = broken.map(|one| one.what).collect();
        assert_eq!(broken, ["finished", "settings"]);
    }

    #[test]
    fn other_files_are_refused() {
        for file in [
            "",
            "{}",
            "[]",
            "{\"payloadType\": \"x\", \"payload\": \"\", \"signatures\": []}",
        ] {
            assert!(verify(file.as_bytes(), &[]).is_err(), "{file}");
        }
    }
}
