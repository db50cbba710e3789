//! The code of a running program: its mappings, and the functions in its ELF files.
//!
//! All input is from another process and is untrusted. The total number of bytes that are read of
//! all its files and stored of them is limited (`Allowance`), and a file is read only if it is the
//! mapped one.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use object::read::{Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef};
use object::{ObjectKind, SymbolKind};
use punctual_model::Frame;

use crate::root::Root;

/// Maximum number of symbols of one file.
const MOST_SYMBOLS: usize = 1 << 20;

/// Maximum number of files whose symbols are read for one program.
const MOST_FILES: usize = 256;

/// Maximum length of a name; those of C++ templates can be long.
const LONGEST_NAME: usize = 200;

/// Maximum number of bytes to read of all files of a program.
const MOST_READ: u64 = 64 << 20;

/// Maximum number of bytes to store for addresses and names of a program's functions.
const MOST_KEPT: u64 = 64 << 20;

/// Bytes of a program's files that may still be read and stored.
#[derive(Clone, Debug)]
struct Allowance {
    read: u64,
    kept: u64,
}

/// A file that is read only within the allowance. A read beyond it fails before memory is allocated
/// for it, which the cache would fill with zeros.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    cache: &'a ReadCache<File>,
    left: &'a Cell<u64>,
}

impl Bounded<'_> {
    fn take(self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        // The cache searches at most 4096 bytes.
        let found = self.cache.read_bytes_at_until(range, delimiter);
        self.take(found.map_or(4096, |bytes| bytes.len() as u64 + 1))?;
        found
    }
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Region {
    start: u64,
    end: u64,
    offset: u64,
    device: (u32, u32),
    inode: u64,
    path: String,
}

/// The functions of one file.
#[derive(Debug, Default)]
struct Functions {
    /// Segments: offset in the file, size, address.
    segments: Vec<(u64, u64, u64)>,
    /// Sorted addresses with size and name.
    functions: Vec<(u64, u64, String)>,
    build_id: Option<String>,
}

/// The code of a process.
#[derive(Debug)]
pub struct ProgramCode {
    root: Root,
    pid: u32,
    regions: Vec<Region>,
    /// Path of the program, as in its mappings.
    executable: Option<String>,
    files: HashMap<((u32, u32), u64), Functions>,
    allowance: Allowance,
}

impl ProgramCode {
    pub(crate) fn read(root: &Root, pid: u32) -> Self {
        let mut code = Self {
            root: root.clone(),
            pid,
            regions: Vec::new(),
            executable: None,
            files: HashMap::new(),
            allowance: Allowance {
                read: MOST_READ,
                kept: MOST_KEPT,
            },
        };
        code.refresh();
        code
    }

    /// Reads the mappings again, after an exec or when a library was loaded. Keeps the old ones if
    /// they cannot be read.
    pub fn refresh(&mut self) {
        let maps = self.root.raw_text(&format!("/proc/{}/maps", self.pid));
        let regions: Vec<Region> = match maps {
            Ok(text) => text.lines().filter_map(region).collect(),
            Err(_) => return,
        };
        if !regions.is_empty() {
            self.regions = regions;
            let executable = self.root.link(&format!("/proc/{}/exe", self.pid));
            self.executable = executable
                .ok()
                .map(|path| without_deletion(&path).to_owned());
        }
    }

    /// Returns whether any mapping is known.
    pub fn is_known(&self) -> bool {
        !self.regions.is_empty()
    }

    /// Returns whether an address is in code.
    pub fn is_code(&self, address: u64) -> bool {
        self.region(address).is_some()
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let fits = |region: &&Region| (region.start..region.end).contains(&address);
        self.regions.iter().find(fits)
    }

    /// Returns whether an address is in the program itself, not in a library.
    pub fn is_in_program(&self, address: u64) -> bool {
        let region = self.region(address);
        region.is_some_and(|region| match &self.executable {
            Some(executable) => region.path == *executable,
            // If the executable is unknown, use the first mapping, which is the kernel's default
            // for it.
            None => self
                .regions
                .first()
                .is_some_and(|first| first.path == region.path),
        })
    }

