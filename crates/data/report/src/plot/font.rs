//! The font of pictures without one of the machine: DejaVu Sans (its licence is beside
//! it), kept compressed.

use std::io::{self, Read};

use flate2::read::GzDecoder;

const SANS: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf.gz");

/// DejaVu Sans as TrueType.
///
/// # Errors
/// It cannot be unpacked.
pub(super) fn sans() -> io::Result<Vec<u8>> {
    let mut font = Vec::new();
    GzDecoder::new(SANS).read_to_end(&mut font)?;
    Ok(font)
}
