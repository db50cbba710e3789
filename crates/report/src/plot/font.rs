//! The font of pictures without one of the machine: DejaVu Sans (its licence is beside
//! it), kept compressed.

use std::io::Read;

use flate2::read::GzDecoder;

const SANS: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf.gz");

/// DejaVu Sans as TrueType.
///
/// # Errors
/// Why it could not be unpacked.
pub(super) fn sans() -> Result<Vec<u8>, String> {
    let mut font = Vec::new();
    let unpacked = GzDecoder::new(SANS).read_to_end(&mut font);
    unpacked.map_err(|error| format!("the font: {error}"))?;
    Ok(font)
}
