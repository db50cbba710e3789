//! Checks whether another user could have planted a file, and removes the permissions of other
//! users. The file itself is never opened: closing any descriptor of it would drop the POSIX locks
//! of the process (fcntl(2)), which SQLite relies on.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, openat};

use crate::walk::{LastLink, Met, Named, Stopped, WalkTarget, walk};
use crate::{FileError, Refusal, rule};

/// Permission bits of the group and of others.
const OF_OTHERS: u32 = 0o077;

/// Refuses a file that an output would refuse: one behind a link of another user, or owned by
/// another user, in a folder that others may write to. A missing file is accepted.
///
/// # Errors
/// Returns [`FileError::Refused`] for such a file.
pub fn check_not_planted(path: &Path) -> Result<(), FileError> {
    check(path, LastLink::Followed, &rule::follow, &|folder, file| {
        rule::replace(folder, file)
    })
}

/// Refuses a file that [`trusted::open`](crate::trusted::open) would refuse. A missing file is
/// accepted if its folders are.
///
/// # Errors
/// Returns [`FileError::Refused`] for such a file.
pub fn check_trusted(path: &Path) -> Result<(), FileError> {
    check(
        path,
        LastLink::Kept,
        &rule::trust_way,
        &|_, file| match FileType::from_raw_mode(file.st_mode) {
            FileType::RegularFile => rule::trust(file),
            _ => Err(Refusal::NotRegular),
        },
    )
}

fn check(
    path: &Path,
    last_link: LastLink,
    way: &dyn Fn(Met<'_>) -> Result<(), Refusal>,
    judge: &dyn Fn(&Stat, &Stat) -> Result<(), Refusal>,
) -> Result<(), FileError> {
    let refused = |why| FileError::Refused {
        path: path.to_owned(),
        why,
    };
    match walk(path, last_link, way) {
        Err(Stopped::Refused(why)) => Err(refused(why)),
        Ok(WalkTarget::Named(Named {
            folder_stat,
            found: Some(found),
            ..
        })) => judge(&folder_stat, &found).map_err(refused),
        // The system reports this error when the file is opened.
        _ => Ok(()),
    }
}

/// Removes the permissions of the group and of others from a file or folder that belongs to the
/// effective user. Returns whether there were any. A missing file, a link, and a file of another
/// user are left unchanged.
///
/// # Errors
/// Returns [`FileError::Write`] if chmod(2) fails.
pub fn close_to_others(path: &Path) -> Result<bool, FileError> {
    let failed = |source| FileError::Write {
        path: path.to_owned(),
        source,
    };
    let close = || -> io::Result<bool> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(rustix::fs::CWD, path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            other => other?,
        };
        let stat = rustix::fs::fstat(&file)?;
        let mode = stat.st_mode & 0o7777;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let fit = kind == FileType::RegularFile || kind == FileType::Directory;
        if !fit || stat.st_uid != rule::user() || mode & OF_OTHERS == 0 {
            return Ok(false);
        }
        // Change the file that was checked, even if the name now refers to another one.
        let this = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::set_permissions(this, Permissions::from_mode(mode & !OF_OTHERS))?;
        Ok(true)
    };
    close().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use super::*;

    #[test]
    fn the_rights_of_others_are_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        symlink(&path, folder.path().join("link")).unwrap();
        assert!(!close_to_others(&folder.path().join("link")).unwrap());
        assert!(!close_to_others(&folder.path().join("none")).unwrap());
        assert!(close_to_others(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert!(!close_to_others(&path).unwrap());
    }

    #[test]
    fn what_another_user_prepared_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for check in [check_trusted, check_not_planted] {
            check(&path).unwrap();
        }
        fs::write(&path, "").unwrap();
        check_not_planted(&path).unwrap();
        if rule::user() != 0 {
            punctual_testing::skip!(User, "files of another user: only root can make them");
            return;
        }
        chown(&path, Some(65_534), None).unwrap();
        check_not_planted(&path).unwrap();
        assert!(check_trusted(&path).is_err());
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(check_not_planted(&path).is_err());
        assert!(!close_to_others(&path).unwrap());
    }
}
