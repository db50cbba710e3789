//! The font for images on machines without one: DejaVu Sans, stored compressed next to its licence.

use std::io::{self, Read};

use flate2::read::GzDecoder;

const SANS: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf.gz");

/// Returns DejaVu Sans in TrueType format.
///
/// # Errors
/// Returns an error if the font cannot be decompressed.
#[expect(clippy::disallowed_methods, reason = "the font is part of the program")]
pub(super) fn sans() -> io::Result<Vec<u8>> {
    let mut font = Vec::new();
    GzDecoder::new(SANS).read_to_end(&mut font)?;
    Ok(font)
}
