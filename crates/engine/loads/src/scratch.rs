//! Scratch files and folders.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Returns the folder for scratch files of loads if the user names none: `$TMPDIR`, or else
/// `/var/tmp`, which unlike `/tmp` is rarely kept in memory (file-hierarchy(7)).
pub(crate) fn folder() -> PathBuf {
    let folder = std::env::var_os("TMPDIR")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    // Processes of the load may have a different working folder, so the path is made absolute. If
    // the current folder cannot be read, the path stays relative.
    std::path::absolute(&folder).unwrap_or(folder)
}

/// Returns a name in `folder` that no other load uses. If the name exists nevertheless, the caller
/// must fail.
pub(crate) fn unique(folder: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos());
    folder.join(format!(
        "punctual-load-{}-{nanos:x}-{count}",
        std::process::id()
    ))
}

/// Creates a file without a name. The kernel removes it when it is closed, even if the program is
/// killed. If the file system does not support O_TMPFILE (open(2)), the file has a name for a
/// moment.
pub(crate) fn nameless_file(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Kernels and file systems that do not support O_TMPFILE try to open the folder instead,
        // and return EISDIR or ENOENT.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => named_for_a_moment(folder),
        Err(error) => Err(error.into()),
    }
}

fn named_for_a_moment(folder: &Path) -> io::Result<File> {
    let path = unique(folder);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Removes a folder of this program with its contents. Retries, because a dying process may still
/// write there.
pub(crate) fn remove(folder: &Path) {
    for _ in 0..10 {
        if fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number of bytes that loads may use on the file system of `folder` (statvfs(3)): half
/// of the free space, so that no load ever fills a disk.
pub(crate) fn usable_bytes(folder: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(folder)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize) / 2)
}

/// Returns the disk space of a tree in bytes; stops counting above `limit`. Does not follow
/// symbolic links.
pub(crate) fn tree_bytes(folder: &Path, limit: u64) -> io::Result<u64> {
    let mut bytes: u64 = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let found = entry.metadata()?;
            // Blocks are always 512 bytes, independent of the file system's block size (stat(2)).
            bytes = bytes.saturating_add(found.blocks().saturating_mul(512));
            if bytes > limit {
                return Ok(bytes);
            }
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_nameless_file_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        for make in [nameless_file, named_for_a_moment] {
            let mut file = make(folder.path()).unwrap();
            file.write_all(b"text").unwrap();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            assert!(make(Path::new("/no/such/folder")).is_err());
        }
    }

    #[test]
    fn names_differ() {
        let folder = Path::new("/");
        assert_ne!(unique(folder), unique(folder));
    }

    #[test]
    fn tree_size_is_summed_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/file"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("below/loop")).unwrap();
        let all = tree_bytes(folder.path(), u64::MAX).unwrap();
        assert!((100_000..1_000_000).contains(&all), "{all}");
        assert!(tree_bytes(folder.path(), 1).unwrap() > 1);
    }

    #[test]
    fn there_is_room_and_not_without_end() {
        let usable_bytes = usable_bytes(Path::new("/")).unwrap();
        assert!(usable_bytes < u64::MAX / 4);
        assert!(super::usable_bytes(Path::new("/no/such/folder")).is_err());
    }
}
