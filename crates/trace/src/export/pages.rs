//! Pages of one stretch of time as bytes, and back.

use std::sync::Arc;

use crate::flight::RawPage;

/// For each page: the CPU and the length, 32 bits each, the low end first; then
/// the page.
const HEAD: usize = 8;

/// Pages as bytes, to be kept.
pub fn pack_pages(pages: &[RawPage]) -> Vec<u8> {
    let length: usize = pages.iter().map(|page| HEAD + page.bytes.len()).sum();
    let mut packed = Vec::with_capacity(length);
    for page in pages {
        // Not above 8 MiB, the largest page.
        let Ok(length) = u32::try_from(page.bytes.len()) else {
            continue;
        };
        packed.extend(page.cpu.to_le_bytes());
        packed.extend(length.to_le_bytes());
        packed.extend(&*page.bytes);
    }
    packed
}

/// Pages from bytes; `None`: they are cut off.
pub fn unpack_pages(mut packed: &[u8]) -> Option<Vec<RawPage>> {
    let mut pages = Vec::new();
    while !packed.is_empty() {
        let (cpu, rest) = packed.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        pages.push(RawPage {
            cpu: u32::from_le_bytes(*cpu),
            bytes: Arc::from(bytes),
        });
        packed = rest;
    }
    Some(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_come_back(pages in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..9)) {
            let pages: Vec<RawPage> = pages
                .into_iter()
                .map(|(cpu, bytes)| RawPage { cpu, bytes: bytes.into() })
                .collect();
            let packed = pack_pages(&pages);
            prop_assert_eq!(unpack_pages(&packed), Some(pages));
            if !packed.is_empty() {
                prop_assert_eq!(unpack_pages(&packed[..packed.len() - 1]).is_some(), false);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = unpack_pages(&bytes);
        }
    }
}
