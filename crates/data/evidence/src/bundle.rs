//! The files of a bundle (`.tar.zst`) and its statement. Of most files, only digests are kept.

use std::io::{self, Read};
use std::path::{Component, Path};

use punctual_files::Budget;
use sha2::{Digest, Sha256};

use crate::NotVerified;
use crate::canonical::hex;
use crate::files::{Member, Opened, SignedFile};

/// The first bytes of data compressed with zstd.
pub(crate) const MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";

/// Name of the statement in a bundle.
pub const STATEMENT_FILE: &str = "statement.json";

/// Limits of all files of a bundle.
const ALL: Budget = Budget::bytes(8 << 30).items(10_000);
/// Limit of the statement.
const STATEMENT: Budget = Budget::bytes(256 << 20);
/// Limit of all files that are kept to be verified.
const KEPT: Budget = Budget::bytes(512 << 20);
/// Size of one read of a file, in bytes.
const PART: usize = 64 << 10;

pub(crate) fn open(file: &[u8]) -> Result<Opened, NotVerified> {
    let unpacked = zstd::Decoder::with_buffer(file).map_err(NotVerified::Bundle)?;
    read(ALL.limit(unpacked))
        .map_err(NotVerified::Bundle)?
        .ok_or(NotVerified::NoStatement("bundle"))
}

/// Reads an archive. Returns `None` if it contains no statement.
fn read(unpacked: impl Read) -> io::Result<Option<Opened>> {
    let (mut part, mut left, mut room) = (vec![0; PART], ALL, KEPT);
    let mut archive = tar::Archive::new(unpacked);
    let (mut statement, mut files, mut members) = (None, Vec::new(), Vec::new());
    let mut top = None;
    // Raw: an extended header with the name of a file would be read to its end, which can be far.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        left.take_item()?;
        if !entry.header().entry_type().is_file() {
            let path = path.display();
            return Err(io::Error::other(format!("{path} is not a plain file")));
        }
        let (folder, name) = parts(&path)?;
        if *top.get_or_insert_with(|| folder.clone()) != folder {
            let path = path.display();
            return Err(io::Error::other(format!(
                "{path} is not in {}",
                top.unwrap_or_default()
            )));
        }
        if name == STATEMENT_FILE && statement.is_none() {
            let mut content = Vec::new();
            STATEMENT.append(entry, &mut content)?;
            statement = Some(content);
            continue;
        }
        let mut digest = Sha256::new();
        let mut content = Member::is_one(&name).then(Vec::new);
        while let count @ 1.. = entry.read(&mut part)? {
            digest.update(&part[..count]);
            if let Some(kept) = &mut content {
                let is_too_large = room.take_bytes(count as u64).is_err();
                kept.extend_from_slice(&part[..count]);
                content = content.filter(|_| !is_too_large);
            }
        }
        if Member::is_one(&name) {
            let name = name.clone();
            members.push(Member { name, content });
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
        members,
    }))
}

/// Returns the folder of a bundle and the name of a file in it. Refuses names that would lead out of
/// the folder when the bundle is unpacked.
fn parts(path: &Path) -> io::Result<(String, String)> {
    let wrong = || io::Error::other(format!("{} is not a name in a bundle", path.display()));
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let text = path.to_str().filter(|_| is_plain).ok_or_else(wrong)?;
    let (folder, name) = text.split_once('/').ok_or_else(wrong)?;
    // Components leave out what these names contain.
    let is_odd = |part: &str| part.is_empty() || part == "." || part.contains(char::is_control);
    if text.split('/').any(is_odd) {
        return Err(wrong());
    }
    Ok((folder.to_owned(), name.to_owned()))
}
