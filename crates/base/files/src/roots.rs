//! Location of the certificates that the system trusts.

use std::path::Path;

use crate::Budget;

/// Paths on Debian and Arch, on Fedora, and on Alpine and the BSDs.
const ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Limit of such a file.
pub const BUDGET: Budget = Budget::bytes(16 << 20);

/// Returns the PEM file of the certificates that this system trusts, or `None` if there is none.
pub fn file() -> Option<&'static Path> {
    ROOTS.iter().map(Path::new).find(|path| path.exists())
}
