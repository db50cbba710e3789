//! Detects whether the writer of a recording is alive. The writer holds a lock on a file next to
//! the store. Its process ID alone is not enough: it is meaningless in another PID or time
//! namespace, or if /proc hides the process.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use punctual_files::folder;
use punctual_files::lease::{Holder, Lease as Held, holder};
use punctual_model::RecordingId;

use crate::Lease;
use crate::sidecar::sidecar;

/// Returns the folder of the leases.
fn folder_of(store: &Path) -> PathBuf {
    sidecar(store, ".leases")
}

fn file_of(store: &Path, id: RecordingId) -> PathBuf {
    folder_of(store).join(id.to_string())
}

/// Creates the folder, with permissions for the users of the store. Without the folder, a writer is
/// identified only by its process.
pub(crate) fn make_folder(store: &Path) {
    let path = folder_of(store);
    if path.exists() || folder::make(&path, 0o700).is_err() {
        return;
    }
    if let Ok(file) = fs::metadata(store) {
        let rights = file.mode() & 0o777;
        // Users who may read the store may also list the folder.
        let mode = fs::Permissions::from_mode(0o700 | rights | ((rights & 0o444) >> 2));
        let _ = fs::set_permissions(&path, mode);
        let _ = chown(&path, Some(file.uid()), Some(file.gid()));
    }
}

/// Takes the lease of a recording that is about to be created.
pub(crate) fn take(store: &Path, id: RecordingId, lease: &Lease) -> Option<Held> {
    make_folder(store);
    let note = lease.namespaces.as_deref().unwrap_or_default();
    Held::take(&file_of(store, id), note).ok()
}

/// Returns whether a writer is alive. Without a lease, calls `alive` to check the process. If that
/// is unknown, the writer counts as alive.
pub(crate) fn lives(
    store: &Path,
    id: RecordingId,
    lease: Option<&Lease>,
    alive: &dyn Fn(&Lease) -> bool,
) -> bool {
    match (holder(&file_of(store, id)), lease) {
        (Holder::Lives, _) => true,
        (Holder::Gone, _) => false,
        (Holder::NoLease, lease) => lease.is_some_and(alive),
        (Holder::Unknown { note: None }, _) => true,
        (Holder::Unknown { note }, lease) => lease.is_none_or(|lease| {
            alive(&Lease {
                namespaces: note,
                ..lease.clone()
            })
        }),
    }
}

/// Removes the lease of a dead writer.
pub(crate) fn remove(store: &Path, id: RecordingId) {
    punctual_files::lease::remove(&file_of(store, id));
}
