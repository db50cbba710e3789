//! The other end: what recordings of a machine have in common is sent once, as a dictionary
//! that their bodies are compressed with.

use punctual_model::{HostFacts, KeptAudit, Recording};
use punctual_store::{Destination, Store, StoreError, text_hash};
use serde::Serialize;
use zstd::bulk::Compressor;

/// Under which name it is remembered which dictionaries the collector has.
const STATE: &str = "dictionaries";
/// So many are remembered, the newest first: CPUs of different roles have different audits.
const KNOWN: usize = 8;

/// What seldom changes from one recording to the next, in the words of a recording.
#[derive(Serialize)]
struct Common<'a> {
    host: &'a HostFacts,
    audit: &'a Option<KeptAudit>,
}

/// A dictionary that the collector has.
pub(crate) struct Dictionary {
    text: String,
    pub(crate) hash: String,
}

impl Dictionary {
    /// What a recording may have in common with others.
    pub(crate) fn of(recording: &Recording) -> Self {
        let common = Common {
            host: &recording.host,
            audit: &recording.audit,
        };
        // Facts become JSON: they have texts as keys and no other numbers.
        let text = serde_json::to_string(&common).unwrap_or_default();
        Self {
            hash: text_hash(&text),
            text,
        }
    }

    /// A body, compressed with it.
    pub(crate) fn compress(&self, body: &[u8], level: i32) -> std::io::Result<Vec<u8>> {
        Compressor::with_dictionary(level, self.text.as_bytes())?.compress(body)
    }
}

fn known(store: &Store, to: &Destination) -> Result<Vec<String>, StoreError> {
    let known = store.delivery_state(to, STATE)?.unwrap_or_default();
    Ok(known.split_whitespace().map(str::to_owned).collect())
}

/// Forgets which dictionaries the collector has: it was restored, or cleaned up.
pub(crate) fn forget(store: &Store, to: &Destination) -> Result<(), StoreError> {
    store.set_delivery_state(to, STATE, "")
}

/// Makes sure that the collector has this dictionary: `put` sends its hash and text, and
/// says whether the collector has it. `None` where it takes none: then the body is sent
/// without it, and whatever hinders that is said of the recording.
pub(crate) fn offered(
    store: &Store,
    to: &Destination,
    dictionary: Dictionary,
    put: impl Fn(&str, &str) -> bool,
) -> Result<Option<Dictionary>, StoreError> {
    let mut known = known(store, to)?;
    if known.contains(&dictionary.hash) {
        return Ok(Some(dictionary));
    }
    if !put(&dictionary.hash, &dictionary.text) {
        return Ok(None);
    }
    known.insert(0, dictionary.hash.clone());
    known.truncate(KNOWN);
    store.set_delivery_state(to, STATE, &known.join(" "))?;
    Ok(Some(dictionary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_shorter_by_what_it_has_in_common() {
        let one = punctual_model::testing::recording(2, 3);
        let body = serde_json::to_vec(&one).unwrap();
        let dictionary = Dictionary::of(&one);
        let plain = zstd::bulk::compress(&body, 3).unwrap();
        let packed = dictionary.compress(&body, 3).unwrap();
        let common = zstd::bulk::compress(dictionary.text.as_bytes(), 3).unwrap();
        assert!(
            packed.len() + common.len() / 2 < plain.len(),
            "{} bytes of {}, {} in common",
            packed.len(),
            plain.len(),
            common.len()
        );
    }
}
