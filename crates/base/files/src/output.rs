//! Where output goes: stdout, or a file that appears whole or not at all.

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
use crate::walk::{LastLink, Named, Place, Stopped, walk};
use crate::{FileError, Refusal, rule};

/// Who may read a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// As the umask says, or as the file that is replaced.
    Usual,
    /// Its owner alone, who is the effective user.
    Owner,
}

/// How long a named pipe without a reader is tried: `cat pipe` may be started at the
/// same time.
const READER: Duration = Duration::from_secs(1);
/// How often.
const LOOK: Duration = Duration::from_millis(20);

/// An output that has been opened. A file is written beside its place and
/// moved there by [`finish`](Output::finish); without that it leaves no trace.
pub struct Output {
    /// As the caller named it.
    path: PathBuf,
    to: To,
}

enum To {
    Stdout,
    File {
        temporary: Temporary,
        name: OsString,
        /// The file that is replaced, where its rights are kept.
        old: Option<Rights>,
    },
    /// `/dev/null`, a named pipe, a descriptor of ours: written as it is, for a file
    /// in its place would be the end of it.
    AsItIs(File),
}

impl Output {
    /// The standard output.
    pub fn stdout() -> Self {
        Self {
            path: PathBuf::from("-"),
            to: To::Stdout,
        }
    }

    /// Opens it, `-` for stdout, so that what cannot be written is known before
    /// anything is measured or drawn.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn open(path: &Path) -> Result<Self, FileError> {
        match path == Path::new("-") {
            true => Ok(Self::stdout()),
            false => Self::file(path),
        }
    }

    /// As [`open`](Self::open), for what only its owner is to read: mode 0600, of the
    /// effective user, whatever the file was that it replaces.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn private(path: &Path) -> Result<Self, FileError> {
        match path == Path::new("-") {
            true => Ok(Self::stdout()),
            false => Self::file_for(path, Readers::Owner),
        }
    }

    /// Opens a file, whatever its name. Links are followed: the file is replaced, and
    /// keeps its mode and, where possible, its owner.
    ///
    /// # Errors
    /// [`FileError::Write`] for a folder that is not there or not writable, a path
    /// that is a folder, a file that may not be written, a named pipe that nobody
    /// reads. [`FileError::Refused`] where another user may have put a link, a file
    /// or a pipe there on purpose.
    pub fn file(path: &Path) -> Result<Self, FileError> {
        Self::file_for(path, Readers::Usual)
    }

    fn file_for(path: &Path, readers: Readers) -> Result<Self, FileError> {
        let to = walk(path, LastLink::Followed, &rule::follow)
            .and_then(|place| match place {
                Place::Named(named) => To::named(named, readers),
                Place::Unnamed { file, stat } => To::unnamed(&file, &stat),
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

    /// Puts the output in its place.
    ///
    /// # Errors
    /// Those of write(2), fsync(2) and rename(2).
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
            } => temporary.put(&name).map_err(failed),
            _ => Ok(()),
        }
    }

    /// Writes all of it and puts it in its place.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn put(mut self, content: &[u8]) -> Result<(), FileError> {
        let written = self.to.write_all(content);
        written.map_err(|source| self.failed(source))?;
        self.finish()
    }

    fn failed(&self, source: io::Error) -> FileError {
        FileError::Write {
            path: name_of(&self.path),
            source,
        }
    }

    /// Whether it is the standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }
}

/// Its name in messages.
fn name_of(path: &Path) -> PathBuf {
    match path == Path::new("-") {
        true => PathBuf::from("to stdout"),
        false => path.to_owned(),
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
                // Not to write to it: the kernel says whether the user may.
                let old = Rights::of(&fstat(open_old(&folder, &name)?)?);
                Ok(Self::new(folder, name, readers, Some(old))?)
            }
            FileType::Fifo => {
                rule::pipe(&found).map_err(Stopped::Refused)?;
                let pipe = open_pipe(&folder, &name)?;
                // What was opened, not what was there a moment ago.
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
            // Until it has the rights of the old one.
            _ => 0o600,
        };
        Ok(Self::File {
            temporary: Temporary::make(folder, mode)?,
            name,
            old: old.filter(|_| readers == Readers::Usual),
        })
    }

    /// What a link of /proc leads to. Where it is stdout or stderr, that descriptor is
    /// used: its place in the file goes on, and a socket cannot be opened anew.
    fn unnamed(file: &OwnedFd, stat: &Stat) -> Result<Self, Stopped> {
        let same = |other: &Stat| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino);
        let (stdout, stderr) = (io::stdout(), io::stderr());
        for own in [stdout.as_fd(), stderr.as_fd()] {
            if fstat(own).is_ok_and(|own| same(&own)) {
                return Ok(Self::AsItIs(own.try_clone_to_owned()?.into()));
            }
        }
        // By the descriptor itself: what is behind it may have no name any more.
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        let flags = WRITE.difference(OFlags::NOFOLLOW);
        let opened = openat(rustix::fs::CWD, name, flags, Mode::empty())?;
        Ok(Self::AsItIs(blocking(opened)?))
    }
}

/// Nothing is cut off, nothing waits, no terminal becomes ours, no link is followed.
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
            // Nobody has it open for reading (fifo(7)).
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

/// Writes wait from here on.
fn blocking(file: OwnedFd) -> io::Result<File> {
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file.into())
}

/// Errors name the file: whoever writes through several layers does not know it.
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
