//! Loads the programs of the job recorder, and accesses their maps.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;

use aya::include_bytes_aligned;
use aya::maps::{Array, HashMap, Map, MapData, RingBuf};
use aya::programs::perf_event::SoftwareEvent;
use punctual_model::{Counter, Nanos};

use super::counters::{self, Counters};
use super::rings::Rings;
use super::tallies::{CountedWaits, Tallies};
use super::timed::{self, Count, Timed};
use super::{Followed, JobAsk};
use crate::WatchError;
use crate::bpf::{self, News};
use crate::stage::Stage;

/// The object file with the BPF programs, built by `bpf/build.sh`.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/jobs.bpf.o");

/// The total memory of all rings, the limits for the memory of one ring, and the size of a record,
/// in bytes.
const ALL_BYTES: usize = 64 << 20;
const RING_BYTES: std::ops::RangeInclusive<usize> = (256 << 10)..=(4 << 20);
const RECORD_BYTES: usize = 64;

/// A program, its tracepoint, and the name of the recorded event in the model.
type Program = (&'static str, &'static str, &'static str);

/// Index in `release_calls` of the flag of the light stage. The programs use the same index, which
/// is not the number of any system call.
const LIGHT: u32 = 1023;

/// The maps with the counters, in the order of [`Counter::ALL`].
const COUNTER_MAPS: [&str; Counter::ALL.len()] = ["counter_0", "counter_1", "counter_2"];

/// Programs that are required to find jobs.
const NEEDED: [&str; 4] = ["switching", "waking", "calling", "returning"];

/// Programs that show threads that may have to be watched.
const JOINS: [&str; 2] = ["renaming", "joining"];

/// Programs that show which timer wakes a thread. The first runs at its end: attached before the other,
/// no timer seems to expire forever.
const TIMERS: [&str; 2] = ["timer_ends", "timer_begins"];

/// What is missing without these programs, as a warning calls it. Only the timers of watched threads are
/// recorded, so these are not the events of all timers.
const DUE_TIMES: &str = "the due time of timers";

/// Programs that are attached in the light stage. Their events are rare, or show the jobs.
const OF_LIGHT_STAGE: [&str; 12] = [
    "forking",
    "executing",
    JOINS[0],
    JOINS[1],
    "exiting",
    "migrating",
    "inheriting",
    "signalled",
    TIMERS[0],
    TIMERS[1],
    "waking",
    "switching",
];

/// Programs, in the order in which they are attached.
const PROGRAMS: &[Program] = &[
    (
        "irq_handler_begins",
        "irq_handler_entry",
        "irq:irq_handler_entry",
    ),
    (
        "irq_handler_ends",
        "irq_handler_exit",
        "irq:irq_handler_exit",
    ),
    ("softirq_begins", "softirq_entry", "irq:softirq_entry"),
    ("softirq_ends", "softirq_exit", "irq:softirq_exit"),
    ("local_timer_begins", "local_timer_entry", VECTORS),
    ("local_timer_ends", "local_timer_exit", VECTORS_END),
    ("reschedule_begins", "reschedule_entry", ""),
    ("reschedule_ends", "reschedule_exit", ""),
    ("call_function_begins", "call_function_entry", ""),
    ("call_function_ends", "call_function_exit", ""),
    (
        "call_function_single_begins",
        "call_function_single_entry",
        "",
    ),
    ("call_function_single_ends", "call_function_single_exit", ""),
    ("irq_work_begins", "irq_work_entry", ""),
    ("irq_work_ends", "irq_work_exit", ""),
    ("ipi_begins", "ipi_entry", ""),
    ("ipi_ends", "ipi_exit", ""),
    ("forking", "sched_process_fork", ""),
    ("executing", "sched_process_exec", ""),
    (JOINS[0], "task_rename", ""),
    (JOINS[1], "cgroup_attach_task", ""),
    ("exiting", "sched_process_exit", "sched:sched_process_exit"),
    (
        "migrating",
        "sched_migrate_task",
        "sched:sched_migrate_task",
    ),
    ("inheriting", "sched_pi_setprio", "sched:sched_pi_setprio"),
    ("faulting", "page_fault_user", "exceptions:page_fault_user"),
    (
        "faulting_in_call",
        "page_fault_kernel",
        "exceptions:page_fault_kernel",
    ),
    ("signalled", "signal_generate", "signal:signal_generate"),
    ("issuing", "block_rq_issue", "block:block_rq_issue"),
    ("completing", "block_rq_complete", "block:block_rq_complete"),
    (TIMERS[0], "hrtimer_expire_exit", ""),
    (TIMERS[1], "hrtimer_expire_entry", DUE_TIMES),
    ("waking", "sched_waking", "sched:sched_waking"),
    ("calling", "sys_enter", "raw_syscalls:sys_enter"),
    ("returning", "sys_exit", "raw_syscalls:sys_exit"),
    ("switching", "sched_switch", "sched:sched_switch"),
];

/// The program for the ends of page faults, and the events at which it runs. The kernel counts a
/// fault shortly before it returns.
const FAULT_ENDS: &str = "fault_ends";
const COUNTED: [SoftwareEvent; 2] = [SoftwareEvent::PageFaultsMin, SoftwareEvent::PageFaultsMaj];

const VECTORS: &str = "irq_vectors:*_entry";
const VECTORS_END: &str = "irq_vectors:*_exit";

/// Additional event that is recorded by the program `switching`.
const STACKS: &str = "ftrace:kernel_stack";

/// The running programs. Dropping this value stops them.
#[derive(Debug)]
pub(super) struct Programs {
    programs: bpf::Programs,
    attached: BTreeSet<&'static str>,
    unseen: BTreeMap<String, String>,
    /// Programs that could not be attached.
    absent: BTreeSet<&'static str>,
    pid_limit: u32,
    timed: Timed,
    /// Number of threads whose jobs the programs could not time, because there were too many.
    untimed: usize,
}

/// Returns the number of records in the ring of one CPU, which is a power of two.
fn ring_length(cpus: usize) -> u32 {
    let bytes = (ALL_BYTES / cpus.max(1)).clamp(*RING_BYTES.start(), *RING_BYTES.end());
    let records = (bytes / RECORD_BYTES) as u32;
    1 << records.ilog2()
}

impl Programs {
    /// Loads and starts the programs. Also returns their rings, the ring that wakes the reader, and
    /// the number of CPUs.
    pub(super) fn start(
        ask: JobAsk,
        counters: Option<&Counters>,
    ) -> Result<(Self, Rings, News, u32), WatchError> {
        let counting = u32::from(counters.is_some());
        let wanted_name = ask.joining.unwrap_or_default().0;
        let cpus = aya::util::nr_cpus().unwrap_or(1).max(1);
        let length = ring_length(cpus);
        let count = cpus as u32;
        let pid_limit = ask.pid_max.saturating_add(1);
        let (bits, mask) = (pid_limit.div_ceil(64), length - 1);
        let (places, pages, numbers) = timed::sizes(ask.timed, pid_limit);
        // On arm64, a kernel stack has at least one page.
        let stack_bytes = (16 << 10_u64).max(rustix::param::page_size() as u64);
        let programs = bpf::Programs::load(OBJECT, bpf::Reads::Registers, |loader| {
            loader
                .override_global("ring_mask", &mask, true)
                .override_global("pid_limit", &pid_limit, true)
                .override_global("stack_bytes", &stack_bytes, true)
                .override_global("counting", &counting, true)
                .override_global("budget_ns", &ask.budget.0, true)
                .override_global("wanted_name", &wanted_name, true)
                .map_max_entries("records", count * length)
                .map_max_entries("heads", count)
                .map_max_entries("listed", count * length)
                .map_max_entries("jobs", places)
                .map_max_entries("release_waits", places)
                .map_max_entries("job_pages", pages)
                .map_max_entries("job_numbers", numbers)
                .map_max_entries("tallies", ask.counted.max(1))
                .map_max_entries("watched", bits)
                .map_max_entries("learning", bits)
                .map_max_entries("wakers", bits)
                .map_max_entries("their_wakers", bits)
                .map_max_entries("places", count);
            for name in COUNTER_MAPS {
                loader.map_max_entries(name, count);
            }
        })?;
        let mut all = Self {
            programs,
            attached: BTreeSet::new(),
            unseen: BTreeMap::new(),
            absent: BTreeSet::new(),
            pid_limit,
            timed: Timed::new(ask.timed),
            untimed: 0,
        };
        if let Some(counters) = counters {
            all.read_counters(counters)?;
        }
        let array = |name| all.programs.array(name);
        let maps = (array("heads")?, array("records")?, array("listed")?);
        let rings = Rings::map(maps, cpus, length).map_err(|error| WatchError::refused(&error))?;
        let news = RingBuf::try_from(all.programs.take_map("news")?)?;
        for (name, tracepoint, event) in PROGRAMS {
            match all.programs.attach(name, tracepoint) {
                Ok(()) => {
                    all.attached.insert(event);
                }
                Err(error) if NEEDED.contains(name) => return Err(error),
                Err(_) if event.is_empty() => {
                    all.absent.insert(name);
                }
                Err(error) => {
                    all.absent.insert(name);
                    all.unseen.insert((*event).to_owned(), error.to_string());
                }
            }
        }
        // Without these events, only an upper bound for the length of a fault is known.
        let _ = all.programs.run_at(FAULT_ENDS, &COUNTED);
        all.programs.forget_types();
        all.attached.insert(STACKS);
        Ok((all, rings, News::new(news), count))
    }

    /// Returns whether the event with this name in the model is recorded in a stage.
    pub(super) fn records(&self, event: &str, stage: Stage) -> bool {
        let is_light = |(name, _, of): &Program| *of == event && OF_LIGHT_STAGE.contains(name);
        self.attached.contains(event) && (stage == Stage::Full || PROGRAMS.iter().any(is_light))
    }

    /// Returns whether the programs show all threads that may have to be watched.
    pub(super) fn shows_joins(&self) -> bool {
        !JOINS.iter().any(|name| self.absent.contains(name))
    }

    pub(super) const fn untimed(&self) -> usize {
        self.untimed
    }

    pub(super) const fn unseen(&self) -> &BTreeMap<String, String> {
        &self.unseen
    }

    /// Replaces the threads and system calls to follow.
    pub(super) fn follow(&mut self, before: &Followed, now: &Followed) -> Result<(), WatchError> {
        self.release_calls(&before.calls, &now.calls)?;
        let limit = self.pid_limit;
        let threads = |tids: &[u32]| -> BTreeSet<u32> {
            tids.iter().copied().filter(|tid| *tid < limit).collect()
        };
        // Watch the threads last, because no record of a thread is listed before this.
        for (set, before, now) in [
            ("learning", &before.learning, &now.learning),
            ("watched", &before.tids, &now.tids),
        ] {
            let (before, now) = (threads(before), threads(now));
            self.programs.replace_threads(set, &before, &now)?;
        }
        self.untimed += self.timed.replace(&mut self.programs, &now.releases)?;
        Ok(())
    }

    pub(super) const fn timed(&self) -> &Timed {
        &self.timed
    }

    pub(super) fn count(&mut self, tid: u32, count: Count) -> Result<(), WatchError> {
        self.timed.count(&mut self.programs, tid, count)
    }

    /// Maps the counts of the threads.
    pub(super) fn tallies(&self, count: u32) -> Result<Tallies, WatchError> {
        let map = self.programs.array("tallies")?;
        Tallies::map(map, count).map_err(|error| WatchError::refused(&error))
    }

    /// Returns the release of the job in progress of a counted thread.
    pub(super) fn open_job(&self, tid: u32) -> Option<Nanos> {
        const RELEASED: usize = 3;
        let job = self.timed.job(&self.programs, tid)?;
        Some(Nanos(job[RELEASED])).filter(|released| *released > Nanos::ZERO)
    }

    /// Returns the waits of counted threads that were not release waits.
    pub(super) fn waits_elsewhere(&self) -> Vec<CountedWaits> {
        let map = self.programs.map("waits_elsewhere").ok();
        let map: Option<HashMap<&MapData, [u32; 4], [u64; 2]>> =
            map.and_then(|map| map.try_into().ok());
        let all = map.iter().flat_map(|map| map.iter().flatten());
        let waits = all.map(|([first, second, call, tid], [count, total])| {
            let [a, b, c, d] = first.to_ne_bytes();
            let [e, f, g, h] = second.to_ne_bytes();
            CountedWaits {
                tid,
                id: i64::from(call as i32),
                argument: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                count,
                total: Nanos(total),
            }
        });
        waits.collect()
    }

    /// Gives the counters to the programs.
    fn read_counters(&self, counters: &Counters) -> Result<(), WatchError> {
        for (counter, cpu, file) in counters.each() {
            let name = COUNTER_MAPS[counter.index()];
            let Map::PerfEventArray(map) = self.programs.map(name)? else {
                return Err(WatchError::Refused(format!("the map {name} is missing")));
            };
            let set = counters::set(map.fd().as_fd(), cpu, file);
            set.map_err(|error| WatchError::refused(&error))?;
        }
        Ok(())
    }

    fn release_calls(&mut self, before: &[i64], calls: &[i64]) -> Result<(), WatchError> {
        let number = |call: &i64| u32::try_from(*call).unwrap_or(LIGHT);
        let mut map: Array<&mut MapData, u32> =
            self.programs.map_mut("release_calls")?.try_into()?;
        let no_longer = before.iter().map(|call| (number(call), 0));
        for (call, is) in no_longer.chain(calls.iter().map(|call| (number(call), 1))) {
            if call < LIGHT {
                map.set(call, is, 0)?;
            }
        }
        Ok(())
    }

    /// Attaches the programs of the full stage, or detaches them.
    pub(super) fn enter(&mut self, full: bool) -> Result<(), WatchError> {
        let is_of_full_stage =
            |name: &&str| !OF_LIGHT_STAGE.contains(name) && !self.absent.contains(name);
        let names: Vec<&str> = PROGRAMS.iter().map(|(name, ..)| *name).collect();
        let names = names.into_iter().filter(is_of_full_stage);
        if full {
            let _ = self.programs.run_at(FAULT_ENDS, &COUNTED);
            // The program at the end of a handler is attached before the one at its beginning, and
            // detached after it. Otherwise, a handler could seem to be in progress forever.
            for name in names.rev() {
                self.programs.resume(name)?;
            }
            // In the full stage, the flags of wake-ups rely on all programs.
            return self.set_light(false);
        }
        let names: Vec<&str> = names.collect();
        self.set_light(true)?;
        self.programs.stop_at(FAULT_ENDS)?;
        for name in names {
            self.programs.pause(name)?;
        }
        Ok(())
    }

    fn set_light(&mut self, light: bool) -> Result<(), WatchError> {
        let map = self.programs.map_mut("release_calls")?;
        let mut map: Array<&mut MapData, u32> = map.try_into()?;
        Ok(map.set(LIGHT, u32::from(light), 0)?)
    }
}

#[cfg(test)]
mod tests {
    use aya::maps::{HashMap, MapData};
    use punctual_model::Nanos;

    use super::ring_length;
    use crate::jobs::{CounterEvents, JobAsk, JobRecorder};
    use crate::sleeper::Sleeper;

    #[test]
    fn thread_killed_in_its_sleep_leaves_nothing() {
        let started = JobRecorder::start(JobAsk {
            pid_max: 4 << 20,
            budget: Nanos::from_secs(100),
            timed: 1,
            counted: 1,
            joining: None,
            counters: Some(CounterEvents::SOFTWARE),
        });
        let mut recorder = match started {
            Ok(recorder) => recorder,
            Err(error) => {
                punctual_testing::skip_refused("the recorder of jobs", error.to_string());
                return;
            }
        };
        let sleeper = Sleeper::start();
        let tid = sleeper.tid();
        recorder.follow(&sleeper.followed()).unwrap();
        let programs = &recorder.programs.programs;
        let asleep = || -> Vec<u32> {
            let map = programs.map("asleep").unwrap();
            let map: HashMap<&MapData, u32, u64> = map.try_into().unwrap();
            map.keys().flatten().collect()
        };
        let summed = || -> Vec<u32> {
            let map = programs.map("sums").unwrap();
            let map: HashMap<&MapData, u32, [u64; 9]> = map.try_into().unwrap();
            map.keys().flatten().collect()
        };
        let has_counters = recorder.no_counters().is_none();
        sleeper.kill(|| asleep().contains(&tid) && (summed().contains(&tid) || !has_counters));
        assert_eq!((asleep(), summed()), (vec![], vec![]));
        assert_eq!(recorder.programs.open_job(tid), None);
    }

    #[test]
    fn rings_are_limited_powers_of_two() {
        assert_eq!(ring_length(2), 65_536);
        assert_eq!(ring_length(48), 16_384);
        assert_eq!(ring_length(1_000), 4_096);
    }
}
