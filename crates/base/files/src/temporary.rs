//! A temporary file in the folder of the file it will replace.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, openat, renameat, unlinkat,
};
use rustix::io::Errno;

/// Number of names to try; each has 64 random bits.
const TRIES: u32 = 16;

/// Owner and permissions of a file.
#[derive(Clone, Copy)]
pub(crate) struct Rights {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Rights {
    /// Takes the owner and the permissions from a stat. The set-user-ID bit is dropped.
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        Self {
            uid: stat.st_uid,
            gid: stat.st_gid,
            mode: stat.st_mode & 0o777,
        }
    }
}

/// A file with a temporary name, removed when dropped.
pub(crate) struct Temporary {
    folder: OwnedFd,
    name: String,
    pub(crate) file: File,
}

impl Temporary {
    /// Creates the file in a folder. `mode` is reduced by the umask.
    pub(crate) fn make(folder: OwnedFd, mode: u32) -> io::Result<Self> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            // The only random numbers that std provides are the keys of its hash tables.
            let name = format!(
                ".punctual-{:016x}",
                RandomState::new().build_hasher().finish()
            );
            match openat(&folder, &name, flags, Mode::from_raw_mode(mode)) {
                Ok(file) => {
                    let file = file.into();
                    return Ok(Self { folder, name, file });
                }
                Err(Errno::EXIST) if tries < TRIES => tries += 1,
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Gives the file the owner and mode of the file it will replace. If the group cannot be set,
    /// the group permissions are dropped, because they would apply to a different group.
    pub(crate) fn take(&self, old: Rights) -> io::Result<()> {
        let now = Rights::from_stat(&rustix::fs::fstat(&self.file)?);
        let uid = (now.uid != old.uid).then(|| Uid::from_raw(old.uid));
        let gid = (now.gid != old.gid).then(|| Gid::from_raw(old.gid));
        let mut mode = old.mode;
        if fchown(&self.file, uid, gid).is_err() && fchown(&self.file, None, gid).is_err() {
            mode &= !0o070;
        }
        Ok(fchmod(&self.file, Mode::from_raw_mode(mode))?)
    }

    /// Renames the file to `name`, replacing any existing file.
    pub(crate) fn rename(mut self, name: &OsStr) -> io::Result<()> {
        renameat(&self.folder, &self.name, &self.folder, name)?;
        self.name.clear();
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Errors are not reported, because the folder may already be gone.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}
