//! Makes untrusted text safe to display: thread names, labels, file names and messages that quote
//! them.

use std::borrow::Cow;
use std::fmt::Write;

/// Replaces a character that must not be shown.
const REPLACEMENT: char = '\u{fffd}';

/// Returns one line of text that cannot mislead a terminal, an XML reader or a human reader.
///
/// Line ends and tabs become spaces. Control characters (which terminals interpret), bidirectional
/// marks (which reorder the text) and characters that XML 1.0 forbids become U+FFFD.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    replace(text, |c| match c {
        '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
        c if is_unsafe(c) => REPLACEMENT,
        c => c,
    })
}

/// Sanitizes multi-line text for a terminal. Like [`sanitize`], but keeps line ends and tabs. With
/// `colour`, also keeps sequences that only set colours (SGR).
pub fn sanitize_lines(text: &str, colour: bool) -> Cow<'_, str> {
    let keep = |c: char| match c {
        '\n' | '\t' => c,
        c if is_unsafe(c) => REPLACEMENT,
        c => c,
    };
    if !colour {
        return replace(text, keep);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        let length = colour_sequence(from).unwrap_or(0);
        safe.push_str(&replace(before, keep));
        safe.push_str(&from[..length]);
        if length == 0 {
            safe.push(REPLACEMENT);
        }
        rest = &from[length.max(1)..];
    }
    safe.push_str(&replace(rest, keep));
    Cow::Owned(safe)
}

/// Returns the length of the colour sequence (`ESC [ 1;31 m`) at the start of `text`.
fn colour_sequence(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

/// Returns JSON text that is safe on a terminal. Control characters and bidirectional marks occur
/// only inside strings and become `\uXXXX`. Programs that read the JSON get the same values.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let acts = |c: char| is_unsafe(c) && c != '\n' && c != '\t' && c != '\r';
    if !json.chars().any(acts) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if acts(c) {
            // Writing to a String does not fail. All of these characters are below U+10000.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Returns whether a character is unsafe: control characters (C0, DEL, C1), line separators,
/// bidirectional marks, and the two noncharacters that XML forbids.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{fffe}'
                | '\u{ffff}'
        )
}

fn replace(text: &str, by: impl Fn(char) -> char) -> Cow<'_, str> {
    if text.chars().all(|c| by(c) == c) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(by).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_misleads_is_replaced() {
        assert_eq!(sanitize("plain µ text"), "plain µ text");
        assert_eq!(sanitize("a\x1b[31mb"), "a\u{fffd}[31mb");
        assert_eq!(sanitize("a\nb\tc\u{9b}d"), "a b c\u{fffd}d");
        assert_eq!(sanitize("abc\u{202e}fed\u{61c}"), "abc\u{fffd}fed\u{fffd}");
    }

    #[test]
    fn sanitizing_keeps_wanted_endings_and_colours() {
        let text = "\x1b[1;31mred\x1b[0m\n\t\x1b]0;title\x07\x1b[2J\r\u{9b}2J\x1b";
        assert_eq!(
            sanitize_lines(text, true),
            "\x1b[1;31mred\x1b[0m\n\t\u{fffd}]0;title\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}2J\u{fffd}"
        );
        let plain = sanitize_lines(text, false);
        assert!(plain.starts_with("\u{fffd}[1;31mred"), "{plain}");
        assert!(matches!(
            sanitize_lines("two\nlines", false),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({"a\u{9b}2J": ["\u{202e}\u{7f}", "\x1b[31m µ\n"]});
        let json = serde_json::to_string_pretty(&value).unwrap();
        let safe = escape_json(&json);
        assert!(safe.contains(r"a\u009b2J"), "{safe}");
        assert!(safe.contains(r"\u202e\u007f"), "{safe}");
        assert!(safe.contains('µ'), "{safe}");
        let back: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(back, value);
    }

    proptest! {
        #[test]
        fn nothing_acts_on_a_terminal(text in "(\\PC|[\\x00-\\x20\\x7f-\u{9f}\u{200e}-\u{202e}m;\\[]){0,60}") {
            let acts = |c: char| is_unsafe(c) && c != '\n' && c != '\t';
            prop_assert!(!sanitize(&text).chars().any(is_unsafe));
            prop_assert!(!sanitize_lines(&text, false).chars().any(acts));
            let coloured = sanitize_lines(&text, true).into_owned();
            for (at, c) in coloured.char_indices().filter(|(_, c)| acts(*c)) {
                prop_assert_eq!(c, '\u{1b}');
                prop_assert!(colour_sequence(&coloured[at..]).is_some());
            }
            let json = serde_json::to_string(&text).unwrap();
            let escaped = escape_json(&json);
            prop_assert!(!escaped.chars().any(acts));
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }

    /// The first and last characters of each unsafe range, and their safe neighbours.
    #[test]
    fn unsafe_characters_are_control_marks_and_noncharacters() {
        for (unsafe_ones, safe) in [
            ("\u{0}\u{1b}\u{1f}\u{7f}\u{80}\u{9f}", " ~\u{a0}"),
            ("\u{61c}", "\u{61b}\u{61d}"),
            ("\u{200e}\u{200f}", "\u{200d}\u{2010}"),
            ("\u{202a}\u{202e}", "\u{2027}\u{202f}"),
            ("\u{2066}\u{2069}", "\u{2065}\u{206a}"),
            ("\u{fffe}\u{ffff}", "\u{fffd}\u{10000}"),
        ] {
            for c in unsafe_ones.chars() {
                let text = format!("a{c}b");
                assert_eq!(sanitize(&text), "a\u{fffd}b", "{:x}", u32::from(c));
                assert_eq!(sanitize_lines(&text, false), "a\u{fffd}b");
                assert_eq!(escape_json(&text), format!("a\\u{:04x}b", u32::from(c)));
            }
            assert_eq!(sanitize(safe), safe);
            assert_eq!(escape_json(safe), safe);
        }
        assert_eq!(sanitize("a\tb\nc\rd\u{2028}e\u{2029}f"), "a b c d e f");
        assert_eq!(sanitize_lines("a\tb\nc\rd", false), "a\tb\nc\u{fffd}d");
        assert_eq!(escape_json("a\tb\nc\rd"), "a\tb\nc\rd");
    }

    #[test]
    fn only_whole_colour_sequences_are_kept() {
        for (text, kept) in [
            ("a\x1b[31mb", "a\x1b[31mb"),
            ("\x1b[1;31mb\x1b[0m", "\x1b[1;31mb\x1b[0m"),
            ("\x1b[m", "\x1b[m"),
            ("a\x1b[31Hb", "a\u{fffd}[31Hb"),
            ("a\x1b[31", "a\u{fffd}[31"),
            ("a\x1b]0;t\x07b", "a\u{fffd}]0;t\u{fffd}b"),
            ("\x1b\x1b[31m", "\u{fffd}\x1b[31m"),
            ("a\x1b", "a\u{fffd}"),
        ] {
            assert_eq!(sanitize_lines(text, true), kept, "{text:?}");
            assert!(!sanitize_lines(text, false).contains('\x1b'));
        }
    }
}
