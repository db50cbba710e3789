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
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(input: R) -> Self {
        Self {
            input,
            bytes: Vec::new(),
            number: 0,
            read: 0,
        }
    }

    /// Reads the next line into `line`, and truncates it if it is too long. Returns `false` at the
    /// end.
    pub(super) fn next_into(&mut self, line: &mut String) -> io::Result<bool> {
        self.bytes.clear();
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
            let kept = used.min(LONGEST - self.bytes.len());
            self.bytes.extend_from_slice(&available[..kept]);
            self.input.consume(used);
            self.read += used as u64;
            if end.is_some() {
                break;
            }
        }
        line.clear();
        line.push_str(&String::from_utf8_lossy(&self.bytes));
        self.number += u64::from(is_any);
        Ok(is_any)
    }
}
