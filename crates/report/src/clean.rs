//! Text that came from elsewhere, made harmless.

use std::borrow::Cow;

/// Stands for a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// One line of text without anything that a terminal, an XML reader or the eye
/// could be misled by.
///
/// Line ends and tabs become spaces. Control characters (a terminal obeys
/// them), the ones that turn the direction of writing (they show text in
/// another order than it is) and the ones XML 1.0 does not allow become U+FFFD.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| cleaned(c) == c) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(cleaned).collect())
}

fn cleaned(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => REPLACEMENT,
        '\u{fffe}' | '\u{ffff}' => REPLACEMENT,
        c if c.is_control() => REPLACEMENT,
        c => c,
    }
}

/// At most `width` characters, the last of them `…` where something was cut.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// Appends `text` to an XML document, escaped for element content and for
/// attributes in double quotes.
pub(crate) fn push_xml(out: &mut String, text: &str) {
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_misleads_is_replaced() {
        assert_eq!(clean("plain µ text"), "plain µ text");
        assert_eq!(clean("a\x1b[31mb"), "a\u{fffd}[31mb");
        assert_eq!(clean("a\nb\tc\u{9b}d"), "a b c\u{fffd}d");
        assert_eq!(clean("abc\u{202e}fed"), "abc\u{fffd}fed");
    }

    #[test]
    fn long_text_is_cut_with_a_mark() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcde…");
        assert_eq!(shorten("abcd efg", 6), "abcd…");
        assert_eq!(shorten("abc", 0), "…");
    }

    #[test]
    fn markup_is_escaped() {
        let mut out = String::new();
        push_xml(&mut out, "<script>\"]]>'&");
        assert_eq!(out, "&lt;script&gt;&quot;]]&gt;&#39;&amp;");
    }
}
