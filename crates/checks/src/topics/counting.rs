//! What was counted on the measured CPUs, as rates.

use punctual_model::{CpuInterference, Nanos};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict};

/// The counts of some rows.
pub(super) fn sum(rows: &[punctual_model::CounterDelta], kind: impl Fn(&str) -> bool) -> u64 {
    rows.iter()
        .filter(|row| kind(&row.id))
        .map(|row| row.count)
        .sum()
}

/// Whether what was counted on each measured CPU is at most so many a second.
pub(super) fn counted(
    reader: &FactReader,
    what: &str,
    count: impl Fn(&CpuInterference) -> u64,
    limit: impl Fn(&FactReader) -> f64,
) -> Judged {
    let (cpus, duration) = reader.counted()?;
    // A table that could not be read, or a CPU that came or went meanwhile,
    // counts nothing: that is no zero.
    let unreadable = format!("{what}: /proc/");
    let moved = format!("{what} of CPU ");
    let sample = reader.facts.sample.iter().flat_map(|s| &s.unknown);
    let reason = sample
        .into_iter()
        .find(|line| line.starts_with(&unreadable) || line.starts_with(&moved));
    if let Some(reason) = reason {
        return Err(Missing::unknown(reason));
    }
    let seconds = seconds(duration);
    let rates: Vec<(u32, f64)> = cpus
        .iter()
        .map(|cpu| (cpu.cpu, count(cpu) as f64 / seconds))
        .collect();
    let worst = rates
        .iter()
        .copied()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0, 0.0));
    reader.saw(
        format!("/proc/{what} over {duration}"),
        &format!("at most {:.0} a second, on CPU {}", worst.1, worst.0),
    );
    Ok(match worst.1 <= limit(reader) {
        true => Verdict::Ok(format!("at most {:.0} a second", worst.1)),
        false => Verdict::Fail(format!("{:.0} a second on CPU {}", worst.1, worst.0)),
    })
}

pub(super) fn seconds(duration: Nanos) -> f64 {
    (duration.0 as f64 / 1e9).max(1e-9)
}
