//! The jobs that the programs count: the histograms of the counted threads, read by subtraction.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{Ordering, fence};

use aya::maps::MapData;
use punctual_model::{CountedBeside, Histogram, Nanos};

use super::timed::WAITS;
use crate::bpf::Mapped;

/// Jobs of this length and longer are listed, not counted (`COUNTED_NS` of `bpf/buckets.h`).
pub(super) const BUCKETS: usize = 1_000 + 4 * 900;

/// Two counters fill a word.
const BUCKET_WORDS: usize = BUCKETS / 2;

/// The parts of `struct tally`, as words.
const WRITES: usize = 0;
const INCOMPLETE: usize = 1;
const LAST: usize = 2;
const UNPLACED: usize = 3;
const WAIT_COUNTS: usize = 4;
const WAITED: usize = WAIT_COUNTS + WAITS + 1;
const RAN: usize = WAITED + WAITS + 1;
const BANK_FIRST: usize = RAN + 3;
const BANKS: usize = 4;
const BANK_WORDS: usize = 5;
const EXECUTION: usize = BANK_FIRST + BANKS * BANK_WORDS;
const RESPONSES: usize = EXECUTION + BUCKET_WORDS;
const WORDS: usize = RESPONSES + BANKS * BUCKET_WORDS;

/// Maximum number of attempts to read the counts of a thread between two of its jobs. If they all
/// fail, the sum of the lengths may lack a part of a job, which the next reading adds.
const ATTEMPTS: usize = 1_000;

/// The jobs of a thread that the kernel has counted since the last reading.
#[derive(Clone, Debug)]
pub struct CountedJobs {
    /// The thread.
    pub tid: u32,
    /// Response times of the jobs that were released during each row of the time series.
    pub rows: Vec<(u64, Histogram)>,
    /// CPU time of each job.
    pub execution: Histogram,
    /// Number of jobs whose release or end is unknown.
    pub incomplete: u64,
    /// Response time of the last job.
    pub last: Nanos,
    /// Release waits.
    pub waits: Vec<CountedWaits>,
    /// Number of other waits.
    pub elsewhere: u64,
    /// Number of other waits whose place is unknown, because there were too many places.
    pub unplaced: u64,
}

/// The waits of a thread at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedWaits {
    /// The thread.
    pub tid: u32,
    /// Number of the system call.
    pub id: i64,
    /// Its first argument.
    pub argument: u64,
    /// Number of waits.
    pub count: u64,
    /// Their total length.
    pub total: Nanos,
}

/// A reading of counts that only grow.
#[derive(Debug, Default)]
struct Counts {
    sum: u64,
    buckets: Vec<u32>,
}

/// The last reading of a thread's counts.
#[derive(Debug, Default)]
struct Seen {
    words: Vec<u64>,
    execution: Counts,
    banks: [Counts; BANKS],
}

/// New counts: the number of each wait and its length, and more.
pub(super) struct Delta {
    pub(super) rows: Vec<(u64, Histogram)>,
    pub(super) execution: Histogram,
    pub(super) incomplete: u64,
    pub(super) unplaced: u64,
    pub(super) last: Nanos,
    pub(super) waits: [(u64, Nanos); WAITS + 1],
}

/// The counts of all counted threads.
#[derive(Debug)]
pub(super) struct Tallies {
    memory: Mapped,
    /// Numbers that no thread uses.
    free: Vec<u32>,
    /// Number and last reading of each counted thread.
    threads: BTreeMap<u32, (u32, Seen)>,
}

impl Tallies {
    /// # Errors
    /// Returns the errors of mmap(2).
    pub(super) fn map(map: &MapData, count: u32) -> io::Result<Self> {
        Ok(Self {
            memory: Mapped::new(map, count as usize * WORDS)?,
            free: (0..count).rev().collect(),
            threads: BTreeMap::new(),
        })
    }

