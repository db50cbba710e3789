//! A report from the hardware latency detector about a gap.

use punctual_model::Nanos;

/// One report from the hardware latency detector, about a spin with a gap above the threshold
/// (`trace_hwlat_print` in `kernel/trace/trace_output.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Number of the report since the start of the tracer, from 1. A missing number means that a
    /// report was lost.
    pub sequence: u64,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Time of the report, at the end of the spin, on the trace clock.
    pub at: Option<Nanos>,
    /// The longest gap between the two readings of one iteration, in whole microseconds.
    pub inner: Nanos,
    /// The longest gap between two iterations, in whole microseconds.
    pub outer: Nanos,
    /// Time of the gap, on CLOCK_REALTIME. Up to Linux 5.6, this is instead the time at which the
    /// spin ended.
    pub wall: Option<Nanos>,
    /// Number of gaps above the threshold in this spin (since Linux 5.7).
    pub count: Option<u64>,
    /// Time spent in NMIs during the spin, if the architecture measures it.
    pub nmi_total: Option<Nanos>,
    /// Number of NMIs during the spin.
    pub nmi_count: u64,
}

impl Gap {
    const FIGURES: &str = "inner/outer(us):";

    /// Parses a line of a trace. Returns `None` if it is not a report. Fields that the kernel did
    /// not print stay empty, and unknown fields are skipped.
    pub fn parse(line: &str) -> Option<Self> {
        let (head, tail) = line.split_once(Self::FIGURES)?;
        let (head, sequence) = head.rsplit_once('#')?;
        let mut words = tail.split_whitespace();
        let (inner, outer) = words.next()?.split_once('/')?;
        let mut gap = Self {
            sequence: sequence.trim().parse().ok()?,
            cpu: cpu(head),
            at: head.trim_end().strip_suffix(':').and_then(last_time),
            inner: micros(inner)?,
            outer: micros(outer)?,
            ..Self::default()
        };
        for (key, value) in words.filter_map(|word| word.split_once(':')) {
            match key {
                "ts" => gap.wall = seconds(value),
                "count" => gap.count = value.parse().ok(),
                "nmi-total" => gap.nmi_total = micros(value),
                "nmi-count" => gap.nmi_count = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        Some(gap)
    }

    /// Returns the longest gap of the spin.
    pub fn longest(&self) -> Nanos {
        self.inner.max(self.outer)
    }
}

/// Parses the CPU in `hwlatd-1234 [001] d..1.`. Only the last pair of brackets is used, because the
/// name of a task may also contain brackets.
fn cpu(head: &str) -> Option<u32> {
    let (_, rest) = head.rsplit_once('[')?;
    rest.split_once(']')?.0.trim().parse().ok()
}

fn last_time(head: &str) -> Option<Nanos> {
    seconds(head.split_whitespace().next_back()?)
}

fn micros(text: &str) -> Option<Nanos> {
    let micros: u64 = text.trim().parse().ok()?;
    micros.checked_mul(1_000).map(Nanos)
}

/// Parses a number of seconds with up to nine decimals.
fn seconds(text: &str) -> Option<Nanos> {
    let (whole, part) = text.split_once('.')?;
    let digits = part.len();
    if !(1..=9).contains(&digits) || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = part.parse().ok()?;
    let part = part * 10_u64.pow(9 - u32::try_from(digits).ok()?);
    whole
        .checked_mul(1_000_000_000)?
        .checked_add(part)
        .map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn new_kernels_line_is_read() {
        let line = "          hwlatd-1234    [001] d...... 123.456789: #7     inner/outer(us):   \
                    12/14    ts:1581527483.343962693 count:6 nmi-total:4 nmi-count:1";
        let us = Nanos::from_micros;
        assert_eq!(
            Gap::parse(line),
            Some(Gap {
                sequence: 7,
                cpu: Some(1),
                at: Some(us(123_456_789)),
                inner: us(12),
                outer: us(14),
                wall: Some(Nanos(1_581_527_483_343_962_693)),
                count: Some(6),
                nmi_total: Some(us(4)),
                nmi_count: 1,
            })
        );
        assert_eq!(Gap::parse(line).unwrap().longest(), us(14));
    }

    #[test]
    fn an_old_kernel_prints_less() {
        let line =
            " <...>-3638  [015] d... 3.000001: #1     inner/outer(us): 1234/5     ts:7.000000001\n";
        let gap = Gap::parse(line).unwrap();
        assert_eq!((gap.count, gap.nmi_total, gap.nmi_count), (None, None, 0));
        assert_eq!(gap.cpu, Some(15));
        assert_eq!(gap.longest(), Nanos::from_micros(1_234));
        assert_eq!(gap.wall, Some(Nanos(7_000_000_001)));
    }

    #[test]
    fn a_name_may_hold_anything() {
        let line = "we[3] #9:-1 [000] d... 3.5: #2 inner/outer(us): 1/2 ts:1.5 new:x";
        let gap = Gap::parse(line).unwrap();
        assert_eq!((gap.sequence, gap.cpu), (2, Some(0)));
        assert_eq!(gap.at, Some(Nanos::from_millis(3_500)));
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "# tracer: hwlat",
            "CPU:1 [LOST 12 EVENTS]",
            "#1 inner/outer(us): 12",
            "#x inner/outer(us): 1/2",
            "inner/outer(us): 1/2",
            "#1 inner/outer(us): 99999999999999999999/2",
            "#1 inner/outer(us): 18446744073709551615/2",
        ] {
            assert_eq!(Gap::parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "\\PC{0,120}") {
            let _ = Gap::parse(&line);
        }

        #[test]
        fn no_likely_line_panics(
            head in "[ #\\[\\]0-9.:a-z-]{0,30}", tail in "[ /:.0-9a-zµ-]{0,60}",
        ) {
            let _ = Gap::parse(&format!("{head}inner/outer(us):{tail}"));
        }

        #[test]
        fn what_is_printed_is_read(
            sequence in 0..=u64::from(u32::MAX), cpu in 0_u32..8_192,
            inner in 0..10_000_000_u64, outer in 0..10_000_000_u64,
            secs in 0..10_000_000_000_u64, nanos in 0..1_000_000_000_u64, count in 0..1_000_000_u64,
        ) {
            let line = format!(
                " hwlatd/{cpu}-99 [{cpu:03}] d..1. {secs}.{:06}: #{sequence:<5} \
                 inner/outer(us): {inner:4}/{outer:<5} ts:{secs}.{nanos:09} count:{count}",
                nanos / 1_000
            );
            let gap = Gap::parse(&line).unwrap();
            prop_assert_eq!(gap.sequence, sequence);
            prop_assert_eq!(gap.cpu, Some(cpu));
            prop_assert_eq!(gap.inner, Nanos::from_micros(inner));
            prop_assert_eq!(gap.outer, Nanos::from_micros(outer));
            prop_assert_eq!(gap.wall, Some(Nanos(secs * 1_000_000_000 + nanos)));
            prop_assert_eq!(gap.at.map(Nanos::whole_micros), gap.wall.map(Nanos::whole_micros));
            prop_assert_eq!(gap.count, Some(count));
        }
    }
}
