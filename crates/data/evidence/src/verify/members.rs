//! Recordings and statements in a bundle. The statement of the bundle names the digest of each file;
//! here, what the files contain is compared with it and judged again.

use punctual_model::{Completion, FromJson, Recording};
use serde::Serialize;
use serde_json::Value;

use super::{Findings, Recordings, open, recording, verdict, verify_opened};
use crate::canonical::digest;
use crate::files::{self, Opened, STORE};
use crate::statement::{Statement, name_of};
use crate::{Check, NotVerified, State, Trusted};

/// A recording or statement in a bundle.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    /// Name of the file in the bundle.
    pub name: String,
    /// Subject: a recording with its ID, or a series with its period. Empty if unreadable.
    pub about: String,
    /// Checks that must hold: digest, verdict, accounting; of a statement also its signature.
    pub integrity: Vec<Check>,
    /// Assumptions of the verdict.
    pub assumptions: Vec<Check>,
}

impl Member {
    fn new(name: &str, found: Findings) -> Self {
        Self {
            name: name.to_owned(),
            about: found.about,
            integrity: found.integrity,
            assumptions: found.assumptions,
        }
    }

    /// A file whose content does not match its name.
    fn unreadable(name: &str, why: String) -> Self {
        Self {
            name: name.to_owned(),
            about: String::new(),
            integrity: vec![Check::new("content", false, why)],
            assumptions: Vec::new(),
        }
    }

    /// A file that was not read.
    fn too_large(name: &str) -> Self {
        let check = Check {
            what: "content",
            state: State::Unknown,
            found: "not read, because the bundle is too large".to_owned(),
        };
        Self {
            integrity: Vec::new(),
            assumptions: vec![check],
            ..Self::unreadable(name, String::new())
        }
    }
}

/// Verifies the recordings and statements in a bundle.
pub(super) fn members(
    all: Vec<files::Member>,
    statement: &Statement,
    trusted: &Trusted,
    at_hand: &mut dyn Recordings,
) -> Vec<Member> {
    let mut found = Vec::new();
    for files::Member { name, content } in all {
        let Some(content) = content else {
            found.push(Member::too_large(&name));
            continue;
        };
        if name.ends_with(STORE) {
            match at_hand.of_store(&content) {
                Ok(all) => {
                    let checked = (all.into_iter()).map(|one| of_recording(one, statement));
                    found.extend(checked.map(|checked| Member::new(&name, checked)));
                }
                Err(why) => found.push(Member::unreadable(&name, why)),
            }
            continue;
        }
        match of_file(&content, statement, trusted, at_hand) {
            Ok(None) => {}
            Ok(Some(checked)) => found.push(Member::new(&name, checked)),
            Err(why) => found.push(Member::unreadable(&name, why)),
        }
    }
    found
}

/// Verifies JSON or a PDF. Returns `None` if it contains neither a recording nor a statement.
fn of_file(
    content: &[u8],
    statement: &Statement,
    trusted: &Trusted,
    at_hand: &mut dyn Recordings,
) -> Result<Option<Findings>, String> {
    let verified = |opened: Opened, at_hand: &mut dyn Recordings| {
        let found = verify_opened(&opened, trusted, at_hand);
        found
            .map(|(found, _)| Some(found))
            .map_err(|why| why.to_string())
    };
    if content.starts_with(b"%PDF-") {
        return match open(content) {
            Err(NotVerified::NoStatement(_)) => Ok(None),
            Err(why) => Err(why.to_string()),
            Ok(opened) => verified(opened, at_hand),
        };
    }
    let value = Value::from_json(content).map_err(|error| error.to_string())?;
    let has = |name: &str| value.get(name).is_some();
    if has("payloadType") {
        let opened = Opened {
            statement: content.to_owned(),
            files: None,
            members: Vec::new(),
        };
        return verified(opened, at_hand);
    }
    if !(has("schema") && has("probe") && has("verdict")) {
        return Ok(None);
    }
    let text = std::str::from_utf8(content).map_err(|error| error.to_string())?;
    let recording = Recording::from_json(text).map_err(|error| error.to_string())?;
    Ok(Some(of_recording(recording, statement)))
}

/// Verifies a recording: the statement must be about it, and its verdict must follow from its data.
fn of_recording(mut recording: Recording, statement: &Statement) -> Findings {
    let about = name_of(recording.id);
    let named = (statement.subject.iter()).find(|one| one.name == about);
    let signed = statement.predicate.recording.as_ref();
    let was_running = signed.is_some_and(|signed| signed["completion"] == "running");
    let stated = recording.verdict.clone();
    let is_same = stated.outcome == recording.judge().outcome;
    let came_with = recording.judgement.is_some();
    let mut own = recording.judge_data().sentence;
    if came_with {
        own += "; that of its check-up or experiment is the word of the signer";
    }
    let accounting = recording::accounting(&recording);
    let assumptions = crate::assumptions::assumptions(&recording);
    // The store of a bundle marks a running recording as interrupted.
    if was_running && recording.completion == Completion::Interrupted {
        recording.completion = Completion::Running;
    }
    let is_running = recording.completion == Completion::Running;
    let is_signed = named.map(|named| named.digest.sha256 == digest(&recording));
    let found = match is_signed {
        None => "the statement of the bundle is about another recording",
        Some(false) => "its data differ from those of the statement",
        Some(true) => "its data are those of the statement",
    };
    Findings {
        about,
        integrity: vec![
            Check::new("digest", is_signed == Some(true), found.to_owned()),
            // The verdict of a running recording may be older than its data.
            verdict(is_same || is_running, &stated.sentence, own),
            accounting,
        ],
        assumptions,
    }
}
