//! The line that cyclictest, signaltest and cyclicdeadline print for a thread.
//!
//! `T: 0 ( 1229) P:95 I:200 C:   1293 Min:      6 Act:  112 Avg:    7 Max:     112`; signaltest
//! omits `I:`, cyclicdeadline omits `P:`. `Min` has 7 columns, `Act` and `Avg` have 5 columns for
//! microseconds and 8 for nanoseconds (`print_stat` in each tool's source). cyclictest before 2009,
//! and that of Xenomai 2.6, use only microseconds, with 8 columns for everything from `I` onwards.

use punctual_model::{Histogram, Nanos};

use super::Malformed;
use super::text::{count, field, in_order, latency, number};

/// A line of a thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadLine {
    pub(crate) thread: u64,
    /// Thread ID; 0 while the thread has not started.
    pub(crate) id: u64,
    pub(crate) priority: Option<u8>,
    pub(crate) interval_us: Option<u64>,
    pub(crate) cycles: u64,
    min: u64,
    avg: u64,
    max: u64,
    pub(crate) smis: Option<u64>,
    /// Whether the line is in nanoseconds, if this can be seen from the columns.
    pub(crate) nanos: Option<bool>,
    /// Whether the last figure fills its column.
    pub(crate) whole: bool,
}

impl ThreadLine {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::LineNotText)?;
        let missing = Malformed::MissingUsualField;
        let mut rest = text;
        let thread = field(&mut rest, "T:", "(").ok_or_else(|| missing("T:"))?;
        let id = field(&mut rest, "(", ")").ok_or_else(|| missing("thread ID"))?;
        let priority = number(&mut rest, " P:")?;
        let interval = field(&mut rest, " I:", " C:");
        let cycles = field(&mut rest, "C:", "Min:").ok_or_else(|| missing("C:"))?;
        let min = field(&mut rest, "Min:", "Act:").ok_or_else(|| missing("Min:"))?;
        let act = field(&mut rest, "Act:", "Avg:").ok_or_else(|| missing("Act:"))?;
        let avg = field(&mut rest, "Avg:", "Max:").ok_or_else(|| missing("Avg:"))?;
        let (max, smis) = if rest.contains(" SMI:") {
            (
                field(&mut rest, "Max:", " SMI:"),
                field(&mut rest, " SMI:", ""),
            )
        } else {
            (field(&mut rest, "Max:", ""), None)
        };
        let max = max.ok_or_else(|| missing("Max:"))?;
        latency("Act", act.trim())?;
        let line = Self {
            thread: count(thread.trim())?,
            id: count(id.trim())?,
            priority: match priority {
                None => None,
                Some(priority @ 0..100) => Some(priority as u8),
                Some(other) => return Err(Malformed::NotAPriority(other)),
            },
            interval_us: interval.map(|text| count(text.trim())).transpose()?,
            cycles: count(cycles.trim())?,
            min: latency("Min", min.trim())?,
            avg: latency("Avg", avg.trim())?,
            max: latency("Max", max.trim())?,
            smis: smis.map(|text| count(text.trim())).transpose()?,
            nanos: is_nanos(interval.unwrap_or_default(), min, act, avg),
            whole: smis.unwrap_or(max).len() >= 8,
        };
        if line.cycles > 0 {
            in_order(line.min, line.avg, line.max)?;
        }
        Ok(line)
    }

    /// Checks whether this line can follow another one of the same thread in the output of one run.
    pub(crate) fn follows(&self, before: &Self) -> Result<(), Malformed> {
        let thread = self.thread;
        if self.id != before.id && self.id != 0 && before.id != 0 {
            return Err(Malformed::OtherThreadId {
                what: "thread",
                number: thread,
                id: self.id,
                before: before.id,
            });
        }
        if (self.priority, self.interval_us) != (before.priority, before.interval_us) {
            return Err(Malformed::OtherSettings(thread));
        }
        if before.cycles > self.cycles || before.max > self.max {
            Err(Malformed::ThreadWentBack(thread))
        } else {
            Ok(())
        }
    }

    /// Returns the smallest latency, in the unit of the file, if there is a sample.
    pub(crate) fn least(&self) -> Option<u64> {
        (self.cycles > 0).then_some(self.min)
    }

    /// Checks whether a sample of the thread can have this latency, in the unit of the file.
    pub(crate) fn holds(&self, latency: u64) -> Result<(), Malformed> {
        let (min, max) = (self.min, self.max);
        if (min..=max).contains(&latency) {
            Ok(())
        } else {
            Err(Malformed::SamplesOutside { min, max })
        }
    }

    /// Returns the interval if, read as microseconds, every latency would be at least as long as
    /// the interval.
    pub(crate) fn always_late(&self) -> Option<u64> {
        let least = self.least()?;
        self.interval_us.filter(|interval| least >= *interval)
    }

    pub(crate) fn histogram(&self, unit: Nanos) -> Result<Histogram, Malformed> {
        let mut histogram = Histogram::imported(unit, unit);
        histogram.add_unplaced(self.cycles, Nanos::ZERO);
        if self.cycles > 0 {
            let time = |count: u64| count.checked_mul(unit.0).map(Nanos);
            let sum = (self.avg.checked_mul(self.cycles)).and_then(time);
            match (time(self.min), time(self.max), sum) {
                (min, Some(max), Some(sum)) => histogram.set_figures(min, Some(max), Some(sum)),
                _ => return Err(Malformed::FiguresTooLarge),
            }
        }
        Ok(histogram)
    }
}

