//! The kernel's functions by address, from the file's copy of /proc/kallsyms.

/// The functions, in order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    text: String,
    /// Address, and begin and length of the name in the text.
    functions: Vec<(u64, u32, u32)>,
}

/// No function is longer. An address farther from the last one is in no function.
const LONGEST_FUNCTION: u64 = 1 << 20;

impl Symbols {
    /// Reads lines such as `ffffffff81000000 T _stext`, with a module in brackets.
    pub(super) fn new(text: String) -> Self {
        let mut functions = Vec::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else {
                continue;
            };
            // Users without privileges see zeros.
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let begin = name.as_ptr() as usize - text.as_ptr() as usize;
            if let (Ok(begin), Ok(length)) = (u32::try_from(begin), u32::try_from(name.len())) {
                functions.push((address, begin, length));
            }
        }
        // Stable: of several names of one address, the first stays in front.
        functions.sort_by_key(|(address, ..)| *address);
        functions.dedup_by_key(|(address, ..)| *address);
        Self { text, functions }
    }

    fn name(&self, (_, begin, length): (u64, u32, u32)) -> Option<&str> {
        let begin = begin as usize;
        self.text.get(begin..begin + length as usize)
    }

    /// Returns the function that contains an address.
    pub(super) fn containing(&self, address: u64) -> Option<&str> {
        let next = self
            .functions
            .partition_point(|(begin, ..)| *begin <= address);
        let function = self.functions.get(next.checked_sub(1)?)?;
        (address - function.0 < LONGEST_FUNCTION).then(|| self.name(*function))?
    }

    /// Returns the address of a function.
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        let mut functions = self.functions.iter();
        let found = functions.find(|function| self.name(**function) == Some(name));
        found.map(|(address, ..)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_lower_function_contains_an_address() {
        let text = "ffffffff81000200 t do_fault\nffffffff81000000 T _stext\n\
            ffffffff81000000 T _text\n0000000000000000 A zero\nffffffff81000100 D data\n\
            ffffffffc0000000 t probe\t[module]\nnonsense\n";
        let symbols = Symbols::new(text.to_owned());
        assert_eq!(symbols.containing(0xffff_ffff_8100_01ff), Some("_stext"));
        assert_eq!(symbols.containing(0xffff_ffff_8100_0200), Some("do_fault"));
        assert_eq!(symbols.containing(0xffff_ffff_c000_0010), Some("probe"));
        assert_eq!(symbols.containing(0xffff_ffff_b000_0000), None);
        assert_eq!(symbols.containing(0x1000), None);
        assert_eq!(symbols.address("do_fault"), Some(0xffff_ffff_8100_0200));
        assert_eq!(symbols.address("zero"), None);
    }
}
