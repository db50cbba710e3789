//! Measures the time that a hypervisor took from each CPU, in ns, and the duration of interrupt
//! handlers. Both are counted in the kernel by BPF programs (`bpf/steal.bpf.c`).

use std::sync::atomic::{Ordering, fence};

use aya::include_bytes_aligned;
use punctual_model::{HandlerOf, Nanos, StealCount, StealRise, Usual, UsualLength};

use crate::WatchError;
use crate::bpf::{Mapped, Programs, Reads, settled};

/// The object file with the BPF programs, built by `bpf/build.sh`.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../bpf/steal.bpf.o");

/// The programs, each with its tracepoint.
const PROGRAMS: [(&str, &str); 7] = [
    ("sched_switch", "sched_switch"),
    ("sched_waking", "sched_waking"),
    ("sched_wakeup", "sched_wakeup"),
    ("irq_entry", "irq_handler_entry"),
    ("irq_exit", "irq_handler_exit"),
    ("softirq_entry", "softirq_entry"),
    ("softirq_exit", "softirq_exit"),
];

/// Programs for tracepoints that exist only on x86.
const OF_X86: [(&str, &str); 2] = [
    ("timer_entry", "local_timer_entry"),
    ("timer_exit", "local_timer_exit"),
];

fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let more: &[_] = if cfg!(target_arch = "x86_64") {
        &OF_X86
    } else {
        &[]
    };
    PROGRAMS.iter().chain(more).copied()
}

/// Values that are also defined in the BPF programs.
const RECORDS: usize = 1024;
const HANDLERS: usize = 256;
const SOFTIRQS: u32 = 240;
const TIMER: u32 = 250;
const BUCKETS: usize = 8 * 34;

/// Number of words in `struct cpu`, `struct record` and `struct lengths`.
const CPU_WORDS: usize = 16;
const RECORD_WORDS: usize = 4;
const ROW_WORDS: usize = 1 + BUCKETS / 2;

/// The running programs. Dropping this value stops them.
pub struct StealRecorder {
    programs: Programs,
    cpus: Mapped,
    records: Mapped,
    lengths: Mapped,
}

impl std::fmt::Debug for StealRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StealRecorder").finish_non_exhaustive()
    }
}

impl StealRecorder {
    /// Loads and starts the programs. `cpus` is the largest CPU number plus one.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (because of missing
    /// privileges, lockdown or its version).
    pub fn start(cpus: u32) -> Result<Self, WatchError> {
        let mut programs = Programs::load(OBJECT, Reads::Types, |loader| {
            loader
                .override_global("cpus_max", &cpus, true)
                .map_max_entries("cpus", cpus);
        })?;
        for (name, tracepoint) in all() {
            programs.attach(name, tracepoint)?;
        }
        programs.forget_types();
        let map = |name: &str, words: usize| -> Result<Mapped, WatchError> {
            let mapped = Mapped::new(programs.array(name)?, words);
            mapped.map_err(|error| WatchError::refused(&error))
        };
        Ok(Self {
            cpus: map("cpus", cpus as usize * CPU_WORDS)?,
            records: map("records", RECORDS * RECORD_WORDS)?,
            lengths: map("lengths", HANDLERS * ROW_WORDS)?,
            programs,
        })
    }

    /// Attaches or detaches the programs. Steal time that accumulates while they are detached is
    /// later recorded as a single rise.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to restart a program.
    pub fn switch(&mut self, on: bool) -> Result<(), WatchError> {
        for (name, _) in all() {
            if on {
                self.programs.resume(name)?
            } else {
                self.programs.pause(name)?
            }
        }
        Ok(())
    }

    /// Returns the steal time of a CPU in an interval. `None` if the kernel does not count it, or
    /// if the CPU has never had any steal time, because the two cases look the same.
    pub fn around(&self, cpu: u32, (from, to): (Nanos, Nanos)) -> Option<StealCount> {
        let first = cpu as usize * CPU_WORDS;
        let word = |place: usize| self.cpus.word(first + place);
        // Read the end time first, because the records contain all rises up to that time.
        let until = Nanos(word(1));
        fence(Ordering::Acquire);
        let (since, stolen) = (Nanos(word(0)), word(2));
        if since == Nanos::ZERO || stolen == 0 {
            return None;
        }
        let mut rises = Vec::new();
        let (mut oldest, mut kept) = (Nanos(u64::MAX), 0);
        for place in 0..RECORDS {
            let Some((of, rise)) = self.record(place) else {
                continue;
            };
            (oldest, kept) = (oldest.min(rise.to), kept + 1);
            if of == cpu && rise.from < to && rise.to > from {
                rises.push(rise);
            }
        }
        rises.sort_by_key(|rise| rise.from);
        // If (almost) all records are in use, older rises may have been overwritten.
        let full = kept + 8 >= RECORDS;
        Some(StealCount {
            cpu,
            from: if full { since.max(oldest) } else { since },
            to: until,
            step: Nanos(1),
            rises,
        })
    }

