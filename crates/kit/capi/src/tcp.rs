//! Small messages over TCP without delay.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;

use punctual_rt::{TcpCork, send_at_once};

use crate::error::{Failure, answer};

/// # Safety
/// The descriptor stays open during the borrow.
unsafe fn socket<'a>(fd: c_int) -> Result<BorrowedFd<'a>, Failure> {
    if fd < 0 {
        let why = format!("{fd} is not a file descriptor");
        return Err(Failure::new(libc::EBADF, why));
    }
    // SAFETY: not -1, and open as the caller promises.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Sends written data at once (TCP_NODELAY).
///
/// # Safety
/// The descriptor stays open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_tcp_send_at_once(fd: c_int) -> c_int {
    // SAFETY: as the caller promises.
    answer(|| Ok(send_at_once(unsafe { socket(fd)? })?))
}

/// Holds segments back until punctual_tcp_uncork(), so that the pieces of a message leave as one.
/// Errors: EOPNOTSUPP if the socket does not otherwise send at once.
///
/// # Safety
/// As for punctual_tcp_send_at_once().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_tcp_cork(fd: c_int) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        std::mem::forget(TcpCork::new(unsafe { socket(fd)? })?);
        Ok(())
    })
}

/// Sends the data that was held back.
///
/// # Safety
/// As for punctual_tcp_send_at_once().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_tcp_uncork(fd: c_int) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        drop(TcpCork::new(unsafe { socket(fd)? })?);
        Ok(())
    })
}