/// Returns the unit from the widths of columns (see above). Each argument includes the surrounding
/// spaces.
fn is_nanos(interval: &str, min: &str, act: &str, avg: &str) -> Option<bool> {
    let column = |text: &str| {
        let text = text.strip_suffix(' ').unwrap_or(text);
        (text.len(), text.starts_with(' '))
    };
    match (column(interval), column(min)) {
        // Web pages and mail programs collapse several spaces into one.
        (_, (width, _)) if width < 7 => return None,
        ((8, true), (8, true)) => return Some(false),
        _ => {}
    }
    [act, avg].into_iter().find_map(|text| match column(text) {
        (..8, _) => Some(false),
        (_, true) => Some(true),
        // A large figure can also make its column wider.
        (_, false) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ThreadLine {
        ThreadLine::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn only_aligned_columns_show_the_unit() {
        let of = |text: &str| read(text).nanos;
        let aligned = "T: 0 (1) P:80 I:200 C:      2 Min:      6 Act:";
        assert_eq!(
            of(&format!("{aligned}  112 Avg:   67 Max:     112")),
            Some(false)
        );
        assert_eq!(
            of(&format!("{aligned}     112 Avg:      67 Max:     112")),
            Some(true)
        );
        assert_eq!(
            of(&format!("{aligned}11200000 Avg:11200000 Max:11200000")),
            None
        );
        let lost = "T: 0 (1) P:80 I:200 C: 2 Min: 6 Act: 112 Avg: 67 Max: 112";
        assert_eq!(of(lost), None);
        let old = "T: 0 (1) P:80 I:   10000 C:   10000 Min:      21 Act:      38 Avg:      33 \
                   Max:      64";
        assert_eq!(of(old), Some(false));
        assert_eq!(read(old).interval_us, Some(10_000));
    }

    #[test]
    fn a_priority_is_the_whole_number() {
        let with = |priority: &str| {
            let text = format!("T: 0 (1) P:{priority} I:200 C: 2 Min: 6 Act: 7 Avg: 7 Max: 9");
            ThreadLine::parse(text.as_bytes()).map(|line| line.priority)
        };
        for (text, priority) in [("80", 80), (" 5", 5), (" 80", 80), ("5", 5), ("  99", 99)] {
            assert_eq!(with(text).unwrap(), Some(priority), "{text}");
        }
        for text in ["", "100", "8x", "-1"] {
            assert!(with(text).is_err(), "{text}");
        }
    }

    #[test]
    fn line_of_other_run_does_not_follow() {
        let line = |id: u64, priority: u8, interval: u64, cycles: u64| {
            read(&format!(
                "T: 0 ({id}) P:{priority} I:{interval} C: {cycles} Min: 6 Act: 7 Avg: 7 Max: 9"
            ))
        };
        let before = line(9, 80, 200, 5);
        assert!(line(9, 80, 200, 5).follows(&before).is_ok());
        assert!(line(9, 80, 200, 7).follows(&line(0, 80, 200, 0)).is_ok());
        for other in [
            line(8, 80, 200, 7),
            line(9, 81, 200, 7),
            line(9, 80, 100, 7),
            line(9, 80, 200, 4),
        ] {
            assert!(other.follows(&before).is_err(), "{other:?}");
        }
    }
}
