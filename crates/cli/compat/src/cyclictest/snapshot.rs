//! The file in shared memory that get_cyclictest_snapshot reads. Its name contains the process ID
//! of a running cyclictest, and its content is the current lines. get_cyclictest_snapshot reads the
//! file right after it has sent SIGUSR2, so the lines are always kept up to date.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use punctual_host::Host;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

/// The folder that shm_open(3) uses.
const FOLDER: &str = "/dev/shm";
const NAME: &str = "cyclictest";

/// The file, which is removed when this value is dropped. The file stays locked while this process
/// is alive, because a process ID is meaningless in another pid namespace that shares /dev/shm.
pub(super) struct SnapshotFile {
    folder: PathBuf,
    path: PathBuf,
    locked: Mutex<Option<File>>,
}

impl SnapshotFile {
    /// Creates the file, and removes files left by killed programs.
    ///
    /// # Errors
    /// Returns the errors of open(2).
    pub(super) fn make(host: &Host) -> io::Result<Self> {
        let folder = Path::new(FOLDER);
        sweep(folder, &|pid| host.process_start(pid).is_some());
        Self::make_in(folder, std::process::id())
    }

    fn make_in(folder: &Path, pid: u32) -> io::Result<Self> {
        let snapshot = Self {
            folder: folder.to_owned(),
            path: folder.join(format!("{NAME}{pid}")),
            locked: Mutex::new(None),
        };
        snapshot.put("")?;
        Ok(snapshot)
    }

    /// Replaces the content atomically.
    ///
    /// # Errors
    /// Returns the errors of open(2), write(2) and rename(2).
    pub(super) fn put(&self, text: &str) -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".punctual-")
            .permissions(Permissions::from_mode(0o664))
            .tempfile_in(&self.folder)?;
        file.write_all(text.as_bytes())?;
        // If the file system does not support locks, the process ID decides whether the file is in
        // use.
        let _ = flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
        let file = file.persist(&self.path)?;
        // The previous file is closed only when this file has its name.
        *self.locked.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes files of this user whose process has ended.
fn sweep(folder: &Path, runs: &dyn Fn(u32) -> bool) {
    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        let ours = entry.metadata().is_ok_and(|file| file.uid() == user);
        if ours && !runs(pid) && !is_locked(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether the process that created the file is alive, in any namespace.
fn is_locked(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        for name in ["cyclictest5", "cyclictest7", "cyclictestx", "other5"] {
            fs::write(place(name), "").unwrap();
        }
        // This file belongs to a process that is not visible here.
        let elsewhere = SnapshotFile::make_in(folder.path(), 9).unwrap();
        sweep(folder.path(), &|pid| pid == 7);
        let left = |name: &str| place(name).exists();
        assert!(!left("cyclictest5"));
        assert!(left("cyclictest9"));
        drop(elsewhere);
        assert!(left("cyclictest7") && left("cyclictestx") && left("other5"));

        let file = SnapshotFile::make_in(folder.path(), 7).unwrap();
        file.put("a long text").unwrap();
        file.put("lines").unwrap();
        assert_eq!(fs::read_to_string(place("cyclictest7")).unwrap(), "lines");
        drop(file);
        assert!(!left("cyclictest7"));
    }
}