    /// Returns the number of the counts of a thread, which may get one now; `None` if none is free.
    pub(super) fn number_of(&mut self, tid: u32) -> Option<u32> {
        if let Some((number, _)) = self.threads.get(&tid) {
            return Some(*number);
        }
        let number = self.free.pop()?;
        // Another thread may have left its counts there.
        let mut seen = Seen::default();
        seen.read(&self.memory, number);
        self.threads.insert(tid, (number, seen));
        Some(number)
    }

    /// Returns whether a thread has counts.
    pub(super) fn is_used(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Returns the threads with counts.
    pub(super) fn threads(&self) -> Vec<u32> {
        self.threads.keys().copied().collect()
    }

    /// Forgets a thread, whose counts have been read.
    pub(super) fn remove(&mut self, tid: u32) {
        if let Some((number, _)) = self.threads.remove(&tid) {
            self.free.push(number);
        }
    }

    /// Returns what has been counted for a thread since the last call.
    pub(super) fn read(&mut self, tid: u32) -> Option<Delta> {
        let (number, seen) = self.threads.get_mut(&tid)?;
        Some(seen.read(&self.memory, *number))
    }
}

impl Seen {
    fn read(&mut self, memory: &Mapped, number: u32) -> Delta {
        let first = number as usize * WORDS;
        let mut head = Vec::new();
        let (mut execution, mut banks) = (Vec::new(), Vec::new());
        for _ in 0..ATTEMPTS {
            head = (first..first + EXECUTION)
                .map(|at| memory.word(at))
                .collect();
            fence(Ordering::Acquire);
            (execution, banks) = self.changed(memory, first, &head);
            fence(Ordering::Acquire);
            if head[WRITES].is_multiple_of(2) && memory.word(first + WRITES) == head[WRITES] {
                break;
            }
            std::hint::spin_loop();
        }
        let before = |at: usize| self.words.get(at).copied().unwrap_or(0);
        let more = |at: usize| head[at].wrapping_sub(before(at));
        let (incomplete, unplaced) = (more(INCOMPLETE), more(UNPLACED));
        let waits =
            std::array::from_fn(|place| (more(WAIT_COUNTS + place), Nanos(more(WAITED + place))));
        let [ran, least, most] = [head[RAN], head[RAN + 1], head[RAN + 2]];
        let execution = self.execution.add(&execution, ran, (least, most));
        let rows = banks.into_iter().filter_map(|(place, buckets)| {
            let [row, _, sum, least, most] =
                std::array::from_fn(|word| head[BANK_FIRST + place * BANK_WORDS + word]);
            let new = self.banks[place].add(&buckets, sum, (least, most));
            (new.count() > 0).then_some((row, new))
        });
        let rows = rows.collect();
        let last = Nanos(head[LAST]);
        self.words = head;
        Delta {
            rows,
            execution,
            incomplete,
            unplaced,
            last,
            waits,
        }
    }

