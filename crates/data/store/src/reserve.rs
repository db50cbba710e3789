//! Room kept free on the disk beside a store, for work on a full disk.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::beside::beside;

/// What is kept free on the disk beside a store, in bytes: a delete needs room in the
/// log before it gives any back.
const RESERVE: usize = 4 << 20;

fn reserve_path(path: &Path) -> PathBuf {
    beside(path, ".reserve")
}

/// Gives the room up that is kept for a store on a full disk; whether there was any.
pub(crate) fn give_up_reserve(path: &Path) -> bool {
    fs::remove_file(reserve_path(path)).is_ok()
}

/// Keeps room on the disk for a store, where there is any.
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
        // Not a hole: blocks that are there.
        file.write_all(&vec![0xa5; RESERVE])?;
        file.sync_all()
    };
    if write().is_err() {
        // A part of it would take the room that others need.
        let _ = fs::remove_file(&path);
    }
}
