//! Samples where watched threads spend their time, using BPF programs (`bpf/profile.bpf.c`): stacks
//! on the CPU at equal intervals of their CPU time, and both stacks of each longer wait.
//!
//! The kernel does not know which jobs will be late. It therefore samples all jobs of threads whose
//! release waits are known, and user space sorts the samples.

mod layout;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use aya::include_bytes_aligned;
use aya::maps::{HashMap, MapData, RingBuf};
use aya::programs::perf_event::PerfEventLinkId;
use punctual_model::{Comm, Nanos, Registers};

use crate::WatchError;
use crate::bpf::{News, Programs, Reads, name_missing};
use crate::flight::{Followed, ReleaseCall};
use layout::{LOST_AT, RELEASE_WORDS, WAIT_WORDS, releases};

/// The object file with the BPF programs, built by `bpf/build.sh`.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/profile.bpf.o");

/// The program that samples threads on the CPU.
const SAMPLING: &str = "sampling";

/// The other programs and their tracepoints, in the order of attaching.
const PROGRAMS: [(&str, &str); 3] = [
    ("exiting", "sched_process_exit"),
    ("waking", "sched_waking"),
    ("switching", "sched_switch"),
];

/// A stack as addresses, the innermost function first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawStack {
    /// Addresses in the kernel.
    pub kernel: Vec<u64>,
    /// Addresses in user space, found by frame pointers.
    pub user: Vec<u64>,
    /// The registers in user space.
    pub registers: Registers,
    /// The words on the user stack from the stack pointer: between 8 and 12 KiB, or up to the end of
    /// the stack. At most 1 KiB for a thread that ended a wait.
    pub words: Vec<u64>,
}

/// The state of a sampled thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It was on the CPU.
    Running,
    /// It waited for a CPU. Its stack is unknown.
    Runnable,
    /// It waited until this thread or interrupt ended the wait.
    Waiting(Waker),
}

/// Ended a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waker {
    /// A thread.
    Thread {
        /// Its ID.
        tid: u32,
        /// Its name.
        comm: Comm,
        /// Its stack.
        stack: RawStack,
    },
    /// An interrupt or softirq, with its kernel stack.
    Interrupt(Vec<u64>),
}

/// A sample of a watched thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSample {
    /// The thread.
    pub tid: u32,
    /// The beginning of the wait, or the time of a sample on the CPU.
    pub from: Nanos,
    /// The end of the wait; equal to `from` on the CPU.
    pub to: Nanos,
    /// The stack of the thread.
    pub stack: RawStack,
    /// Its state.
    pub doing: Doing,
}

/// The running programs. Dropping this value stops them.
pub struct StackSampler {
    programs: Programs,
    samples: RingBuf<MapData>,
    news: News,
    followed: BTreeMap<u32, Vec<ReleaseCall>>,
    /// Threads that are sampled on the CPU.
    links: BTreeMap<u32, PerfEventLinkId>,
}

impl std::fmt::Debug for StackSampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackSampler").finish_non_exhaustive()
    }
}

impl StackSampler {
    /// CPU time of a thread between two samples. It is not a divisor of usual periods, so that
    /// samples do not always hit the same part of a job.
    pub const INTERVAL: Nanos = Nanos(997_000);

    /// Maximum number of sampled threads. Each needs a file descriptor.
    pub const MOST_THREADS: usize = 256;

    /// Loads and starts the programs. No thread is sampled yet.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (because of missing
    /// privileges, lockdown or its version).
    pub fn start() -> Result<Self, WatchError> {
        Self::load().map_err(name_missing)
    }

    fn load() -> Result<Self, WatchError> {
        let stack_bytes = (16 << 10_u64).max(rustix::param::page_size() as u64);
        let mut programs = Programs::load(OBJECT, Reads::Registers, |loader| {
            loader.override_global("stack_bytes", &stack_bytes, true);
        })?;
        let samples = RingBuf::try_from(programs.take_map("samples")?)?;
        let news = News::new(RingBuf::try_from(programs.take_map("news")?)?);
        for (name, tracepoint) in PROGRAMS {
            programs.attach(name, tracepoint)?;
        }
        programs.forget_types();
        Ok(Self {
            programs,
            samples,
            news,
            followed: BTreeMap::new(),
            links: BTreeMap::new(),
        })
    }

