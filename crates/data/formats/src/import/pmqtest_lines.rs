//! `pmqtest-lines`: the lines that pmqtest, ptsematest, svsematest and sigwaittest print for each
//! pair of threads, during the run or at its end.
//!
//! These are lines such as `#0: ID2351, P80, CPU0, I1000; #1: ID2352, P80, CPU0, TO 0, Cycles 4876`
//! and `#1 -> #0, Min    3, Cur    4, Avg    4, Max   37`. Only pmqtest prints `TO`.

use std::collections::BTreeMap;

use punctual_model::{
    CpuSet, Histogram, Nanos, Policy, Recording, Scheduling, ThreadRecord, counted,
};

use super::blank::{MICROSECOND, THREADS, blank, finish, thread};
use super::text::{WordsBelow, count, field, in_order, is_other_line, is_prompt, latency, plain};
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "pmqtest-lines",
    summary: "the output lines of pmqtest, ptsematest, svsematest and sigwaittest",
    documentation: "Reads what these tools print on the terminal, with or without the cursor \
        movements of live output. The figures of a pair are read from its last two lines. Text \
        above and below the lines is skipped. If a thread ID changes, a second run has begun, and \
        the file is refused.

The lines have no histogram, so the recording has no percentiles: the latencies of single samples \
        are unknown. Only pmqtest can be distinguished from the other tools. The lines do not \
        record the time, the duration, missed periods, or the machine.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.lines().any(|line| {
        let line = plain(line.as_bytes());
        line.starts_with(b"#0: ID") && memchr::memmem::find(line, b"Cycles").is_some()
    })
}

/// A pair of threads.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// The thread IDs of the sender and the receiver.
    ids: [u64; 2],
    from_cpu: Option<u32>,
    cpu: Option<u32>,
    priority: u8,
    interval_us: u64,
    timeouts: Option<u64>,
    cycles: u64,
    /// Minimum, mean and maximum.
    figures: Option<(u64, u64, u64)>,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut pairs: BTreeMap<u64, Pair> = BTreeMap::new();
    let mut words = WordsBelow::default();
    while let Some(line) = source.next_line()? {
        let complete = line.complete;
        let bytes = plain(line.bytes);
        let result = match bytes {
            _ if is_other_line(bytes) => Ok(()),
            _ if !pairs.is_empty() && words.take(bytes).is_ok() => Ok(()),
            _ => std::str::from_utf8(bytes)
                .map_err(|_| Malformed::LineNotText)
                .and_then(|text| words.figures_follow().and_then(|()| take(&mut pairs, text))),
        };
        let result = if complete || bytes.is_empty() || is_prompt(bytes) {
            result
        } else {
            Err(Malformed::LineTruncated)
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    recording(source, pairs)
}

fn take(pairs: &mut BTreeMap<u64, Pair>, text: &str) -> Result<(), Malformed> {
    let (head, _) = text.split_once([':', ',', '(']).unwrap_or((text, ""));
    match head.split_once("->") {
        Some((receiver, sender)) => {
            let number = pair_of(sender.trim(), receiver.trim())?;
            let pair = pairs.get_mut(&number).ok_or(Malformed::PairNotIntroduced)?;
            if !text.contains("(not yet ready)") {
                pair.figures = figures(text)?;
            }
            Ok(())
        }
        None => {
            let (number, pair) = named(text)?;
            if let Some(before) = pairs.get(&number) {
                pair.follows(before, number)?;
            }
            if number >= THREADS as u64 {
                return Err(Malformed::NumberTooLarge {
                    what: "pair",
                    number,
                });
            }
            // The figures of the pair follow on a separate line.
            pairs.insert(number, pair);
            Ok(())
        }
    }
}

/// Returns the pair of the threads `#4` and `#5`.
fn pair_of(sender: &str, receiver: &str) -> Result<u64, Malformed> {
    let number = |text: &str| {
        let digits = text.strip_prefix('#').unwrap_or_default();
        count(digits).map_err(|_| Malformed::foreign(text.as_bytes()))
    };
    let (sender, receiver) = (number(sender)?, number(receiver)?);
    if sender % 2 == 0 && receiver == sender + 1 {
        Ok(sender / 2)
    } else {
        Err(Malformed::NotAPair { sender, receiver })
    }
}

/// Parses `#0: ID2351, P80, CPU0, I1000; #1: ID2352, P80, CPU0, TO 0, Cycles 4876`.
fn named(text: &str) -> Result<(u64, Pair), Malformed> {
    let foreign = || Malformed::foreign(text.as_bytes());
    let (sender, receiver) = text.split_once(';').ok_or_else(foreign)?;
    let number = |part: &str| part.split(':').next().unwrap_or_default().trim().to_owned();
    let pair = pair_of(&number(sender), &number(receiver))?;
    fn take<'a>(
        rest: &mut &'a str,
        before: &'static str,
        after: &str,
    ) -> Result<&'a str, Malformed> {
        let found = field(rest, before, after).map(str::trim);
        found.ok_or_else(|| Malformed::MissingField(before.trim_matches([',', ' '])))
    }
    let mut rest = sender;
    let sender = count(take(&mut rest, "ID", ",")?)?;
    take(&mut rest, "P", ",")?;
    let from_cpu = cpu(take(&mut rest, "CPU", ",")?)?;
    let interval_us = count(take(&mut rest, ", I", "")?)?;
    let mut rest = receiver;
    let receiver = count(take(&mut rest, "ID", ",")?)?;
    let priority = count(take(&mut rest, "P", ",")?)?;
    let to_cpu = cpu(take(&mut rest, "CPU", ",")?)?;
    let timeouts = if rest.contains("TO ") {
        Some(count(take(&mut rest, "TO ", ",")?)?)
    } else {
        None
    };
    Ok((
        pair,
        Pair {
            ids: [sender, receiver],
            from_cpu,
            cpu: to_cpu,
            priority: match priority {
                0..100 => priority as u8,
                other => return Err(Malformed::NotAPriority(other)),
            },
            interval_us,
            timeouts,
            cycles: count(take(&mut rest, "Cycles ", "")?)?,
            figures: None,
        },
    ))
}

