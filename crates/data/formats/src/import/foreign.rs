//! Files that cannot be imported, with a remedy for each.

/// First bytes of the file, name of this kind of file, and a remedy.
const FOREIGN: [(&[u8], &str); 11] = [
    (
        b"\x1f\x8b",
        "is compressed with gzip: gzip -dc FILE | punctual import -",
    ),
    (
        b"\xfd7zXZ\0",
        "is compressed with xz: xz -dc FILE | punctual import -",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "is compressed with zstd: zstd -dc FILE | punctual import -",
    ),
    (
        b"BZh",
        "is compressed with bzip2: bzip2 -dc FILE | punctual import - (unpack the summary.xml of \
         an rteval archive)",
    ),
    (b"PK\x03\x04", "is a zip archive: unpack it first"),
    (
        b"\xff\xfe",
        "is text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | punctual import -",
    ),
    (
        b"\xfe\xff",
        "is text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | punctual import -",
    ),
    (
        b"PAR1",
        "is a Parquet file: punctual can export Parquet but not import it",
    ),
    (
        b"SQLite format 3\0",
        "is an SQLite database: if it is a punctual store, open it with --store",
    ),
    (
        b"\x17\x08Dtracing",
        "is a trace.dat of trace-cmd, which contains events but no latencies",
    ),
    (
        b"\x7fELF",
        "is an executable file: import the output of a program",
    ),
];

/// Returns the kind of a file with this beginning, if it is a known kind that cannot be imported.
pub(super) fn what(begins: &[u8]) -> Option<&'static str> {
    if begins.trim_ascii().is_empty() {
        return Some("is empty");
    }
    let found = FOREIGN.iter().find(|(sign, _)| begins.starts_with(sign));
    found.map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Head, ImportError, recognise};

    #[test]
    fn known_foreign_formats_get_advice() {
        for (sign, said) in FOREIGN {
            let head = Head {
                bytes: sign,
                whole: true,
            };
            let error = recognise("x", &head).unwrap_err();
            assert!(matches!(error, ImportError::Foreign { .. }), "{error}");
            assert_eq!(error.to_string(), format!("x: {said}"));
        }
        assert_eq!(what(b""), Some("is empty"));
        assert_eq!(what(b"\n \r\n"), Some("is empty"));
        assert_eq!(what(b"# Histogram\n"), None);
    }
}
