//! Formats messages whose values the kernel stores in the ring buffer (`vbin_printf` in
//! lib/vsprintf.c). Values are strings that end with NUL, or numbers of 1, 2, 4 or 8 bytes, which
//! are aligned to their size but to at most 4 bytes.

use std::fmt::Write;

use punctual_trace::Layout;

/// A conversion in a format string, such as `%-8lu`.
struct Conversion {
    is_left: bool,
    is_zero: bool,
    has_base: bool,
    width: usize,
    bytes: usize,
    letter: char,
}

/// Maximum width of a formatted value, in characters.
const WIDEST: usize = 64;

/// Replaces the conversions in a format string with the values, or with `?` if a value cannot be
/// read.
pub(super) fn print(format: &str, layout: &Layout, values: &[u8]) -> String {
    let mut printed = String::new();
    let mut values = Values {
        layout,
        bytes: values,
        at: 0,
    };
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        printed += before;
        if let Some(after) = after.strip_prefix('%') {
            printed.push('%');
            rest = after;
            continue;
        }
        let (conversion, after) = conversion(after, layout, &mut values);
        rest = after;
        let value = value(&conversion, &mut values).unwrap_or_else(|| "?".to_owned());
        let width = conversion.width;
        // Writing to a String cannot fail.
        let _ = match (conversion.is_left, conversion.is_zero) {
            (true, _) => write!(printed, "{value:<width$}"),
            (false, true) => write!(printed, "{value:0>width$}"),
            (false, false) => write!(printed, "{value:>width$}"),
        };
    }
    printed + rest
}

/// Parses the part of a conversion that follows its `%`. Returns the conversion and the rest of the
/// text.
fn conversion<'a>(
    text: &'a str,
    layout: &Layout,
    values: &mut Values<'_>,
) -> (Conversion, &'a str) {
    let long = usize::from(layout.long_bytes);
    let flags = text.trim_start_matches(['-', '+', ' ', '#', '0']);
    let of_flags = text.strip_suffix(flags).unwrap_or_default();
    let (width, rest) = match flags.strip_prefix('*') {
        Some(rest) => (values.number(4).unwrap_or(0) as usize, rest),
        None => {
            let rest = flags.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = flags.strip_suffix(rest).unwrap_or_default();
            (digits.parse().unwrap_or(0), rest)
        }
    };
    // Skip the precision, because the kernel has already applied it to strings.
    let rest = match rest.strip_prefix('.') {
        Some(rest) => match rest.strip_prefix('*') {
            Some(rest) => {
                values.number(4);
                rest
            }
            None => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
        },
        None => rest,
    };
    let sizes = [
        ("hh", 1),
        ("h", 2),
        ("ll", 8),
        ("l", long),
        ("z", long),
        ("t", long),
        ("L", 8),
    ];
    let size = sizes
        .into_iter()
        .find(|(prefix, _)| rest.starts_with(prefix));
    let (bytes, rest) = match size {
        Some((prefix, bytes)) => (bytes, rest.strip_prefix(prefix).unwrap_or(rest)),
        None => (4, rest),
    };
    let letter = rest.chars().next().unwrap_or('?');
    let rest = rest.get(letter.len_utf8()..).unwrap_or_default();
    let conversion = Conversion {
        is_left: of_flags.contains('-'),
        is_zero: of_flags.contains('0'),
        has_base: of_flags.contains('#'),
        width: width.min(WIDEST),
        bytes,
        letter,
    };
    // The kind of a pointer, such as in `%pS`. The kernel stores some kinds as text, but this
    // cannot be detected.
    match letter {
        'p' => (
            conversion,
            rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()),
        ),
        _ => (conversion, rest),
    }
}

fn value(conversion: &Conversion, values: &mut Values<'_>) -> Option<String> {
    let base = |base| if conversion.has_base { base } else { "" };
    Some(match conversion.letter {
        's' => values.text()?,
        'c' => char::from(values.number(1)? as u8).to_string(),
        'd' | 'i' => {
            let unused = 64 - 8 * conversion.bytes as u32;
            let value = values.number(conversion.bytes)?;
            (((value << unused) as i64) >> unused).to_string()
        }
        'u' => values.number(conversion.bytes)?.to_string(),
        'x' => format!("{}{:x}", base("0x"), values.number(conversion.bytes)?),
        'X' => format!("{}{:X}", base("0X"), values.number(conversion.bytes)?),
        'o' => format!("{}{:o}", base("0"), values.number(conversion.bytes)?),
        'p' => format!(
            "{:#x}",
            values.number(usize::from(values.layout.long_bytes))?
        ),
        _ => return None,
    })
}

/// The values that have not been formatted yet.
struct Values<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
    at: usize,
}

impl Values<'_> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let begin = self.at.next_multiple_of(bytes.clamp(1, 4));
        let number = self.bytes.get(begin..begin + bytes)?;
        self.at = begin + bytes;
        Some(self.layout.unsigned(number))
    }

    fn text(&mut self) -> Option<String> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        self.at += length + 1;
        Some(String::from_utf8_lossy(rest.get(..length)?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_replace_conversions() {
        let layout = Layout {
            long_bytes: 8,
            big_endian: false,
            data_at: 16,
            page_bytes: 4_096,
        };
        let mut values = (-5_i32).to_le_bytes().to_vec();
        values.extend(0x1234_u64.to_le_bytes());
        values.extend(b"abc\0");
        values.extend([7]);
        values.extend([0; 3]);
        values.extend(9_u32.to_le_bytes());
        let print = |format: &str| print(format, &layout, &values);
        assert_eq!(print("%d %#lx %s %hhu %03u 5%%"), "-5 0x1234 abc 7 009 5%");
        assert_eq!(
            print("%d %llu [%-5s] %hhu %*u"),
            "-5 4660 [abc  ] 7         ?"
        );
        assert_eq!(print("%d %d %d %d %d %d %d"), "-5 4660 0 6513249 7 9 ?");
        assert_eq!(print("%y %"), "? ?");
    }
}