    /// Returns whether there is a call instruction before an address, so that it can be a return
    /// address. Returns false if the code cannot be read.
    pub fn follows_a_call(&self, address: u64) -> bool {
        let Some(region) = self.region(address) else {
            return false;
        };
        let Some(file) = self.open(region) else {
            return false;
        };
        let mut before = [0; 8];
        let place = (address - region.start).checked_add(region.offset);
        let Some(place) = place.and_then(|place| place.checked_sub(8)) else {
            return false;
        };
        file.read_exact_at(&mut before, place).is_ok() && ends_with_call(&before)
    }

    /// Describes the location of an address. `is_return` means a return address, whose call is
    /// before it.
    pub fn frame(&mut self, address: u64, is_return: bool) -> Frame {
        let unknown = Frame {
            address,
            object: None,
            offset: None,
            symbol: None,
            build_id: None,
        };
        let Some(region) = self.region(address).cloned() else {
            return unknown;
        };
        let place = (address - region.start).saturating_add(region.offset);
        let key = (region.device, region.inode);
        if !self.files.contains_key(&key) && self.files.len() < MOST_FILES {
            let functions =
                (self.open(&region)).and_then(|file| Functions::read(file, &mut self.allowance));
            self.files.insert(key, functions.unwrap_or_default());
        }
        let functions = self.files.get(&key);
        let address_in_file = functions.and_then(|all| all.address(place));
        // The call is before the return address, which can be in another function.
        let back = u64::from(is_return);
        let symbol = functions
            .zip(address_in_file)
            .and_then(|(all, at)| all.name(at.saturating_sub(back), back));
        Frame {
            object: Some(region.path),
            offset: Some(address_in_file.unwrap_or(place)),
            symbol,
            build_id: functions.and_then(|all| all.build_id.clone()),
            ..unknown
        }
    }

    /// Opens the mapped file as its process sees it.
    fn open(&self, region: &Region) -> Option<File> {
        if !region.path.starts_with('/') {
            return None;
        }
        let path = format!("/proc/{}/root{}", self.pid, region.path);
        let range = format!("{:x}-{:x}", region.start, region.end);
        let mapped = format!("/proc/{}/map_files/{range}", self.pid);
        // A link in the path may lead outside the root of the process; the inode shows it.
        [mapped, path].iter().find_map(|path| {
            let file = self.root.open(path).ok()?;
            let data = file.metadata().ok()?;
            (data.is_file() && data.ino() == region.inode).then_some(file)
        })
    }
}

/// Parses `55d0-55e0 r-xp 00001000 08:01 1234 /usr/bin/cat`. Accepts only code.
fn region(line: &str) -> Option<Region> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let rights = fields.next()?;
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = (hex(major)? as u32, hex(minor)? as u32);
    let inode = fields.next()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_start();
    rights.contains('x').then_some(Region {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        device,
        inode,
        path: without_deletion(path).to_owned(),
    })
}

/// Returns the path without the suffix for a deleted file (proc_pid_exe(5)).
fn without_deletion(path: &str) -> &str {
    path.trim_end_matches(" (deleted)")
}

/// Returns whether these bytes end with a call instruction.
fn ends_with_call(bytes: &[u8; 8]) -> bool {
    match std::env::consts::ARCH {
        // bl, blr: the last four bytes, in little-endian order.
        "aarch64" => bytes[7] & 0xfc == 0x94 || (bytes[7] == 0xd6 && bytes[6] == 0x3f),
        // call rel32; call through a register or memory (ff /2), of 2 to 7 bytes.
        "x86_64" => {
            let indirect = |at: usize| bytes[at] == 0xff && (bytes[at + 1] >> 3) & 7 == 2;
            bytes[3] == 0xe8 || (1..=6).any(indirect)
        }
        // `punctual_trace` reads no stacks on these architectures.
        _ => false,
    }
}

