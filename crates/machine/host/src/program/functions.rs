//! The functions of an ELF file. The file belongs to another process and is untrusted.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;

use object::read::{Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef};
use object::{ObjectKind, SymbolKind};

use super::allowance::{
    Allowance, LONGEST_BUILD_ID, LONGEST_NAME, MOST_SEGMENTS, MOST_SYMBOLS, NoFunctions,
};
use super::rows::{self, Caller, Row};

/// A file that can be read only up to the allowance. A read beyond the allowance fails before the
/// cache allocates memory for it and fills that memory with zeros.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    cache: &'a ReadCache<File>,
    left: &'a Cell<u64>,
    /// Whether a read was refused because of the limit.
    refused: &'a Cell<bool>,
}

impl Bounded<'_> {
    fn take(self, bytes: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(bytes);
        self.refused.set(self.refused.get() || left.is_none());
        self.left.set(left.ok_or(())?);
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
        // The cache searches at most 4096 bytes for the delimiter.
        let found = self.cache.read_bytes_at_until(range, delimiter);
        self.take(found.map_or(4096, |bytes| bytes.len() as u64 + 1))?;
        found
    }
}

/// The functions of one file.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// Segments, each with its offset in the file, size and address.
    pub(super) segments: Vec<(u64, u64, u64)>,
    /// Functions, each with its address, size and name, sorted by address.
    pub(super) functions: Vec<(u64, u64, String)>,
    /// How to find callers, sorted by address.
    pub(super) rows: Vec<Row>,
    pub(super) build_id: Option<String>,
    /// The reason why not all functions are known.
    pub(super) incomplete: Option<NoFunctions>,
}

impl Functions {
    /// Reads a file in this process, with its rights.
    pub(super) fn read(file: File, allowance: &mut Allowance) -> Result<Self, NoFunctions> {
        let (left, refused) = (Cell::new(allowance.read), Cell::new(false));
        let bounded = Bounded {
            cache: &ReadCache::new(file),
            left: &left,
            refused: &refused,
        };
        let read = Self::read_bounded(bounded, allowance);
        allowance.read = left.get();
        match (read, refused.get()) {
            (Err(NoFunctions::NotAProgram(_)), true) => Err(NoFunctions::TooLarge),
            (Ok(mut functions), true) => {
                functions.incomplete = Some(NoFunctions::TooLarge);
                Ok(functions)
            }
            (read, _) => read,
        }
    }

    /// Reads a file that is in memory.
    pub(super) fn read_bytes(bytes: &[u8], allowance: &mut Allowance) -> Result<Self, NoFunctions> {
        Self::read_bounded(bytes, allowance)
    }

    fn read_bounded<'a>(
        file: impl ReadRef<'a>,
        allowance: &mut Allowance,
    ) -> Result<Self, NoFunctions> {
        let elf = object::File::parse(file).map_err(NoFunctions::NotAProgram)?;
        if !matches!(elf.kind(), ObjectKind::Executable | ObjectKind::Dynamic) {
            return Err(NoFunctions::OtherKind);
        }
        let mut functions = Self::default();
        for segment in elf.segments().take(MOST_SEGMENTS) {
            let (offset, size) = segment.file_range();
            functions.segments.push((offset, size, segment.address()));
        }
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            if functions.functions.len() >= MOST_SYMBOLS {
                functions.incomplete = Some(NoFunctions::ManySymbols);
                break;
            }
            if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
                continue;
            }
            if let Ok(name) = symbol.name() {
                let entry = (symbol.address(), symbol.size(), readable(name));
                // Each entry stores a copy of its name, and many symbols can refer to one long
                // name.
                if let Err(why) = allowance.keep(&entry.2) {
                    functions.incomplete = Some(why);
                    break;
                }
                functions.functions.push(entry);
            }
        }
        functions.functions.sort();
        functions.functions.dedup_by_key(|function| function.0);
        functions.build_id = elf.build_id().ok().flatten().map(|bytes| {
            let bytes = bytes.iter().take(LONGEST_BUILD_ID);
            bytes.map(|byte| format!("{byte:02x}")).collect()
        });
        if allowance.rows {
            functions.rows = rows::read(&elf, allowance);
        }
        Ok(functions)
    }

    /// Returns how to find the caller at an address.
    pub(super) fn caller(&self, address: u64) -> Caller {
        let after = self.rows.partition_point(|row| row.address <= address);
        let row = after.checked_sub(1).and_then(|at| self.rows.get(at));
        row.map_or(Caller::Unknown, |row| row.caller)
    }

    /// Returns the link-time address of the bytes at an offset of the file.
    pub(super) fn address(&self, place: u64) -> Option<u64> {
        let fits =
            |(offset, size, _): &&(u64, u64, u64)| place >= *offset && place - offset < *size;
        let (offset, _, address) = self.segments.iter().find(fits)?;
        address.checked_add(place - offset)
    }

    /// Returns the offset in the file at which a function begins.
    pub(super) fn position(&self, name: &str) -> Option<u64> {
        let (start, ..) = self.functions.iter().find(|(.., known)| known == name)?;
        let has =
            |(_, size, address): &&(u64, u64, u64)| start >= address && start - address < *size;
        let (offset, _, address) = self.segments.iter().find(has)?;
        offset.checked_add(start - address)
    }

    /// Returns the function at an address. `add` is the number of bytes to add to the displayed
    /// offset.
    pub(super) fn name(&self, address: u64, add: u64) -> Option<String> {
        let after = self.functions.partition_point(|entry| entry.0 <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        let within = address - start;
        // Functions in assembly often have the size 0.
        if *size > 0 && within >= *size {
            return None;
        }
        Some(format!("{name}+{:#x}", within + add))
    }
}

