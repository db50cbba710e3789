//! Counts the wake-ups of the user's own threads without privileges, by their context switches and
//! the scheduler's counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{
    GroupSeen, LateWakeup, Nanos, PriorityClass, ThreadSeen, WaitHistogram, WakeupRow,
    WakeupSource, Wakeups, counted,
};
use punctual_trace::{GroupFinder, ThreadSwitches};

use super::wakeup_request::{WakeupRequest, seen};
use crate::lifecycle::monotonic;
use crate::switches::{SwitchJob, SwitchJobs};

/// Maximum number of threads: each has its own ring of the kernel.
const MOST: usize = 256;

/// Interval at which few threads are read. It is so short that mostly one wake-up of a thread falls
/// between two readings of the scheduler's counts, so that its wait is known.
const TURN: Duration = Duration::from_millis(2);
/// Interval at which many threads are read.
const SLOW_TURN: Duration = Duration::from_millis(20);
const FEW: usize = 16;

/// Interval of searching for new threads.
const LOOK: Duration = Duration::from_millis(500);

struct Track {
    switches: ThreadSwitches,
    jobs: SwitchJobs,
    thread: ThreadSeen,
    class: PriorityClass,
    group: Option<u64>,
    /// Start time of the thread. Another thread may reuse its ID.
    started: u64,
}

/// Counts the wake-ups of threads whose switches the kernel shows to this user.
pub(super) struct OwnWakeups {
    host: Host,
    request: WakeupRequest,
    why: String,
    groups: Option<GroupFinder>,
    /// Groups whose threads are counted; `None` for all.
    only: Option<BTreeSet<u64>>,
    threads: BTreeMap<u32, Track>,
    /// Threads of others, and those beyond [`MOST`].
    passed_over: BTreeSet<u32>,
    /// Number of threads beyond [`MOST`].
    beyond: u64,
    rows: BTreeMap<(u32, PriorityClass, Option<String>, Option<u64>), WaitHistogram>,
    longest: Vec<LateWakeup>,
    /// Wake-ups and records of threads that have ended.
    lost: (u64, u64),
    began: Instant,
    looked: Instant,
}

impl fmt::Debug for OwnWakeups {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OwnWakeups").finish_non_exhaustive()
    }
}

impl OwnWakeups {
    /// Begins to count. `why`: why not all wake-ups of the machine are counted.
    pub(super) fn begin(
        request: &WakeupRequest,
        host: &Host,
        why: String,
        groups: Option<GroupFinder>,
    ) -> Self {
        let mut own = Self {
            host: host.clone(),
            request: request.clone(),
            why,
            groups,
            only: None,
            threads: BTreeMap::new(),
            passed_over: BTreeSet::new(),
            beyond: 0,
            rows: BTreeMap::new(),
            longest: Vec::new(),
            lost: (0, 0),
            began: Instant::now(),
            looked: Instant::now(),
        };
        own.look();
        own
    }

    /// Returns the interval at which [`keep_up`](Self::keep_up) must be called.
    pub(super) fn turn(&self) -> Duration {
        if self.threads.len() <= FEW {
            TURN
        } else {
            SLOW_TURN
        }
    }

    pub(super) fn count_only(&mut self, ids: &BTreeSet<u64>) {
        self.only = Some(ids.clone());
    }

