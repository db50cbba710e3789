//! Output to stdout, or to a file that is replaced atomically.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, openat};
use rustix::io::Errno;

use crate::temporary::{Rights, Temporary};
use crate::walk::{LastLink, Named, Stopped, WalkTarget, walk};
use crate::{FileError, Refusal, rule};

/// Who may read a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// The permissions of the replaced file, or those that the umask gives a new file.
    Usual,
    /// Only the owner, who is the effective user.
    Owner,
}

/// How long to retry opening a named pipe that has no reader yet, because `cat pipe` may be
/// starting at the same time.
const READER: Duration = Duration::from_secs(1);
/// Pause between attempts.
const LOOK: Duration = Duration::from_millis(20);

/// An open output. A file is written under a temporary name in the target folder and renamed by
/// [`finish`](Output::finish). Without that call it leaves no trace.
pub struct Output {
    /// The path that the caller passed.
    path: PathBuf,
    to: To,
}

enum To {
    Stdout,
    File {
        temporary: Temporary,
        name: OsString,
        /// Owner and mode of the file that is replaced. `None` if there is no such file, or if only
        /// the owner may read the new file.
        old: Option<Rights>,
    },
    /// `/dev/null`, a named pipe, or an open descriptor of this process. It is written in place,
    /// because replacing it with a file would destroy it.
    AsItIs(File),
}

impl Output {
    /// Returns the standard output.
    pub fn stdout() -> Self {
        Self {
            path: PathBuf::from("-"),
            to: To::Stdout,
        }
    }

    /// Opens an output; `-` means stdout. Call this first, so that an unwritable path is reported
    /// before anything is measured or drawn.
    ///
    /// # Errors
    /// See [`file`](Self::file).
    pub fn open(path: &Path) -> Result<Self, FileError> {
        if path == Path::new("-") {
            Ok(Self::stdout())
        } else {
            Self::file(path)
        }
    }

    /// Like [`open`](Self::open), for content that only the owner may read: mode 0600, owned by the
    /// effective user, regardless of the file that it replaces.
    ///
    /// # Errors
    /// See [`file`](Self::file).
    pub fn private(path: &Path) -> Result<Self, FileError> {
        if path == Path::new("-") {
            Ok(Self::stdout())
        } else {
            Self::file_for(path, Readers::Owner)
        }
    }

    /// Opens a file; `-` has no special meaning. Follows links and replaces their target, keeping
    /// its mode and, if possible, its owner.
    ///
    /// # Errors
    /// Returns [`FileError::Write`] if the folder is missing or not writable, the path is a folder,
    /// the file is not writable, or a named pipe has no reader. Returns [`FileError::Refused`] if
    /// another user may have planted a link, a file or a pipe.
    pub fn file(path: &Path) -> Result<Self, FileError> {
        Self::file_for(path, Readers::Usual)
    }

    fn file_for(path: &Path, readers: Readers) -> Result<Self, FileError> {
        let to = walk(path, LastLink::Followed, &rule::follow)
            .and_then(|place| match place {
                WalkTarget::Named(named) => To::named(named, readers),
                WalkTarget::Unnamed { file, stat } => To::unnamed(&file, &stat),
            })
            .map_err(|stopped| match stopped {
                Stopped::By(source) => FileError::Write {
                    path: path.to_owned(),
                    source,
                },
                Stopped::Refused(why) => FileError::Refused {
                    path: path.to_owned(),
                    why,
                },
            })?;
        Ok(Self {
            path: path.to_owned(),
            to,
        })
    }

    /// Flushes the output and moves a file to its final name.
    ///
    /// # Errors
    /// Returns the errors of write(2), fsync(2) and rename(2).
    pub fn finish(mut self) -> Result<(), FileError> {
        let done = match &mut self.to {
            To::Stdout => io::stdout().flush(),
            To::AsItIs(file) => file.flush(),
            To::File { temporary, old, .. } => old
                .map_or(Ok(()), |old| temporary.take(old))
                .and_then(|()| temporary.file.sync_all()),
        };
        let Self { path, to } = self;
        let failed = |source| FileError::Write {
            path: name_of(&path),
            source,
        };
        done.map_err(failed)?;
        match to {
            To::File {
                temporary, name, ..
            } => temporary.rename(&name).map_err(failed),
            _ => Ok(()),
        }
    }

    /// Writes all of `content` and finishes the output.
    ///
    /// # Errors
    /// See [`finish`](Self::finish).
    pub fn put(mut self, content: &[u8]) -> Result<(), FileError> {
        let written = self.to.write_all(content);
        written.map_err(|source| self.failed(source))?;
        self.finish()
    }

