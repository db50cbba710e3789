//! Creates folders for files.

use std::io;
use std::path::Path;

use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

use crate::walk::{LastLink, Stopped, WalkTarget, walk};
use crate::{FileError, rule};

/// Maximum number of attempts to walk a path, because other programs may create and remove folders
/// along it.
const TRIES: u32 = 3;

/// Creates a folder and its missing parents. The folder gets `mode`, the parents 0777, both reduced
/// by the umask. An existing folder is left unchanged.
///
/// # Errors
/// Returns [`FileError::Write`] if mkdir(2) fails, and [`FileError::Refused`] if the path leads
/// through a link of another user.
pub fn make(path: &Path, mode: u32) -> Result<(), FileError> {
    make_among_others(path, mode, TRIES)
}

fn make_among_others(path: &Path, mode: u32, tries: u32) -> Result<(), FileError> {
    let failed = |source: io::Error| FileError::Write {
        path: path.to_owned(),
        source,
    };
    // Treats `a/b/` and `a/b/.` as `a/b`.
    let plain: std::path::PathBuf = path.components().collect();
    match walk(&plain, LastLink::Followed, &rule::follow) {
        Ok(WalkTarget::Named(named)) if named.found.is_none() => {
            match mkdirat(&named.folder, &named.name, Mode::from_raw_mode(mode)) {
                // If the folder exists, another program has created it in the meantime.
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(failed(errno.into())),
            }
        }
        Ok(_) => Err(failed(Errno::NOTDIR.into())),
        // The folder already exists.
        Err(Stopped::By(error)) if error.kind() == io::ErrorKind::IsADirectory => Ok(()),
        Err(Stopped::By(error)) if error.kind() == io::ErrorKind::NotFound => {
            match plain.parent().filter(|above| !above.as_os_str().is_empty()) {
                // A dangling link is not replaced.
                Some(above) if tries > 1 && !plain.is_symlink() => {
                    make(above, 0o777)?;
                    make_among_others(&plain, mode, tries - 1)
                }
                _ => Err(failed(error)),
            }
        }
        Err(Stopped::By(error)) => Err(failed(error)),
        Err(Stopped::Refused(why)) => Err(FileError::Refused {
            path: path.to_owned(),
            why,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

    use super::*;

    #[test]
    fn folder_is_created_with_parents_and_mode() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b/c");
        for _ in 0..2 {
            make(&path, 0o700).unwrap();
        }
        make(&top.path().join("a/b/c/"), 0o777).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&path), 0o700);
        assert_ne!(mode(&top.path().join("a")), 0o700);
        fs::write(top.path().join("file"), "").unwrap();
        assert!(make(&top.path().join("file"), 0o700).is_err());
        assert!(make(&top.path().join("file/deeper"), 0o700).is_err());
        symlink("gone/deep", top.path().join("link")).unwrap();
        assert!(make(&top.path().join("link"), 0o700).is_err());
        assert!(make(&top.path().join("link/deeper"), 0o700).is_err());
        assert!(!top.path().join("gone").exists());
    }

    #[test]
    fn several_make_the_same_folders_at_once() {
        for _ in 0..50 {
            let top = tempfile::tempdir().unwrap();
            let start = std::sync::Barrier::new(4);
            let path = top.path().join("a/b/c/d/e/f/g/h");
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        make(&path, 0o700).unwrap();
                    });
                }
            });
        }
    }

    #[test]
    fn folder_creation_avoids_other_users_links() {
        if rule::user() != 0 {
            punctual_testing::skip!(User, "links of another user: only root can make them");
            return;
        }
        let (top, private) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        symlink(private.path(), top.path().join("link")).unwrap();
        lchown(top.path().join("link"), Some(65_534), None).unwrap();
        let error = make(&top.path().join("link/new"), 0o700).unwrap_err();
        assert!(matches!(error, FileError::Refused { .. }), "{error}");
        assert!(!private.path().join("new").exists());
    }
}
