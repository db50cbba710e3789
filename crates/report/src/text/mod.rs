//! Text for a terminal: the summary of one recording, the list of many, two
//! compared.

mod comparison;
mod list;
mod machine;
mod outliers;
mod page;
mod spread;
mod story;
mod summary;
mod table;
mod wakeups;

pub use comparison::comparison;
pub use list::{ListRow, list};
pub use machine::{
    ClockRow, InterruptRow, ThreadRow, clocks, interrupts, placements, threads, topology,
};
pub use outliers::outliers;
pub(crate) use page::Page;
pub use story::story;
pub use summary::summary;
pub use wakeups::wakeups;

/// How text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Whether to colour it (ANSI SGR sequences); without, nothing but text.
    pub colour: bool,
    /// Columns to fit into, where the figures allow it. Less than 40 is taken
    /// as 40.
    pub width: usize,
}

impl Default for TextStyle {
    /// Plain, for 80 columns.
    fn default() -> Self {
        Self {
            colour: false,
            width: 80,
        }
    }
}

/// What a piece of text means; the colours follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Heading,
    Faint,
    Good,
    Warning,
    Bad,
}

impl TextStyle {
    pub(crate) fn columns(self) -> usize {
        self.width.max(40)
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Heading => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "1;31",
        };
        match self.colour && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Breaks `text` at spaces into lines of at most `width` characters. A number
/// stays with its unit. A word longer than a line gets a line of its own, uncut:
/// names and paths must be copied whole.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words(text) {
        let length = word.chars().count();
        let line = lines.len() - 1;
        if used > 0 && used + 1 + length > width {
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

/// Units that follow their number after a space.
const UNITS: [&str; 8] = ["ns", "µs", "ms", "s", "h", "B", "KiB", "MiB"];

/// The words of `text`, a number and its unit as one.
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

    #[test]
    fn without_colour_there_is_no_escape_sequence() {
        let plain = TextStyle::default();
        assert_eq!(plain.paint(Tone::Bad, "x"), "x");
        let coloured = TextStyle {
            colour: true,
            ..plain
        };
        assert_eq!(coloured.paint(Tone::Bad, "x"), "\x1b[1;31mx\x1b[0m");
    }
}
