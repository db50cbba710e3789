//! Functions shared by the readers of text.

use super::Malformed;
use super::head::shown;

/// Returns a line without white space, cursor movements of live output (`ESC [ 4 A`) and colours at
/// its ends.
pub(crate) fn plain(mut line: &[u8]) -> &[u8] {
    loop {
        line = line.trim_ascii();
        let length = sequence(line);
        if length == 0 {
            break;
        }
        line = &line[length..];
    }
    while let Some(start) = memchr::memrchr(b'\x1b', line)
        && sequence(&line[start..]) == line.len() - start
    {
        line = line[..start].trim_ascii_end();
    }
    line
}

/// Returns the length of the control sequence (`ESC [ 1 ; 32 m`, `ESC c`) at the beginning of a
/// line; 0 if there is none.
fn sequence(line: &[u8]) -> usize {
    if line.starts_with(b"\x1bc") {
        return 2;
    }
    let Some(rest) = line.strip_prefix(b"\x1b[") else {
        return 0;
    };
    let is_parameter = |byte: &&u8| byte.is_ascii_digit() || **byte == b';' || **byte == b'?';
    let parameters = rest.iter().take_while(is_parameter).count();
    match rest.get(parameters) {
        Some(letter) if letter.is_ascii_alphabetic() => 2 + parameters + 1,
        _ => 0,
    }
}

/// Returns whether a line is one that the tools of rt-tests write in addition to their figures: an
/// empty line, a comment, a warning, the policy and load above live lines, or one of cyclictest's
/// notes on CPUs.
pub(crate) fn is_other_line(line: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 9] = [
        b"# ",
        b"WARN",
        b"INFO",
        b"policy: ",
        b"Max CPUs = ",
        b"Online CPUs = ",
        b"Using ",
        b"defaulting ",
        b"spikes = ",
    ];
    line.is_empty()
        || is_load_average(line)
        || BEGINNINGS.iter().any(|begin| line.starts_with(begin))
}

/// Returns whether a line is that of /proc/loadavg, which signaltest prints above its lines:
/// `0.00 0.01 0.05 1/94 1234`.
fn is_load_average(line: &[u8]) -> bool {
    let text = std::str::from_utf8(line).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let [loads @ .., running, last] = words.as_slice() else {
        return false;
    };
    let is_load = |word: &&str| word.contains('.') && word.parse::<f64>().is_ok();
    let is_count = |word: &str| word.parse::<u64>().is_ok();
    loads.len() == 3
        && loads.iter().all(is_load)
        && running
            .split_once('/')
            .is_some_and(|(one, all)| is_count(one) && is_count(all))
        && is_count(last)
}

/// Words below the figures, for example a reply in a mail, a shell prompt, or further lines of a
/// log.
#[derive(Debug, Default)]
pub(crate) struct WordsBelow(Option<String>);

impl WordsBelow {
    /// Accepts a line below the figures that no tool has written.
    ///
    /// # Errors
    /// Returns an error for a line that may be a damaged line of the tool.
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<(), Malformed> {
        if !is_words(line) {
            return Err(Malformed::foreign(line));
        }
        self.0.get_or_insert_with(|| shown(line));
        Ok(())
    }

    /// Checks that a line with figures may follow.
    ///
    /// # Errors
    /// Returns an error if words came before it, which are allowed only below all figures.
    pub(crate) fn figures_follow(&self) -> Result<(), Malformed> {
        match &self.0 {
            Some(words) => Err(Malformed::FiguresBelowWords(words.clone())),
            None => Ok(()),
        }
    }
}

