//! File descriptors inherited by a child program.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::Error;

/// Starts a program that inherits these descriptors under their current numbers.
///
/// Uses posix_spawn(3) instead of fork(2) where the standard library does. Then the memory of this
/// process is not shared, so writing to its pages causes no new page faults. A program that another
/// thread starts at the same moment without this function may also inherit the descriptors.
///
/// # Errors
/// Returns the reason if the program cannot be started.
pub fn spawn_with(command: &mut Command, descriptors: &[BorrowedFd<'_>]) -> io::Result<Child> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let set = |flags| {
        let mut each = descriptors.iter();
        each.try_for_each(|descriptor| fcntl_setfd(descriptor, flags))
    };
    let child = set(FdFlags::empty())
        .map_err(io::Error::from)
        .and_then(|()| command.spawn());
    // Cannot fail for an open descriptor.
    let _ = set(FdFlags::CLOEXEC);
    child
}

/// Takes a descriptor that this program inherited ([`spawn_with`]). Programs started from now on do
/// not inherit it.
///
/// # Errors
/// Returns [`Error::Os`]: EBADF if the descriptor does not exist, or an invalid input if it was not
/// inherited, was taken before, or is one of the first three.
pub fn inherited(number: RawFd) -> Result<OwnedFd, Error> {
    static TAKING: Mutex<()> = Mutex::new(());
    let what = || format!("the inherited file descriptor {number}");
    let _one = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the call takes only integers.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(Error::os("fcntl", what(), io::Error::last_os_error()));
    }
    if number <= libc::STDERR_FILENO || flags & libc::FD_CLOEXEC != 0 {
        let source = io::ErrorKind::InvalidInput.into();
        return Err(Error::os("fcntl", what(), source));
    }
    // SAFETY: the call takes only integers.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(Error::os("fcntl", what(), io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is open and has no owner. Descriptors opened by this program have the
    // flag (the standard library sets it), and so do those taken before.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn other_program_writes_to_inherited_pipe() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo here >&{}", writer.as_raw_fd())]);
        let mut child = spawn_with(&mut command, &[writer.as_fd()]).unwrap();
        assert!(child.wait().unwrap().success());
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "here\n");
    }

    #[test]
    fn what_was_not_inherited_is_not_taken() {
        let (reader, _writer) = io::pipe().unwrap();
        for number in [-1, 0, 2, reader.as_raw_fd(), RawFd::MAX] {
            assert!(inherited(number).is_err(), "{number}");
        }
    }
}