impl Functions {
    fn read(file: File, allowance: &mut Allowance) -> Option<Self> {
        let left = Cell::new(allowance.read);
        let functions = Self::read_bounded(&ReadCache::new(file), &left, &mut allowance.kept);
        allowance.read = left.get();
        functions
    }

    fn read_bounded(cache: &ReadCache<File>, left: &Cell<u64>, kept: &mut u64) -> Option<Self> {
        let elf = object::File::parse(Bounded { cache, left }).ok()?;
        if !matches!(elf.kind(), ObjectKind::Executable | ObjectKind::Dynamic) {
            return None;
        }
        let mut functions = Self::default();
        for segment in elf.segments().take(64) {
            let (offset, size) = segment.file_range();
            functions.segments.push((offset, size, segment.address()));
        }
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            if functions.functions.len() >= MOST_SYMBOLS {
                break;
            }
            if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
                continue;
            }
            if let Ok(name) = symbol.name() {
                let entry = (symbol.address(), symbol.size(), readable(name));
                // Many symbols can share one long name.
                let bytes = (size_of_val(&entry) + entry.2.len()) as u64;
                let Some(left) = kept.checked_sub(bytes) else {
                    break;
                };
                *kept = left;
                functions.functions.push(entry);
            }
        }
        functions.functions.sort();
        functions.functions.dedup_by_key(|function| function.0);
        functions.build_id = elf.build_id().ok().flatten().map(|bytes| {
            let bytes = bytes.iter().take(64);
            bytes.map(|byte| format!("{byte:02x}")).collect()
        });
        Some(functions)
    }

    /// Converts a file offset to its address at link time.
    fn address(&self, place: u64) -> Option<u64> {
        let fits =
            |(offset, size, _): &&(u64, u64, u64)| place >= *offset && place - offset < *size;
        let (offset, _, address) = self.segments.iter().find(fits)?;
        address.checked_add(place - offset)
    }

    /// Returns the function at an address. `add` is added to the displayed offset.
    fn name(&self, address: u64, add: u64) -> Option<String> {
        let after = self.functions.partition_point(|entry| entry.0 <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        let within = address - start;
        // A size of 0 means a function in assembly.
        if *size > 0 && within >= *size {
            return None;
        }
        Some(format!("{name}+{:#x}", within + add))
    }
}

