//! The threads whose jobs the programs time and count, with their release waits.

use std::collections::BTreeMap;

use aya::maps::{Array, MapData};
use punctual_model::Nanos;

use crate::flight::ReleaseCall;
use crate::{WatchError, bpf};

/// Number of release waits in `struct waits`.
pub(super) const WAITS: usize = 4;

/// The words of `struct waits`: arguments, ignored bits, two calls in each word, and how to count.
type Waits = [u64; 2 * WAITS + WAITS / 2 + 4];

/// The words of `struct job`.
pub(super) type Job = [u64; 22];

/// Number of thread IDs that share a page of `job_numbers`.
const PAGE: u32 = 64;

/// How to count the jobs of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Longer jobs are listed.
    pub(super) list_above: Nanos,
    /// Beginning of the time series, and length of its rows.
    pub(super) rows: (Nanos, Nanos),
    /// Number of the counts; `None` if the jobs are not counted.
    pub(super) tally: Option<u32>,
}

/// The places of threads in the maps `release_waits` and `jobs`. Place 0 is not used.
#[derive(Debug)]
pub(super) struct Timed {
    /// Maximum number of threads.
    limit: u32,
    /// Place, release waits and counting of each thread.
    threads: BTreeMap<u32, (u32, Vec<ReleaseCall>, Count)>,
    free: Vec<u32>,
    /// Page in `job_numbers`, and its number of threads.
    pages: BTreeMap<u32, (u32, u32)>,
    free_pages: Vec<u32>,
}

/// Returns the number of elements of `release_waits` and `jobs`, of `job_pages`, and of
/// `job_numbers`.
pub(super) fn sizes(limit: u32, pid_limit: u32) -> (u32, u32, u32) {
    let pages = pid_limit.div_ceil(PAGE);
    (limit + 1, pages, (limit.min(pages) + 1) * PAGE)
}

fn value(waits: &[ReleaseCall], count: Count) -> Waits {
    let mut value = [0; _];
    for place in 0..WAITS {
        let wait = waits.get(place);
        let call = wait.and_then(|wait| u32::try_from(wait.id).ok());
        value[place] = wait.map_or(0, |wait| wait.argument);
        value[WAITS + place] = wait.map_or(0, |wait| wait.ignored);
        let half = u64::from(call.unwrap_or(u32::MAX));
        let shift = if (place % 2 == 0) == cfg!(target_endian = "little") {
            0
        } else {
            32
        };
        value[2 * WAITS + place / 2] |= half << shift;
    }
    let (origin, length) = count.rows;
    let wanted = count.tally.map_or(0, |tally| u64::from(tally) + 1);
    value[2 * WAITS + WAITS / 2..].copy_from_slice(&[
        count.list_above.0,
        origin.0,
        length.0.max(1),
        wanted,
    ]);
    value
}

impl Timed {
    pub(super) const fn new(limit: u32) -> Self {
        Self {
            limit,
            threads: BTreeMap::new(),
            free: Vec::new(),
            pages: BTreeMap::new(),
            free_pages: Vec::new(),
        }
    }

    /// Replaces the threads whose jobs are timed. Returns the number of new threads that do not fit.
    pub(super) fn replace(
        &mut self,
        programs: &mut bpf::Programs,
        now: &BTreeMap<u32, Vec<ReleaseCall>>,
    ) -> Result<usize, WatchError> {
        let gone = self.threads.keys().filter(|tid| !now.contains_key(tid));
        for tid in gone.copied().collect::<Vec<_>>() {
            self.remove(programs, tid)?;
        }
        let mut excess = 0;
        for (tid, waits) in now {
            match self.threads.get_mut(tid) {
                Some((_, known, _)) if known == waits => {}
                Some((place, known, count)) => {
                    known.clone_from(waits);
                    set(programs, *place, value(waits, *count))?;
                }
                None => excess += usize::from(!self.add(programs, *tid, waits)?),
            }
        }
        Ok(excess)
    }

