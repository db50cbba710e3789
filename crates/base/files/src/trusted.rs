//! Files that the program trusts. It applies their content as settings of the machine, so other
//! users must not be able to write to them.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fcntl_setfl, fstat, openat};

use crate::walk::{LastLink, Named, Stopped, WalkTarget, walk};
use crate::{Budget, FileError, Refusal, rule, text_of};

/// Access mode for opening the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and append.
    Append,
}

impl Access {
    fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::ReadWrite => OFlags::RDWR,
            Self::Append => OFlags::RDWR | OFlags::APPEND,
        }
    }
}

/// Opens a file that the program trusts. It must be a regular file and not a link, owned by the
/// effective user or root, and not writable by its group or others. Its folders must not allow
/// another user to swap it. Opening never blocks.
///
/// # Errors
/// Returns [`FileError::Refused`] if one of these conditions does not hold, and [`FileError::Read`]
/// or [`FileError::Write`] if a system call fails.
pub fn open(path: &Path, access: Access) -> Result<File, FileError> {
    opened(path, access, OFlags::empty())
}

/// Like [`open`], but creates a missing file with mode 0600.
///
/// # Errors
/// See [`open`].
pub fn open_or_create(path: &Path, access: Access) -> Result<File, FileError> {
    opened(path, access, OFlags::CREATE)
}

/// Reads a text file that the program trusts, up to `limit` bytes.
///
/// # Errors
/// See [`open`] and [`Budget::read_text`](crate::Budget::read_text).
pub fn text(path: &Path, limit: u64) -> Result<String, FileError> {
    let bytes = Budget::bytes(limit).read_open(open(path, Access::Read)?, path)?;
    text_of(bytes, path)
}

fn opened(path: &Path, access: Access, more: OFlags) -> Result<File, FileError> {
    let failed = |source| match access {
        Access::Read => FileError::Read {
            path: path.to_owned(),
            source,
        },
        _ => FileError::Write {
            path: path.to_owned(),
            source,
        },
    };
    let refused = |why| FileError::Refused {
        path: path.to_owned(),
        why,
    };
    let stopped = |stopped| match stopped {
        Stopped::By(error) => failed(error),
        Stopped::Refused(why) => refused(why),
    };
    // Walk from the root, because another user could also swap a parent of the current folder.
    let whole = std::path::absolute(path).map_err(failed)?;
    let place = walk(&whole, LastLink::Kept, &rule::trust_way).map_err(stopped)?;
    let WalkTarget::Named(Named { folder, name, .. }) = place else {
        return Err(refused(Refusal::NotRegular));
    };
    let flags = access.flags()
        | more
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let file = match openat(&folder, &name, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => file,
        // openat(2) returns this error for a link, because of O_NOFOLLOW.
        Err(rustix::io::Errno::LOOP) => return Err(refused(Refusal::Link)),
        Err(errno) => return Err(failed(errno.into())),
    };
    let stat = fstat(&file).map_err(|errno| failed(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refused(Refusal::NotRegular));
    }
    rule::trust(&stat).map_err(refused)?;
    // Clears O_NONBLOCK. The flag has no effect on a regular file, but would mislead code that
    // reads the flags.
    fcntl_setfl(&file, access.flags() & OFlags::APPEND).map_err(|errno| failed(errno.into()))?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::{Read, Write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use rustix::fs::{CWD, mknodat};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(path: &Path) -> String {
        match open(path, Access::Read) {
            Err(FileError::Refused { why, .. }) => why.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn own_file_is_opened_and_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert_eq!(
            open(&path, Access::Read).unwrap_err().kind(),
            std::io::ErrorKind::NotFound
        );
        let mut file = open_or_create(&path, Access::Append).unwrap();
        file.write_all(b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let mut again = open_or_create(&path, Access::Append).unwrap();
        again.write_all(b" two").unwrap();
        let mut text_of = String::new();
        (open(&path, Access::ReadWrite).unwrap())
            .read_to_string(&mut text_of)
            .unwrap();
        assert_eq!(text_of, "one two");
        assert_eq!(text(&path, 7).unwrap(), "one two");
        assert!(matches!(text(&path, 6), Err(FileError::TooLarge { .. })));
    }

    #[test]
    fn what_others_could_have_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan");
        fs::write(&path, "text").unwrap();
        for mode in [0o620, 0o602, 0o666] {
            chmod(&path, mode);
            assert!(refusal(&path).contains("others may write to it"));
        }
        chmod(&path, 0o644);
        assert!(open(&path, Access::Read).is_ok());
        symlink(&path, folder.path().join("link")).unwrap();
        assert_eq!(refusal(&folder.path().join("link")), "it is a link");
        assert_eq!(refusal(Path::new("/dev/null")), "it is not a regular file");
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(refusal(&pipe), "it is not a regular file");
        // In such a folder any user could swap the file.
        chmod(folder.path(), 0o777);
        assert!(refusal(&path).contains("folder that others may write to (mode 0777)"));
        let deeper = folder.path().join("deeper");
        fs::create_dir(&deeper).unwrap();
        assert!(refusal(&deeper.join("plan")).contains("folder that others may write to"));
        chmod(folder.path(), 0o1777);
        assert!(open(&path, Access::Read).is_ok());
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if rule::user() != 0 {
            punctual_testing::skip!(User, "files of another user: only root can make them");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan");
        fs::write(&path, "text").unwrap();
        chown(&path, Some(65_534), None).unwrap();
        assert!(refusal(&path).contains("another user (uid 65534)"));
        chown(&path, Some(0), None).unwrap();
        chown(folder.path(), Some(65_534), None).unwrap();
        assert!(refusal(&path).contains("folder of another user (uid 65534)"));
    }
}
