//! Converts Markdown marks in help texts to fonts of roff(7).

/// Formats `code` and **strong** in bold, and *emphasis* in italics. The line must already be
/// escaped for roff.
pub(super) fn fonts(line: &str) -> String {
    replaced(line, &|mark, inside| match mark {
        "*" => format!("\\fI{inside}\\fR"),
        _ => format!("\\fB{inside}\\fR"),
    })
}

/// Returns the line without its marks.
pub(super) fn plain(line: &str) -> String {
    replaced(line, &|_, inside| inside.to_owned())
}

/// Replaces each pair of marks and the text between them with the result of `by`.
fn replaced(line: &str, by: &dyn Fn(&str, &str) -> String) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let mut rest = line;
    while let Some(at) = rest.find(['`', '*']) {
        let (before, marked) = rest.split_at(at);
        out.push_str(before);
        let mark = if marked.starts_with("**") {
            "**"
        } else {
            &marked[..1]
        };
        let inside = &marked[mark.len()..];
        match inside
            .find(mark)
            .filter(|end| is_pair(mark, before, inside, *end))
        {
            Some(end) => {
                out.push_str(&by(mark, &inside[..end]));
                rest = &inside[end + mark.len()..];
            }
            None => {
                out.push_str(mark);
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns whether two marks form a pair. A `*` can also be part of a name, or of a roff escape
/// that begins with a backslash.
fn is_pair(mark: &str, before: &str, inside: &str, end: usize) -> bool {
    let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    mark != "*"
        || (!before.ends_with(|c: char| c == '\\' || c.is_alphanumeric())
            && word(inside.chars().next())
            && word(inside[..end].chars().next_back()))
}

/// Escapes text so that roff prints it unchanged, even at the start of a line.
pub(super) fn escaped(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_fonts() {
        assert_eq!(
            fonts("**Bold**: `code` and *this*."),
            "\\fBBold\\fR: \\fBcode\\fR and \\fIthis\\fR."
        );
        // Marks without a counterpart must stay unchanged: names with asterisks, escapes, and
        // single marks.
        for same in ["irq*=0, state*/disable", "kernel\\*(Aqs own*", "a ` b"] {
            assert_eq!(fonts(same), same);
        }
        assert_eq!(
            plain("until `punctual tune revert`"),
            "until punctual tune revert"
        );
    }
}
