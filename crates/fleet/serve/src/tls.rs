//! TLS with a certificate and its key from PEM files.

use std::path::Path;
use std::sync::Arc;

use punctual_files::Budget;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::{ServeError, TlsFiles};

/// Maximum size of a certificate or key, in bytes.
const LARGEST: u64 = 1 << 20;

/// Returns the acceptor that starts TLS on a connection.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let cannot = |path: &Path, reason: String| ServeError::Certificate {
        path: path.to_owned(),
        reason,
    };
    let read = |path: &Path| {
        let read = Budget::bytes(LARGEST).read(path);
        read.map_err(|error| cannot(path, error.reason()))
    };
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&read(&files.certificate)?)
            .collect::<Result<_, _>>()
            .map_err(|error| cannot(&files.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            let reason = "it contains no private key, or an encrypted one; `openssl pkey -in KEY \
                          -out PLAIN` decrypts a key";
            cannot(&files.key, reason.to_owned())
        }
        error => cannot(&files.key, error.to_string()),
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| cannot(&files.certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| cannot(&files.certificate, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
