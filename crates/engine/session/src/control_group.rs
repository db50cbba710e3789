//! Joins control groups.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use punctual_host::{ControlGroup, GroupLocation, Host};

use crate::TargetError;

/// The error if a control group does not accept a process or a kernel thread.
#[derive(Debug, thiserror::Error)]
#[error("cannot join the control group through {}: {source}; {why}", .file.display())]
pub struct JoinError {
    /// File for joining the group.
    file: PathBuf,
    /// Meaning of the error for this file.
    why: &'static str,
    /// Error of the kernel.
    source: io::Error,
}

/// Finds a control group, and where a process joins it: in each hierarchy that limits CPUs or CPU time.
///
/// # Errors
/// Returns an error if the group does not exist, or if no hierarchy limits it.
pub(crate) fn places(
    host: &Host,
    path: &str,
) -> Result<(ControlGroup, Vec<GroupLocation>), TargetError> {
    let group = host.control_group(path);
    let group = group.ok_or_else(|| TargetError::no_group(path, host))?;
    let places = host.group_places(&group);
    if places.is_empty() {
        return Err(TargetError::Unlimited(group.name));
    }
    Ok((group, places))
}

/// Moves a process or a kernel thread into the group of this file `cgroup.procs`, with a single write(2).
///
/// # Errors
/// Returns an error if the kernel refuses it.
pub(crate) fn enter(file: &Path, id: u32) -> Result<(), JoinError> {
    let open = OpenOptions::new().write(true).open(file);
    let entered = open.and_then(|mut open| open.write_all(id.to_string().as_bytes()));
    entered.map_err(|source| JoinError {
        file: file.to_owned(),
        why: reason(&source),
        source,
    })
}

/// Explains an error of a write to `cgroup.procs` (cgroups(7), cgroup-v2.rst).
fn reason(source: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) => {
            "joining needs write permission for this file, which root has"
        }
        Some(Errno::BUSY) => {
            "controllers are enabled for its child groups, so it cannot contain processes: \
             specify one of the child groups"
        }
        Some(Errno::OPNOTSUPP) => "it is a threaded group, which accepts only single threads",
        Some(Errno::NOSPC) => "its cpuset has no CPUs or no memory nodes",
        _ => "it does not accept processes",
    }
}
