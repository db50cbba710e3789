//! The part of the kernel's type description (BTF) that the programs
//! need.
//!
//! All of it takes some 40 MiB to read: a hundred thousand types with their
//! names. The programs read a task's fields and attach to two tracepoints, and
//! their types are near the beginning, since types are numbered in the order in
//! which the compiler met them. So types are read in order until all needed ones
//! are present; their numbers are the same as in the whole, as the kernel requires
//! when a program is loaded.
//!
//! The format: Documentation/bpf/btf.rst.

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use aya::{Btf, EbpfLoader, Endianness};
use rustix::thread::UnshareFlags;

/// The kernel's file.
pub(super) const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
/// Name, kind with length, size or type.
const TYPE_BYTES: usize = 12;

/// The kinds that matter here (include/uapi/linux/btf.h).
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// The types of the file at `path` up to the last that the given structs and
/// tracepoints need; the whole file if its beginning cannot be
/// parsed.
///
/// # Errors
/// No such file, or not BTF.
pub(super) fn read(
    path: &Path,
    structs: &[&str],
    tracepoints: &[&str],
) -> Result<Btf, aya::BtfError> {
    let typedefs: Vec<String> = tracepoints
        .iter()
        .map(|name| format!("btf_trace_{name}"))
        .collect();
    let wanted = structs.iter().map(|name| (kind::STRUCT, *name));
    let wanted = wanted.chain(typedefs.iter().map(|name| (kind::TYPEDEF, name.as_str())));
    match Beginning::read(path, wanted.collect()) {
        Ok(Some(bytes)) => Btf::parse(&bytes, Endianness::default()),
        _ => Btf::parse_file(path, Endianness::default()),
    }
}

/// A loader that has not read all types of the kernel.
///
/// aya's loader reads them when it is created, before it can be given others. So a
/// thread with another root directory, where the file does not exist, creates it.
/// Where that is not allowed, only memory is wasted.
pub(super) fn loader<'a>() -> EbpfLoader<'a> {
    let made = std::thread::spawn(|| {
        // SAFETY: the root and the working directory are this thread's own
        // from here on (unshare(2)); descriptors stay shared, and the thread
        // ends with this function.
        let own = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) };
        // Without the privilege, the root does not change.
        let _ = own.and_then(|()| rustix::process::chroot("/sys/kernel/btf"));
        EbpfLoader::new()
    });
    made.join().unwrap_or_default()
}

/// The names and the types read so far, as a separate file: the header, all names,
/// then the types.
struct Beginning {
    bytes: Vec<u8>,
    names: std::ops::Range<usize>,
    /// Offset of each type; the first has the number 1.
    starts: Vec<u32>,
}

