//! Reads only the BTF types of the kernel's tracepoints.
//!
//! To attach a program, the loader needs the number of a single type. Parsing all types takes about
//! 20 MB and 15 ms, so this module reads only names and numbers (Documentation/bpf/btf.rst).

use std::path::Path;

use aya::{Btf, BtfError, Endianness};

/// The BTF of the running kernel, which is the only kernel that programs are loaded into.
const FILE: &str = "sys/kernel/btf/vmlinux";

/// Prefix of the names of tracepoint types.
const TRACEPOINT: &[u8] = b"btf_trace_";

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// Number of words at the start of each type, before the part that depends on its kind.
const WORDS: usize = 3;

const FORWARD: u32 = 7;
const TYPEDEF: u32 = 8;

/// Reads the BTF of the running kernel.
///
/// # Errors
/// Returns an error if the file is missing or not readable.
#[expect(clippy::disallowed_methods, reason = "the kernel limits this file")]
pub(super) fn read() -> Result<Vec<u8>, BtfError> {
    let path = Path::new("/").join(FILE);
    std::fs::read(&path).map_err(|error| BtfError::FileError { path, error })
}

/// Returns the types of the kernel's tracepoints, with their numbers.
///
/// # Errors
/// Returns an error if the kernel has no BTF, or if its format is unknown.
pub(super) fn of_tracepoints() -> Result<Btf, BtfError> {
    let reduced = reduce(&read()?).ok_or(BtfError::InvalidHeader)?;
    Btf::parse(&reduced, Endianness::default())
}

/// Returns BTF with only the types of tracepoints. Unnamed placeholders replace the other types, so
/// that the type numbers stay the same. Returns `None` if the format is unknown.
fn reduce(all: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*all.get(at..)?.first_chunk()?));
    if u16::from_ne_bytes(*all.first_chunk()?) != MAGIC {
        return None;
    }
    let head = word(4)? as usize;
    let part = |offset: usize, length: usize| {
        let begin = head.checked_add(word(offset)? as usize)?;
        all.get(begin..begin.checked_add(word(length)? as usize)?)
    };
    let (types, names) = (part(8, 12)?, part(16, 20)?);
    let (mut kept, mut strings) = (Vec::new(), vec![0]);
    let mut rest = types;
    while !rest.is_empty() {
        let words: [u8; WORDS * 4] = *rest.first_chunk()?;
        let field = |place: usize| words.get(place * 4..)?.first_chunk().copied();
        let (name, info) = (u32::from_ne_bytes(field(0)?), u32::from_ne_bytes(field(1)?));
        let kind = info >> 24 & 0x1f;
        rest = rest.get(WORDS * 4 + more_bytes(kind, info & 0xffff)?..)?;
        let name = (kind == TYPEDEF).then(|| names.get(name as usize..));
        let name = name.flatten().filter(|name| name.starts_with(TRACEPOINT));
        let (place, kind) = match name.and_then(|name| name.split(|byte| *byte == 0).next()) {
            Some(name) => {
                let place = strings.len() as u32;
                strings.extend_from_slice(name);
                strings.push(0);
                (place, TYPEDEF)
            }
            None => (0, FORWARD),
        };
        for word in [place, kind << 24, 0] {
            kept.extend(word.to_ne_bytes());
        }
    }
    let mut file = Vec::with_capacity(HEADER + kept.len() + strings.len());
    // Magic, version and flags stay unchanged.
    file.extend_from_slice(all.get(..4)?);
    let (types, names) = (kept.len() as u32, strings.len() as u32);
    for word in [HEADER as u32, 0, types, types, names] {
        file.extend(word.to_ne_bytes());
    }
    file.append(&mut kept);
    file.append(&mut strings);
    Some(file)
}

/// Returns the number of bytes that follow the fixed words of a type, given its kind and number of
/// members.
const fn more_bytes(kind: u32, members: u32) -> Option<usize> {
    let members = members as usize;
    Some(match kind {
        // Integer, variable, declaration tag.
        1 | 14 | 17 => 4,
        // Array.
        3 => 12,
        // Structure, union, section, 64-bit enumeration.
        4 | 5 | 15 | 19 => 12 * members,
        // Enumeration, function prototype.
        6 | 13 => 8 * members,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Builds three types: a structure with one member, a typedef, and the type of a tracepoint.
    fn small() -> Vec<u8> {
        let names = b"\0other\0btf_trace_sched_switch\0";
        let types = [0, 4 << 24 | 1, 8, 0, 0, 0, 1, 8 << 24, 1, 7, 8 << 24, 1];
        let mut file = Vec::new();
        file.extend(MAGIC.to_ne_bytes());
        file.extend([1, 0]);
        let length = types.len() as u32 * 4;
        for word in [HEADER as u32, 0, length, length, names.len() as u32] {
            file.extend(word.to_ne_bytes());
        }
        for word in types {
            file.extend(u32::to_ne_bytes(word));
        }
        file.extend(names);
        file
    }

    /// Returns the number of a tracepoint's type in the reduced BTF.
    fn number(reduced: &[u8], tracepoint: &str) -> Option<usize> {
        let word = |at: usize| u32::from_ne_bytes(*reduced[at..].first_chunk().unwrap());
        let (types, names) = reduced[HEADER..].split_at(word(12) as usize);
        let name = format!("btf_trace_{tracepoint}\0");
        let is_wanted = |one: &[u8]| {
            let place = u32::from_ne_bytes(*one.first_chunk().unwrap()) as usize;
            names[place..].starts_with(name.as_bytes())
        };
        // Type numbers start at 1.
        types.chunks(WORDS * 4).position(is_wanted).map(|at| at + 1)
    }

    #[test]
    fn only_tracepoints_keep_their_names() {
        let reduced = reduce(&small()).unwrap();
        Btf::parse(&reduced, Endianness::default()).unwrap();
        assert_eq!(number(&reduced, "sched_switch"), Some(3));
        assert_eq!(number(&reduced, "sched_waking"), None);
        let kept = reduced.windows(5).any(|at| at == b"other");
        assert!(!kept, "{reduced:?}");
    }

    #[test]
    fn kernel_describes_the_used_tracepoints() {
        let Ok(all) = read() else {
            punctual_testing::skip!(Kernel, "this kernel has no BTF");
            return;
        };
        let reduced = reduce(&all).unwrap();
        for tracepoint in ["sched_switch", "sched_waking", "hrtimer_expire_entry"] {
            assert!(number(&reduced, tracepoint).is_some(), "{tracepoint}");
        }
        assert!(reduced.len() < all.len());
        of_tracepoints().unwrap();
    }

    proptest! {
        #[test]
        fn damaged_types_do_no_harm(place in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
            let mut file = small();
            let at = place.index(file.len());
            file[at] = byte;
            let _ = reduce(&file);
            let _ = reduce(&file[..cut.index(file.len())]);
        }
    }
}