/// Returns whether a line can only consist of words. A damaged line of figures begins with a digit
/// or names figures.
pub(crate) fn is_words(line: &[u8]) -> bool {
    const OF_FIGURES: [&str; 13] = [
        "Min:",
        "Act:",
        "Avg:",
        "Max:",
        " C:", // cyclictest's lines
        "Latenc",
        "Overflow",
        "More histogram", // its histogram
        ", Min ",
        ", Cur ",
        ", Avg ",
        ", Max ",
        "Cycles", // pmqtest's lines
    ];
    let Ok(text) = std::str::from_utf8(line) else {
        return false;
    };
    let first = text.trim_start().chars().next();
    let begins = |first: char| first.is_alphabetic() || "$[(<>*-_=~/|`\"'".contains(first);
    (first.is_some_and(begins) || text == "#" || text.starts_with("##"))
        && !text.starts_with("T:")
        && !text.contains(char::is_control)
        && !OF_FIGURES.iter().any(|figure| text.contains(figure))
}

/// Returns whether the last line of a file, which has no end, consists of words or a shell prompt
/// and is not a truncated line of the tool, because it contains no name with a figure.
pub(crate) fn is_prompt(line: &[u8]) -> bool {
    let line = plain(line);
    let named = line
        .windows(2)
        .any(|pair| pair[0] == b':' && pair[1].is_ascii_whitespace());
    let ends = line.last().is_some_and(|last| b"#$>%".contains(last));
    is_words(line) && ends && !named
}

/// Reads the number after `name` and spaces, and moves `rest` past it. Returns `None` if there is
/// no such name.
pub(crate) fn number(rest: &mut &str, name: &str) -> Result<Option<u64>, Malformed> {
    let Some((_, behind)) = rest.split_once(name) else {
        return Ok(None);
    };
    let text = behind.trim_start();
    let (text, behind) = text.split_at(text.find(' ').unwrap_or(text.len()));
    *rest = behind;
    count(text).map(Some)
}

/// Parses a count that consists only of decimal digits.
pub(crate) fn count(text: &str) -> Result<u64, Malformed> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(count) if digits => Ok(count),
        _ => Err(Malformed::NotACount(shown(text.as_bytes()))),
    }
}

/// Parses a latency printed by a tool; rejects a negative one.
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

/// Checks whether the minimum, mean and maximum can belong to one run.
pub(crate) fn in_order(min: u64, avg: u64, max: u64) -> Result<(), Malformed> {
    if min <= avg && avg <= max {
        Ok(())
    } else {
        Err(Malformed::Inconsistent { min, avg, max })
    }
}

/// Returns the text between `before` and the next `after` (or the end of the line, if `after` is
/// empty), and moves `rest` past it.
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
        assert_eq!(
            plain(b"\x1b[36;1m# Histogram\x1b[0m\x1b[K "),
            b"# Histogram"
        );
        assert_eq!(plain(b"\x1bcT: 0"), b"T: 0");
        assert_eq!(plain(b"T: 0 \x1b[1;"), b"T: 0 \x1b[1;");
    }

    #[test]
    fn words_are_no_damaged_figures() {
        for words in [
            "Why is the maximum so high?",
            "[root@rt cloud-user]#",
            "~ #",
            "```",
            "-- ",
            "##[endgroup]",
            "Größe: 3",
        ] {
            assert!(is_words(words.as_bytes()), "{words}");
        }
        for other in [
            "",
            "T: 0 (",
            "x: 0 ( 1229) C: 12",
            "000004 000120",
            "# Max Latencies: 00011",
            "#1 -> #0, Min    3, Cur    4, Avg    4, Max   37",
            "-> #0, Min    3, Cur    4, Avg    4, Max   37",
            "Max Latencies: 00011",
            "More histogram entries ...",
            "a\x1b[4A",
        ] {
            assert!(!is_words(other.as_bytes()), "{other}");
        }
        assert!(is_prompt(b"root@am57xx-evm:~# ") && is_prompt(b"$ "));
        assert!(!is_prompt(b"    Duration:\t 59.9") && !is_prompt(b"    Dura"));
    }

    #[test]
    fn number_follows_name_and_blanks() {
        let mut rest = "T: 0 P: 80 I:   10000 C:x";
        assert_eq!(number(&mut rest, " P:").unwrap(), Some(80));
        assert_eq!(number(&mut rest, " I:").unwrap(), Some(10_000));
        assert_eq!(number(&mut rest, " X:").unwrap(), None);
        assert!(number(&mut rest, " C:").is_err());
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