impl Beginning {
    /// `None` for an unknown format.
    fn read(path: &Path, mut wanted: Vec<(u32, &str)>) -> io::Result<Option<Vec<u8>>> {
        let mut file = File::open(path)?;
        let mut header = [0; HEADER_BYTES];
        file.read_exact(&mut header)?;
        let field = |at: usize| word(&header, at).unwrap_or(0);
        let (length, types_at, types_length) = (field(4), field(8), field(12));
        let (names_at, names_length) = (field(16), field(20) as usize);
        let magic = u16::from_ne_bytes([header[0], header[1]]);
        if magic != MAGIC || length as usize != HEADER_BYTES {
            return Ok(None);
        }
        // Names are most of it; some types follow.
        let most = fs::metadata(path)?.len() as usize;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + names_length.min(most) + (1 << 20));
        bytes.extend_from_slice(&header);
        file.seek(SeekFrom::Start(u64::from(length) + u64::from(names_at)))?;
        let read = (&mut file)
            .take(names_length as u64)
            .read_to_end(&mut bytes)?;
        if read != names_length {
            return Ok(None);
        }
        let names = HEADER_BYTES..bytes.len();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let mut beginning = Self {
            bytes,
            names,
            starts: Vec::new(),
        };
        let types_begin = beginning.bytes.len();
        file.seek(SeekFrom::Start(u64::from(length) + u64::from(types_at)))?;
        let mut types = BufReader::new(file.take(u64::from(types_length)));
        let mut needed = Vec::new();
        let mut up_to = 0;
        while !wanted.is_empty() || (beginning.starts.len() as u32) < up_to {
            let Some(number) = beginning.take(&mut types)? else {
                return Ok(None);
            };
            let found = wanted
                .iter()
                .position(|(kind, name)| beginning.is(number, *kind, name));
            if let Some(place) = found {
                wanted.swap_remove(place);
                needed.push(number);
            }
            if wanted.is_empty() {
                up_to = beginning.last_needed(&needed);
            }
        }
        Ok(Some(beginning.with_header(types_begin)))
    }

    /// Reads the next type and returns its number.
    fn take(&mut self, types: &mut impl Read) -> io::Result<Option<u32>> {
        let start = self.bytes.len();
        self.bytes.resize(start + TYPE_BYTES, 0);
        types.read_exact(&mut self.bytes[start..])?;
        self.starts.push(start as u32);
        let number = self.starts.len() as u32;
        let length = match self.kind_and_length(number) {
            (kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64, length) => 12 * length,
            (kind::ENUM | kind::FUNC_PROTO, length) => 8 * length,
            (kind::ARRAY, _) => 12,
            (kind::INT | kind::VAR | kind::DECL_TAG, _) => 4,
            (1..=kind::ENUM64, _) => 0,
            _ => return Ok(None),
        };
        let end = self.bytes.len();
        self.bytes.resize(end + length as usize, 0);
        types.read_exact(&mut self.bytes[end..])?;
        Ok(Some(number))
    }

    fn at(&self, number: u32) -> Option<usize> {
        let place = (number as usize).checked_sub(1)?;
        self.starts.get(place).map(|start| *start as usize)
    }

    fn word(&self, number: u32, offset: usize) -> u32 {
        let word = self
            .at(number)
            .and_then(|at| word(&self.bytes, at + offset));
        word.unwrap_or(0)
    }

    fn kind_and_length(&self, number: u32) -> (u32, u32) {
        let info = self.word(number, 4);
        ((info >> 24) & 0x1f, info & 0xffff)
    }

    fn is(&self, number: u32, kind: u32, name: &str) -> bool {
        let at = self.names.start + self.word(number, 0) as usize;
        self.kind_and_length(number).0 == kind
            && self.bytes[..self.names.end]
                .get(at..)
                .and_then(|text| text.strip_prefix(name.as_bytes()))
                .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The largest number among the types that lie within those of `roots`:
    /// members by value, elements, targets of names and qualifiers. Targets of
    /// pointers are not needed to find a field. Members of a type that was not read
    /// yet are not followed: the caller reads on and calls again.
    fn last_needed(&self, roots: &[u32]) -> u32 {
        let mut seen = std::collections::BTreeSet::new();
        let mut next = roots.to_vec();
        while let Some(number) = next.pop() {
            if number == 0 || !seen.insert(number) {
                continue;
            }
            match self.kind_and_length(number) {
                (kind::STRUCT | kind::UNION, length) => next.extend(
                    (0..length as usize)
                        .map(|member| self.word(number, TYPE_BYTES + 12 * member + 4)),
                ),
                (kind::ARRAY, _) => {
                    next.extend([TYPE_BYTES, TYPE_BYTES + 4].map(|at| self.word(number, at)));
                }
                (
                    kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG,
                    _,
                ) => next.push(self.word(number, 8)),
                _ => {}
            }
        }
        seen.last().copied().unwrap_or(0)
    }

    fn with_header(mut self, types_begin: usize) -> Vec<u8> {
        let types_length = self.bytes.len() - types_begin;
        let fields = [
            types_begin - HEADER_BYTES,
            types_length,
            0,
            self.names.len(),
        ];
        for (place, value) in fields.into_iter().enumerate() {
            let at = 8 + 4 * place;
            self.bytes[at..at + 4].copy_from_slice(&(value as u32).to_ne_bytes());
        }
        self.bytes
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of types: each is its kind, its name, its third word and what
    /// follows.
    fn file(types: &[(u32, &str, u32, &[u32])]) -> tempfile::NamedTempFile {
        let mut names = vec![0u8];
        let mut words = Vec::new();
        for (kind, name, third, rest) in types {
            let name_at = if name.is_empty() { 0 } else { names.len() };
            names.extend_from_slice(name.as_bytes());
            names.push(0);
            let length = match *kind {
                kind::STRUCT | kind::UNION => rest.len() / 3,
                _ => 0,
            };
            words.extend([name_at as u32, (kind << 24) | length as u32, *third]);
            words.extend_from_slice(rest);
        }
        let lengths = [24, 0, 4 * words.len(), 4 * words.len(), names.len()];
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in lengths.iter().map(|length| *length as u32).chain(words) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(names);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    const INT32: &[u32] = &[32];
    /// What a task looks like: number 2, with a member of the type `member`.
    fn types(member: u32) -> Vec<(u32, &'static str, u32, &'static [u32])> {
        let members: &'static [u32] = Box::leak(Box::new([1, 1, 0, 1, member, 32]));
        vec![
            (kind::INT, "int", 4, INT32),
            (kind::STRUCT, "task_struct", 8, members),
            (kind::TYPEDEF, "btf_trace_sched_switch", 1, &[]),
            (kind::TYPEDEF, "pid_t", 1, &[]),
            (kind::INT, "unsigned int", 4, INT32),
            (kind::INT, "long", 8, INT32),
        ]
    }

    fn kept(file: &tempfile::NamedTempFile) -> Option<u32> {
        let wanted = vec![
            (kind::STRUCT, "task_struct"),
            (kind::TYPEDEF, "btf_trace_sched_switch"),
        ];
        let bytes = Beginning::read(file.path(), wanted).ok().flatten()?;
        assert!(Btf::parse(&bytes, Endianness::default()).is_ok());
        let types = word(&bytes, 12)? as usize;
        let begin = HEADER_BYTES + word(&bytes, 8)? as usize;
        assert_eq!(begin + types, bytes.len());
        Some(bytes.len() as u32 - begin as u32)
    }

    #[test]
    fn it_is_read_up_to_the_last_type_that_is_needed() {
        // An int, a struct of two members, a typedef.
        assert_eq!(kept(&file(&types(1))), Some(16 + 36 + 12));
        // A member whose type comes later, by way of another name.
        assert_eq!(kept(&file(&types(4))), Some(16 + 36 + 12 + 12));
        assert_eq!(kept(&file(&types(5))), Some(16 + 36 + 12 + 12 + 16));
    }

    #[test]
    fn what_is_not_known_is_left_to_the_whole_file() {
        let mut unknown = types(1);
        unknown[0].0 = 30;
        assert_eq!(kept(&file(&unknown)), None);
        let mut lacking = types(1);
        lacking[1].1 = "other_struct";
        assert_eq!(kept(&file(&lacking)), None);
        assert_eq!(kept(&file(&types(7))), None);
        let error = read(Path::new("/nowhere/vmlinux"), &["task_struct"], &[]).unwrap_err();
        assert!(error.to_string().contains("/nowhere/vmlinux"), "{error}");
    }

    #[test]
    fn of_this_kernel_a_part_is_enough() {
        let path = Path::new(KERNEL);
        let Ok(whole) = std::fs::metadata(path) else {
            punctual_testing::skip!("types of the kernel: there is no {KERNEL}");
            return;
        };
        let wanted = vec![
            (kind::STRUCT, "task_struct"),
            (kind::TYPEDEF, "btf_trace_sched_switch"),
        ];
        let part = Beginning::read(path, wanted).unwrap().unwrap();
        assert!(Btf::parse(&part, Endianness::default()).is_ok());
        assert!((part.len() as u64) < whole.len());
    }
}
