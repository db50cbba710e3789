//! Splits a line of a trace into the thread, CPU, flags, time and event.

use std::borrow::Cow;

use punctual_model::Nanos;

/// A line with an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Name of the buffer, which trace-cmd prints in front of the thread.
    pub(super) buffer: Option<&'a str>,
    /// Name of the thread; empty if the line does not contain it.
    pub(super) comm: &'a str,
    /// ID of the thread, if the line contains it.
    pub(super) pid: Option<u32>,
    /// Whether the thread is written as `comm-pid`, as tracefs and trace-cmd do.
    pub(super) has_dash: bool,
    /// The CPU, if the line contains it.
    pub(super) cpu: Option<u32>,
    /// The columns of flags, such as `dN.2.`.
    pub(super) flags: &'a str,
    /// The time.
    pub(super) time: Nanos,
    /// The unit of the last digit of `time`.
    pub(super) resolution: Nanos,
    /// Whether the time is counted from the first event (`options/latency-format`).
    pub(super) is_relative: bool,
    /// The event and its text.
    pub(super) rest: &'a str,
}

impl<'a> Line<'a> {
    /// Splits a line. Returns `None` if the line has no time, or if neither a thread nor a CPU
    /// precedes the time.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let stamp = Stamp::find(line)?;
        let before = line[..stamp.begin].trim_end();
        let (before, cpu, flags) = cpu_and_flags(before)?;
        let (buffer, before) = buffer(without_tgid(before));
        let thread = before
            .rsplit(char::is_whitespace)
            .next()
            .unwrap_or_default();
        let number = thread.rsplit('/').next().unwrap_or_default();
        let dashed = thread.rsplit_once('-').filter(|(comm, _)| !comm.is_empty());
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let (pid, has_dash) = match dashed {
            // If a comm contains a line feed, the start of the comm is on the previous line, and
            // this line begins with something like `-123`.
            _ if thread == before && thread.starts_with('-') && thread != "-1" => {
                (thread[1..].parse().ok(), true)
            }
            Some((_, pid)) => (pid.parse().ok(), true),
            None if is_number => (number.parse().ok(), false),
            None => (None, false),
        };
        let comm = match dashed {
            Some(_) => before.rsplit_once('-').map_or("", |(comm, _)| comm),
            None => before.strip_suffix(thread).unwrap_or_default(),
        };
        Some(Self {
            buffer,
            comm: comm.trim(),
            pid,
            has_dash,
            cpu,
            flags,
            time: stamp.time,
            resolution: stamp.resolution,
            is_relative: stamp.is_relative,
            rest: &line[stamp.end..],
        })
    }
}

/// A time in a line, which is followed by a colon.
struct Stamp {
    begin: usize,
    end: usize,
    time: Nanos,
    resolution: Nanos,
    is_relative: bool,
}

impl Stamp {
    /// Finds the first word of the form `51973.872574:`, `51973.872574404:` or `174373us+:`.
    fn find(line: &str) -> Option<Self> {
        let bytes = line.as_bytes();
        line.match_indices(':').find_map(|(colon, _)| {
            if !matches!(bytes.get(colon + 1), None | Some(b' ' | b'\t')) {
                return None;
            }
            let before = &line[..colon];
            let (word, is_relative) = match micros(before) {
                Some(word) => (word, true),
                None => (before, false),
            };
            let begin = word.rfind([' ', '\t']).map_or(0, |space| space + 1);
            let (time, resolution) = if is_relative {
                let micros = whole(&word[begin..])?;
                (Nanos(micros.checked_mul(1_000)?), Nanos(1_000))
            } else {
                seconds(&word[begin..])?
            };
            Some(Self {
                begin,
                end: colon + 1,
                time,
                resolution,
                is_relative,
            })
        })
    }
}

