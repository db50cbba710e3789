//! Sends the parts that the recordings of a machine have in common only once, as a
//! compression dictionary for their bodies.

use punctual_model::{Recording, ToJson};
use punctual_store::{Destination, Store, StoreError, text_hash};
use zstd::bulk::Compressor;

/// Key of the delivery state that lists the collector's dictionaries.
const STATE: &str = "dictionaries";
/// Maximum number of dictionaries to remember, newest first. One is not enough, because CPUs with
/// different roles have different audits.
const KNOWN: usize = 8;

/// A dictionary that the collector already has.
pub(crate) struct Dictionary {
    text: String,
    pub(crate) hash: String,
}

impl Dictionary {
    /// Returns the parts that a recording may have in common with others.
    pub(crate) fn from_recording(recording: &Recording) -> Self {
        let (host, audit) = (recording.host.to_json(), recording.audit.to_json());
        let text = format!("{{\"host\":{host},\"audit\":{audit}}}");
        Self {
            hash: text_hash(&text),
            text,
        }
    }

    /// Compresses a body with the dictionary.
    pub(crate) fn compress(&self, body: &[u8], level: i32) -> std::io::Result<Vec<u8>> {
        Compressor::with_dictionary(level, self.text.as_bytes())?.compress(body)
    }
}

fn known(store: &Store, to: &Destination) -> Result<Vec<String>, StoreError> {
    let known = store.delivery_state(to, STATE)?.unwrap_or_default();
    Ok(known.split_whitespace().map(str::to_owned).collect())
}

/// Forgets which dictionaries the collector has, because it was restored or cleaned up.
pub(crate) fn forget(store: &Store, to: &Destination) -> Result<(), StoreError> {
    store.set_delivery_state(to, STATE, "")
}

/// Ensures that the collector has this dictionary. `put` sends its hash and text, and returns
/// whether the collector has it. Returns `None` if the collector does not accept it. The body is
/// then sent without a dictionary, and a persistent failure is reported for the recording.
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
    fn dictionary_shortens_bodies_with_common_content() {
        let one = punctual_model::testing::recording(2, 3);
        let body = serde_json::to_vec(&one).unwrap();
        let dictionary = Dictionary::from_recording(&one);
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
