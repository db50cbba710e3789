//! Whether the writer of a recording lives. It holds a file beside the store for as
//! long as it writes: the number of its process says nothing in another pid or time
//! namespace, and nothing where /proc hides it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use punctual_files::folder;
use punctual_files::lease::{Holder, Lease as Held, holder};
use punctual_model::RecordingId;

use crate::Lease;
use crate::beside::beside;

/// The folder of the leases.
fn folder_of(store: &Path) -> PathBuf {
    beside(store, ".leases")
}

fn file_of(store: &Path, id: RecordingId) -> PathBuf {
    folder_of(store).join(id.to_string())
}

/// Makes the folder, for those who may use the store. Without it a writer is known by
/// its process alone.
pub(crate) fn make_folder(store: &Path) {
    let path = folder_of(store);
    if path.exists() || folder::make(&path, 0o700).is_err() {
        return;
    }
    if let Ok(file) = fs::metadata(store) {
        let rights = file.mode() & 0o777;
        // Who may read a file looks into the folder.
        let mode = fs::Permissions::from_mode(0o700 | rights | ((rights & 0o444) >> 2));
        let _ = fs::set_permissions(&path, mode);
        let _ = chown(&path, Some(file.uid()), Some(file.gid()));
    }
}

/// Takes the lease of a recording that is about to be made.
pub(crate) fn take(store: &Path, id: RecordingId, lease: &Lease) -> Option<Held> {
    make_folder(store);
    let note = lease.namespaces.as_deref().unwrap_or_default();
    Held::take(&file_of(store, id), note).ok()
}

/// Whether a writer lives. `alive` is asked, by the number of the process, where
/// there is no lease; what cannot be known counts as alive.
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

/// Removes the lease of a writer that is gone.
pub(crate) fn remove(store: &Path, id: RecordingId) {
    punctual_files::lease::remove(&file_of(store, id));
}
