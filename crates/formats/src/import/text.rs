//! Functions shared by the readers of text.

use super::Malformed;
use super::head::shown;

/// A line without white space at its ends and without the cursor movements
/// (`ESC [ 4 A`) with which live output is written over itself.
pub(crate) fn plain(mut line: &[u8]) -> &[u8] {
    loop {
        line = line.trim_ascii();
        let Some(rest) = line.strip_prefix(b"\x1b[") else {
            return line;
        };
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match rest.get(digits) {
            Some(letter) if letter.is_ascii_alphabetic() => line = &rest[digits + 1..],
            _ => return line,
        }
    }
}

/// Whether a line is one that the tools of rt-tests write beside their figures:
/// an empty line, a comment, a warning, the policy and load above live lines,
/// cyclictest's notes on CPUs.
pub(crate) fn is_beside(line: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 8] = [
        b"# ",
        b"WARN",
        b"INFO",
        b"policy: ",
        b"Max CPUs = ",
        b"Online CPUs = ",
        b"Using ",
        b"defaulting ",
    ];
    line.is_empty() || BEGINNINGS.iter().any(|begin| line.starts_with(begin))
}

/// A count in decimal digits and nothing else.
pub(crate) fn count(text: &str) -> Result<u64, Malformed> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(count) if digits => Ok(count),
        _ => Err(Malformed::NotACount(shown(text.as_bytes()))),
    }
}

/// A latency as a tool prints it; a negative one is refused.
pub(crate) fn latency(name: &'static str, text: &str) -> Result<u64, Malformed> {
    count(text).map_err(|_| match text.parse::<i64>() {
        Ok(_) => Malformed::NegativeLatency {
            name,
            text: text.to_owned(),
        },
        Err(_) => Malformed::NotALatency {
            name,
            text: shown(text.as_bytes()),
        },
    })
}

/// Whether minimum, mean and maximum can be those of one run.
pub(crate) fn in_order(min: u64, avg: u64, max: u64) -> Result<(), Malformed> {
    match min <= avg && avg <= max {
        true => Ok(()),
        false => Err(Malformed::Inconsistent { min, avg, max }),
    }
}

/// Takes the text between `before` and the next of `after` (or the end), and
/// goes on behind it.
pub(crate) fn field<'a>(rest: &mut &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, behind) = rest.split_once(before)?;
    let end = match after {
        "" => behind.len(),
        after => behind.find(after)?,
    };
    *rest = &behind[end..];
    Some(&behind[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_movements_go() {
        assert_eq!(plain(b"\x1b[4Apolicy: fifo  "), b"policy: fifo");
        assert_eq!(plain(b"\x1b[4A\x1b[2B T: 0"), b"T: 0");
        assert_eq!(plain(b"\x1b[4"), b"\x1b[4");
        assert_eq!(plain(b"\x1b[12A"), b"");
    }

    #[test]
    fn counts_are_digits() {
        assert_eq!(count("00012").unwrap(), 12);
        for text in ["", "+1", "-1", "1.5", "99999999999999999999999"] {
            assert!(count(text).is_err(), "{text}");
        }
        let negative = latency("Max", "-37").unwrap_err();
        assert!(matches!(negative, Malformed::NegativeLatency { .. }));
    }
}
