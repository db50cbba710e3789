//! The files of a bundle (`.tar.zst`) and its statement. Only digests of the files are kept.

use std::io::{self, Read};

use punctual_files::Budget;
use sha2::{Digest, Sha256};

use crate::NotVerified;
use crate::canonical::hex;
use crate::files::{Opened, SignedFile};

/// The first bytes of data compressed with zstd.
pub(crate) const MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";

/// Name of the statement in a bundle.
pub const STATEMENT_FILE: &str = "statement.json";

/// Limits of all files of a bundle.
const ALL: Budget = Budget::bytes(8 << 30).items(10_000);
/// Limit of the statement.
const STATEMENT: Budget = Budget::bytes(256 << 20);

pub(crate) fn open(file: &[u8]) -> Result<Opened, NotVerified> {
    let unpacked = zstd::Decoder::with_buffer(file).map_err(NotVerified::Bundle)?;
    read(ALL.limit(unpacked))
        .map_err(NotVerified::Bundle)?
        .ok_or(NotVerified::NoStatement("bundle"))
}

/// Reads an archive. Returns `None` if it contains no statement.
fn read(unpacked: impl Read) -> io::Result<Option<Opened>> {
    let (mut part, mut left) = (vec![0; 64 << 10], ALL);
    let mut archive = tar::Archive::new(unpacked);
    let (mut statement, mut files) = (None, Vec::new());
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let (_, name) = name.split_once('/').unwrap_or(("", &name));
        let name = name.to_owned();
        left.take_item()?;
        if !entry.header().entry_type().is_file() {
            return Err(io::Error::other(format!("{name} is no file")));
        }
        if name == STATEMENT_FILE && statement.is_none() {
            let mut content = Vec::new();
            STATEMENT.append(entry, &mut content)?;
            statement = Some(content);
            continue;
        }
        let mut digest = Sha256::new();
        while let count @ 1.. = entry.read(&mut part)? {
            digest.update(&part[..count]);
        }
        files.push(SignedFile {
            name,
            sha256: hex(&digest.finalize()),
        });
    }
    // Another archive may follow, which some programs read.
    let mut rest = archive.into_inner();
    while let count @ 1.. = rest.read(&mut part)? {
        if part[..count].iter().any(|byte| *byte != 0) {
            return Err(io::Error::other("data follow the end of the archive"));
        }
    }
    Ok(statement.map(|statement| Opened {
        statement,
        files: Some(files),
    }))
}
