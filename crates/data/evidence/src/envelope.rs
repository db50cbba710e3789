//! DSSE: an envelope with a payload and its signatures.
//!
//! Source: <https://github.com/secure-systems-lab/dsse/blob/master/protocol.md>.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_model::{from_json, to_json};
use serde::{Deserialize, Serialize};

use crate::{PublicKey, Signer, SshError, ssh};

/// The type of the payload: an in-toto statement.
pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// ID of the signature by the SSH key of a person.
const SSH: &str = "ssh";

/// Maximum number of SSH signatures that are verified, because each starts a program.
const MOST_PEOPLE: usize = 8;

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
    pub(crate) fn seal(payload: &[u8], signer: &Signer) -> Result<Self, SshError> {
        let message = encoded(PAYLOAD_TYPE, payload);
        let signature = |keyid: String, signed: Vec<u8>| Signature {
            keyid,
            sig: STANDARD.encode(signed),
        };
        let mut signatures = vec![signature(
            signer.key.public().fingerprint(),
            signer.key.sign(&message),
        )];
        if let Some(key) = &signer.ssh_key {
            signatures.push(signature(SSH.to_owned(), ssh::sign(key, &message)?));
        }
        Ok(Self {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: STANDARD.encode(payload),
            signatures,
        })
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

impl Envelope {
    /// Returns the name of the person who signed, by the file of allowed signers.
    pub(crate) fn person(
        &self,
        allowed: &Path,
        payload: &[u8],
    ) -> Result<Option<String>, SshError> {
        let message = encoded(&self.payload_type, payload);
        let by_people = self.signatures.iter().filter(|one| one.keyid == SSH);
        for one in by_people.take(MOST_PEOPLE) {
            let signature = STANDARD.decode(&one.sig).unwrap_or_default();
            if let Some(name) = ssh::signer(allowed, &message, &signature)? {
                return Ok(Some(name));
            }
        }
        Ok(None)
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
