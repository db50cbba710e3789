//! DSSE: an envelope with a payload and its signatures.
//!
//! Source: <https://github.com/secure-systems-lab/dsse/blob/master/protocol.md>.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_model::{from_json, to_json};
use serde::{Deserialize, Serialize};

use crate::{PublicKey, SigningKey};

/// The type of the payload: an in-toto statement.
pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// An envelope.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope {
    pub(crate) payload_type: String,
    /// The payload in base64.
    payload: String,
    signatures: Vec<Signature>,
}

to_json!(Envelope);
from_json!(Envelope);

#[derive(Serialize, Deserialize)]
struct Signature {
    keyid: String,
    /// The signature in base64.
    sig: String,
}

impl Envelope {
    pub(crate) fn seal(payload: &[u8], key: &SigningKey) -> Self {
        let signed = key.sign(&encoded(PAYLOAD_TYPE, payload));
        Self {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: STANDARD.encode(payload),
            signatures: vec![Signature {
                keyid: key.public().id(),
                sig: STANDARD.encode(signed),
            }],
        }
    }

    /// Returns the payload without checking its signature.
    pub(crate) fn payload(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.payload).ok()
    }

    /// Returns whether one of the signatures is that of this key.
    pub(crate) fn is_signed_by(&self, key: &PublicKey, payload: &[u8]) -> bool {
        let message = encoded(&self.payload_type, payload);
        self.signatures.iter().any(|one| {
            let signature = STANDARD.decode(&one.sig).unwrap_or_default();
            key.verifies(&message, &signature)
        })
    }
}

/// Returns the bytes that are signed (pre-authentication encoding).
fn encoded(kind: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_bytes_are_those_of_the_specification() {
        let bytes = encoded("http://example.com/HelloWorld", b"hello world");
        let expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(bytes, expected);
    }
}