    /// Searches for new threads, and forgets those that have ended.
    fn look(&mut self) {
        let own = std::process::id();
        let tasks = self.host.tasks();
        let living: BTreeMap<u32, u64> = (tasks.iter())
            .map(|task| (task.tid, task.started_ticks))
            .collect();
        self.passed_over.retain(|tid| living.contains_key(tid));
        let lost = &mut self.lost;
        self.threads.retain(|tid, track| {
            let lives = living.get(tid) == Some(&track.started);
            if !lives {
                lost.0 += track.jobs.without_wait.0;
                lost.1 += track.jobs.lost;
            }
            lives
        });
        for task in tasks {
            if task.pid == own || self.passed_over.contains(&task.tid) {
                continue;
            }
            let thread = seen(&task);
            let class = PriorityClass::new(thread.kernel_priority, thread.policy);
            // The name changes in execve(2), and the class in sched_setattr(2).
            if let Some(track) = self.threads.get_mut(&task.tid) {
                (track.thread, track.class) = (thread, class);
                continue;
            }
            // A thread often gets its real-time policy after it has started.
            if !self.request.counts(class) {
                continue;
            }
            let has_room = self.threads.len() < MOST;
            self.beyond += u64::from(!has_room);
            let open = || ThreadSwitches::open(self.host.root(), task.tid).ok();
            let Some(switches) = has_room.then(open).flatten() else {
                self.passed_over.insert(task.tid);
                continue;
            };
            let group = self.groups.as_mut().and_then(|find| find(task.tid));
            let track = Track {
                switches,
                jobs: SwitchJobs::default(),
                thread,
                class,
                group,
                started: task.started_ticks,
            };
            self.threads.insert(task.tid, track);
        }
        self.looked = Instant::now();
    }

    /// Counts the wake-ups since the last call.
    pub(super) fn keep_up(&mut self) {
        let mut found = Vec::new();
        for track in self.threads.values_mut() {
            let at = monotonic();
            let counts = track.switches.counts();
            let jobs = track.jobs.take(track.switches.read(), counts, at);
            let is_in_group = (self.only.as_ref())
                .is_none_or(|only| track.group.is_some_and(|group| only.contains(&group)));
            if is_in_group && self.request.counts(track.class) {
                let key = (track.class, track.group);
                found.extend(jobs.into_iter().map(|job| (key, track.thread.clone(), job)));
            }
        }
        for (key, thread, job) in found {
            self.count(key, thread, &job);
        }
        if self.looked.elapsed() > LOOK {
            self.look();
        }
    }

    fn count(
        &mut self,
        (class, group): (PriorityClass, Option<u64>),
        victim: ThreadSeen,
        job: &SwitchJob,
    ) {
        let Some(wait) = job.before else {
            return;
        };
        let comm = self.request.by_comm.then(|| victim.comm.clone());
        let group = group.filter(|_| self.request.by_group);
        let row = self.rows.entry((job.cpu, class, comm, group)).or_default();
        row.record(wait);
        self.longest.push(LateWakeup {
            woken_ns: job.release(),
            latency_ns: wait,
            cpu: job.cpu,
            victim,
            culprit: None,
            culprit_ran_ns: None,
            waker: 0,
        });
        self.longest.sort_by_key(|late| Reverse(late.latency_ns));
        self.longest.truncate(self.request.longest);
    }

    /// Returns the counts so far.
    pub(super) fn read(&mut self) -> Wakeups {
        self.keep_up();
        let row = |(key, waits): (&(_, _, Option<String>, Option<u64>), &WaitHistogram)| {
            let (cpu, class, comm, group) = key.clone();
            WakeupRow {
                cpu,
                class,
                comm,
                group: group.map(GroupSeen::from_id),
                held_ns: Nanos::ZERO,
                waits: waits.clone(),
            }
        };
        let jobs = || self.threads.values().map(|track| &track.jobs);
        let unknown: u64 = jobs().map(|jobs| jobs.without_wait.0).sum();
        let lost: u64 = jobs().map(|jobs| jobs.lost).sum();
        let mut why = self.why.clone();
        if self.beyond > 0 {
            let beyond = counted(self.beyond, "thread is", "threads are");
            why = format!("{why}; {beyond} not counted, because at most {MOST} are");
        }
        Wakeups {
            source: WakeupSource::Switches,
            not_bpf: Some(why),
            elapsed_ns: Nanos::from(self.began.elapsed()),
            rows: self.rows.iter().map(row).collect(),
            longest: self.longest.clone(),
            open: Vec::new(),
            lost: unknown + self.lost.0,
            unnamed: 0,
            events_lost: lost + self.lost.1,
        }
    }
}
