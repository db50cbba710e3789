//! Reads the lines of a text, limiting their length.

use std::io::{self, BufRead};

/// Maximum number of bytes of a line that are kept. The longest lines in traces have a few hundred
/// bytes.
const LONGEST: usize = 16_384;

/// The lines of a text.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    bytes: Vec<u8>,
    /// Number of the last line that was read, from 1.
    pub(super) number: u64,
    /// Number of bytes read so far.
    pub(super) read: u64,
    /// Whether the text is a mail in the encoding quoted-printable (RFC 2045).
    is_quoted: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(input: R) -> Self {
        Self {
            input,
            bytes: Vec::new(),
            number: 0,
            read: 0,
            is_quoted: false,
        }
    }

    /// Reads the next line into `line`, and truncates it if it is too long. Returns `false` at the
    /// end.
    pub(super) fn next_into(&mut self, line: &mut String) -> io::Result<bool> {
        self.bytes.clear();
        let mut is_any = self.read_line()?;
        self.is_quoted |= is_quoted(&self.bytes);
        // A `=` at the end of a line in this encoding continues the line.
        while (self.is_quoted || self.bytes.trim_ascii_end().len() == QUOTED_LINE)
            && strip_soft_break(&mut self.bytes)
        {
            is_any |= self.read_line()?;
        }
        self.is_quoted |= is_quoted(&self.bytes);
        if self.is_quoted {
            decode(&mut self.bytes);
        }
        line.clear();
        line.push_str(&String::from_utf8_lossy(&self.bytes));
        Ok(is_any)
    }

    /// Appends a line to `bytes`. Returns `false` at the end.
    fn read_line(&mut self) -> io::Result<bool> {
        let mut is_any = false;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break;
            }
            is_any = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(available.len(), |end| end + 1);
            let kept = used.min(LONGEST.saturating_sub(self.bytes.len()));
            self.bytes.extend_from_slice(&available[..kept]);
            self.input.consume(used);
            self.read += used as u64;
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(is_any);
        Ok(is_any)
    }
}

/// Length of a line with a soft line break in mails that fill their lines (RFC 2045, section 6.7).
const QUOTED_LINE: usize = 76;

/// Returns whether each `=` of a line begins an escape, and at least one is the escape of `=`.
fn is_quoted(line: &[u8]) -> bool {
    let escapes = memchr_all(line);
    let is_escape = |at: usize| {
        line.get(at + 1..at + 3)
            .is_some_and(|two| byte_of(two).is_some())
    };
    let is_break = |at: usize| line[at + 1..].trim_ascii().is_empty();
    let mut any = false;
    for at in escapes {
        any |= line.get(at + 1..at + 3) == Some(b"3D");
        if !is_escape(at) && !is_break(at) {
            return false;
        }
    }
    any
}

fn memchr_all(line: &[u8]) -> impl Iterator<Item = usize> + '_ {
    line.iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'=')
        .map(|(at, _)| at)
}

/// Parses two upper-case hexadecimal digits.
fn byte_of(digits: &[u8]) -> Option<u8> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    match digits {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    }
}

/// Removes a `=` and a line feed at the end. Returns whether they were there.
fn strip_soft_break(line: &mut Vec<u8>) -> bool {
    let end = line
        .strip_suffix(b"=\r\n")
        .or_else(|| line.strip_suffix(b"=\n"));
    let Some(length) = end.map(<[u8]>::len) else {
        return false;
    };
    line.truncate(length);
    true
}

/// Replaces the escapes by their bytes.
fn decode(line: &mut Vec<u8>) {
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = &line[..];
    while let Some((byte, after)) = rest.split_first() {
        let escaped = (*byte == b'=').then(|| byte_of(after.get(..2)?)).flatten();
        plain.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() {
            &after[2..]
        } else {
            after
        };
    }
    *line = plain;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let mut lines = Lines::new(text.as_bytes());
        let (mut all, mut line) = (Vec::new(), String::new());
        while lines.next_into(&mut line).unwrap() {
            all.push(line.trim_end().to_owned());
        }
        all
    }

    #[test]
    fn quoted_printable_is_decoded() {
        let text = "a: prev_comm=3Da prev_pid=3D7 =\nnext_comm=3Db\n =3D> f\n";
        assert_eq!(
            lines(text),
            ["a: prev_comm=a prev_pid=7 next_comm=b", " => f"]
        );
        let plain = "a: prev_comm=a ptr=3D=\nnext";
        assert_eq!(lines(plain), ["a: prev_comm=a ptr=3D=", "next"]);
    }
}
