//! Sends small messages over TCP without delay.

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
    // SAFETY: the descriptor is not -1, and the caller guarantees that it is open.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Makes the socket send written data immediately (TCP_NODELAY).
///
/// # Safety
/// The descriptor stays open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_tcp_send_at_once(fd: c_int) -> c_int {
    // SAFETY: the caller guarantees this.
    answer(|| Ok(send_at_once(unsafe { socket(fd)? })?))
}

/// Holds segments back until punctual_tcp_uncork(), so that the pieces of a message are sent as
/// one. Errors: EOPNOTSUPP if the socket does not otherwise send data immediately.
///
/// # Safety
/// The same as for punctual_tcp_send_at_once().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_tcp_cork(fd: c_int) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        std::mem::forget(TcpCork::new(unsafe { socket(fd)? })?);
        Ok(())
    })
}

/// Sends the data that was held back.
///
/// # Safety
/// The same as for punctual_tcp_send_at_once().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_tcp_uncork(fd: c_int) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        drop(TcpCork::new(unsafe { socket(fd)? })?);
        Ok(())
    })
}
