//! Whether the writer of a recording lives. It holds a file beside the store for as
//! long as it writes: the number of its process says nothing in another pid or time
//! namespace, and nothing where /proc hides it.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use punctual_files::lease::{Holder, Lease as Held, holder};
use punctual_files::{folder, rights};
use punctual_model::RecordingId;

use crate::Lease;
use crate::beside::beside;

/// The folder of the leases; that it is there says that the store was made, or
/// closed to others, by a version that does so.
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

/// Whether it is a file that begins as SQLite's do: nothing else that was named as a
/// store by mistake is touched. <https://www.sqlite.org/fileformat2.html>, 1.3.
fn is_database(path: &Path) -> bool {
    let mut magic = [0; 16];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"SQLite format 3\0"
}

/// Takes from other users what an earlier version let them read: the store, the files
/// that SQLite keeps beside it, and with `folder` the folder that it is in. Done once
/// for a store: what its owner allows afterwards stays. Returns what was closed.
pub fn close_to_others(store: &Path, folder: bool) -> Vec<PathBuf> {
    if !is_database(store) || folder_of(store).exists() {
        return Vec::new();
    }
    let mut all = vec![
        store.to_owned(),
        beside(store, "-wal"),
        beside(store, "-shm"),
    ];
    all.extend(store.parent().filter(|_| folder).map(Path::to_owned));
    all.retain(|path| rights::close_to_others(path).unwrap_or(false));
    make_folder(store);
    all
}
