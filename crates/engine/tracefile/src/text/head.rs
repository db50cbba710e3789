//! Reads the comment lines of text traces, and decodes the columns of flags that they describe.

use punctual_model::TraceEvent;

/// The meaning of a column of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    IrqsOff,
    NeedResched,
    NeedReschedLazy,
    Context,
    PreemptDepth,
    MigrateDisable,
    /// A column that is not used.
    Other,
}

/// The meaning of a comment line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A trace begins here.
    Begins,
    /// The number of events that were overwritten, or 0 if there were none.
    Overwritten(u64),
    /// The name of a recorded event, as `system:event`.
    Event(String),
    /// The release of the kernel.
    Kernel(String),
    /// The clock, under its name in clock_gettime(2).
    Clock(String),
}

/// The columns of the flags, in the order of the comment lines.
#[derive(Debug, Default)]
pub(super) struct Columns(Vec<Column>);

impl Columns {
    /// Adds the column of a line such as `#      / _----=> need-resched`. Returns whether the line
    /// describes a column.
    pub(super) fn read(&mut self, comment: &str) -> bool {
        let Some((before, name)) = comment.split_once("=> ") else {
            return false;
        };
        if !before.ends_with('-') {
            return false;
        }
        let name = name.trim();
        self.0.push(match name {
            // The CPU number precedes the flags and is not one of them.
            "CPU#" => return true,
            _ if name.starts_with("irqs-off") => Column::IrqsOff,
            "need-resched" => Column::NeedResched,
            _ if name.starts_with("need-resched") => Column::NeedReschedLazy,
            "hardirq/softirq" => Column::Context,
            "preempt-depth" => Column::PreemptDepth,
            "migrate-disable" => Column::MigrateDisable,
            _ => Column::Other,
        });
        true
    }

    /// Removes all columns, because another header has started.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Decodes the flags into the values of `common_flags` and `common_preempt_count`.
    pub(super) fn decode(&self, flags: &str) -> (u8, u8) {
        let columns = if self.0.len() == flags.len() {
            &self.0[..]
        } else {
            usual(flags.len())
        };
        if !fit(columns, flags) {
            return by_letters(flags);
        }
        let (mut bits, mut count) = (0, 0);
        for (column, letter) in columns.iter().zip(flags.bytes()) {
            let depth = (letter as char).to_digit(16).unwrap_or(0) as u8;
            match column {
                Column::IrqsOff => bits |= irqs_off(letter),
                Column::NeedResched => bits |= need_resched(letter),
                Column::NeedReschedLazy if letter != b'.' => bits |= TraceEvent::NEED_RESCHED_LAZY,
                Column::Context => bits |= context(letter),
                Column::PreemptDepth => count |= depth,
                Column::MigrateDisable => count |= depth << 4,
                Column::NeedReschedLazy | Column::Other => (),
            }
        }
        (bits, count)
    }
}

/// Returns whether the letters can be those of the columns. Some kernels describe columns that they do
/// not print.
fn fit(columns: &[Column], flags: &str) -> bool {
    let is_context = |letter: u8| b"hsHzZ".contains(&letter);
    columns
        .iter()
        .zip(flags.bytes())
        .all(|(column, letter)| match column {
            Column::Context => letter == b'.' || is_context(letter),
            Column::NeedReschedLazy | Column::PreemptDepth => !is_context(letter),
            _ => true,
        })
}

/// Decodes flags by their letters: the first two columns are the same in all kernels.
fn by_letters(flags: &str) -> (u8, u8) {
    let letter = |place: usize| flags.as_bytes().get(place).copied().unwrap_or(b'.');
    let rest = flags.as_bytes().get(2..).unwrap_or_default();
    let bits = rest.iter().fold(0, |bits, letter| bits | context(*letter));
    let depth = rest.iter().find(|letter| letter.is_ascii_digit());
    let depth = depth.map_or(0, |digit| digit - b'0');
    (irqs_off(letter(0)) | need_resched(letter(1)) | bits, depth)
}