/// Returns whether the time of a line is a whole number, as with the clocks `counter` and `x86-tsc`:
/// `<idle>-0     [001] d..2. 90714: sched_switch: prev_comm=swapper/1`.
pub(super) fn is_without_unit(line: &str) -> bool {
    let Some((_, rest)) = line
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
    else {
        return false;
    };
    let mut words = rest.split_whitespace();
    let time = words.find(|word| word.ends_with(':'));
    let time = time.and_then(|word| whole(&word[..word.len() - 1]));
    time.is_some()
        && words
            .next()
            .is_some_and(|event| event.starts_with("sched_") && event.ends_with(':'))
}

/// Returns the number before `us`. After `us`, the kernel prints a character that indicates the
/// delay to the next event (`trace_print_lat_context`).
fn micros(text: &str) -> Option<&str> {
    let text = text.strip_suffix([' ', '+', '!', '#', '*', '@', '$'])?;
    text.strip_suffix("us")
}

pub(super) fn whole(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Parses a number of seconds with three to nine decimals. Also returns the unit of the last
/// decimal.
pub(super) fn seconds(text: &str) -> Option<(Nanos, Nanos)> {
    let (seconds, decimals) = text.split_once('.')?;
    if !(3..=9).contains(&decimals.len()) {
        return None;
    }
    let unit = 10_u64.pow(9 - decimals.len() as u32);
    let nanos = whole(seconds)?.checked_mul(1_000_000_000)?;
    let nanos = nanos.checked_add(whole(decimals)? * unit)?;
    Some((Nanos(nanos), Nanos(unit)))
}

/// Splits off `[001] d..2.` (tracefs), `[001]` (perf) or `1d..2.` (latency format). Returns the
/// text before it, the CPU and the flags. Returns `None` if the CPU number does not fit into 32
/// bits.
fn cpu_and_flags(text: &str) -> Option<(&str, Option<u32>, &str)> {
    let bracket = text.rfind('[').and_then(|open| {
        let (cpu, flags) = text[open + 1..].split_once(']')?;
        let cpu = whole(cpu.trim())?;
        let flags = flags.trim();
        (!flags.contains(' ')).then_some((&text[..open], cpu, flags))
    });
    if let Some((before, cpu, flags)) = bracket {
        return Some((before.trim_end(), Some(u32::try_from(cpu).ok()?), flags));
    }
    let begin = text.rfind([' ', '\t']).map_or(0, |space| space + 1);
    let word = &text[begin..];
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let flags = &word[digits..];
    if digits == 0 || !is_flags(flags) {
        return Some((text, None, ""));
    }
    Some((
        text[..begin].trim_end(),
        Some(word[..digits].parse().ok()?),
        flags,
    ))
}

/// Returns whether a word can be the columns of flags.
pub(super) fn is_flags(word: &str) -> bool {
    let is_flag = |byte: u8| byte == b'.' || byte.is_ascii_alphanumeric();
    (4..=8).contains(&word.len()) && word.bytes().all(is_flag)
}

/// Removes the process ID at the end: `(  14006)` or `(-------)`.
fn without_tgid(text: &str) -> &str {
    let split = text
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once('('));
    match split {
        Some((before, tgid))
            if !tgid.is_empty()
                && tgid
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b' ')) =>
        {
            before.trim_end()
        }
        _ => text,
    }
}

/// Splits off `buffer: ` at the start of a line. A line without a buffer starts with spaces
/// followed by the thread.
fn buffer(text: &str) -> (Option<&str>, &str) {
    match text.split_once(": ") {
        Some((buffer, rest))
            if !buffer.is_empty() && !buffer.contains(char::is_whitespace) && !rest.is_empty() =>
        {
            (Some(buffer), rest)
        }
        _ => (None, text),
    }
}

