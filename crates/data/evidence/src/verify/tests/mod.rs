use punctual_model::{
    Completion, JudgedBy, Judgement, Limit, LoopRequirement, Metric, Nanos, Outcome,
    SETTING_CHANGED, ToJson, testing,
};

use super::*;
use crate::statement::statement;
use crate::{Signer, SigningKey, pdf};

fn key(name: &str) -> Signer {
    let folder = tempfile::tempdir().unwrap();
    let key = SigningKey::open(&folder.path().join(name)).unwrap();
    Signer { key, ssh_key: None }
}

fn sign(recording: &Recording, key: &Signer) -> String {
    crate::sign(recording, Vec::new(), key).unwrap()
}

fn trusting(key: &Signer) -> Trusted {
    Trusted {
        keys: vec![KnownKey::new(key.key.public(), "")],
        ssh_signers: None,
    }
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

/// Recordings at hand. A store consists of recordings as JSON.
struct Known(Vec<Recording>);

impl Recordings for Known {
    fn recording(&mut self, id: RecordingId) -> Option<Recording> {
        self.0.iter().find(|one| one.id == id).cloned()
    }

    fn of_store(&mut self, store: &[u8]) -> Result<Vec<Recording>, String> {
        let text = String::from_utf8_lossy(store);
        let all = text.lines().map(Recording::from_json);
        all.collect::<Result<_, _>>()
            .map_err(|error| error.to_string())
    }
}

/// Verifies a file without the recordings of a series.
fn checked(file: &[u8], trusted: &Trusted) -> Result<Verified, NotVerified> {
    verify(file, trusted, &mut Known(Vec::new()))
}

/// Returns whether a file is accepted.
fn accepted(file: &[u8], key: &Signer) -> bool {
    checked(file, &trusting(key)).is_ok_and(|verified| verified.is_intact())
}

#[test]
fn own_statement_is_verified() {
    let key = key("a");
    let file = sign(&recording(), &key);
    let verified = checked(file.as_bytes(), &trusting(&key)).unwrap();
    assert!(verified.is_intact(), "{verified:#?}");
    // Another reader does not know the key.
    let verified = checked(file.as_bytes(), &Trusted::default()).unwrap();
    assert!(!verified.is_intact() && verified.lacks_only_signer());
    assert_eq!(verified.integrity[0].state, State::Unknown);
    assert!(
        verified.integrity[0]
            .found
            .contains(&key.key.public().hex())
    );
}

/// The verdict of a check-up is based on more than the recording, so the statement has that of its data.
#[test]
fn recording_of_a_check_up_is_verified() {
    let key = key("a");
    let mut recording = recording();
    recording.requirement.periodic = Some(LoopRequirement::of_jobs(Nanos(1)));
    let requirement = recording.requirement.periodic.as_mut().unwrap();
    requirement.jobs = false;
    let mut judged = recording.clone();
    judged.be_judged(Judgement {
        by: JudgedBy::Check,
        experiment: None,
        outcome: Outcome::Held,
        sentence: "held".to_owned(),
        asked: None,
        claims: Vec::new(),
    });
    let mut received = judged.clone();
    received.judge_anew();
    for one in [recording, judged, received] {
        let verified = checked(sign(&one, &key).as_bytes(), &trusting(&key)).unwrap();
        assert!(verified.is_intact(), "{verified:#?}");
    }
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
    let signed = |statement: &Statement| {
        let sealed = Envelope::seal(statement.to_json().as_bytes(), &key);
        sealed.unwrap().to_json()
    };
    let made = || statement(&honest, &honest.verdict, &key.key.public());
    assert!(accepted(signed(&made()).as_bytes(), &key));
    let mut verdict = made();
    verdict.predicate.verdict.as_mut().unwrap().outcome = Outcome::Held;
    let mut sentence = made();
    sentence
        .predicate
        .verdict
        .as_mut()
        .unwrap()
        .sentence
        .push_str(" for ever");
    let mut word = made();
    word.predicate.result = "FAILED".to_owned();
    let mut data = made();
    data.predicate.recording.as_mut().unwrap()["threads"][0]["missed"] = 12_345.into();
    let mut limit = made();
    limit.predicate.recording.as_mut().unwrap()["requirement"]["limits"][0]["at_most"] = 1.into();
    let mut host = made();
    host.predicate.recording.as_mut().unwrap()["host"]["hostname"]["value"] = "other".into();
    let mut field = made();
    field.predicate.recording.as_mut().unwrap()["approved"] = true.into();
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
    let forged = statement(&fewer, &fewer.verdict, &key.key.public());
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
    let verified = checked(file.as_bytes(), &trusting(&key)).unwrap();
    assert!(verified.is_intact() && !verified.is_undisputed());
    let broken = verified
        .assumptions
        .iter()
        .filter(|one| one.state == State::Broken);
    let broken: Vec<&str> = broken.map(|one| one.what).collect();
    assert_eq!(broken, ["finished", "settings"]);
}

/// A page with the structure of those that punctual writes.
const PAGE: &str = "%PDF-1.7\n1 0 obj\n<<\n  /Type /Catalog\n  /Pages 2 0 R\n>>\nendobj\n\
    the page\nxref\n0 4\ntrailer\n<<\n  /Size 4\n  /Root 1 0 R\n  /Info 3 0 R\n>>\n\
    startxref\n60\n%%EOF";

fn certificate(key: &Signer) -> Vec<u8> {
    let page = PAGE.as_bytes();
    let statement = crate::sign(&recording(), vec![pdf::page(page)], key).unwrap();
    pdf::attach(page, &statement).unwrap()
}

#[test]
fn each_mutation_of_a_certificate_is_refused() {
    let key = key("a");
    let file = certificate(&key);
    assert!(accepted(&file, &key));
    assert!(!accepted(PAGE.as_bytes(), &key));
    let mut state = 11_u64;
    for round in 0..500 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let place = (state >> 20) as usize % file.len();
        let mut changed = file.clone();
        match round % 4 {
            0 => changed[place] ^= 1 << (state >> 60 & 7),
            1 => drop(changed.remove(place)),
            2 => changed.insert(place, b'0'),
            _ => changed.truncate(place),
        }
        if changed != file {
            assert!(!accepted(&changed, &key), "{round} at {place}");
        }
    }
    // Another update after the signed one could replace the page.
    let again = [file.as_slice(), &file[PAGE.len()..]].concat();
    assert!(!accepted(&again, &key));
    // The statement of one page does not fit another page.
    let other = PAGE.replace("the page", "page two");
    let statement = crate::sign(&recording(), Vec::new(), &key).unwrap();
    assert!(!accepted(
        &pdf::attach(other.as_bytes(), &statement).unwrap(),
        &key
    ));
}

#[test]
fn statement_alone_names_its_other_files() {
    let key = key("a");
    let file = pdf::page(PAGE.as_bytes());
    let file = crate::sign(&recording(), vec![file], &key).unwrap();
    let verified = checked(file.as_bytes(), &trusting(&key)).unwrap();
    assert!(verified.is_intact());
    let files = verified.assumptions.iter().find(|one| one.what == "files");
    assert_eq!(files.unwrap().state, State::Unknown);
}

#[test]
fn other_files_are_refused() {
    for file in [
        "",
        "{}",
        "[]",
        "{\"payloadType\": \"x\", \"payload\": \"\", \"signatures\": []}",
    ] {
        assert!(
            checked(file.as_bytes(), &Trusted::default()).is_err(),
            "{file}"
        );
    }
}

mod bundles;
mod series;
