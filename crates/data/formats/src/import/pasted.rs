//! Text copied from mails, reports and documentation. It may be quoted, indented, preceded by a
//! shell prompt or other words, or taken from a log with a time before each line.

use super::head::Head;
use super::log_prefix::without_prefix;
use super::text::{is_other_line, plain};

/// Parts to strip from a text before reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pasted {
    /// Number of the first line that was written by a tool, starting at 1. Lines above it are
    /// dropped, unless the tools write them in addition to their figures.
    header: u64,
    markers: Markers,
}

/// What to strip from around each line. Each variant includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Markers {
    /// Indentation and quotation marks.
    Quotes,
    /// Colours.
    Colours,
    /// The prefix of a log.
    Prefix,
}

impl Markers {
    const ALL: [Self; 3] = [Self::Quotes, Self::Colours, Self::Prefix];

    fn strip(self, line: &[u8]) -> &[u8] {
        let bare = unquoted(line);
        match self {
            Self::Quotes => bare,
            Self::Colours => plain(bare),
            Self::Prefix => {
                let bare = plain(bare);
                plain(unquoted(without_prefix(bare).unwrap_or(bare)))
            }
        }
    }
}

impl Pasted {
    /// Determines the parts to strip from a file with this beginning. `recognised` finds the first
    /// line of its format. Returns `None` if there is nothing to strip.
    pub(crate) fn from_head(head: &Head<'_>, recognised: fn(&Head<'_>) -> bool) -> Option<Self> {
        let alone = |bytes: &[u8]| recognised(&Head { bytes, whole: true });
        // JSON and XML are not pasted line by line.
        if head.bytes.contains(&0) || head.begins_with(b'{') || head.begins_with(b'<') {
            return None;
        }
        let mut stray = false;
        for (header, line) in (1..).zip(head.lines()) {
            let raw = line.as_bytes();
            if alone(raw) {
                let marks = Markers::Quotes;
                return stray.then_some(Self {
                    header,
                    markers: marks,
                });
            }
            let stripped = Markers::ALL.map(|marks| (marks, marks.strip(raw)));
            let found = stripped
                .iter()
                .find(|(_, bare)| *bare != raw && alone(bare));
            if let Some((marks, _)) = found {
                let marks = *marks;
                return Some(Self {
                    header,
                    markers: marks,
                });
            }
            stray |= !is_kept(Markers::Prefix.strip(raw));
        }
        None
    }

    /// Returns line `number` after stripping.
    pub(crate) fn line<'a>(&self, number: u64, line: &'a [u8]) -> &'a [u8] {
        let bare = self.markers.strip(line);
        if number >= self.header || is_kept(bare) {
            bare
        } else {
            &[]
        }
    }

    /// Returns a head after stripping. The lines keep their numbers.
    pub(crate) fn head(&self, head: &Head<'_>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(head.bytes.len());
        for (number, line) in (1..).zip(head.lines()) {
            bytes.extend_from_slice(self.line(number, line.as_bytes()));
            bytes.push(b'\n');
        }
        bytes
    }
}

/// Returns whether a line above the header belongs to the run, even if it is a damaged line of
/// figures.
fn is_kept(line: &[u8]) -> bool {
    let line = plain(line);
    is_other_line(line) || line.starts_with(b"Thread ") || line.starts_with(b"T:")
}

