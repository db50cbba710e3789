//! Names of the functions at the kernel's addresses, and of system calls.

use std::borrow::Cow;
use std::io::{BufRead, BufReader};

use crate::root::Root;

const KALLSYMS: &str = "/proc/kallsyms";

/// Maximum number of symbols. A kernel has about 200,000.
const MOST: usize = 4 << 20;

/// The functions of the kernel and its modules, from /proc/kallsyms. The table needs about 5 MB of
/// memory.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// Addresses in ascending order, each with the offset of its name in `names`.
    addresses: Vec<(u64, u32)>,
    /// Names, each preceded by a byte that contains its length.
    names: Vec<u8>,
}

impl Symbols {
    /// Reads the table. It is empty if the file does not exist or hides the addresses
    /// (`kernel.kptr_restrict`).
    pub(crate) fn read(root: &Root) -> Self {
        match root.open(KALLSYMS) {
            Ok(file) => Self::parse(BufReader::with_capacity(1 << 16, file)),
            Err(_) => Self::default(),
        }
    }

    /// Reads a table in the format of /proc/kallsyms, up to the first error.
    #[expect(clippy::disallowed_methods, reason = "the kernel limits this file")]
    pub fn parse(mut reader: impl BufRead) -> Self {
        let mut symbols = Self::default();
        let mut line = Vec::new();
        while symbols.addresses.len() < MOST {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(1..) => symbols.add(&line),
                _ => break,
            }
        }
        // An unstable sort needs no extra memory. If an address has several names, the first one in
        // the table is kept.
        symbols.addresses.sort_unstable();
        symbols.addresses.dedup_by_key(|place| place.0);
        symbols.addresses.shrink_to_fit();
        symbols.names.shrink_to_fit();
        symbols
    }

    /// Parses a line such as `ffffffff81000000 T _stext`, which may be followed by the name of a
    /// module.
    fn add(&mut self, line: &[u8]) {
        let mut words = line.split(|byte| byte.is_ascii_whitespace());
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        let is_code = matches!(kind, b"t" | b"T" | b"w" | b"W");
        let address = std::str::from_utf8(address).ok();
        let address = address.and_then(|text| u64::from_str_radix(text, 16).ok());
        let begin = u32::try_from(self.names.len());
        if let (true, Some(address @ 1..), Ok(begin), Ok(length)) =
            (is_code, address, begin, u8::try_from(name.len()))
        {
            self.addresses.push((address, begin));
            self.names.push(length);
            self.names.extend(name);
        }
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns the name of the function that contains an address, with the offset if it is not 0,
    /// such as `schedule+0x1c`.
    pub fn name(&self, address: u64) -> Option<String> {
        let (name, within) = self.function(address)?;
        Some(match within {
            0 => name.into_owned(),
            within => format!("{name}+{within:#x}"),
        })
    }

    /// Returns the name of the function that contains an address, and the offset in bytes.
    pub fn function(&self, address: u64) -> Option<(Cow<'_, str>, u64)> {
        let after = self.addresses.partition_point(|place| place.0 <= address);
        let (begin, name) = *self.addresses.get(after.checked_sub(1)?)?;
        let at = name as usize;
        let length = usize::from(*self.names.get(at)?);
        let name = String::from_utf8_lossy(self.names.get(at + 1..at + 1 + length)?);
        let within = address - begin;
        // The end of the last function is unknown, so its size is limited.
        (within < 0x10_0000).then_some((name, within))
    }

    /// Returns the start address of the kernel's code (`_stext`).
    pub fn text_begin(&self) -> Option<u64> {
        let name = b"_stext";
        let is_it = |place: &&(u64, u32)| {
            let at = place.1 as usize + 1;
            self.names.get(at - 1).copied() == Some(name.len() as u8)
                && self.names.get(at..at + name.len()) == Some(name)
        };
        self.addresses.iter().find(is_it).map(|place| place.0)
    }
}

/// Returns the name of a system call on this machine's architecture. A 32-bit architecture can have
/// two variants of a call that differ by the size of their arguments. Both variants get the name of
/// the call on 64-bit architectures.
pub fn system_call_name(id: i64) -> Option<&'static str> {
    let number = usize::try_from(id).ok()?;
    syscalls::Sysno::new(number).map(|call| common_name(call.name()))
}

/// Returns the numbers of a system call on this architecture, given its own name or the name from
/// [`system_call_name`]. The result is empty if there is no such call.
pub fn system_call_numbers(name: &str) -> Vec<i64> {
    let has_name = |call: &syscalls::Sysno| {
        let own = call.name();
        own == name || common_name(own) == name
    };
    let all = syscalls::SysnoSet::all();
    let calls = all.iter().filter(has_name);
    calls.map(|call| i64::from(call.id())).collect()
}

/// Returns the name of a call on 64-bit architectures. The 32-bit variants use 64-bit times,
/// offsets in pages, or a list of arguments instead of a structure (`arch/arm/tools/syscall.tbl`).
fn common_name(name: &'static str) -> &'static str {
    match name {
        "mmap2" => "mmap",
        "_newselect" => "select",
        _ => name.strip_suffix("_time64").unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(text: &str) -> Symbols {
        Symbols::parse(text.as_bytes())
    }

    #[test]
    fn an_address_is_named_by_its_function() {
        let table = symbols(
            "ffffffff81000200 t late\nffffffff81000000 T _stext\nffffffff81000000 T alias\n\
             ffffffff81000100 T schedule\nffffffff81000180 d data\nffffffffc0000000 t own\t[mod]\n\
             junk\n\nxyz T no\nffffffff81000150\n",
        );
        assert_eq!(
            table.name(0xffff_ffff_8100_0100).as_deref(),
            Some("schedule")
        );
        assert_eq!(
            table.name(0xffff_ffff_8100_011c).as_deref(),
            Some("schedule+0x1c")
        );
        assert_eq!(table.name(0xffff_ffff_c000_0000).as_deref(), Some("own"));
        assert_eq!(table.name(0xffff_ffff_80ff_ffff), None);
        assert_eq!(table.name(u64::MAX), None);
        assert_eq!(table.text_begin(), Some(0xffff_ffff_8100_0000));
    }

    #[test]
    fn hidden_addresses_are_not_known() {
        let table = symbols("0000000000000000 T _stext\n0000000000000000 T schedule\n");
        assert!(table.is_empty());
        assert_eq!((table.name(0), table.text_begin()), (None, None));
        let nothing = Symbols::read(&Root::new("/nowhere".into()));
        assert!(nothing.is_empty());
    }

    #[test]
    fn system_calls_have_names() {
        let names = |ids: std::ops::Range<i64>| ids.filter_map(system_call_name).count();
        assert!(names(0..300) > 200);
        assert_eq!(system_call_name(-1), None);
        assert_eq!(system_call_name(1 << 40), None);
        let numbers = system_call_numbers("clock_nanosleep");
        assert!(!numbers.is_empty());
        let is_one = |number: &i64| system_call_name(*number) == Some("clock_nanosleep");
        assert!(numbers.iter().all(is_one));
        assert!(system_call_numbers("tea_break").is_empty());
    }

    #[test]
    fn calls_on_32_bit_have_common_names() {
        for (name, common) in [
            ("futex_time64", "futex"),
            ("clock_nanosleep_time64", "clock_nanosleep"),
            ("mmap2", "mmap"),
            ("_newselect", "select"),
            ("pread64", "pread64"),
            ("epoll_wait", "epoll_wait"),
        ] {
            assert_eq!(common_name(name), common);
        }
    }
}
