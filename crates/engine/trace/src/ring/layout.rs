//! The layout of the pages of the kernel's ring buffer.

use crate::TraceError;

/// The layout of the pages of one buffer, from `events/header_page`.
///
/// A page consists of a time stamp (64 bits), the word `commit`, which is as large as the kernel's
/// long, and the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of the kernel's long in bytes: 4 or 8.
    pub long_bytes: u8,
    /// Whether numbers are big-endian.
    pub big_endian: bool,
    /// Offset of the data in the page, in bytes.
    pub data_at: usize,
    /// Size in bytes of a page including its header, as returned by one read. It can exceed the
    /// page size of the machine (`buffer_subbuf_size_kb`, since Linux 6.8).
    pub page_bytes: usize,
}

/// Maximum size of a sub-buffer in bytes. The kernel's limit is 2^7 pages of at most 64 KiB
/// (`ring_buffer_subbuf_order_set`).
const LARGEST_PAGE: usize = 8 << 20;

impl Layout {
    /// Offset of the word `commit`, after the time stamp.
    pub(crate) const COMMIT_AT: usize = 8;

    /// Parses the text of `events/header_page`.
    ///
    /// # Errors
    /// Returns an error if the text does not describe such a page.
    pub fn parse(header_page: &str) -> Result<Self, TraceError> {
        let refuse = |what| TraceError::HeaderPage {
            what,
            text: header_page.trim().to_owned(),
        };
        let timestamp = numbers(header_page, "timestamp").ok_or(refuse("timestamp"))?;
        let commit = numbers(header_page, "commit").ok_or(refuse("commit"))?;
        let data = numbers(header_page, "data").ok_or(refuse("data"))?;
        let page_bytes = data.0.saturating_add(data.1);
        let fits = timestamp == (0, 8)
            && commit.0 == Self::COMMIT_AT
            && matches!(commit.1, 4 | 8)
            && data.0 == Self::COMMIT_AT + commit.1
            && data.1 >= 64
            && page_bytes <= LARGEST_PAGE;
        if !fits {
            return Err(refuse("a known layout"));
        }
        Ok(Self {
            long_bytes: commit.1 as u8,
            big_endian: cfg!(target_endian = "big"),
            data_at: data.0,
            page_bytes,
        })
    }

    /// Returns the layout for a different sub-buffer size. An impossible size is ignored.
    #[must_use]
    pub fn with_page_bytes(self, page_bytes: usize) -> Self {
        let fits = page_bytes > self.data_at + 64 && page_bytes <= LARGEST_PAGE;
        if fits {
            Self { page_bytes, ..self }
        } else {
            self
        }
    }

    #[inline]
    pub(crate) fn u32(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    #[inline]
    pub(crate) fn u64(&self, bytes: [u8; 8]) -> u64 {
        if self.big_endian {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        }
    }

    /// Reads a number of 1, 2, 4 or 8 bytes. Returns 0 for other sizes.
    #[inline]
    pub fn unsigned(&self, bytes: &[u8]) -> u64 {
        let mut wide = [0; 8];
        if self.big_endian {
            match bytes.len() {
                len @ (1 | 2 | 4 | 8) => wide[8 - len..].copy_from_slice(bytes),
                _ => return 0,
            }
        } else {
            match bytes.len() {
                len @ (1 | 2 | 4 | 8) => wide[..len].copy_from_slice(bytes),
                _ => return 0,
            }
        }
        self.u64(wide)
    }
}

/// Parses the offset and size from the line that describes a field.
fn numbers(text: &str, name: &str) -> Option<(usize, usize)> {
    let line = text.lines().find(|line| {
        let declared = line.split(';').next().unwrap_or_default();
        declared.split_whitespace().next_back() == Some(name)
    })?;
    let number = |key: &str| {
        let part = line
            .split(';')
            .find_map(|part| part.trim().strip_prefix(key))?;
        part.parse().ok()
    };
    Some((number("offset:")?, number("size:")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) const USUAL: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    #[test]
    fn layout_reads_64_and_32_bit_pages() {
        let layout = Layout::parse(USUAL).unwrap();
        assert_eq!((layout.long_bytes, layout.data_at), (8, 16));
        assert_eq!(layout.page_bytes, 4_096);
        let narrow = USUAL
            .replace("offset:8;\tsize:8", "offset:8;\tsize:4")
            .replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
        let layout = Layout::parse(&narrow).unwrap();
        assert_eq!((layout.long_bytes, layout.data_at), (4, 12));
        assert_eq!(layout.with_page_bytes(8_192).page_bytes, 8_192);
        assert_eq!(layout.with_page_bytes(3).page_bytes, 4_096);
    }

    #[test]
    fn what_is_no_such_page_is_refused() {
        for (from, to) in [
            ("timestamp", "time"),
            ("commit", "committed"),
            ("char data", "char date"),
            ("size:4080", "size:99999999999"),
            ("size:4080", "size:-1"),
            ("offset:16", "offset:24"),
            ("offset:8;\tsize:8", "offset:8;\tsize:2"),
        ] {
            let error = Layout::parse(&USUAL.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains("header_page"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(field:|size:|offset:|data|commit|timestamp|[ ;0-9\n-]){0,40}") {
            let _ = Layout::parse(&text);
        }
    }
}
