//! Text for a terminal: the summary of one recording, the list of many.

mod list;
mod summary;
mod table;

pub use list::{ListRow, list};
pub use summary::summary;

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
enum Tone {
    Plain,
    Heading,
    Faint,
    Good,
    Warning,
    Bad,
}

impl TextStyle {
    fn columns(self) -> usize {
        self.width.max(40)
    }

    fn paint(self, tone: Tone, text: &str) -> String {
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

/// Breaks `text` at spaces into lines of at most `width` characters. A word
/// longer than that gets a line of its own, uncut: names and paths must be
/// copied whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        let line = lines.len() - 1;
        if used > 0 && used + 1 + length > width {
            lines.push(word.to_owned());
            used = length;
            continue;
        }
        if used > 0 {
            lines[line].push(' ');
            used += 1;
        }
        lines[line].push_str(word);
        used += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("aaaaaaaaaaaa b", 4), ["aaaaaaaaaaaa", "b"]);
        // A value keeps its unit where it can: both are words of their own.
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
