//! Detects that a measuring thread was taken off its CPU: by a change of its cpuset, by hotplug, or
//! by another program. From then on, it measures another CPU than the recording states.

use std::collections::BTreeSet;

use punctual_model::{CpuSet, Nanos, THREAD_MOVED};
use punctual_rt::{Tid, affinity};

/// Interval between two checks. Each needs a system call for each thread.
const EVERY: Nanos = Nanos::from_millis(100);

/// The affinity of the measuring threads.
#[derive(Debug, Default)]
pub(super) struct Placement {
    /// Threads that were bound to their CPU.
    bound: BTreeSet<i32>,
    next: Nanos,
}

impl Placement {
    /// Compares the affinity of each thread with its CPU. Returns the reason if a thread was bound
    /// to its CPU and is not bound to it any more. `now` is the time since the start of the run.
    pub(super) fn check(
        &mut self,
        threads: impl Iterator<Item = (u32, Tid)>,
        now: Nanos,
    ) -> Option<String> {
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        threads.filter_map(|(cpu, tid)| self.moved(cpu, tid)).next().map(|what| {
            format!(
                "{what}, at {now} or up to {EVERY} earlier. A cpuset, hotplug or another program \
                 changed its affinity, so the measurement of this CPU ended"
            )
        })
    }

    fn moved(&mut self, cpu: u32, tid: Tid) -> Option<String> {
        // A thread that has ended has no affinity.
        let allowed = affinity::allowed_cpus(tid).ok()?;
        if allowed == [cpu] {
            self.bound.insert(tid.as_raw());
            return None;
        }
        let was_bound = self.bound.contains(&tid.as_raw());
        let allowed: CpuSet = allowed.into_iter().collect();
        was_bound
            .then(|| format!("the thread of CPU {cpu} {THREAD_MOVED} and may run on CPU {allowed}"))
    }
}

#[cfg(test)]
mod tests {
    use punctual_rt::{ThreadRef, current_tid};

    use super::*;

    /// Needs no second CPU: the affinity that a thread keeps is compared with another CPU.
    #[test]
    fn only_bound_threads_can_be_moved() {
        std::thread::spawn(|| {
            let cpu = affinity::current().unwrap()[0];
            affinity::set(ThreadRef::Current, &[cpu]).unwrap();
            let tid = current_tid();
            let thread = |cpu: u32| std::iter::once((cpu, tid));
            let mut placement = Placement::default();
            // Never bound to that CPU.
            assert_eq!(placement.check(thread(cpu + 1), Nanos::ZERO), None);
            assert_eq!(placement.check(thread(cpu), EVERY), None);
            // Not checked yet.
            assert_eq!(placement.check(thread(cpu + 1), EVERY), None);
            let said = placement.check(thread(cpu + 1), EVERY + EVERY).unwrap();
            let expected = format!(
                "CPU {} was taken off its CPU and may run on CPU {cpu}",
                cpu + 1
            );
            assert!(said.contains(&expected), "{said}");
        })
        .join()
        .unwrap();
    }
}