    /// Writes all of `content` to a new file, which appears when it is complete. An existing file
    /// stays as it is, also if it appears in the meantime.
    ///
    /// # Errors
    /// Returns an error of the kind `AlreadyExists` if the file exists. See also
    /// [`finish`](Self::finish).
    pub fn put_new(mut self, content: &[u8]) -> Result<(), FileError> {
        let written = self.to.write_all(content);
        written.map_err(|source| self.failed(source))?;
        let To::File {
            temporary, name, ..
        } = self.to
        else {
            return self.finish();
        };
        let named = temporary.file.sync_all();
        let named = named.and_then(|()| temporary.rename_new(&name));
        named.map_err(|source| FileError::Write {
            path: self.path,
            source,
        })
    }

    fn failed(&self, source: io::Error) -> FileError {
        FileError::Write {
            path: name_of(&self.path),
            source,
        }
    }

    /// Returns whether this is the standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }
}

/// Returns the name to use in messages.
fn name_of(path: &Path) -> PathBuf {
    if path == Path::new("-") {
        PathBuf::from("to stdout")
    } else {
        path.to_owned()
    }
}

impl To {
    fn named(named: Named, readers: Readers) -> Result<Self, Stopped> {
        let Named {
            folder,
            folder_stat,
            name,
            found,
        } = named;
        let Some(found) = found else {
            return Ok(Self::new(folder, name, readers, None)?);
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {
                rule::replace(&folder_stat, &found).map_err(Stopped::Refused)?;
                // Open the old file only to let the kernel check the permission to write.
                let old = Rights::from_stat(&fstat(open_old(&folder, &name)?)?);
                Ok(Self::new(folder, name, readers, Some(old))?)
            }
            FileType::Fifo => {
                rule::pipe(&found).map_err(Stopped::Refused)?;
                let pipe = open_pipe(&folder, &name)?;
                // Check the pipe that was opened, because it may not be the one that was found
                // before.
                rule::pipe(&fstat(&pipe)?).map_err(Stopped::Refused)?;
                Ok(Self::AsItIs(blocking(pipe)?))
            }
            FileType::CharacterDevice => Ok(Self::AsItIs(blocking(open_old(&folder, &name)?)?)),
            FileType::Directory => Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
            _ => Err(Stopped::Refused(Refusal::SocketOrDisk)),
        }
    }

    fn new(
        folder: OwnedFd,
        name: OsString,
        readers: Readers,
        old: Option<Rights>,
    ) -> io::Result<Self> {
        let mode = match (readers, &old) {
            (Readers::Usual, None) => 0o666,
            // Only the owner has access until the file gets the owner and mode of the old one.
            _ => 0o600,
        };
        Ok(Self::File {
            temporary: Temporary::make(folder, mode)?,
            name,
            old: old.filter(|_| readers == Readers::Usual),
        })
    }

    /// Handles the target of a /proc link. If the target is stdout or stderr, that descriptor is
    /// used, because this keeps its file offset, and because a socket cannot be opened a second
    /// time.
    fn unnamed(file: &OwnedFd, stat: &Stat) -> Result<Self, Stopped> {
        let same = |other: &Stat| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino);
        let (stdout, stderr) = (io::stdout(), io::stderr());
        for own in [stdout.as_fd(), stderr.as_fd()] {
            if fstat(own).is_ok_and(|own| same(&own)) {
                return Ok(Self::AsItIs(own.try_clone_to_owned()?.into()));
            }
        }
        // Open it through the descriptor, because the file may no longer have a name.
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        let flags = WRITE.difference(OFlags::NOFOLLOW);
        let opened = openat(rustix::fs::CWD, name, flags, Mode::empty())?;
        Ok(Self::AsItIs(blocking(opened)?))
    }
}

/// Flags to open an existing file for writing: no truncation, no blocking, no controlling terminal,
/// no link followed.
const WRITE: OFlags = OFlags::WRONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

fn open_old(folder: &OwnedFd, name: &OsString) -> io::Result<OwnedFd> {
    Ok(openat(folder, name, WRITE, Mode::empty())?)
}

fn open_pipe(folder: &OwnedFd, name: &OsString) -> io::Result<OwnedFd> {
    let until = Instant::now() + READER;
    loop {
        match openat(folder, name, WRITE, Mode::empty()) {
            // No process has it open for reading (fifo(7)).
            Err(Errno::NXIO) if Instant::now() < until => sleep(LOOK),
            Err(Errno::NXIO) => {
                return Err(io::Error::new(
                    io::ErrorKind::NotConnected,
                    "no process reads this named pipe; start the reader first",
                ));
            }
            other => return Ok(other?),
        }
    }
}

/// From now on, writes block.
fn blocking(file: OwnedFd) -> io::Result<File> {
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file.into())
}

/// Add the name of the file to errors, because a caller that writes through several layers does not
/// know it.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        written.map_err(|source| self.failed(source).into())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        flushed.map_err(|source| self.failed(source).into())
    }
}

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(bytes),
            Self::AsItIs(file) => file.write(bytes),
            Self::File { temporary, .. } => temporary.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::AsItIs(file) => file.flush(),
            Self::File { temporary, .. } => temporary.file.flush(),
        }
    }
}

#[cfg(test)]
mod tests;
