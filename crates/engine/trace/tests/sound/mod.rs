//! Invariants of all output that is made from stored trace pages, even damaged ones. They are
//! shared by the tests and the fuzz targets (`fuzz/`).

#![allow(unreachable_pub)]

use std::collections::BTreeMap;

use punctual_trace::{Description, LARGEST_TRACE, pack_pages, trace_dat, unpack_pages};

/// Builds a `trace.dat` from a description as JSON, a zero byte, and packed pages. The pages are
/// passed twice, because two outliers may share pages, and a third time as pages of requested
/// events.
///
/// # Panics
/// Panics if packing the pages again results in different bytes, or if the file exceeds its limit.
pub fn pages(bytes: &[u8]) -> Option<Vec<u8>> {
    let zero = bytes.iter().position(|byte| *byte == 0)?;
    let (json, packed) = (&bytes[..zero], &bytes[zero + 1..]);
    let pages = unpack_pages(packed)?;
    assert!(pack_pages(&pages) == packed, "other bytes than before");
    let description: Description = serde_json::from_slice(json).ok()?;
    let file = trace_dat(
        &description,
        &[pages.clone(), pages.clone()],
        &[pages],
        &BTreeMap::new(),
    )
    .ok()?;
    assert!(file.starts_with(b"\x17\x08\x44tracing6\0"));
    // In addition to the pages, the file contains the texts of the description, the names of tasks,
    // and a row for each CPU.
    let most = LARGEST_TRACE + 64 * bytes.len() as u64 + (1 << 20);
    assert!(file.len() as u64 <= most, "{} bytes", file.len());
    Some(file)
}
