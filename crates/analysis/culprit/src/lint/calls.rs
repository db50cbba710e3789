//! Calls on files: on disks, on pipes, sockets and devices, on standard output, to the system log.

use punctual_model::{FileKind, PlacedAct};

use super::waits::{Threads, call};

/// Calls whose first argument is a file descriptor. Other calls take a path.
const OF_FILE: [&str; 24] = [
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "fsync",
    "fdatasync",
    "flock",
    "close",
    "lseek",
    "ftruncate",
    "fallocate",
    "getdents64",
    "ioctl",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "connect",
    "sendto",
    "sendmsg",
    "sendmmsg",
];

/// Sockets of syslog(3) and of systemd-journald, which also reads the output of services.
const LOG_SOCKETS: [&str; 7] = [
    "/dev/log",
    "/var/run/log",
    "/run/systemd/journal/dev-log",
    "/run/systemd/journal/syslog",
    "/run/systemd/journal/socket",
    "/run/systemd/journal/stdout",
    "/run/log",
];

/// Returns the kind of the file that the call uses. `None` if it is unknown.
fn kind(placed: &PlacedAct) -> Option<FileKind> {
    FileKind::of_mode(placed.act.other)
}

/// Returns whether the act is a call on a file or directory in a file system, or on a path.
pub(crate) fn is_file_io(placed: &PlacedAct, _: &Threads) -> bool {
    match kind(placed) {
        Some(kind) => {
            matches!(
                kind,
                FileKind::Regular | FileKind::Directory | FileKind::Disk
            )
        }
        None => !OF_FILE.contains(&call(placed)),
    }
}

/// Returns whether the act is a call on a pipe, socket or device that no other rule judges. The
/// timers and counters that release the thread do not count as devices.
pub(crate) fn is_other_io(placed: &PlacedAct, threads: &Threads) -> bool {
    is_pipe_socket_or_device(placed)
        && !is_standard_output(placed, threads)
        && !is_system_log(placed, threads)
}

fn is_pipe_socket_or_device(placed: &PlacedAct) -> bool {
    let discards = |path: &str| path == "/dev/null";
    let file = placed.file.as_ref().map(|file| file.target.as_str());
    matches!(
        kind(placed),
        Some(FileKind::Pipe | FileKind::Socket | FileKind::Device)
    ) && !file.is_some_and(discards)
        && !discards(&placed.act.name)
}

/// Returns whether the act writes to standard output or standard error, and another program reads
/// it: a pipe, a socket or a terminal.
pub(crate) fn is_standard_output(placed: &PlacedAct, threads: &Threads) -> bool {
    let writes = matches!(
        call(placed),
        "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg"
    );
    writes
        && matches!(placed.act.arguments[0], 1 | 2)
        && is_pipe_socket_or_device(placed)
        && !is_system_log(placed, threads)
}

/// Returns whether the act connects or writes to the socket of the system log.
pub(crate) fn is_system_log(placed: &PlacedAct, _: &Threads) -> bool {
    kind(placed) == Some(FileKind::Socket) && LOG_SOCKETS.contains(&placed.act.name.as_str())
}