fn cpu(text: &str) -> Result<Option<u32>, Malformed> {
    if text == "-1" {
        return Ok(None);
    }
    match count(text)? {
        cpu if cpu <= CpuSet::MAX_CPU.into() => Ok(Some(cpu as u32)),
        cpu => Err(Malformed::NotACpu(cpu)),
    }
}

/// Parses `…, Min    3, Cur    4, Avg    4, Max   37`. Returns `None` if the pair has no sample yet
/// (the original prints its largest number as -1).
fn figures(text: &str) -> Result<Option<(u64, u64, u64)>, Malformed> {
    let mut rest = text;
    let mut take = |name: &'static str, after: &str| {
        let found = field(&mut rest, name, after).map(str::trim);
        found.ok_or_else(|| Malformed::MissingField(name.trim_start()))
    };
    let min = take(" Min", ",")?;
    let avg = take(" Avg", ",")?;
    let max = take(" Max", "")?;
    if min == "-1" {
        return Ok(None);
    }
    let figures = (
        latency("Min", min)?,
        latency("Avg", avg)?,
        latency("Max", max)?,
    );
    in_order(figures.0, figures.1, figures.2)?;
    Ok(Some(figures))
}

fn recording(source: &Source<'_>, pairs: BTreeMap<u64, Pair>) -> Result<Recording, ImportError> {
    let bad = |reason: Malformed| source.bad_at(Location::Whole, reason);
    let Some(first) = pairs.values().next() else {
        return Err(bad(Malformed::NoPair));
    };
    let (tool, probe) = match first.timeouts {
        Some(_) => ("pmqtest", "wakeup"),
        None => ("ptsematest, svsematest or sigwaittest", "wakeup"),
    };
    let mut recording = blank(source, IMPORT.name, tool, probe);
    let interval = first.interval_us.saturating_mul(1_000);
    let parameters = &mut recording.probe.parameters;
    parameters.insert("interval_ns".to_owned(), interval.into());
    for (number, pair) in &pairs {
        let record = pair
            .thread(*number as usize)
            .map_err(|why| bad(why.within(format!("pair {number}"))))?;
        recording.threads.push(record);
        match pair.timeouts {
            None | Some(0) => {}
            Some(timeouts) => recording.warnings.push(format!(
                "receiver {number} timed out {}",
                counted(timeouts, "time", "times")
            )),
        }
    }
    Ok(finish(recording))
}

impl Pair {
    /// Checks whether this can follow another state of the same pair in the output of one run.
    fn follows(&self, before: &Self, number: u64) -> Result<(), Malformed> {
        for (id, before) in self.ids.into_iter().zip(before.ids) {
            if id != before && id != 0 && before != 0 {
                let what = "pair";
                return Err(Malformed::OtherThreadId {
                    what,
                    number,
                    id,
                    before,
                });
            }
        }
        if before.cycles > self.cycles {
            Err(Malformed::FewerCycles)
        } else {
            Ok(())
        }
    }

    fn thread(&self, place: usize) -> Result<ThreadRecord, Malformed> {
        let mut histogram = Histogram::imported(MICROSECOND, MICROSECOND);
        histogram.add_unplaced(self.cycles, Nanos::ZERO);
        match self.figures {
            None if self.cycles > 0 => {
                return Err(Malformed::MissingFigures);
            }
            None => {}
            Some((min, avg, max)) => {
                let time = |us: u64| us.checked_mul(1_000).map(Nanos);
                let sum = avg.checked_mul(self.cycles).and_then(time);
                match (time(min), time(max), sum) {
                    (min, Some(max), Some(sum)) => histogram.set_figures(min, Some(max), Some(sum)),
                    _ => return Err(Malformed::FiguresTooLarge),
                }
            }
        }
        Ok(ThreadRecord {
            from_cpu: self.from_cpu,
            scheduling: Scheduling {
                policy: match self.priority {
                    0 => Policy::Other,
                    _ => Policy::Fifo,
                },
                priority: self.priority,
            },
            ..thread(place, self.cpu, histogram)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_text, refused};
    use super::*;

    const LINES: &str = include_str!("../../tests/fixtures/pmqtest-2.4-lines.txt");

    #[test]
    fn two_runs_are_not_one() {
        let more = LINES.replace("Cycles 4876", "Cycles 9876");
        assert_ne!(more, LINES);
        let same = read_text(&IMPORT, &format!("{LINES}{more}")).unwrap();
        assert_eq!(same.threads[0].histogram.count(), 9_876);
        let (_, id) = LINES.split_once("#0: ID").unwrap();
        let (id, _) = id.split_once(',').unwrap();
        let other = more.replace(&format!("ID{id},"), "ID99999,");
        let said = refused(&IMPORT, format!("{LINES}{other}").as_bytes());
        assert!(said.contains("the file contains two runs"), "{said}");
        let said = refused(&IMPORT, format!("{LINES}Hello,\n{more}").as_bytes());
        assert!(said.contains("figures follow below"), "{said}");
    }
}
