//! Finds the figures of running processes by their open files.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, SealFlags, fcntl_get_seals, fstat, open};

use crate::layout::{MEMFD_NAME, total_bytes};
use crate::{Identity, Reader, Unfit};

/// Figures of a process, opened for reading.
#[derive(Debug)]
pub struct Found {
    /// The process ID.
    pub pid: u32,
    /// Process name (`/proc/PID/comm`), without control characters.
    pub comm: String,
    /// Identity of the process.
    pub identity: Identity,
    /// The process's file descriptor.
    pub fd: u32,
    /// The memory.
    pub reader: Reader<File>,
}

/// A reason why the figures of a process cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The process does not exist.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The process ID.
        pid: u32,
    },
    /// The process belongs to another user.
    #[error(
        "the open files of process {pid} cannot be read, because the process belongs to user \
         {user}: run as that user or with CAP_SYS_PTRACE"
    )]
    OtherUser {
        /// The process ID.
        pid: u32,
        /// User of the process.
        user: u32,
    },
    /// The process is not dumpable, so not even its own user may read its files.
    #[error(
        "the open files of process {pid} cannot be read, because the process is not dumpable \
         (PR_SET_DUMPABLE of prctl(2), or capabilities of its file): run with CAP_SYS_PTRACE"
    )]
    NotDumpable {
        /// The process ID.
        pid: u32,
    },
    /// The process publishes no figures.
    #[error("process {pid} ({comm}) publishes no figures")]
    NoFigures {
        /// The process ID.
        pid: u32,
        /// Name of the process.
        comm: String,
    },
    /// The figures of the process cannot be used.
    #[error("the figures of process {pid} ({comm}) cannot be used: {why}")]
    Unfit {
        /// The process ID.
        pid: u32,
        /// Name of the process.
        comm: String,
        /// The reason.
        why: Unfit,
    },
    /// Another system error.
    #[error("the open files of process {pid} cannot be read: {source}")]
    Io {
        /// The process ID.
        pid: u32,
        /// The system error.
        source: io::Error,
    },
}

/// Finds the figures of a process under `proc` (`/proc`). The process is neither stopped nor
/// traced. Requires the right to read its open files (ptrace(2), PTRACE_MODE_READ).
///
/// # Errors
/// Returns the reason if no figures can be read.
pub fn of_process(proc: &Path, pid: u32) -> Result<Found, Refusal> {
    let folder = proc.join(pid.to_string());
    let refused = |source: io::Error| refusal(&folder, pid, source);
    let comm = comm(&folder);
    let identity = Identity::new(proc, pid).map_err(refused)?;
    let mut unfit = None;
    for entry in fs::read_dir(folder.join("fd")).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        // A file may be closed while the list is read.
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let (Some(fd), true) = (number, is_named_so(&target)) else {
            continue;
        };
        let opened = open_sealed(&entry.path()).and_then(|file| Reader::new(file, &identity));
        match opened {
            Ok(reader) => {
                return Ok(Found {
                    pid,
                    comm,
                    identity,
                    fd,
                    reader,
                });
            }
            Err(why) => unfit = Some(why),
        }
    }
    Err(match unfit {
        Some(why) => Refusal::Unfit { pid, comm, why },
        None => Refusal::NoFigures { pid, comm },
    })
}

/// Returns whether the same process still has the figures open.
pub fn is_open(proc: &Path, found: &Found) -> bool {
    let path = proc.join(format!("{}/fd/{}", found.pid, found.fd));
    let same = Identity::new(proc, found.pid).is_ok_and(|now| now == found.identity);
    same && fs::read_link(path).is_ok_and(|target| is_named_so(&target))
}

fn is_named_so(target: &Path) -> bool {
    let name = target
        .to_str()
        .and_then(|text| text.strip_prefix("/memfd:"));
    name.is_some_and(|name| name.trim_end_matches(" (deleted)") == MEMFD_NAME)
}

/// Opens a sealed file. The file is first opened with `O_PATH`, because a full open could have side
/// effects on a device or pipe of that name.
fn open_sealed(path: &Path) -> Result<File, Unfit> {
    let named =
        open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)?;
    let status = fstat(&named).map_err(io::Error::from)?;
    let bytes = u64::try_from(status.st_size).unwrap_or(u64::MAX);
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(Unfit::NotMemory);
    }
    if bytes > total_bytes(crate::layout::MAX_CHANNELS) as u64 {
        return Err(Unfit::Layout {
            what: "the size of the file",
            found: bytes,
        });
    }
    // Reopen the file that was checked, even if the path now leads to another file.
    let path = format!("/proc/self/fd/{}", named.as_raw_fd());
    let file =
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)?;
    let needed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    // F_GET_SEALS fails for a file that does not support seals.
    let seals = fcntl_get_seals(&file).map_err(|_| Unfit::NotMemory)?;
    if seals.contains(needed) {
        Ok(File::from(file))
    } else {
        Err(Unfit::NotSealed)
    }
}

/// Returns the name of a process. The process can choose this name freely.
#[expect(clippy::disallowed_methods, reason = "the kernel limits this file")]
fn comm(folder: &Path) -> String {
    let text = fs::read(folder.join("comm")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.trim_end_matches('\n').chars().map(clean).collect()
}

fn refusal(folder: &Path, pid: u32, source: io::Error) -> Refusal {
    match source.kind() {
        io::ErrorKind::NotFound => Refusal::NoProcess { pid },
        io::ErrorKind::PermissionDenied => {
            let user = user_of(folder);
            match user {
                Some(user) if user != rustix::process::geteuid().as_raw() => {
                    Refusal::OtherUser { pid, user }
                }
                Some(_) => Refusal::NotDumpable { pid },
                None => Refusal::Io { pid, source },
            }
        }
        // The process ended between two reads (ESRCH).
        _ if source.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            Refusal::NoProcess { pid }
        }
        _ => Refusal::Io { pid, source },
    }
}

/// Returns the effective user of a process. The user is read from the status of the process,
/// because root owns the folder of a process that is not dumpable.
#[expect(clippy::disallowed_methods, reason = "the kernel limits this file")]
fn user_of(folder: &Path) -> Option<u32> {
    let status = fs::read_to_string(folder.join("status")).ok();
    let line = status.as_deref().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    });
    line.or_else(|| Some(fs::metadata(folder).ok()?.uid()))
}
