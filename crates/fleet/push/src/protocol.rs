//! The requests that a machine sends and a collector accepts: their headers and bodies.

use punctual_model::{ChangeAnnotation, Note, RecordingId, Slot, WakeWindow, from_json, to_json};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use crate::membership::{Membership, SERIES};

/// The header with the hash of the delivered body.
pub const HASH: &str = "punctual-sha256";
/// The header that names the dictionary of a delivered body.
pub const DICTIONARY: &str = "punctual-dictionary";
/// The header with the identity of a machine: `ID BOOT NAME`. The ID is `-` if the machine has
/// none.
pub const MACHINE: &str = "punctual-machine";

/// IDs of recordings.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ids {
    /// At most 10000 IDs.
    pub ids: Vec<RecordingId>,
}

/// A slot with the epoch of its series.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotOf {
    /// The epoch.
    pub epoch: Membership,
    /// The slot.
    pub slot: Slot,
}

/// A delivery of data other than recordings.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Sidecar {
    /// The name of the machine, if there is no token.
    pub machine: String,
    /// Windows of wake-ups.
    pub windows: Vec<WakeWindow>,
    /// Slots of series.
    pub slots: Vec<SlotOf>,
    /// Notes about this machine and its recordings. Notes about recordings of other machines are
    /// ignored.
    pub notes: Vec<Note>,
    /// Decisions on changes in recordings of this machine. Decisions on other changes are ignored.
    pub decisions: Vec<ChangeAnnotation>,
}

to_json!(Ids, Sidecar, SlotOf);
from_json!(Ids, Sidecar);

/// Returns the SHA-256 of `bytes` in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_matches_the_standard() {
        // The one-block example of FIPS 180-4.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
    }
}