    /// Returns the CPU and the rise in a record; `None` if the record is empty or is still being
    /// written.
    fn record(&self, place: usize) -> Option<(u32, StealRise)> {
        let first = place * RECORD_WORDS;
        let word = |place: usize| self.records.word(first + place);
        settled(
            || u64::from(halves(word(3))[0]),
            || {
                let rise = StealRise {
                    from: Nanos(word(0)),
                    to: Nanos(word(1)),
                    stolen: Nanos(word(2)),
                };
                (halves(word(3))[1], rise)
            },
        )
    }

    /// Returns the usual duration of a handler, computed from its runs so far. Returns `None` if no
    /// run has been seen yet.
    pub fn usual(&self, handler: HandlerOf) -> Option<UsualLength> {
        let (place, number) = match &handler {
            HandlerOf::Irq(irq) => (irq % SOFTIRQS, *irq),
            HandlerOf::Softirq(vec) if *vec < TIMER - SOFTIRQS => (SOFTIRQS + vec, *vec),
            HandlerOf::Vector(name) if name == "local_timer" => (TIMER, 0),
            _ => return None,
        };
        let first = place as usize * ROW_WORDS;
        if self.lengths.word(first) != u64::from(number) + 1 {
            return None;
        }
        let pairs = (0..BUCKETS / 2).map(|pair| halves(self.lengths.word(first + 1 + pair)));
        let counts: Vec<u64> = pairs.flatten().map(u64::from).collect();
        Some(UsualLength {
            handler,
            length: percentile(&counts)?,
        })
    }
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
}

/// Returns the 99.9th percentile of durations that were counted in buckets, rounded up to the end
/// of the bucket that contains it.
fn percentile(counts: &[u64]) -> Option<Usual> {
    let count: u64 = counts.iter().sum();
    let rank = count - count / 1_000;
    let mut below = 0;
    let bucket = counts.iter().position(|more| {
        below += more;
        below >= rank && below > 0
    })?;
    Some(Usual {
        p999_ns: Nanos(end_of(bucket as u64)),
        count,
    })
}

/// Returns the end of a bucket in ns, which is the first duration that does not belong to it. Each
/// duration below 16 ns has its own bucket, and each further power of two has eight buckets.
const fn end_of(bucket: u64) -> u64 {
    match bucket {
        0..16 => bucket + 1,
        _ => (8 + bucket % 8 + 1) << (bucket / 8 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the bucket of a duration, as `bucket_of` in the BPF programs does.
    fn bucket_of(ns: u64) -> u64 {
        if ns < 16 {
            return ns;
        }
        let power = u64::from(ns.ilog2());
        8 * (power - 2) + ((ns >> (power - 3)) & 7)
    }

    #[test]
    fn length_lies_between_its_bucket_bounds() {
        for ns in (0..5_000).chain([4_200_000, 3_050_000_000, (1 << 34) - 1]) {
            let bucket = bucket_of(ns);
            assert!((bucket as usize) < BUCKETS);
            assert!(ns < end_of(bucket), "{ns}");
            assert!(bucket == 0 || ns >= end_of(bucket - 1), "{ns}");
        }
    }

    #[test]
    fn one_of_a_thousand_may_be_longer() {
        let mut counts = vec![0; BUCKETS];
        assert_eq!(percentile(&counts), None);
        counts[bucket_of(4_000) as usize] = 9_990;
        counts[bucket_of(3_000_000) as usize] = 10;
        let found = percentile(&counts).unwrap();
        assert_eq!((found.count, found.p999_ns), (10_000, Nanos(4_096)));
        counts[bucket_of(3_000_000) as usize] = 11;
        assert!(percentile(&counts).unwrap().p999_ns > Nanos(3_000_000));
    }
}
