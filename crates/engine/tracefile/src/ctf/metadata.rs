//! Reads the file `metadata` of a trace.

use std::path::Path;

use punctual_files::Budget;

use super::types::Metadata;
use super::{json, tsdl};
use crate::TraceFileError;
use crate::dat::parser::Endian;

/// Maximum size of the file in bytes. LTTng writes less than 1 MiB for all events of a kernel.
const LARGEST: u64 = 16 << 20;
/// The first bytes of each packet, if the text is in packets.
const MAGIC: u32 = 0x75d1_1d57;
/// Size of the head of a packet in bytes.
const HEAD: usize = 37;
/// The first letter of CTF 2: each part of the metadata is a record of JSON.
const RECORD: char = '\u{1e}';

/// Reads and parses the metadata.
///
/// # Errors
/// Returns an error if the file cannot be read, or names the line that is wrong.
pub(super) fn read(path: &Path) -> Result<Metadata, TraceFileError> {
    let bytes = Budget::bytes(LARGEST)
        .read(path)
        .map_err(|error| TraceFileError::Metadata {
            line: 1,
            what: error.to_string(),
        })?;
    let text = unpacked(&bytes)?;
    let text = String::from_utf8_lossy(&text);
    if text.trim_start().starts_with(RECORD) {
        json::parse(&text)
    } else {
        tsdl::parse(&text)
    }
}

/// Returns the text without the heads of its packets.
fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, TraceFileError> {
    let orders = [Endian { is_big: false }, Endian { is_big: true }];
    let magic = bytes.first_chunk();
    let order = orders
        .into_iter()
        .find(|order| magic.is_some_and(|magic| order.u32(*magic) == MAGIC));
    let Some(order) = order else {
        return Ok(bytes.to_vec());
    };
    let mut text = Vec::new();
    let mut offset = 0;
    while let Some(packet) = bytes.get(offset..).filter(|rest| rest.len() >= HEAD) {
        let number = |at: usize| {
            let bytes = packet.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| order.u32(*bytes)) as usize / 8
        };
        let (content, size) = (number(24), number(28));
        let is_packed = packet.get(32..34) != Some(&[0, 0]);
        let piece = packet.get(HEAD..content).filter(|_| content <= size);
        let Some(piece) = piece.filter(|_| !is_packed) else {
            let what = if is_packed {
                "the packet of metadata is compressed or encrypted"
            } else {
                "the packet of metadata is cut off"
            };
            return Err(TraceFileError::Damaged {
                offset: offset as u64,
                what: what.to_owned(),
            });
        };
        text.extend(piece);
        offset += size;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_be_bytes().to_vec();
        bytes.extend([0; 20]);
        bytes.extend(((HEAD + text.len()) as u32 * 8).to_be_bytes());
        bytes.extend((64_u32 * 8).to_be_bytes());
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(text);
        bytes.resize(64, 0);
        bytes
    }

    #[test]
    fn packets_are_joined() {
        let packets = [packet(b"/* CTF"), packet(b" 1.8 */")].concat();
        assert_eq!(unpacked(&packets).unwrap(), b"/* CTF 1.8 */");
        assert_eq!(unpacked(b"/* CTF 1.8 */").unwrap(), b"/* CTF 1.8 */");
        let mut encrypted = packets.clone();
        encrypted[33] = 1;
        assert!(unpacked(&encrypted).is_err());
        let mut endless = packets;
        endless[28..32].fill(0);
        assert!(unpacked(&endless).is_err());
    }
}
