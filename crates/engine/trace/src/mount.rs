//! Mount points of tracefs, for the whole machine or for this process only.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{fsconfig_create, fsmount, fsopen};

/// Mount points of tracefs below the root path: its own mount point, which exists since Linux 4.1,
/// and the older one in debugfs, which is still supported (`Documentation/trace/ftrace.rst`).
pub(crate) const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Folder that lists the open files of this process by their numbers.
const OWN_FILES: &str = "/proc/self/fd/";

/// A mount that only this process can access.
#[derive(Debug)]
pub struct Mount(OwnedFd);

impl Mount {
    /// Creates the mount; requires Linux 5.2 and CAP_SYS_ADMIN. The mount is not attached to a
    /// folder, so no other program can see it, and it disappears when its last file is closed.
    ///
    /// # Errors
    /// Returns the errors of fsopen(2) and fsmount(2).
    pub(crate) fn new() -> io::Result<Self> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Self(mount))
    }

    /// Returns a path to the root of the mount, which is valid in this process.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("{OWN_FILES}{}", self.0.as_raw_fd()))
    }
}

/// Formats a path for messages. If the path is in a mount that exists only for this process, its
/// mount point is replaced by the usual one, because other programs could not open the path.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let within = text.strip_prefix(OWN_FILES).and_then(|rest| {
        let (number, name) = rest.split_once('/')?;
        number.parse::<u32>().ok().map(|_| name)
    });
    match within {
        Some(name) => format!("/{}/{name}", PLACES[0]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_mount_path_is_shown_publicly() {
        let shown = |path: &str| shown(Path::new(path));
        assert_eq!(
            shown("/proc/self/fd/4/available_tracers"),
            "/sys/kernel/tracing/available_tracers"
        );
        for other in [
            "/sys/kernel/debug/tracing/x",
            "/proc/self/fd/4",
            "/proc/self/fd/x/y",
        ] {
            assert_eq!(shown(other), other);
        }
    }
}