    /// Samples the threads whose release waits are known, and no others.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to change a map, or to sample a running thread.
    pub fn follow(&mut self, followed: &Followed) -> Result<(), WatchError> {
        let gone: Vec<u32> = (self.followed.keys().copied())
            .filter(|tid| !followed.releases.contains_key(tid))
            .collect();
        for tid in gone {
            self.forget(tid)?;
        }
        for (tid, waits) in &followed.releases {
            if self.followed.get(tid) == Some(waits) {
                continue;
            }
            if self.links.len() >= Self::MOST_THREADS && !self.links.contains_key(tid) {
                continue;
            }
            let mut map: HashMap<&mut MapData, u32, [u64; RELEASE_WORDS]> =
                self.programs.map_mut("threads")?.try_into()?;
            let mut words = releases(waits);
            words[LOST_AT] = map.get(tid, 0).map_or(0, |old| old[LOST_AT]);
            map.insert(*tid, words, 0)?;
            if !self.followed.contains_key(tid) {
                let mut waiting: HashMap<&mut MapData, u32, [u64; WAIT_WORDS]> =
                    self.programs.map_mut("waiting")?.try_into()?;
                waiting.insert(*tid, [0; WAIT_WORDS], 0)?;
            }
            self.followed.insert(*tid, waits.clone());
            if !self.links.contains_key(tid) {
                // The thread may have ended.
                match self.programs.sample(SAMPLING, *tid, Self::INTERVAL) {
                    Ok(link) => drop(self.links.insert(*tid, link)),
                    Err(error) if crate::profile::is_running(*tid) => return Err(error),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self, tid: u32) -> Result<(), WatchError> {
        let mut map: HashMap<&mut MapData, u32, [u64; RELEASE_WORDS]> =
            self.programs.map_mut("threads")?.try_into()?;
        // The programs have already removed a thread that has ended.
        let _ = map.remove(&tid);
        let mut waiting: HashMap<&mut MapData, u32, [u64; WAIT_WORDS]> =
            self.programs.map_mut("waiting")?.try_into()?;
        let _ = waiting.remove(&tid);
        self.followed.remove(&tid);
        if let Some(link) = self.links.remove(&tid) {
            self.programs.stop_sampling(SAMPLING, link);
        }
        Ok(())
    }

    /// Returns whether a thread is sampled.
    pub fn is_sampled(&self, tid: u32) -> bool {
        self.followed.contains_key(&tid)
    }

    /// Takes the samples since the last call.
    pub fn read(&mut self, mut take: impl FnMut(StackSample)) {
        self.news.clear();
        while let Some(bytes) = self.samples.next() {
            if let Some(sample) = layout::sample(&bytes) {
                take(sample);
            }
        }
    }

    /// Returns a descriptor that becomes readable when a quarter of the space for samples is used.
    ///
    /// # Errors
    /// Returns an error if there are too many open files.
    pub fn news(&self) -> io::Result<OwnedFd> {
        self.news.descriptor()
    }

    /// Returns when the newest sample of a thread was lost: because the ring was full, or to limit the
    /// cost. Returns `None` if the thread is not sampled.
    pub fn lost_at(&self, tid: u32) -> Option<Nanos> {
        let map = self.programs.map("threads").ok()?;
        let map: HashMap<&MapData, u32, [u64; RELEASE_WORDS]> = map.try_into().ok()?;
        map.get(&tid, 0).ok().map(|words| Nanos(words[LOST_AT]))
    }
}

fn is_running(tid: u32) -> bool {
    let tid = i32::try_from(tid).ok().and_then(punctual_rt::Tid::from_raw);
    tid.is_some_and(|tid| punctual_rt::policy_of(tid).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sleeper::Sleeper;

    #[test]
    fn thread_killed_in_its_sleep_leaves_nothing() {
        let mut sampler = match StackSampler::start() {
            Ok(sampler) => sampler,
            Err(error) => {
                punctual_testing::skip_refused("the sampler of stacks", error.to_string());
                return;
            }
        };
        let sleeper = Sleeper::start();
        let tid = sleeper.tid();
        sampler.follow(&sleeper.followed()).unwrap();
        let waiting = || {
            let map: HashMap<&MapData, u32, [u64; WAIT_WORDS]> =
                sampler.programs.map("waiting").unwrap().try_into().unwrap();
            map.get(&tid, 0).ok().map(|wait| wait[0] > 0)
        };
        assert_eq!(sampler.lost_at(tid), Some(Nanos::ZERO));
        assert!(waiting().is_some());
        sleeper.kill(|| waiting() == Some(true));
        assert_eq!(waiting(), None);
        assert_eq!(sampler.lost_at(tid), None);
    }
}
