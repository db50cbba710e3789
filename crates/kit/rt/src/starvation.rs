//! Threads that want to run but get no CPU time, because threads of higher priority keep their CPU.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use crate::{Error, Occupant, Starved, Tid, affinity, demote, policy_of};

/// Watches whether a thread of this process is starved.
///
/// A thread is starved from one look to the next if it is runnable at both and has used no CPU time
/// in between. A thread that sleeps, or is only slow, is not.
#[derive(Debug)]
pub struct StarvationWatch {
    thread: Tid,
    /// The CPU time at the start of the current starvation, and that start.
    since: Option<(u64, Instant)>,
}

impl StarvationWatch {
    /// Begins to watch a thread of this process.
    pub fn new(thread: Tid) -> Self {
        Self {
            thread,
            since: None,
        }
    }

    /// Returns how long the thread has been starved, as far as the previous calls show. Call this
    /// repeatedly.
    pub fn starved_for(&mut self) -> Duration {
        let runnable = self.stat().is_some_and(|stat| stat.runnable);
        let Some(used) = cpu_time_of(self.thread).filter(|_| runnable) else {
            self.since = None;
            return Duration::ZERO;
        };
        match self.since {
            Some((before, since)) if before == used => since.elapsed(),
            _ => {
                self.since = Some((used, Instant::now()));
                Duration::ZERO
            }
        }
    }

    /// Returns which threads keep the thread from running; `None` if it is not starved. Takes
    /// 0.1 s.
    pub fn explain(&self) -> Option<Starved> {
        let (_, since) = self.since?;
        let Stat { name, cpu, .. } = self.stat()?;
        Some(Starved {
            name,
            cpu,
            duration: since.elapsed(),
            occupants: occupants(cpu),
        })
    }

    fn stat(&self) -> Option<Stat> {
        Stat::read(&format!("/proc/self/task/{}/stat", self.thread))
    }

    /// Lets the thread run at SCHED_OTHER on the CPUs of the calling thread, so that it can end.
    ///
    /// # Errors
    /// See [`affinity::set`].
    pub fn rescue(&self) -> Result<(), Error> {
        demote(self.thread);
        affinity::set(self.thread, &affinity::current()?)
    }
}

/// The part of a thread's `stat` that matters here (proc_pid_stat(5)).
struct Stat {
    name: String,
    runnable: bool,
    used_ticks: u64,
    cpu: u32,
}