/// Removes indentation and quotation marks (`> > `) from a line.
fn unquoted(mut line: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'>', rest @ ..] = line {
        line = rest;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::Source;
    use crate::import::testing::read_recognised;

    const TITLE: &str = "Hello,\n\nthis is what I see:\n";

    /// A pasted text gives the same result as the original text.
    #[test]
    fn pasted_text_imports_like_original() {
        for (name, text) in [
            (
                "hist",
                include_str!("../../tests/fixtures/cyclictest-2.4-h400.txt"),
            ),
            (
                "lines",
                include_str!("../../tests/fixtures/cyclictest-2.4-lines.txt"),
            ),
            (
                "samples",
                include_str!("../../tests/fixtures/cyclictest-2.4-verbose.txt"),
            ),
            (
                "pairs",
                include_str!("../../tests/fixtures/pmqtest-2.4-lines.txt"),
            ),
            (
                "rtla",
                include_str!("../../tests/fixtures/rtla-6.1-timerlat-hist.txt"),
            ),
            (
                "osnoise",
                include_str!("../../tests/fixtures/rtla-6.1-osnoise-hist.txt"),
            ),
            ("oslat", include_str!("../../tests/fixtures/oslat-2.10.txt")),
            (
                "osnoise top",
                include_str!("../../tests/fixtures/rtla-osnoise-top-live.txt"),
            ),
            (
                "timerlat top",
                include_str!("../../tests/fixtures/rtla-timerlat-top.txt"),
            ),
            (
                "hwlat",
                include_str!("../../tests/fixtures/hwlat-trace.txt"),
            ),
            (
                "perf sched",
                include_str!("../../tests/fixtures/perf-sched-latency.txt"),
            ),
            (
                "LinuxCNC",
                include_str!("../../tests/fixtures/linuxcnc-latency-histogram.txt"),
            ),
            (
                "hgrm",
                include_str!("../../tests/fixtures/hdrhistogram.hgrm"),
            ),
            (
                "hlog",
                include_str!("../../tests/fixtures/hdrhistogram.hlog"),
            ),
        ] {
            let known = read_recognised(text.as_bytes()).unwrap();
            let each = |mark: &str| -> String {
                let lines = text.lines().map(|line| format!("{mark}{line}\n"));
                lines.collect()
            };
            for (way, pasted) in [
                ("indented", each("    ")),
                ("by tabs", each("\t")),
                ("quoted", each("> > ")),
                ("in a mail", format!("{TITLE}{}", each("> "))),
                ("at a prompt", format!("user@host:~$ sudo tool -q\n{text}")),
                ("above a prompt", format!("{text}user@host:~$ ")),
                ("above words", format!("{text}\nWhy is it so late?\n")),
                ("in a log of CI", each("2026-05-04T10:11:00.3456789Z ")),
                ("in a journal", each("May 04 10:11:00 bench tool[123]: ")),
                ("in the kernel's log", each("[   12.345678] ")),
                ("in dmesg -T", each("[Mon May  4 10:11:00 2026] ")),
                ("in gh run view", each("job\tstep\t2026-05-04T10:11:00.3Z ")),
                (
                    "in a journal's ISO format",
                    each("2026-05-04T10:11:00+0200 bench tool[1]: "),
                ),
                ("in colour", {
                    let lines = text
                        .lines()
                        .map(|line| format!("\x1b[36;1m{line}\x1b[0m\n"));
                    lines.collect()
                }),
            ] {
                let read = read_recognised(pasted.as_bytes());
                let read = read.unwrap_or_else(|error| panic!("{name} {way}: {error}"));
                assert!(read.threads == known.threads, "{name} {way}");
                assert_eq!(read.warnings, known.warnings, "{name} {way}");
            }
        }
    }

    #[test]
    fn original_text_is_left_unchanged() {
        let of = |text: &'static str| {
            let mut source = Source::new("file", text.as_bytes());
            source.pasted().unwrap()
        };
        assert_eq!(of("       0:       0:      27\n"), None);
        assert_eq!(
            of(
                "policy: fifo: loadavg: 0.1\n\nT: 0 ( 1) P:95 I:200 C:      2 Min:      6 Act:    7 Avg:    7 Max:       9\n"
            ),
            None
        );
        assert_eq!(of("{\n# Histogram\n"), None);
        assert_eq!(of("nothing of it\n"), None);
        let header = |header| {
            let marks = Markers::Quotes;
            Some(Pasted {
                header,
                markers: marks,
            })
        };
        assert_eq!(of("$ cyclictest -h3\n# Histogram\n"), header(2));
        assert_eq!(of("> # Histogram\n"), header(1));
    }

    #[test]
    fn errors_name_the_line_of_the_file() {
        let text = format!("{TITLE}> # Histogram\n> 000001 000002\n> 000001 000002\n");
        let error = read_recognised(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(":6:"), "{error}");
    }
}
