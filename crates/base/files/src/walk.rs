//! Walks a path folder by folder, instead of letting the kernel do so. Each link and folder is
//! checked before it is used and then held by a descriptor, so that no other user can swap it
//! afterwards.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat, readlinkat,
};

use crate::Refusal;

/// The kernel's limit (path_resolution(7)).
const LINKS: usize = 40;

/// A folder or link on the path.
pub(crate) enum Met<'a> {
    /// A folder that is walked through, or that contains the file.
    Folder(&'a Stat),
    /// A link that the walk would follow.
    Link {
        /// Stat of the folder that contains the link.
        folder: &'a Stat,
        /// Stat of the link itself.
        link: &'a Stat,
    },
}

/// Reason why a walk ended.
pub(crate) enum Stopped {
    /// A system call failed.
    By(io::Error),
    /// The `judge` of the caller refused.
    Refused(Refusal),
}

impl<E: Into<io::Error>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::By(error.into())
    }
}

/// Target of a path.
pub(crate) enum WalkTarget {
    /// A name in a folder; not a link.
    Named(Named),
    /// Target of a /proc link (`/dev/stdout`), which may have no name.
    Unnamed {
        /// The file, opened with `O_PATH`.
        file: OwnedFd,
        /// Its stat.
        stat: Stat,
    },
}

/// A name in a folder.
pub(crate) struct Named {
    /// The folder, opened with `O_PATH`.
    pub(crate) folder: OwnedFd,
    /// Owner and mode of the folder.
    pub(crate) folder_stat: Stat,
    /// The name in the folder.
    pub(crate) name: OsString,
    /// Stat of the file with that name; `None` if there is none.
    pub(crate) found: Option<Stat>,
}

/// How to handle a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// Follow it.
    Followed,
    /// Stop at it.
    Kept,
}

/// Walks `path` to its end. Calls `judge` for each folder and link before using it.
///
/// # Errors
/// Returns the errors of openat(2) and readlinkat(2), the refusals of `judge`, and an error if the
/// path ends in a folder.
pub(crate) fn walk(
    path: &Path,
    last_link: LastLink,
    judge: &dyn Fn(Met<'_>) -> Result<(), Refusal>,
) -> Result<WalkTarget, Stopped> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(io::Error::from(io::ErrorKind::NotFound).into());
    }
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    let mut ahead = VecDeque::new();
    let mut folder = start(path, &mut ahead, None)?;
    let mut links = 0;
    loop {
        let folder_stat = fstat(&folder)?;
        judge(Met::Folder(&folder_stat)).map_err(Stopped::Refused)?;
        let Some(name) = ahead.pop_front() else {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        };
        let last = ahead.is_empty();
        let here = match openat(&folder, &name, PATH | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(here) => here,
            Err(rustix::io::Errno::NOENT) if last && name != ".." => {
                return Ok(WalkTarget::Named(Named {
                    folder,
                    folder_stat,
                    name,
                    found: None,
                }));
            }
            Err(errno) => return Err(errno.into()),
        };
        let stat = fstat(&here)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink if !(last && last_link == LastLink::Kept) => {
                links += 1;
                if links > LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                if fstatfs(&here)?.f_type == PROC_SUPER_MAGIC {
                    match through_proc(&folder, &name)? {
                        (file, stat) if is_folder(&stat) => {
                            folder = file;
                            continue;
                        }
                        (file, stat) if last => return Ok(WalkTarget::Unnamed { file, stat }),
                        _ => return Err(rustix::io::Errno::NOTDIR.into()),
                    }
                }
                judge(Met::Link {
                    folder: &folder_stat,
                    link: &stat,
                })
                .map_err(Stopped::Refused)?;
                let text = OsString::from_vec(readlinkat(&here, "", Vec::new())?.into_bytes());
                folder = start(Path::new(&text), &mut ahead, Some(folder))?;
            }
            FileType::Directory => folder = here,
            _ if last => {
                return Ok(WalkTarget::Named(Named {
                    folder,
                    folder_stat,
                    name,
                    found: Some(stat),
                }));
            }
            _ => return Err(rustix::io::Errno::NOTDIR.into()),
        }
    }
}

const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Follows a /proc link. Only the kernel creates these, and their text may not be a path
/// (`pipe:[4711]`).
fn through_proc(folder: &OwnedFd, name: &OsStr) -> io::Result<(OwnedFd, Stat)> {
    let file = openat(folder, name, PATH, Mode::empty())?;
    let stat = fstat(&file)?;
    Ok((file, stat))
}

/// Prepends the parts of `path` to the parts that are still to be walked, and returns the folder
/// where the path starts.
fn start(
    path: &Path,
    ahead: &mut VecDeque<OsString>,
    folder: Option<OwnedFd>,
) -> io::Result<OwnedFd> {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => ahead.push_front(name.to_owned()),
            Component::ParentDir => ahead.push_front(OsString::from("..")),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    let open = |name: &str| openat(CWD, name, PATH | OFlags::DIRECTORY, Mode::empty());
    Ok(match folder {
        _ if path.has_root() => open("/")?,
        Some(folder) => folder,
        None => open(".")?,
    })
}
