//! Sockets for Ethernet frames.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::Error;

/// Opens a socket that sends whole Ethernet frames to a network interface, and receives those of one
/// type (EtherType) from it. Frames that this machine sends are not received. The socket never
/// blocks. See packet(7).
///
/// # Errors
/// Returns [`Error::Os`] without CAP_NET_RAW, or if no interface has this index.
pub fn packet_socket(interface: u32, ethertype: u16) -> Result<OwnedFd, Error> {
    let what = "a packet socket";
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // The socket receives nothing before it has a protocol, so no frame of another interface.
    // SAFETY: the call takes only integers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if socket < 0 {
        return Err(Error::os("socket", what, io::Error::last_os_error()));
    }
    // SAFETY: the descriptor was just created, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address is valid for the given length during the call.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    match bound {
        0 => Ok(socket),
        _ => Err(Error::os("bind", what, io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_interface_is_refused() {
        // Without the right, the first call fails.
        let error = packet_socket(i32::MAX as u32, 0x88b5).unwrap_err();
        let Error::Os { call, .. } = &error else {
            panic!("{error}");
        };
        assert!(["socket", "bind"].contains(call), "{error}");
    }
}