/// Returns the meaning of the columns if no header describes them, based on how many there are.
/// Mainline kernels before Linux 5.16 print 4 columns, mainline kernels since then print 5, and the
/// earlier real-time patches print 7.
const fn usual(number: usize) -> &'static [Column] {
    use Column::{
        Context, IrqsOff, MigrateDisable, NeedResched, NeedReschedLazy, Other, PreemptDepth,
    };
    match number {
        4 => &[IrqsOff, NeedResched, Context, PreemptDepth],
        5 => &[IrqsOff, NeedResched, Context, PreemptDepth, MigrateDisable],
        7 => &[
            IrqsOff,
            NeedResched,
            NeedReschedLazy,
            Context,
            PreemptDepth,
            Other,
            MigrateDisable,
        ],
        _ => &[],
    }
}

/// Decodes a letter that was printed by `trace_print_lat_fmt` (trace_output.c in the kernel).
const fn irqs_off(letter: u8) -> u8 {
    match letter {
        b'd' => TraceEvent::IRQS_OFF,
        b'b' => TraceEvent::BH_OFF,
        b'D' => TraceEvent::IRQS_OFF | TraceEvent::BH_OFF,
        _ => 0,
    }
}

const fn need_resched(letter: u8) -> u8 {
    type T = TraceEvent;
    match letter {
        b'N' => T::NEED_RESCHED | T::PREEMPT_RESCHED,
        b'n' => T::NEED_RESCHED,
        b'p' => T::PREEMPT_RESCHED,
        b'B' => T::NEED_RESCHED | T::NEED_RESCHED_LAZY | T::PREEMPT_RESCHED,
        b'b' => T::NEED_RESCHED | T::NEED_RESCHED_LAZY,
        b'L' => T::NEED_RESCHED_LAZY | T::PREEMPT_RESCHED,
        b'l' => T::NEED_RESCHED_LAZY,
        _ => 0,
    }
}

const fn context(letter: u8) -> u8 {
    type T = TraceEvent;
    match letter {
        b'h' => T::HARDIRQ,
        b's' => T::SOFTIRQ,
        b'H' => T::HARDIRQ | T::SOFTIRQ,
        b'z' => T::NMI,
        b'Z' => T::NMI | T::HARDIRQ,
        _ => 0,
    }
}

/// Reads a comment line, without the `#`.
pub(super) fn said(comment: &str) -> Option<Said> {
    let comment = comment.trim();
    if comment.starts_with("tracer: ") {
        return Some(Said::Begins);
    }
    if let Some(rest) = comment.strip_prefix("entries-in-buffer/entries-written: ") {
        return overwritten(rest.split_whitespace().next()?);
    }
    // A line such as `latency: 0 us, #43427/43427, CPU#0 | (M:...`.
    if let Some((_, rest)) = comment
        .strip_prefix("latency: ")
        .and_then(|c| c.split_once(", #"))
    {
        return overwritten(rest.split(',').next()?);
    }
    if let Some((_, kernel)) = comment
        .split_once(" latency trace v")
        .and_then(|(_, rest)| rest.split_once(" on "))
    {
        return Some(Said::Kernel(kernel.trim().to_owned()));
    }
    if let Some(kernel) = comment.strip_prefix("os release : ") {
        return Some(Said::Kernel(kernel.trim().to_owned()));
    }
    // A line such as `clockid: monotonic (1)`.
    if let Some(clock) = comment.strip_prefix("clockid: ") {
        return Some(Said::Clock(clock.split_whitespace().next()?.to_owned()));
    }
    let event = comment.strip_prefix("event : name = ")?.split(',').next()?;
    Some(Said::Event(event.trim().to_owned()))
}

/// `100/5000` means that 100 of 5000 events that were written are still in the buffer.
fn overwritten(text: &str) -> Option<Said> {
    let (held, written) = text.split_once('/')?;
    let (held, written): (u64, u64) = (held.parse().ok()?, written.parse().ok()?);
    Some(Said::Overwritten(written.saturating_sub(held)))
}

/// Reads the number of CPUs from a header line.
pub(super) fn cpus(line: &str) -> Option<u32> {
    let number = line.strip_prefix("cpus=").or_else(|| {
        let rest = line.strip_prefix('#')?.trim_start();
        let perf = rest.strip_prefix("nrcpus online : ");
        perf.or_else(|| rest.split_once("#P:").map(|(_, rest)| rest))
    })?;
    let digits = number
        .trim_start()
        .split(|c: char| !c.is_ascii_digit())
        .next()?;
    digits.parse().ok()
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