/// Demangles a Rust name and limits the length.
fn readable(name: &str) -> String {
    let name: String = name.chars().take(4 * LONGEST_NAME).collect();
    let text = format!("{:#}", rustc_demangle::demangle(&name));
    text.chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn here() -> u64 {
        here as *const () as u64
    }

    #[test]
    fn a_function_of_this_program_is_named() {
        let mut code = ProgramCode::read(&Root::new("/".into()), std::process::id());
        assert!(code.is_known() && code.is_in_program(here()));
        let frame = code.frame(here() + 1, false);
        let symbol = frame.symbol.unwrap();
        assert!(symbol.contains("program::tests::here+0x1"), "{symbol}");
        let nothing = code.frame(8, false);
        assert_eq!((nothing.object, nothing.symbol), (None, None));
        assert!(!code.is_code(8) && !code.follows_a_call(8));
    }

    #[test]
    fn only_code_is_a_region() {
        let line = "55d0-55e0 r-xp 00001000 08:1f 1234                  /a b (deleted)";
        let region = region(line).unwrap();
        assert_eq!(
            (region.start, region.end, region.offset),
            (0x55d0, 0x55e0, 0x1000)
        );
        assert_eq!((region.device, region.inode), ((8, 0x1f), 1234));
        assert_eq!(region.path, "/a b");
        for line in ["", "1-2", "zz-1 r-xp 0 8:1 1 x", "1-2 rw-p 0 08:01 1 /a"] {
            assert_eq!(super::region(line), None, "{line}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_known() {
        assert!(ends_with_call(&[0, 0, 0, 0xe8, 1, 2, 3, 4]));
        assert!(ends_with_call(&[0, 0, 0, 0, 0, 0, 0xff, 0xd0]));
        assert!(!ends_with_call(&[0x90; 8]));
    }

    #[test]
    fn a_file_that_is_no_program_has_no_functions() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"\x7fELF junk").unwrap();
        assert!(Functions::read(file, &mut ALLOWANCE.clone()).is_none());
    }

    const ALLOWANCE: Allowance = Allowance {
        read: MOST_READ,
        kept: MOST_KEPT,
    };

    /// Makes an ELF file with a symbol table of `symbols` symbols named `name`.
    fn with_symbols(symbols: u64, name: &str, written: bool) -> File {
        let (table, entry) = (64 + 3 * 64 + 4096, 24);
        let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        head.extend([3, 0, 62, 0, 1, 0, 0, 0]); // A shared object of x86-64.
        for place in [0_u64, 0, 64] {
            head.extend(place.to_le_bytes()); // Entry, segments, sections.
        }
        head.extend([0, 0, 0, 0, 64, 0, 56, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
        let section = |kind: u32, at: u64, size: u64, link: u32, entry: u64| {
            let mut bytes = [0_u32.to_le_bytes(), kind.to_le_bytes()].concat();
            for number in [0, 0, at, size] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend([link.to_le_bytes(), 0_u32.to_le_bytes()].concat());
            bytes.extend([8_u64.to_le_bytes(), entry.to_le_bytes()].concat());
            bytes
        };
        head.extend(section(0, 0, 0, 0, 0));
        head.extend(section(2, table, symbols * entry, 2, entry));
        head.extend(section(3, 256, 4096, 0, 0));
        head.resize(256, 0);
        head.push(0);
        head.extend(name.as_bytes());
        head.resize(table as usize, 0);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&head, 0).unwrap();
        file.set_len(table + symbols * entry).unwrap();
        if written {
            let mut all = Vec::new();
            for number in 0..symbols {
                all.extend([1, 0, 0, 0, 0x12, 0, 1, 0]); // A global function.
                all.extend([(number * 16).to_le_bytes(), 16_u64.to_le_bytes()].concat());
            }
            file.write_all_at(&all, table).unwrap();
        }
        file
    }

    fn peak_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }

    #[test]
    fn a_sparse_table_of_two_gigabytes_is_not_read() {
        let mut allowance = ALLOWANCE.clone();
        let file = with_symbols((2 << 30) / 24, "function", false);
        let before = peak_kib();
        let functions = Functions::read(file, &mut allowance).unwrap_or_default();
        assert!(functions.functions.is_empty());
        assert!(allowance.read > MOST_READ / 2, "{allowance:?}");
        // Other tests run at the same time.
        let taken = peak_kib() - before;
        assert!(taken < 1 << 20, "{taken} KiB");
    }

    #[test]
    fn what_is_read_and_kept_of_all_files_is_limited() {
        let read = |symbols, name: &str, allowance: &mut Allowance| {
            let functions = Functions::read(with_symbols(symbols, name, true), allowance);
            functions.map_or(0, |all| all.functions.len())
        };
        // A table within the limits is read with all its names.
        assert_eq!(read(1_000, "function", &mut ALLOWANCE.clone()), 999);
        let long = "x".repeat(200);
        let mut allowance = Allowance {
            read: 1 << 20,
            kept: 100_000,
        };
        let first = read(1_000, &long, &mut allowance);
        assert!((100..999).contains(&first), "{first}");
        assert!(read(1_000, &long, &mut allowance) <= 1);
        while allowance.read > 30_000 {
            let before = allowance.read;
            read(1_000, &long, &mut allowance);
            assert!(allowance.read < before);
        }
        assert_eq!(read(10_000, "function", &mut allowance), 0);
    }
}