impl Stat {
    #[expect(clippy::disallowed_methods, reason = "the kernel limits this file")]
    fn read(path: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name can contain any character, including parentheses.
        let (before, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        // Fields are counted from 1; the name is the second.
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = |number: usize| field(number)?.parse::<u64>().ok();
        Some(Self {
            name: before.split_once('(')?.1.to_owned(),
            runnable: field(3)? == "R",
            used_ticks: ticks(14)?.saturating_add(ticks(15)?),
            cpu: field(39)?.parse().ok()?,
        })
    }
}

/// Returns the CPU time of a thread of this process in ns.
fn cpu_time_of(thread: Tid) -> Option<u64> {
    // The clock of a thread: `MAKE_THREAD_CPUCLOCK` with CPUCLOCK_SCHED of the kernel's
    // include/linux/posix-timers.h.
    let clock = (!thread.as_raw() << 3) | 6;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to `time`, and fails for a clock that does not exist.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let nanos = |time: libc::timespec| {
        let seconds = u64::try_from(time.tv_sec).ok()?;
        seconds
            .checked_mul(1_000_000_000)?
            .checked_add(u64::try_from(time.tv_nsec).ok()?)
    };
    if result == 0 { nanos(time) } else { None }
}

/// Time over which a thread must use CPU time to count as an occupant. The counters have steps of
/// 10 ms.
const OCCUPATION: Duration = Duration::from_millis(100);

/// Returns the real-time threads of the machine that use a CPU. Takes [`OCCUPATION`].
fn occupants(cpu: u32) -> Vec<Occupant> {
    let runs = |(process, thread): (u32, u32)| {
        let stat = Stat::read(&format!("/proc/{process}/task/{thread}/stat"))?;
        (stat.runnable && stat.cpu == cpu).then_some(stat)
    };
    let threads = numbers("/proc").into_iter().flat_map(|process| {
        let threads = numbers(&format!("/proc/{process}/task")).into_iter();
        threads.map(move |thread| (process, thread))
    });
    let runnable: Vec<_> = threads.filter_map(|id| Some((id, runs(id)?))).collect();
    std::thread::sleep(OCCUPATION);
    let occupant = |(id, before): ((u32, u32), Stat)| {
        let policy = policy_of(Tid::from_raw(i32::try_from(id.1).ok()?)?).ok()?;
        let uses = policy.kind().is_real_time() && runs(id)?.used_ticks > before.used_ticks;
        uses.then_some(Occupant {
            name: before.name,
            process: id.0,
            policy: policy.to_string(),
        })
    };
    runnable.into_iter().filter_map(occupant).collect()
}

/// Returns the entries of a folder that are numbers.
fn numbers(folder: &str) -> Vec<u32> {
    let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(name);
    names.filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, ThreadBuilder};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn thread_that_sleeps_or_runs_is_not_starved() {
        static END: AtomicBool = AtomicBool::new(false);
        for sleeps in [true, false] {
            END.store(false, Ordering::Relaxed);
            let thread = ThreadBuilder::new("not starved").spawn(move || {
                while !END.load(Ordering::Relaxed) {
                    if sleeps {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            let thread = thread.unwrap();
            let mut watch = StarvationWatch::new(thread.tid());
            for _ in 0..10 {
                assert!(watch.starved_for() < Duration::from_secs(5));
                std::thread::sleep(Duration::from_millis(5));
            }
            END.store(true, Ordering::Relaxed);
            thread.join().unwrap();
        }
    }

    #[test]
    fn starved_thread_is_named_and_rescued() {
        let cpus = affinity::current().unwrap();
        let [.., last] = cpus[..] else { return };
        if cpus.len() < 2 {
            punctual_testing::skip!(Hardware, "a CPU beside the occupied one");
            return;
        }
        affinity::set(crate::ThreadRef::Current, &cpus[..1]).unwrap();
        // The occupant ends by itself, whatever happens to this test.
        let until = crate::Clock::Monotonic.now() + Duration::from_secs(20);
        static END: AtomicBool = AtomicBool::new(false);
        let occupy = move || {
            while !END.load(Ordering::Relaxed) && crate::Clock::Monotonic.now() < until {
                std::hint::spin_loop();
            }
        };
        let builder = |name: &str, priority| {
            let policy = Policy::Fifo { priority };
            ThreadBuilder::new(name).policy(policy)
        };
        let waits = || std::thread::sleep(Duration::from_millis(300));
        let starved = match builder("wants to run", 1).cpus(&[last]).spawn(waits) {
            Ok(starved) => starved,
            Err(error) => {
                punctual_testing::skip_refused("SCHED_FIFO", &error);
                return;
            }
        };
        let occupant = builder("occupant", 2).cpus(&[last]).spawn(occupy).unwrap();
        let mut watch = StarvationWatch::new(starved.tid());
        while watch.starved_for() < Duration::from_millis(200) {
            assert!(crate::Clock::Monotonic.now() < until, "it is not starved");
            std::thread::sleep(Duration::from_millis(20));
        }
        let found = watch.explain().unwrap();
        starved.join_rescuing().unwrap();
        let late = builder("late", 1).cpus(&[last]).spawn(|| ());
        let late = late.unwrap_err();
        assert!(matches!(&late, Error::ThreadStarved(_)), "{late}");
        END.store(true, Ordering::Relaxed);
        occupant.join().unwrap();
        affinity::set(crate::ThreadRef::Current, &cpus).unwrap();
        assert_eq!((found.name.as_str(), found.cpu), ("wants to run", last));
        let told = found.to_string();
        let process = std::process::id();
        assert!(
            late.to_string()
                .starts_with("thread late got no CPU time for 2."),
            "{late}"
        );
        let by = format!("occupant (process {process}, SCHED_FIFO priority 2)");
        assert!(told.contains(&by), "{told}");
    }
}
