//! Invariants that hold for everything that is read from a blob of a store, even a hostile one.
//! Shared by the tests and the fuzz targets (`fuzz/`).

#![allow(unreachable_pub)]
#![allow(clippy::expect_used, reason = "a panic is the report")]

use punctual_model::{Sample, Window};
use punctual_store::{WINDOW, unpack_attachment, unpack_chunk};

/// Maximum number of samples in a chunk, and maximum sizes of an attachment and a window in bytes.
const SAMPLES: u64 = 65_536;
const ATTACHMENT: u64 = 64 << 20;
const WINDOW_BYTES: u64 = 16 << 20;

/// Reads a chunk of samples: the count in 8 bytes and the length of the first stream in 4 bytes
/// (both little-endian), then the two streams.
///
/// # Panics
/// Panics if the result does not match the count.
pub fn chunk(bytes: &[u8]) -> Option<Vec<Sample>> {
    let (count, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let count = u64::from_le_bytes(*count);
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (expected, latency) = rest.split_at_checked(length)?;
    let samples = unpack_chunk(count, expected, latency)?;
    assert!(count <= SAMPLES, "{count} samples");
    assert_eq!(samples.len() as u64, count);
    Some(samples)
}

/// Reads an attachment: its length in 8 bytes (little-endian), then the compressed body. If the
/// body is a window, it is parsed as well.
///
/// # Panics
/// Panics if the result does not have the declared length, exceeds the maximum, or is a window that
/// cannot be read back.
pub fn attachment(bytes: &[u8]) -> Option<Vec<u8>> {
    let (length, packed) = bytes.split_first_chunk()?;
    let length = u64::from_le_bytes(*length);
    let body = unpack_attachment("pages", length, packed);
    let window = unpack_attachment(WINDOW, length, packed);
    if length <= WINDOW_BYTES {
        assert_eq!(window, body)
    } else {
        assert_eq!(window, None)
    }
    let body = body?;
    assert!(length <= ATTACHMENT, "{length} bytes");
    assert_eq!(body.len() as u64, length);
    if let Some(window) = window {
        read_window(&window);
    }
    Some(body)
}

/// Reads a window in the same way as the store.
fn read_window(json: &[u8]) {
    let Ok(window) = serde_json::from_slice::<Window>(json) else {
        return;
    };
    let window = window.shortened();
    assert!(window.events.len() <= Window::KEPT_EVENTS);
    let _ = window.latency();
    let again = serde_json::to_vec(&window).expect("a window as JSON");
    let again: Window = serde_json::from_slice(&again).expect("the window again");
    assert_eq!(again, window);
}
