//! A temporary file in the folder of the file it will replace.

use std::collections::hash_map::RandomState;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod,
    fchown, flock, fstat, linkat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

/// Beginning of a temporary name. 16 hexadecimal digits follow.
const PREFIX: &str = ".punctual-";

/// A temporary file without a lock that was not written for this long belongs to a killed program.
/// A younger one may have been created but not locked yet.
const ABANDONED_S: i64 = 60;

/// Maximum number of names to look at in a folder.
const LOOKED_AT: usize = 10_000;

/// Removes the temporary files that killed programs of this user left in a folder. Errors are
/// ignored, because the file is written nevertheless.
fn sweep(folder: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(folder, c".", flags, Mode::empty());
    let Ok(entries) = opened.and_then(Dir::new) else {
        return;
    };
    for entry in entries.take(LOOKED_AT).flatten() {
        let name = entry.file_name();
        let is_ours = (name.to_str().ok())
            .and_then(|name| name.strip_prefix(PREFIX))
            .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit()));
        if is_ours && is_abandoned(folder, name).unwrap_or(false) {
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

fn is_abandoned(folder: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    let stat = fstat(&file)?;
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    let is_old = stat.st_mtime.saturating_add(ABANDONED_S) < now;
    let is_own = stat.st_uid == geteuid().as_raw();
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !(is_file && is_own && is_old) {
        return Ok(false);
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive).map(|()| true)
}

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
                "{PREFIX}{:016x}",
                RandomState::new().build_hasher().finish()
            );
            match openat(&folder, &name, flags, Mode::from_raw_mode(mode)) {
                Ok(file) => {
                    // Without the lock, the file could be swept if it is written for long. Some file
                    // systems have no locks.
                    let _ = flock(&file, FlockOperation::NonBlockingLockShared);
                    let file = file.into();
                    sweep(&folder);
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

    /// Gives the file the name `name`, and replaces no existing file.
    pub(crate) fn rename_new(mut self, name: &OsStr) -> io::Result<()> {
        let (folder, flags) = (&self.folder, RenameFlags::NOREPLACE);
        match renameat_with(folder, &self.name, folder, name, flags) {
            // This file system cannot rename without replacing. A second name can be created, and
            // the temporary one is removed when the value is dropped.
            Err(Errno::INVAL | Errno::NOSYS) => {
                return Ok(linkat(folder, &self.name, folder, name, AtFlags::empty())?);
            }
            renamed => renamed?,
        }
        self.name.clear();
        Ok(())
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
