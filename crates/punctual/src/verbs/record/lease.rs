//! The lease of the service: one service alone records into a store.

use std::path::{Path, PathBuf};

use anyhow::Result;
use punctual_files::lease::{Holder, Lease, holder, remove};
use punctual_store::Store;

/// The file that the service of a store holds.
fn lease_path(store: &Store) -> PathBuf {
    let mut name = store.path().as_os_str().to_owned();
    name.push(".service");
    PathBuf::from(name)
}

/// Who serves a store; `None`: nobody.
pub(super) fn service_of(store: &Store) -> Option<String> {
    let path = lease_path(store);
    let note = || note_of(&path).unwrap_or_else(|| "its process is not known".to_owned());
    match holder(&path) {
        Holder::NoLease | Holder::Gone => None,
        Holder::Lives | Holder::Unknown { .. } => Some(note()),
    }
}

fn note_of(path: &Path) -> Option<String> {
    let note = punctual_files::bounded::text(path, 1_024).ok()?;
    Some(note.trim().to_owned()).filter(|note| !note.is_empty())
}

/// Only one service on a store: two would each measure every slot.
pub(super) fn only_one(store: &Store) -> Result<Lease> {
    let path = lease_path(store);
    if let Some(who) = service_of(store) {
        let text = format!(
            "another service records into {} ({who})",
            store.path().display()
        );
        anyhow::bail!(text);
    }
    remove(&path);
    Ok(Lease::take(
        &path,
        &format!("process {}", std::process::id()),
    )?)
}