/// Demangles a Rust or C++ name and limits the length.
fn readable(name: &str) -> String {
    let name: String = name.chars().take(4 * LONGEST_NAME).collect();
    let text = match rustc_demangle::try_demangle(&name) {
        Ok(name) => format!("{name:#}"),
        Err(_) => of_cpp(&name).unwrap_or(name),
    };
    text.chars().take(LONGEST_NAME).collect()
}

/// Demangles a C++ name, without its parameters.
fn of_cpp(name: &str) -> Option<String> {
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let options = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type();
    let mut text = Limited(String::new());
    // A short name can stand for a very long one, because parts of it refer to others.
    let complete = symbol.structured_demangle(&mut text, &options).is_ok();
    (complete || text.0.len() >= LONGEST_NAME).then_some(text.0)
}

/// A text that takes no more once it is as long as a name may be.
struct Limited(String);

impl std::fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.push_str(text);
        if self.0.len() < LONGEST_NAME {
            Ok(())
        } else {
            Err(std::fmt::Error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::allowance::MOST_READ;
    use super::*;

    #[test]
    fn names_of_rust_and_cpp_are_readable() {
        for (name, expected) in [
            ("_ZN4demo6Server4pollEi", "demo::Server::poll"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            (
                "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
                "core::fmt::Formatter::pad",
            ),
            ("main", "main"),
            ("_Zzz", "_Zzz"),
            ("_ZN", "_ZN"),
        ] {
            assert_eq!(readable(name), expected);
        }
    }

    /// Each parameter of the template doubles the length.
    #[test]
    fn explosive_name_is_cut() {
        let mut name = "_Z1fI1AIiiE".to_owned();
        for depth in 0..16 {
            // Each type has the number of the template before it, and one of its own.
            let before = char::from_digit(1 + 2 * depth, 36).unwrap();
            let before = before.to_ascii_uppercase();
            name.push_str(&format!("1BIS{before}_S{before}_E"));
        }
        name.push_str("EvT_");
        let text = readable(&name);
        assert!(text.starts_with("f<"), "{text}");
        assert_eq!(text.len(), LONGEST_NAME);
    }

    #[test]
    fn non_program_file_has_no_functions() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"\x7fELF junk").unwrap();
        let read = Functions::read(file, &mut Allowance::whole());
        assert!(matches!(read, Err(NoFunctions::NotAProgram(_))), "{read:?}");
    }

    /// Returns an ELF file with a table of `symbols` symbols, all named `name`. Unless `written` is
    /// set, the table is a hole in the file.
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
    fn huge_sparse_table_is_not_read() {
        let mut allowance = Allowance::whole();
        let file = with_symbols((2 << 30) / 24, "function", false);
        let before = peak_kib();
        let why = Functions::read(file, &mut allowance).unwrap_err();
        assert_eq!(why, NoFunctions::TooLarge);
        assert!(allowance.read > MOST_READ / 2, "{allowance:?}");
        // Other tests run at the same time in this process and also allocate memory.
        let taken = peak_kib() - before;
        assert!(taken < 1 << 20, "{taken} KiB");
    }

    #[test]
    fn total_read_and_kept_bytes_are_limited() {
        let read = |symbols, name: &str, allowance: &mut Allowance| match Functions::read(
            with_symbols(symbols, name, true),
            allowance,
        ) {
            Ok(functions) => (functions.functions.len(), functions.incomplete),
            Err(why) => (0, Some(why)),
        };
        // A table within the limit is read completely, with all its names.
        assert_eq!(
            read(1_000, "function", &mut Allowance::whole()),
            (999, None)
        );
        let long = "x".repeat(200);
        let mut allowance = Allowance {
            read: 1 << 20,
            kept: 100_000,
            ..Allowance::whole()
        };
        let (first, why) = read(1_000, &long, &mut allowance);
        assert!((100..999).contains(&first), "{first}");
        assert_eq!(why, Some(NoFunctions::TooMany));
        assert!(read(1_000, &long, &mut allowance).0 <= 1);
        while allowance.read > 30_000 {
            let before = allowance.read;
            read(1_000, &long, &mut allowance);
            assert!(allowance.read < before);
        }
        let (found, why) = read(10_000, "function", &mut allowance);
        assert_eq!((found, why), (0, Some(NoFunctions::TooLarge)));
    }
}
