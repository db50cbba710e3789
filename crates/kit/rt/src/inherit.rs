//! File descriptors that a program started by this one has, too.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::Error;

/// Starts a program that has these descriptors, too, under the numbers they have
/// here.
///
/// It is started without a fork(2) of this process where the standard library does
/// (posix_spawn(3)), so that the memory of this process is not shared, and none of
/// its pages faults again when it is written. A program that another thread starts
/// in the same moment, other than by this function, may get the descriptors as well.
///
/// # Errors
/// Why it cannot be started.
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
    // Of a descriptor that is open it does not fail.
    let _ = set(FdFlags::CLOEXEC);
    child
}

/// Takes a descriptor that this program was started with ([`spawn_with`]); from
/// here on no program that this one starts gets it.
///
/// # Errors
/// [`Error::Os`]: EBADF if there is no such descriptor; an invalid input if it
/// was not inherited, was taken already, or is one of the first three.
pub fn inherited(number: RawFd) -> Result<OwnedFd, Error> {
    static TAKING: Mutex<()> = Mutex::new(());
    let what = || format!("the inherited file descriptor {number}");
    let _one = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: takes numbers only.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(Error::os("fcntl", what(), io::Error::last_os_error()));
    }
    if number <= libc::STDERR_FILENO || flags & libc::FD_CLOEXEC != 0 {
        let source = io::ErrorKind::InvalidInput.into();
        return Err(Error::os("fcntl", what(), source));
    }
    // SAFETY: takes numbers only.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(Error::os("fcntl", what(), io::Error::last_os_error()));
    }
    // SAFETY: it is open, and nobody's: what this program opens itself has the
    // flag (the standard library sees to it), as has what was taken before.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn another_program_writes_to_a_pipe_that_it_was_given() {
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
