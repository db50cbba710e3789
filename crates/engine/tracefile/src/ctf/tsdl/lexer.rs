//! Divides the text of the metadata into words, numbers and signs.

/// A word of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Number(i128),
    Text(String),
    /// `{ } ( ) [ ] < > ; , . :`, `=`, `:=` and `...`.
    Sign(&'static str),
}

const SIGNS: [&str; 14] = [
    ":=", "...", "{", "}", "(", ")", "[", "]", "<", ">", ";", ",", ".", ":",
];

/// Returns the tokens and the number of the line of each.
///
/// # Errors
/// Returns the number and the rest of the line that cannot be divided.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, u32)>, (u32, String)> {
    let mut all = Vec::new();
    let (mut rest, mut line) = (text, 1);
    loop {
        let trimmed = rest.trim_start();
        line += lines(rest.get(..rest.len() - trimmed.len()));
        rest = trimmed;
        if rest.is_empty() {
            return Ok(all);
        }
        let skipped = comment(rest);
        if skipped > 0 {
            line += lines(rest.get(..skipped));
            rest = rest.get(skipped..).unwrap_or_default();
            continue;
        }
        let Some((token, size)) = token(rest) else {
            return Err((line, rest.lines().next().unwrap_or_default().to_owned()));
        };
        all.push((token, line));
        line += lines(rest.get(..size));
        rest = rest.get(size..).unwrap_or_default();
    }
}

fn lines(text: Option<&str>) -> u32 {
    text.unwrap_or_default().matches('\n').count() as u32
}

/// Returns the size of the comment at the beginning, or 0.
fn comment(text: &str) -> usize {
    if text.starts_with("//") {
        text.find('\n').unwrap_or(text.len())
    } else if text.starts_with("/*") {
        text.find("*/").map_or(text.len(), |end| end + 2)
    } else {
        0
    }
}

/// Returns the token at the beginning, and its size in bytes.
fn token(text: &str) -> Option<(Token, usize)> {
    let first = text.chars().next()?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if first == '"' {
        return quoted(text);
    }
    if first.is_ascii_digit() || first == '-' {
        let digits = text.get(1..)?.find(|c: char| !is_word(c));
        let size = digits.map_or(text.len(), |size| size + 1);
        return Some((Token::Number(number(text.get(..size)?)?), size));
    }
    if is_word(first) {
        let size = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
        return Some((Token::Word(text.get(..size)?.to_owned()), size));
    }
    if first == '=' {
        return Some((Token::Sign("="), 1));
    }
    let sign = SIGNS.iter().find(|sign| text.starts_with(**sign))?;
    Some((Token::Sign(sign), sign.len()))
}

fn quoted(text: &str) -> Option<(Token, usize)> {
    let mut content = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((Token::Text(content), at + 1)),
            '\\' => content.push(match letters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => content.push(other),
        }
    }
    None
}

fn number(text: &str) -> Option<i128> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let parsed = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    let value = i128::from(parsed.ok()?);
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_line() {
        let text = "a.b := 0x1F; // end\n/* two\nlines */ \"q\\\"\" = -7;";
        let all = tokens(text).unwrap();
        let line_of = |token: &Token| {
            all.iter()
                .find(|(of, _)| of == token)
                .map(|(_, line)| *line)
        };
        assert_eq!(line_of(&Token::Number(31)), Some(1));
        assert_eq!(line_of(&Token::Text("q\"".to_owned())), Some(3));
        assert_eq!(line_of(&Token::Number(-7)), Some(3));
        assert_eq!(tokens("a\n  \u{b5}s"), Err((2, "\u{b5}s".to_owned())));
        assert_eq!(tokens("\"open").unwrap_err().0, 1);
    }
}