    /// Adds a thread. Returns `false` if there are too many.
    fn add(
        &mut self,
        programs: &mut bpf::Programs,
        tid: u32,
        waits: &[ReleaseCall],
    ) -> Result<bool, WatchError> {
        let used = self.threads.len() + self.free.len();
        if self.threads.len() >= self.limit as usize {
            return Ok(false);
        }
        let place = self.free.pop().unwrap_or(used as u32 + 1);
        let count = Count::default();
        set(programs, place, value(waits, count))?;
        let mut jobs: Array<&mut MapData, Job> = programs.map_mut("jobs")?.try_into()?;
        jobs.set(place, [0; 22], 0)?;
        let next = (self.pages.len() + self.free_pages.len()) as u32 + 1;
        let free_pages = &mut self.free_pages;
        let new = || (free_pages.pop().unwrap_or(next), 0);
        let (page, threads) = self.pages.entry(tid / PAGE).or_insert_with(new);
        let is_new = *threads == 0;
        *threads += 1;
        let page = *page;
        publish(programs, page * PAGE + tid % PAGE, place)?;
        if is_new {
            let mut pages: Array<&mut MapData, u32> = programs.map_mut("job_pages")?.try_into()?;
            pages.set(tid / PAGE, page, 0)?;
        }
        self.threads.insert(tid, (place, waits.to_vec(), count));
        Ok(true)
    }

    fn remove(&mut self, programs: &mut bpf::Programs, tid: u32) -> Result<(), WatchError> {
        let Some((place, ..)) = self.threads.remove(&tid) else {
            return Ok(());
        };
        self.free.push(place);
        if let Some((page, threads)) = self.pages.get_mut(&(tid / PAGE)) {
            let page = *page;
            *threads -= 1;
            publish(programs, page * PAGE + tid % PAGE, 0)?;
            if *threads == 0 {
                let mut pages: Array<&mut MapData, u32> =
                    programs.map_mut("job_pages")?.try_into()?;
                pages.set(tid / PAGE, 0, 0)?;
                self.pages.remove(&(tid / PAGE));
                self.free_pages.push(page);
            }
        }
        Ok(())
    }

    /// Returns how the jobs of a timed thread are counted.
    pub(super) fn counting(&self, tid: u32) -> Option<Count> {
        self.threads.get(&tid).map(|(_, _, count)| *count)
    }

    /// Changes how the jobs of a timed thread are counted.
    pub(super) fn count(
        &mut self,
        programs: &mut bpf::Programs,
        tid: u32,
        to: Count,
    ) -> Result<(), WatchError> {
        match self.threads.get_mut(&tid) {
            Some((place, waits, count)) if *count != to => {
                *count = to;
                set(programs, *place, value(waits, to))
            }
            _ => Ok(()),
        }
    }

    /// Returns the release waits of a thread.
    pub(super) fn waits(&self, tid: u32) -> &[ReleaseCall] {
        self.threads.get(&tid).map_or(&[], |(_, waits, _)| waits)
    }

    /// Returns the job of a thread that is counted.
    pub(super) fn job(&self, programs: &bpf::Programs, tid: u32) -> Option<Job> {
        let (place, ..) = self.threads.get(&tid)?;
        let jobs: Array<&MapData, Job> = programs.map("jobs").ok()?.try_into().ok()?;
        jobs.get(place, 0).ok().filter(|job: &Job| job[0] > 0)
    }
}

fn set(programs: &mut bpf::Programs, place: u32, value: Waits) -> Result<(), WatchError> {
    let mut waits: Array<&mut MapData, Waits> = programs.map_mut("release_waits")?.try_into()?;
    Ok(waits.set(place, value, 0)?)
}

fn publish(programs: &mut bpf::Programs, place: u32, number: u32) -> Result<(), WatchError> {
    let mut numbers: Array<&mut MapData, u32> = programs.map_mut("job_numbers")?.try_into()?;
    Ok(numbers.set(place, number, 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_fill_the_places_of_the_kernel() {
        let wait = |id, argument| ReleaseCall {
            id,
            argument,
            ignored: 7,
        };
        let count = Count {
            list_above: Nanos(9),
            rows: (Nanos(3), Nanos(4)),
            tally: Some(0),
        };
        let value = value(&[wait(232, 5), wait(202, 0x7f00), wait(35, 1)], count);
        assert_eq!(value[..4], [5, 0x7f00, 1, 0]);
        assert_eq!(value[4..8], [7, 7, 7, 0]);
        let calls: Vec<u32> = (value[8..10].iter())
            .flat_map(|word| {
                word.to_ne_bytes()
                    .chunks(4)
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
            })
            .map(|half| u32::from_ne_bytes(half.try_into().unwrap()))
            .collect();
        assert_eq!(calls, [232, 202, 35, u32::MAX]);
        assert_eq!(value[10..], [9, 3, 4, 1]);
    }

    #[test]
    fn maps_have_a_place_for_each_thread() {
        assert_eq!(sizes(16_384, 32_769), (16_385, 513, 514 * 64));
        assert_eq!(sizes(2, 4 << 20), (3, 65_536, 3 * 64));
    }
}
