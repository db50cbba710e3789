//! Names of the files next to a store.

use std::path::{Path, PathBuf};

/// Returns the path of a store's companion file with this suffix: one of SQLite's own (`-wal`,
/// `-shm`), or that of our leases.
pub(crate) fn sidecar(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
