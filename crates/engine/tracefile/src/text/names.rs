//! Assigns addresses to functions that a text shows only by name, and shares the memory of repeated
//! strings.

use std::collections::{BTreeMap, HashMap};

use punctual_model::Text;

/// The first address to assign. 64-bit kernels keep the last 2 MiB unmapped
/// (Documentation/arch/x86/x86_64/mm.rst, Documentation/arch/arm64/memory.rst).
const FIRST: u64 = 0xffff_ffff_ffe0_0000;
/// Maximum number of functions, and of shared strings. The traces of a kernel contain fewer
/// functions.
const MOST: usize = 65_536;
const BEYOND: &str = "(one of too many functions)";

/// The names seen so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    addresses: HashMap<String, u64>,
    texts: HashMap<String, Text>,
}

impl Names {
    /// Returns the address in `text`. If `text` shows only a function name, returns the address
    /// assigned to this function, and adds the function to `symbols`.
    pub(super) fn address(&mut self, text: &str, symbols: &mut BTreeMap<u64, String>) -> u64 {
        if let Some(address) = number_in(text) {
            return address;
        }
        let name = function_name(text);
        if let Some(address) = self.addresses.get(name) {
            return *address;
        }
        let name = if self.addresses.len() < MOST {
            name
        } else {
            BEYOND
        };
        let next = FIRST + self.addresses.len() as u64;
        let address = *self.addresses.entry(name.to_owned()).or_insert(next);
        symbols.insert(address, name.to_owned());
        address
    }

    /// Returns the name of the function in `text`, without an offset.
    pub(super) fn function(&mut self, text: &str) -> Text {
        self.text(function_name(text))
    }

    /// Returns a shared copy of a string.
    pub(super) fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new = Text::from(text);
        if self.texts.len() < MOST {
            self.texts.insert(text.to_owned(), new.clone());
        }
        new
    }
}

/// Parses `0xffff888627d1c6f8`, `00000000cef7a9e5` (the kernel's hashed `%p`) and `(null)`.
fn number_in(text: &str) -> Option<u64> {
    if matches!(text, "(null)" | "0") {
        return Some(0);
    }
    let digits = text.strip_prefix("0x");
    let is_bare = digits.is_none() && matches!(text.len(), 8 | 16);
    let digits = digits.or(is_bare.then_some(text))?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Returns `f` for `f+0x1d/0x150`, for trace-cmd's `f/0x0`, and for `f()`.
fn function_name(text: &str) -> &str {
    let end = text.find("+0x").or_else(|| text.find("/0x"));
    let name = &text[..end.unwrap_or(text.len())];
    name.strip_suffix("()").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_addresses_and_addresses_stay() {
        let (mut names, mut symbols) = (Names::default(), BTreeMap::new());
        let mut of = |text| names.address(text, &mut symbols);
        let tick = of("tick_nohz_handler/0x0");
        assert_eq!(of("tick_nohz_handler+0x0/0xc0"), tick);
        assert_eq!(of("tick_nohz_handler()"), tick);
        assert_ne!(of("do_fault"), tick);
        assert_eq!(of("0xffff888627d1c6f8"), 0xffff_8886_27d1_c6f8);
        assert_eq!(of("00000000cef7a9e5"), 0xcef7_a9e5);
        assert_eq!(of("(null)"), 0);
        assert_eq!(symbols[&tick], "tick_nohz_handler");
        assert_eq!(symbols.len(), 2);
    }

    #[test]
    fn too_many_names_share_one_address() {
        let (mut names, mut symbols) = (Names::default(), BTreeMap::new());
        for number in 0..MOST + 10 {
            names.address(&format!("function_{number}"), &mut symbols);
            names.text(&format!("text {number}"));
        }
        assert_eq!(symbols.len(), MOST + 1);
        assert_eq!(names.texts.len(), MOST);
        let of_beyond = names.address("another", &mut symbols);
        assert_eq!(symbols[&of_beyond], BEYOND);
    }
}
