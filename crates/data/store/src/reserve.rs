//! Disk space reserved next to a store, for operations on a full disk.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use crate::sidecar::sidecar;

/// Reserved space in bytes. A delete needs space in the log before it frees any.
const RESERVE: usize = 4 << 20;

fn reserve_path(path: &Path) -> PathBuf {
    sidecar(path, ".reserve")
}

/// Frees the reserved space for use on a full disk. Returns whether there was any.
pub(crate) fn give_up_reserve(path: &Path) -> bool {
    fs::remove_file(reserve_path(path)).is_ok()
}

pub(crate) fn has_reserve(path: &Path) -> bool {
    reserve_path(path).exists()
}

/// Reserves disk space for a store, if twice as much is available.
pub(crate) fn keep_reserve(path: &Path) {
    let path = reserve_path(path);
    if path.exists() || !has_room(&path) {
        return;
    }
    let write = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        // A sparse file would not reserve any blocks. Some file systems cannot allocate blocks
        // without writing to them.
        match fallocate(&file, FallocateFlags::empty(), 0, RESERVE as u64) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.write_all(&vec![0xa5; RESERVE]),
            Err(error) => Err(error.into()),
        }
    };
    if write().is_err() {
        // An incomplete reserve would only use up space that others need.
        let _ = fs::remove_file(&path);
    }
}

/// Whether the reserve would take at most half of the free space, because recordings need the rest.
fn has_room(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    statvfs(folder)
        .is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) >= 2 * RESERVE as u64)
}
