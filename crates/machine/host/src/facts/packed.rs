//! Decompression of configurations. The kernel contains its own configuration in gzip format.
//! Packages of distributions use xz (Debian's linux-config-*), zstd or others.

use std::borrow::Cow;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use punctual_files::Budget;

use super::no_config::NotAConfig;

/// Size limit after decompression. A kernel configuration has a size of about 300 kB, but a small
/// compressed file can expand without limit.
const UNPACKED_LIMIT: u64 = 8 << 20;

/// Memory limits of the decoders, a little more than `xz -9` and `zstd -19` require.
const XZ_KIB: u32 = 96 << 10;
const ZSTD_WINDOW_LOG: u32 = 26;

/// Magic numbers: the first bytes of compressed files.
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = b"\xfd7zXZ\0";
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Magic numbers of formats that are recognized but not supported.
const OTHERS: [(&[u8], &str); 5] = [
    (b"BZh", "bzip2"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
    (&[0x02, 0x21, 0x4c, 0x18], "lz4"),
    (&[0x5d, 0x00, 0x00], "lzma"),
    (b"PK\x03\x04", "zip"),
];

/// Decompresses the bytes if they are compressed.
pub(super) fn unpacked(bytes: &[u8]) -> Result<Cow<'_, [u8]>, NotAConfig> {
    if bytes.starts_with(GZIP) {
        return read("gzip", Ok(MultiGzDecoder::new(bytes)));
    }
    if bytes.starts_with(XZ) {
        return read("xz", Ok(XzReader::new_mem_limit(bytes, true, XZ_KIB)));
    }
    if bytes.starts_with(ZSTD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(bytes).and_then(|mut decoder| {
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Ok(decoder)
        });
        return read("zstd", decoder);
    }
    match OTHERS.iter().find(|(start, _)| bytes.starts_with(start)) {
        Some((_, packer)) => Err(NotAConfig::Packed(packer)),
        None => Ok(Cow::Borrowed(bytes)),
    }
}

fn read<'a>(
    packer: &'static str,
    decoder: io::Result<impl Read>,
) -> Result<Cow<'a, [u8]>, NotAConfig> {
    // Reading one more byte distinguishes a text of exactly the maximum size from a longer one.
    let all = decoder
        .and_then(|decoder| Budget::bytes(UNPACKED_LIMIT + 1).up_to(decoder))
        .map_err(|error| NotAConfig::Damaged(packer, error.to_string()))?;
    if all.len() as u64 > UNPACKED_LIMIT {
        Err(NotAConfig::TooLong)
    } else {
        Ok(Cow::Owned(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    const TEXT: &str = "CONFIG_SMP=y\nCONFIG_PREEMPT_RT=y\n";

    fn by_gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// `printf 'CONFIG_SMP=y\nCONFIG_PREEMPT_RT=y\n' | xz | od -An -tx1`
    const BY_XZ: &[u8] =
        b"\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\
        \x74\x2f\xe5\xa3\x01\x00\x20\x43\x4f\x4e\x46\x49\x47\x5f\x53\x4d\x50\x3d\x79\x0a\
        \x43\x4f\x4e\x46\x49\x47\x5f\x50\x52\x45\x45\x4d\x50\x54\x5f\x52\x54\x3d\x79\x0a\
        \x00\x00\x00\x00\xe8\x7d\x59\xfa\x89\x0a\xac\xa4\x00\x01\x39\x21\xcf\x28\x6b\x62\
        \x1f\xb6\xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a";

    #[test]
    fn each_packer_gives_the_text() {
        let zstd = zstd::encode_all(TEXT.as_bytes(), 19).unwrap();
        for packed in [&by_gzip(TEXT.as_bytes()), BY_XZ, &zstd, TEXT.as_bytes()] {
            assert_eq!(unpacked(packed).unwrap(), TEXT.as_bytes());
        }
    }

    #[test]
    fn what_is_not_read_is_named() {
        let why = |bytes: &[u8]| unpacked(bytes).unwrap_err().to_string();
        assert_eq!(
            why(b"BZh91AY"),
            "is compressed with bzip2: decompress it first"
        );
        assert!(
            why(&BY_XZ[..40]).starts_with("damaged xz: "),
            "{}",
            why(&BY_XZ[..40])
        );
        assert!(why(ZSTD).starts_with("damaged zstd: "));
        assert!(why(&by_gzip(TEXT.as_bytes())[..20]).starts_with("damaged gzip: "));
    }

    #[test]
    fn a_bomb_is_refused_and_not_cut() {
        let zeros = vec![b'0'; UNPACKED_LIMIT as usize + 1];
        let zstd = zstd::encode_all(zeros.as_slice(), 1).unwrap();
        for packed in [by_gzip(&zeros), zstd] {
            assert!(packed.len() < 64 << 10);
            assert_eq!(unpacked(&packed), Err(NotAConfig::TooLong));
        }
        let fits = by_gzip(&zeros[1..]);
        assert_eq!(unpacked(&fits).unwrap().len() as u64, UNPACKED_LIMIT);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(start in 0..4usize, rest in prop::collection::vec(any::<u8>(), 0..200), cut in 0..80usize) {
            let starts: [&[u8]; 4] = [GZIP, XZ, ZSTD, &BY_XZ[..cut.min(BY_XZ.len())]];
            let _ = unpacked(&[starts[start], &rest].concat());
        }
    }
}
