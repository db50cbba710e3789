//! A file while it is read.

use std::fmt;
use std::io::{ErrorKind, Read};

use punctual_model::Nanos;

use super::head::{Head, shown};
use super::pasted::Pasted;
use super::text::{is_prompt, plain};
use super::{ImportError, Malformed, Place};

/// The usual amount that is read at once.
const BLOCK: usize = 256 * 1024;

/// The longest line: a histogram's row of 8192 CPUs takes less than 100 KiB.
const LONGEST_LINE: usize = 1024 * 1024;

/// The most that is read as a whole: JSON files hold histograms, not samples.
const WHOLE: usize = 64 * 1024 * 1024;

/// A file while it is read: buffered, in memory that does not grow
/// with it, with the place for messages.
pub struct Source<'a> {
    name: String,
    input: Box<dyn Read + 'a>,
    recognised: fn(&Head<'_>) -> bool,
    buffer: Vec<u8>,
    /// What of the buffer is not used yet.
    start: usize,
    end: usize,
    /// The input has ended.
    ended: bool,
    /// The first bytes were examined.
    begun: bool,
    /// Bytes before the buffer.
    before: u64,
    /// Lines that were handed out.
    line: u64,
    /// What is stripped from each line; `None`: not examined yet.
    pasted: Option<Option<Pasted>>,
    /// The unit given by the user, for files without one.
    unit: Option<Nanos>,
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("line", &self.line)
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

impl<'a> Source<'a> {
    /// `recognised`: whether a format has this beginning.
    pub(super) fn of(
        name: String,
        input: Box<dyn Read + 'a>,
        recognised: fn(&Head<'_>) -> bool,
    ) -> Self {
        Self {
            name,
            input,
            recognised,
            buffer: vec![0; BLOCK],
            start: 0,
            end: 0,
            ended: false,
            begun: false,
            before: 0,
            line: 0,
            pasted: None,
            unit: None,
        }
    }

    /// Sets the unit for files without one: 1 ns or 1 µs.
    pub fn with_unit(self, unit: Option<Nanos>) -> Self {
        Self { unit, ..self }
    }

    /// The first bytes as they are read: without quotation, indentation and words
    /// above the header; without taking them.
    ///
    /// # Errors
    /// [`ImportError::Read`].
    pub(crate) fn bare_head(&mut self) -> Result<Vec<u8>, ImportError> {
        let pasted = self.pasted()?;
        let head = self.head()?;
        Ok(match pasted {
            Some(pasted) => pasted.head(&head),
            None => {
                // A line that goes on behind the first bytes may hold other figures.
                let last = head.bytes.iter().rposition(|byte| *byte == b'\n');
                let end = last.map_or(0, |last| last + 1);
                head.bytes[..if head.whole { head.bytes.len() } else { end }].to_vec()
            }
        })
    }

    /// The unit given by the user.
    pub(crate) fn unit(&self) -> Option<Nanos> {
        self.unit
    }

    /// Name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that were handed out.
    pub fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Lines that were handed out: the number of the last one.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The first bytes, without taking them; for the beginning.
    ///
    /// # Errors
    /// [`ImportError::Read`].
    pub fn head(&mut self) -> Result<Head<'_>, ImportError> {
        while self.end - self.start < Head::LENGTH && !self.ended {
            self.fill()?;
        }
        let bytes = &self.buffer[self.start..self.end];
        Ok(Head {
            bytes: &bytes[..bytes.len().min(Head::LENGTH)],
            whole: self.ended && bytes.len() <= Head::LENGTH,
        })
    }

    /// Gives each line to `take`, without the blanks at its ends.
    ///
    /// # Errors
    /// Those of [`next_line`](Self::next_line); what `take` refuses, with the number of
    /// the line; a last line that was cut off.
    pub(crate) fn whole_lines(
        &mut self,
        mut take: impl FnMut(&str) -> Result<(), Malformed>,
    ) -> Result<(), ImportError> {
        while let Some(line) = self.next_line()? {
            let (text, complete) = (line.text().into_owned(), line.complete);
            let result = match complete || text.trim().is_empty() {
                true => take(plain_text(&text)),
                false if is_prompt(text.as_bytes()) => Ok(()),
                false => Err(Malformed::LineTruncated),
            };
            result.map_err(|reason| self.bad(reason))?;
        }
        Ok(())
    }

    /// The next line without its end (`\n` or `\r\n`), and whether it had one;
    /// `None` at the end of the file. A last line without end may be cut off:
    /// that is for the reader to judge.
    ///
    /// # Errors
    /// [`ImportError::Read`]; a line beyond 1 MiB.
    #[inline]
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, ImportError> {
        let pasted = self.pasted()?;
        let bare = |number: u64, bytes| match pasted {
            Some(pasted) => pasted.line(number, bytes),
            None => bytes,
        };
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.start + searched..self.end];
            if let Some(place) = memchr::memchr(b'\n', rest) {
                let (from, length) = (self.start, searched + place);
                self.start += length + 1;
                self.line += 1;
                let bytes = &self.buffer[from..from + length];
                return Ok(Some(Line {
                    bytes: bare(self.line, bytes.strip_suffix(b"\r").unwrap_or(bytes)),
                    complete: true,
                }));
            }
            searched = self.end - self.start;
            if self.ended {
                break;
            }
            if searched > LONGEST_LINE {
                self.line += 1;
                return Err(self.bad(format!(
                    "the line is longer than {LONGEST_LINE} bytes: not a file of this format"
                )));
            }
            self.fill()?;
        }
        if searched == 0 {
            return Ok(None);
        }
        let from = std::mem::replace(&mut self.start, self.end);
        self.line += 1;
        Ok(Some(Line {
            bytes: bare(self.line, &self.buffer[from..self.end]),
            complete: false,
        }))
    }

    /// What is stripped from each line, derived from the first bytes.
    #[inline]
    pub(super) fn pasted(&mut self) -> Result<Option<Pasted>, ImportError> {
        match self.pasted {
            Some(pasted) => Ok(pasted),
            None => {
                let recognised = self.recognised;
                let pasted = Pasted::of(&self.head()?, recognised);
                self.pasted = Some(pasted);
                Ok(pasted)
            }
        }
    }

    /// What is there of the file, at least `least` bytes unless it ends before:
    /// for records of fixed size. Nothing at its end. Whoever reads it says how
    /// much was used with [`consume`](Self::consume).
    ///
    /// # Errors
    /// [`ImportError::Read`].
    #[inline]
    pub fn block(&mut self, least: usize) -> Result<&[u8], ImportError> {
        self.pasted()?;
        while self.end - self.start < least.min(BLOCK) && !self.ended {
            self.fill()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Takes `bytes` of what [`block`](Self::block) showed.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Takes `lines` whole lines, `bytes` long, of what [`block`](Self::block)
    /// showed.
    #[inline]
    pub fn consume_lines(&mut self, bytes: usize, lines: u64) {
        self.consume(bytes);
        self.line += lines;
    }

    /// All that is left, for formats that are read as a whole.
    ///
    /// # Errors
    /// [`ImportError::Read`]; more than 64 MiB.
    pub fn rest(&mut self) -> Result<Vec<u8>, ImportError> {
        let mut rest = self.buffer[self.start..self.end].to_vec();
        self.start = self.end;
        while !self.ended {
            self.fill()?;
            rest.extend_from_slice(&self.buffer[self.start..self.end]);
            self.start = self.end;
            if rest.len() > WHOLE {
                let reason = format!(
                    "it is larger than {} MiB: not a file of this format",
                    WHOLE >> 20
                );
                return Err(self.bad_at(Place::Whole, reason));
            }
        }
        Ok(rest)
    }

    /// Reads once more, behind what is there. A mark of UTF-8 at the beginning, as
    /// some editors write it, is skipped.
    #[cold]
    fn fill(&mut self) -> Result<(), ImportError> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        self.fill_once()?;
        if !self.begun {
            while self.end < MARK.len() && !self.ended {
                self.fill_once()?;
            }
            self.begun = true;
            if self.buffer[..self.end].starts_with(MARK) {
                self.start = MARK.len();
            }
        }
        Ok(())
    }

    fn fill_once(&mut self) -> Result<(), ImportError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.before += self.start as u64;
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(2 * self.end, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    self.ended = read == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(ImportError::Read {
                        file: self.name.clone(),
                        offset: self.before + self.end as u64,
                        source,
                    });
                }
            }
        }
    }

    /// The error that the last line is not as it should be.
    #[cold]
    pub fn bad(&self, reason: impl fmt::Display) -> ImportError {
        let place = match self.line {
            0 => Place::Whole,
            line => Place::Line(line),
        };
        self.bad_at(place, reason)
    }

    /// The error that something is not as it should be at `place`.
    #[cold]
    pub fn bad_at(&self, place: Place, reason: impl fmt::Display) -> ImportError {
        ImportError::Bad {
            file: self.name.clone(),
            place,
            reason: fit_for_a_terminal(&reason.to_string()),
        }
    }

    /// The error that the sink did not take the samples.
    #[cold]
    pub fn not_kept(&self, source: std::io::Error) -> ImportError {
        ImportError::Sink {
            file: self.name.clone(),
            source,
        }
    }
}

/// A line without the blanks and colours at its ends.
fn plain_text(line: &str) -> &str {
    std::str::from_utf8(plain(line.as_bytes())).unwrap_or(line.trim())
}

/// A reason may quote the file: without terminal control characters, and no
/// longer than a few lines.
fn fit_for_a_terminal(reason: &str) -> String {
    const MOST: usize = 400;
    let mut fit = String::with_capacity(reason.len().min(MOST));
    for character in reason.chars() {
        if fit.len() >= MOST {
            fit.push('…');
            break;
        }
        match character.is_control() {
            true => fit.extend(character.escape_default()),
            false => fit.push(character),
        }
    }
    fit
}

/// A line of a [`Source`].
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Without its end.
    pub bytes: &'a [u8],
    /// Whether it had one.
    pub complete: bool,
}

impl<'a> Line<'a> {
    /// Its text.
    pub fn text(&self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }

    /// Its beginning, for a message.
    pub fn shown(&self) -> String {
        shown(self.bytes)
    }
}