    /// Reads the buckets of the execution times, and of the banks that have changed.
    fn changed(
        &self,
        memory: &Mapped,
        first: usize,
        head: &[u64],
    ) -> (Vec<u32>, Vec<(usize, Vec<u32>)>) {
        let count = |place: usize| BANK_FIRST + place * BANK_WORDS + 1;
        let has_changed =
            |place: &usize| self.words.get(count(*place)) != Some(&head[count(*place)]);
        let buckets = |part: usize| {
            let words = (first + part..first + part + BUCKET_WORDS).map(|at| memory.word(at));
            let mut halves = Vec::with_capacity(BUCKETS);
            for word in words {
                let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
                halves.push(u32::from_ne_bytes([a, b, c, d]));
                halves.push(u32::from_ne_bytes([e, f, g, h]));
            }
            halves
        };
        let changed: Vec<usize> = (0..BANKS).filter(has_changed).collect();
        if changed.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let banks = changed.into_iter();
        let banks = banks.map(|place| (place, buckets(RESPONSES + place * BUCKET_WORDS)));
        (buckets(EXECUTION), banks.collect())
    }
}

impl Counts {
    /// Replaces the reading. Returns the difference. Without new buckets, there is none.
    fn add(&mut self, buckets: &[u32], sum: u64, (least, most): (u64, u64)) -> Histogram {
        if buckets.is_empty() {
            return Histogram::new();
        }
        let before = self.buckets.iter().copied().chain(std::iter::repeat(0));
        let new = buckets.iter().zip(before);
        let new: Vec<u64> =
            (new.map(|(now, before)| u64::from(now.wrapping_sub(before)))).collect();
        let histogram = Histogram::of_counts(
            &new,
            CountedBeside {
                sum: Nanos(sum.wrapping_sub(self.sum)),
                min: Nanos(least),
                max: Nanos(most),
                seen_max: Some(Nanos(most)),
                ..CountedBeside::default()
            },
        );
        self.sum = sum;
        self.buckets = buckets.to_vec();
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::SignedNanos;

    #[test]
    fn readings_add_up_to_one_histogram() {
        let (mut counts, mut sum, mut all) = (Counts::default(), 0, Histogram::new());
        let mut buckets = vec![0_u32; BUCKETS];
        let mut exact = Histogram::new();
        let (mut least, mut most) = (u64::MAX, 0);
        for part in [
            vec![700_u64, 5_004, 9_999_999],
            vec![],
            vec![31, 31, 88_888],
        ] {
            for ns in part {
                exact.record(SignedNanos(ns as i64));
                buckets[bucket(ns)] += 1;
                sum += ns;
                (least, most) = (least.min(ns), most.max(ns));
            }
            all.merge(&counts.add(&buckets, sum, (least, most)));
        }
        assert_eq!(all, exact);
    }

    /// Wrapped counts continue to count.
    #[test]
    fn counts_may_wrap_around() {
        let mut counts = Counts::default();
        let mut buckets = vec![0; BUCKETS];
        buckets[7] = u32::MAX;
        counts.add(&buckets, u64::MAX, (7, 7));
        buckets[7] = 1;
        let new = counts.add(&buckets, 13, (7, 7));
        assert_eq!((new.count(), new.sum()), (2, Nanos(14)));
    }

    /// Returns the lower edges of the buckets of the model.
    fn edges() -> Vec<u64> {
        let all = Histogram::of_counts(&[1; BUCKETS], CountedBeside::default());
        all.buckets().iter().map(|(lower, ..)| lower).collect()
    }

    fn bucket(ns: u64) -> usize {
        edges().partition_point(|edge| *edge <= ns) - 1
    }

    /// Compares the buckets of the BPF programs, compiled for this machine, with those of the model,
    /// at both edges of each.
    #[test]
    fn kernel_counts_in_the_buckets_of_the_model() {
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/buckets.h");
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("b.c"), folder.path().join("b"));
        let text = format!(
            "#include \"{header}\"\n#include <stdio.h>\nint main(void){{for(unsigned n=0;n<COUNTED_NS;\
             n++)if(!n||bucket_of(n)!=bucket_of(n-1))printf(\"%u %u\\n\",n,bucket_of(n));return \
             COUNTED_BUCKETS!={BUCKETS};}}"
        );
        std::fs::write(&source, text).unwrap();
        let mut compiler = std::process::Command::new("cc");
        let compiled = compiler
            .arg("-O1")
            .arg("-o")
            .args([&program, &source])
            .output();
        let Ok(compiled) = compiled else {
            punctual_testing::skip!(Program, "cc is not installed");
            return;
        };
        assert!(compiled.status.success(), "{compiled:?}");
        let out = std::process::Command::new(&program).output().unwrap();
        assert!(out.status.success(), "another number of buckets");
        let text = String::from_utf8(out.stdout).unwrap();
        let mut found = Vec::new();
        for line in text.lines() {
            let (lower, bucket) = line.split_once(' ').unwrap();
            found.push((
                bucket.parse::<usize>().unwrap(),
                lower.parse::<u64>().unwrap(),
            ));
        }
        assert_eq!(found, (0..).zip(edges()).collect::<Vec<_>>());
    }
}
