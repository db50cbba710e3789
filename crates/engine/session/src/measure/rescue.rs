//! Threads of a run that should end, but get no CPU time because a thread of higher priority
//! occupies their CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::TaskRecord;
use punctual_rt::{StarvationWatch, Tid, current_tid};

/// Interval of the checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time without CPU time after which a thread is rescued. SIGTERM ends a run within 2 s, of which
/// this is a part.
const PATIENCE: Duration = Duration::from_millis(700);

/// Number of CPUs whose occupants are found. Each takes 0.1 s.
const MOST_EXPLAINED: usize = 4;

/// Watches all threads of this process from the stop of a run on. Rescues those that are starved:
/// they end at normal priority on the CPUs of the calling thread.
#[derive(Default)]
pub(super) struct Rescue {
    looked: Option<Instant>,
    watches: BTreeMap<Tid, StarvationWatch>,
    explained: BTreeSet<u32>,
    was_needed: bool,
    told: Vec<String>,
}

impl Rescue {
    /// Checks the threads. Call this repeatedly while they should end.
    pub(super) fn look(&mut self) {
        if self
            .looked
            .is_some_and(|looked| looked.elapsed() < LOOK_EVERY)
        {
            return;
        }
        self.looked = Some(Instant::now());
        let own = current_tid();
        let mut starved = Vec::new();
        for (tid, cpu) in runnable() {
            let watch = (self.watches.entry(tid)).or_insert_with(|| StarvationWatch::new(tid));
            if tid != own && watch.starved_for() >= PATIENCE {
                starved.push((tid, cpu));
            }
        }
        for (tid, cpu) in &starved {
            let new = self.explained.len() < MOST_EXPLAINED && self.explained.insert(*cpu);
            if new && let Some(how) = self.watches[tid].explain() {
                self.told.push(format!(
                    "{how}; after the end of the run, it had to run on another CPU to end"
                ));
            }
        }
        for (tid, _) in starved {
            self.was_needed = true;
            if let Some(watch) = self.watches.remove(&tid)
                && let Err(error) = watch.rescue()
            {
                self.told
                    .push(format!("thread {tid} got no CPU time: {error}"));
            }
        }
    }

    /// Returns whether any thread had to be rescued.
    pub(super) fn was_needed(&self) -> bool {
        self.was_needed
    }

    /// Returns one warning for each CPU.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }
}

fn tasks() -> Vec<TaskRecord> {
    Host::live().tasks_of(std::process::id())
}

/// Returns the runnable threads of this process and their CPUs.
fn runnable() -> impl Iterator<Item = (Tid, u32)> {
    let tasks = tasks().into_iter().filter(|task| task.state == 'R');
    tasks.filter_map(|task| Some((Tid::from_raw(i32::try_from(task.tid).ok()?)?, task.last_cpu)))
}

/// Returns up to 20 threads of this process with their states, without the calling thread.
pub(super) fn other_threads() -> String {
    let own = current_tid().as_raw().cast_unsigned();
    let others = tasks().into_iter().filter(|task| task.tid != own);
    let each = others.map(|task| format!("{} (state {})", task.comm, task.state));
    // A machine with many CPUs has many threads.
    each.take(20).collect::<Vec<_>>().join(", ")
}
