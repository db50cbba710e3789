//! Addresses of other machines.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Returns the first address of a name, IPv4 if possible: `localhost` often stands for ::1 as well,
/// where a server does not listen by default.
///
/// # Errors
/// Returns an error if the name does not resolve.
pub(crate) fn resolve(name: impl ToSocketAddrs) -> io::Result<Option<SocketAddr>> {
    let found: Vec<SocketAddr> = name.to_socket_addrs()?.collect();
    let ipv4 = found.iter().find(|address| address.is_ipv4());
    Ok(ipv4.or(found.first()).copied())
}
