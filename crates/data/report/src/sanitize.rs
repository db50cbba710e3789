//! Text from other sources, shortened and escaped for the output format.

pub(crate) use punctual_model::sanitize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the width of `text` in terminal columns.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Shortens `text` to at most `columns` terminal columns. If something was cut, the last column is
/// `…`.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut used = 0;
    let mut short: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used < columns
        })
        .collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// Returns `text` as one line without control characters.
pub(crate) fn plain_line(text: &str) -> String {
    let words: Vec<&str> = text.split(['\n', '\r', '\t']).collect();
    sanitize(&words.join(" ")).trim().to_owned()
}

/// Appends `text` to an XML document, escaped for element content and double-quoted attributes.
pub(crate) fn push_xml(out: &mut String, text: &str) {
    for c in sanitize(text).chars() {
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
    fn long_text_is_cut_with_a_mark() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcde…");
        assert_eq!(shorten("abcd efg", 6), "abcd…");
        assert_eq!(shorten("abc", 0), "…");
        // A wide character takes two columns.
        assert_eq!(shorten("測定結果", 6), "測定…");
    }

    #[test]
    fn markup_is_escaped() {
        let mut out = String::new();
        push_xml(&mut out, "<script>\"]]>'&");
        assert_eq!(out, "&lt;script&gt;&quot;]]&gt;&#39;&amp;");
    }
}
