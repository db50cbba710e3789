//! Disk space reserved next to a store, for operations on a full disk.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::beside::beside;

/// Reserved space in bytes: a delete needs space in the log before it frees any.
const RESERVE: usize = 4 << 20;

fn reserve_path(path: &Path) -> PathBuf {
    beside(path, ".reserve")
}

/// Frees the reserved space for use on a full disk. Returns whether there was any.
pub(crate) fn give_up_reserve(path: &Path) -> bool {
    fs::remove_file(reserve_path(path)).is_ok()
}

/// Reserves disk space for a store, if available.
pub(crate) fn keep_reserve(path: &Path) {
    let path = reserve_path(path);
    if path.exists() {
        return;
    }
    let write = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        // Write real data, because a sparse file would not reserve blocks.
        file.write_all(&vec![0xa5; RESERVE])?;
        file.sync_all()
    };
    if write().is_err() {
        // A partial reserve would only take space that others need.
        let _ = fs::remove_file(&path);
    }
}
