//! Text from elsewhere, cut and escaped for what it is shown in.

pub(crate) use punctual_model::sanitize as clean;

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