/// Removes the line feed, colours, the marks of quotations in e-mails, and the prefixes that logs
/// add.
pub(super) fn clean(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches(['\r', '\n']);
    let Some(at) = line.find('\u{1b}') else {
        return Cow::Borrowed(without_prefixes(line));
    };
    let mut plain = line[..at].to_owned();
    let mut rest = &line[at..];
    while let Some(after) = rest.strip_prefix('\u{1b}') {
        // A CSI sequence has parameters up to a letter (ECMA-48). Any other escape sequence has one
        // more character.
        let end = match after.strip_prefix('[') {
            Some(csi) => csi
                .find(|c: char| matches!(c, '@'..='~'))
                .map_or(after.len(), |end| end + 2),
            None => after.chars().next().map_or(0, char::len_utf8),
        };
        let after = &after[end..];
        let next = after.find('\u{1b}').unwrap_or(after.len());
        plain.push_str(&after[..next]);
        rest = &after[next..];
    }
    Cow::Owned(without_prefixes(&plain).to_owned())
}

fn without_prefixes(line: &str) -> &str {
    let mut line = line;
    // There can be several prefixes, such as when a line of a journal is quoted in an e-mail.
    for _ in 0..8 {
        let shorter = quoted(line).or_else(|| iso(line)).or_else(|| syslog(line));
        match shorter.or_else(|| dmesg(line)) {
            Some(shorter) => line = shorter,
            None => break,
        }
    }
    line
}

fn quoted(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ').strip_prefix(['>', '|'])?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Removes `2026-11-26T09:24:51.1234567Z `, and, if present, the host and the unit that follow it
/// in the journal's format short-iso.
fn iso(line: &str) -> Option<&str> {
    let (stamp, rest) = line.split_once(' ')?;
    let bytes = stamp.as_bytes();
    let is_date = bytes.len() >= 19
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && bytes[..4].iter().all(u8::is_ascii_digit);
    is_date.then(|| host_and_unit(rest).unwrap_or(rest))
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Removes `Nov 26 09:24:51 host kernel: `.
fn syslog(line: &str) -> Option<&str> {
    let month = line.get(..3)?;
    if !MONTHS.contains(&month) {
        return None;
    }
    let rest = line[3..].strip_prefix(' ')?.trim_start();
    let (day, rest) = rest.split_once(' ')?;
    let (clock, rest) = rest.split_once(' ')?;
    let is_clock = clock.len() >= 8 && clock.as_bytes()[2] == b':' && whole(day).is_some();
    is_clock.then(|| host_and_unit(rest))?
}

fn host_and_unit(rest: &str) -> Option<&str> {
    let (host, rest) = rest.split_once(' ')?;
    let (unit, rest) = rest.split_once(": ")?;
    let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    // The time of an event also ends with a colon. Unlike such a time, the name of a unit starts
    // with a letter.
    let has_letters = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_word(host) && !host.starts_with('#') && is_word(unit) && has_letters(unit)).then_some(rest)
}

/// Removes `[   12.345678] `, or the thread in `[   12.345678] [  T123] `.
fn dmesg(line: &str) -> Option<&str> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
    let stamp = stamp.trim();
    let is_caller = stamp.strip_prefix(['T', 'C']).and_then(whole).is_some();
    if !is_caller {
        seconds(stamp)?;
    }
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Parses `CPU:1 [LOST 123 EVENTS]` from tracefs and `CPU:1 [123 EVENTS DROPPED]` from trace-cmd.
/// Returns the CPU and, if given, the number of events.
pub(super) fn lost_events(line: &str) -> Option<(u32, Option<u64>)> {
    let (_, rest) = line.split_once("CPU:")?;
    let (cpu, what) = rest.split_once('[')?;
    let what = what.split_once(']')?.0;
    let is_lost = what.contains("EVENTS") && (what.contains("LOST") || what.contains("DROPPED"));
    let mut words = what.split_whitespace();
    let count = words.find_map(|word| word.parse().ok());
    is_lost.then(|| Some((cpu.trim().parse().ok()?, count)))?
}

/// Formats a time as in traces.
pub(super) fn seconds_of(time: Nanos) -> String {
    format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000)
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
