//! A file that is being read.

use std::fmt;
use std::io::{Cursor, ErrorKind, Read};

use punctual_model::{Nanos, Recording};

use super::head::{Head, shown};
use super::pasted::Pasted;
use super::text::{is_prompt, plain};
use super::{ImportError, Location, Malformed};

/// Usual number of bytes read at once.
const BLOCK: usize = 256 * 1024;

/// Maximum length of a line. A histogram row of 8192 CPUs takes less than 100 KiB.
const LONGEST_LINE: usize = 1024 * 1024;

/// Maximum size of a file that is read as a whole. JSON files are small, because they contain
/// histograms instead of samples.
const WHOLE: usize = 64 * 1024 * 1024;

/// A file that is being read. It is buffered in memory that does not grow with the file, and it
/// keeps track of the location for messages.
pub struct Source<'a> {
    name: String,
    input: Box<dyn Read + 'a>,
    recognised: fn(&Head<'_>) -> bool,
    buffer: Vec<u8>,
    /// Start of the unused part of the buffer.
    start: usize,
    end: usize,
    /// Whether the input has ended.
    ended: bool,
    /// Whether the first bytes have been examined.
    begun: bool,
    /// Number of bytes before the buffer.
    before: u64,
    /// Number of lines returned.
    line: u64,
    /// Parts to strip from each line; `None` if this has not been determined yet.
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
    /// Creates a source. `recognised` returns whether a format has this beginning.
    pub(super) fn with_recogniser(
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

    /// Returns the first bytes without consuming them, stripped of quotation marks, indentation and
    /// words above the header.
    ///
    /// # Errors
    /// Returns [`ImportError::Read`] if reading fails.
    pub(crate) fn bare_head(&mut self) -> Result<Vec<u8>, ImportError> {
        let pasted = self.pasted()?;
        let head = self.head()?;
        Ok(match pasted {
            Some(pasted) => pasted.head(&head),
            None => {
                // The last line may be incomplete, and the missing rest may contain other figures.
                let last = head.bytes.iter().rposition(|byte| *byte == b'\n');
                let end = last.map_or(0, |last| last + 1);
                head.bytes[..if head.whole { head.bytes.len() } else { end }].to_vec()
            }
        })
    }

    /// Returns the unit given by the user.
    pub(crate) fn unit(&self) -> Option<Nanos> {
        self.unit
    }

    /// Returns the whole input. Must be called at the beginning, or after [`head`](Self::head).
    pub fn into_input(self) -> Box<dyn Read + 'a> {
        let mut read = self.buffer;
        read.truncate(self.end);
        Box::new(Cursor::new(read).chain(self.input))
    }

    /// Returns the name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of bytes consumed.
    pub fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Returns the number of lines consumed, which is also the number of the last one.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the first bytes without consuming them. Must be called at the beginning.
    ///
    /// # Errors
    /// Returns [`ImportError::Read`] if reading fails.
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

    /// Passes each line to `take`, without white space at its ends.
    ///
    /// # Errors
    /// Returns any error of [`next_line`](Self::next_line), any error of `take` (with the line
    /// number), and an error for a truncated last line.
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

    /// Reads a file as one recording. Collects each line with `line`, and makes the recording at
    /// the end.
    ///
    /// # Errors
    /// Same as [`whole_lines`](Self::whole_lines), and any error of `recording`.
    pub(crate) fn whole_text<T: Default>(
        &mut self,
        line: impl Fn(&mut T, &str) -> Result<(), Malformed>,
        recording: impl FnOnce(T, &Self) -> Result<Recording, Malformed>,
    ) -> Result<Recording, ImportError> {
        let mut text = T::default();
        self.whole_lines(|one| line(&mut text, one))?;
        recording(text, self).map_err(|reason| self.bad_at(Location::Whole, reason))
    }

    /// Returns the next line without its end (`\n` or `\r\n`), and whether it had one. Returns
    /// `None` at the end of the file. A last line without an end may be truncated; it is up to the
    /// reader to decide.
    ///
    /// # Errors
    /// Returns [`ImportError::Read`] if reading fails, and an error for a line longer than 1 MiB.
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
                    "the line is longer than {LONGEST_LINE} bytes, so the file does not have this \
                     format"
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

    /// Returns the parts to strip from each line, derived from the first bytes.
    #[inline]
    pub(super) fn pasted(&mut self) -> Result<Option<Pasted>, ImportError> {
        match self.pasted {
            Some(pasted) => Ok(pasted),
            None => {
                let recognised = self.recognised;
                let pasted = Pasted::from_head(&self.head()?, recognised);
                self.pasted = Some(pasted);
                Ok(pasted)
            }
        }
    }

    /// Returns the buffered part of the file: at least `least` bytes unless the file ends earlier,
    /// and nothing at the end. This is meant for records of fixed size. Afterwards, call
    /// [`consume`](Self::consume) with the number of bytes used.
    ///
    /// # Errors
    /// Returns [`ImportError::Read`] if reading fails.
    #[inline]
    pub fn block(&mut self, least: usize) -> Result<&[u8], ImportError> {
        self.pasted()?;
        while self.end - self.start < least.min(BLOCK) && !self.ended {
            self.fill()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Consumes `bytes` of the result of [`block`](Self::block).
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Consumes `lines` whole lines, which are `bytes` bytes of the result of
    /// [`block`](Self::block).
    #[inline]
    pub fn consume_lines(&mut self, bytes: usize, lines: u64) {
        self.consume(bytes);
        self.line += lines;
    }

    /// Returns the rest of the file, for formats that are read as a whole.
    ///
    /// # Errors
    /// Returns [`ImportError::Read`] if reading fails, and an error if there are more than 64 MiB.
    pub fn rest(&mut self) -> Result<Vec<u8>, ImportError> {
        let mut rest = self.buffer[self.start..self.end].to_vec();
        self.start = self.end;
        while !self.ended {
            self.fill()?;
            rest.extend_from_slice(&self.buffer[self.start..self.end]);
            self.start = self.end;
            if rest.len() > WHOLE {
                let reason = format!(
                    "the file is larger than {} MiB, so it does not have this format",
                    WHOLE >> 20
                );
                return Err(self.bad_at(Location::Whole, reason));
            }
        }
        Ok(rest)
    }

    /// Reads more bytes into the buffer. Skips a UTF-8 byte order mark at the beginning, which some
    /// editors write.
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

    /// Creates the error for an invalid last line.
    #[cold]
    pub fn bad(&self, reason: impl fmt::Display) -> ImportError {
        let place = match self.line {
            0 => Location::Whole,
            line => Location::Line(line),
        };
        self.bad_at(place, reason)
    }

    /// Creates the error for a problem at `place`.
    #[cold]
    pub fn bad_at(&self, place: Location, reason: impl fmt::Display) -> ImportError {
        ImportError::Bad {
            file: self.name.clone(),
            location: place,
            reason: fit_for_a_terminal(&reason.to_string()),
        }
    }

    /// Creates the error for a sink that did not accept the samples.
    #[cold]
    pub fn not_kept(&self, source: std::io::Error) -> ImportError {
        ImportError::Sink {
            file: self.name.clone(),
            source,
        }
    }
}

/// Returns a line without white space and colours at its ends.
fn plain_text(line: &str) -> &str {
    std::str::from_utf8(plain(line.as_bytes())).unwrap_or(line.trim())
}

/// Makes a reason suitable for a terminal, because it may quote the file. The result has no control
/// characters, and at most a few lines.
fn fit_for_a_terminal(reason: &str) -> String {
    const MOST: usize = 400;
    let mut fit = String::with_capacity(reason.len().min(MOST));
    for character in reason.chars() {
        if fit.len() >= MOST {
            fit.push('…');
            break;
        }
        if character.is_control() {
            fit.extend(character.escape_default())
        } else {
            fit.push(character)
        }
    }
    fit
}

/// A line of a [`Source`].
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The line without its end.
    pub bytes: &'a [u8],
    /// Whether it had a line end.
    pub complete: bool,
}

impl<'a> Line<'a> {
    /// Returns its text.
    pub fn text(&self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }

    /// Returns its beginning for a message.
    pub fn shown(&self) -> String {
        shown(self.bytes)
    }
}
