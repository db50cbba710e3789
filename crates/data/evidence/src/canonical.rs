//! The bytes of a recording that are the same in each store, file and database.

use std::fmt::Write as _;

use punctual_model::{IMPORTED_WITHOUT_SAMPLES, Recording, ToJson};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Fields that do not belong to the measurement: verdicts follow from the data, and not every store
/// keeps the samples.
const LEFT_OUT: [&str; 4] = ["verdict", "judgement", "sender_judgement", "samples"];

/// The causes in words, which output adds and which follow from the causes.
const WORDS: &str = "words";

/// Returns the canonical bytes of a recording: JSON without white space, with the keys in ascending
/// order, and without verdicts, samples and causes in words. Exports, imports, deliveries and
/// databases keep these bytes.
pub fn canonical(recording: &Recording) -> Vec<u8> {
    canonical_of(recording.to_value())
}

/// Returns the canonical bytes of a recording as JSON.
pub(crate) fn canonical_of(mut value: Value) -> Vec<u8> {
    if let Value::Object(fields) = &mut value {
        for name in LEFT_OUT {
            fields.remove(name);
        }
        if let Some(Value::Array(warnings)) = fields.get_mut("warnings") {
            warnings.retain(|warning| warning != IMPORTED_WITHOUT_SAMPLES);
        }
    }
    let mut text = String::new();
    write(&value, &mut text);
    text.into_bytes()
}

/// Returns the SHA-256 of the canonical bytes, as hexadecimal digits.
pub fn digest(recording: &Recording) -> String {
    hex(&Sha256::digest(canonical(recording)))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn write(value: &Value, to: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(name, _)| *name != WORDS).collect();
            fields.sort_unstable_by_key(|(name, _)| name.as_bytes());
            to.push('{');
            for (place, (name, value)) in fields.into_iter().enumerate() {
                if place > 0 {
                    to.push(',');
                }
                to.push_str(&Value::from(name.as_str()).to_string());
                to.push(':');
                write(value, to);
            }
            to.push('}');
        }
        Value::Array(values) => {
            to.push('[');
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    to.push(',');
                }
                write(value, to);
            }
            to.push(']');
        }
        plain => to.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{FromJson, testing};

    use super::*;

    #[test]
    fn verdicts_and_words_are_left_out() {
        let recording = testing::recording(2, 3);
        let bytes = canonical(&recording);
        let mut other = recording.in_words();
        other.verdict.sentence = "another".to_owned();
        other.samples = None;
        other.warnings.push(IMPORTED_WITHOUT_SAMPLES.to_owned());
        assert_eq!(canonical(&other), bytes);
        // It is valid JSON, and the keys are in order.
        let value = Value::from_json(&bytes).unwrap();
        let mut again = String::new();
        write(&value, &mut again);
        assert_eq!(again.as_bytes(), bytes);
        assert!(bytes.starts_with(b"{\"completion\":"));
        other.threads[0].accounting.recorded += 1;
        assert_ne!(digest(&other), digest(&recording));
    }
}
