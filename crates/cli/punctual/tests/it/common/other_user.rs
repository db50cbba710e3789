//! Runs commands as another user, for which the test must run as root.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

/// The other user: nobody.
pub const OTHER: u32 = 65_534;

/// Returns whether this test may act as the other user. Prints the reason if it may not.
pub fn may_become_other(test: &str) -> bool {
    let may = rustix::process::geteuid().is_root()
        && (as_other("true").output()).is_ok_and(|output| output.status.success());
    if !may {
        punctual_testing::skip!(
            User,
            "{test}: root and setpriv(1) are needed to act as another user"
        );
    }
    may
}

/// Returns a command that runs as the other user, at SCHED_FIFO with priority 20. The user may keep
/// that priority or lower it (sched(7)). Without the privilege for it, prints a skip and returns
/// `None`.
pub fn as_other_in_real_time(program: impl AsRef<OsStr>) -> Option<Command> {
    let in_real_time = || {
        let mut command = Command::new("chrt");
        command.args(["--fifo", "20"]);
        command
    };
    let may = in_real_time().arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!(Right, "no right to real-time priority, or no chrt(1)");
        return None;
    }
    let other = as_other(program);
    let mut command = in_real_time();
    command
        .arg(other.get_program())
        .args(other.get_args())
        .current_dir("/")
        .stdin(Stdio::null());
    Some(command)
}

/// Returns a command that runs as the other user.
pub fn as_other(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(program)
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes the other user the owner of a file.
pub fn give(path: &Path, mode: u32) {
    chmod(path, mode);
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
}
