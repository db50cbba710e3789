//! Compressed bodies of deliveries.

use crate::StoreError;

/// Compresses the body of a delivery for quarantine.
pub fn compressed(body: &[u8]) -> Result<Vec<u8>, StoreError> {
    zstd::bulk::compress(body, 3).map_err(|error| StoreError::Compress {
        reason: error.to_string(),
    })
}

/// The inverse of [`compressed`].
pub fn unpacked(body: &[u8]) -> Result<Vec<u8>, StoreError> {
    zstd::decode_all(body).map_err(|error| StoreError::Compress {
        reason: error.to_string(),
    })
}
