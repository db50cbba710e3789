//! Wraps text into lines.

use crate::sanitize::width;

/// Breaks `text` at spaces into lines of at most `columns`. A number stays with its unit. A word
/// that is longer than a line is kept whole on a line of its own, because names and paths must be
/// copied as a whole.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words(text) {
        let length = width(&word);
        let line = lines.len() - 1;
        if used > 0 && used + 1 + length > columns {
            lines.push(word);
            used = length;
            continue;
        }
        if used > 0 {
            lines[line].push(' ');
            used += 1;
        }
        lines[line].push_str(&word);
        used += length;
    }
    lines
}

/// Units that follow a number after a space.
const UNITS: [&str; 8] = ["ns", "µs", "ms", "s", "h", "B", "KiB", "MiB"];

/// Returns the words of `text`, with a number and its unit as one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let unit = UNITS.contains(&word.trim_end_matches([',', ':', ';', ')']));
        match words.last_mut() {
            Some(last) if unit && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("aaaaaaaaaaaa b", 4), ["aaaaaaaaaaaa", "b"]);
        assert_eq!(
            wrap("takes 12.3 µs, then", 12),
            ["takes", "12.3 µs,", "then"]
        );
        assert_eq!(wrap("", 8), [""]);
    }
}
