//! Temporary folders, for programs and libraries that need the path of a file.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Beginning of the name of a temporary folder.
const SCRATCH: &str = "punctual-scratch-";
/// A temporary folder of this age belongs to a killed program.
const ABANDONED: Duration = Duration::from_secs(3_600);
/// Maximum number of names to look at.
const LOOKED_AT: usize = 10_000;

/// Creates a temporary folder that is removed when dropped, and removes those that killed programs of
/// this user left.
///
/// # Errors
/// Returns an error if the folder cannot be created.
pub fn folder() -> io::Result<tempfile::TempDir> {
    let made = tempfile::Builder::new().prefix(SCRATCH).tempdir()?;
    let owner = made.path().metadata()?.uid();
    sweep(&std::env::temp_dir(), owner);
    Ok(made)
}

/// Removes abandoned temporary folders. Errors are ignored, because the new one is used nevertheless.
fn sweep(folder: &Path, owner: u32) {
    let Ok(entries) = folder.read_dir() else {
        return;
    };
    for entry in entries.take(LOOKED_AT).flatten() {
        if is_abandoned(&entry, owner) == Some(true) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(entry: &fs::DirEntry, owner: u32) -> Option<bool> {
    if !entry.file_name().to_str()?.starts_with(SCRATCH) {
        return None;
    }
    let about = entry.metadata().ok()?;
    let age = SystemTime::now()
        .duration_since(about.modified().ok()?)
        .ok()?;
    Some(about.is_dir() && about.uid() == owner && age > ABANDONED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_abandoned_folders_are_removed() {
        let top = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let path = top.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("store.db"), "").unwrap();
            let then = SystemTime::now() - age;
            fs::File::open(&path).unwrap().set_modified(then).unwrap();
            path
        };
        let abandoned = make("punctual-scratch-a", ABANDONED * 2);
        let used = make("punctual-scratch-b", Duration::ZERO);
        let other = make("other", ABANDONED * 2);
        let link = top.path().join("punctual-scratch-c");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let owner = used.metadata().unwrap().uid();
        sweep(top.path(), owner.wrapping_add(1));
        assert!(abandoned.exists());
        sweep(top.path(), owner);
        assert!(!abandoned.exists());
        assert!(used.exists() && other.join("store.db").exists() && link.exists());
    }
}
