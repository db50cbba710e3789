//! Counts the interrupts between CPUs by sender, and the reasons why the tick of a CPU keeps
//! running.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use punctual_host::Host;
use punctual_model::{
    CpuSet, EventKind, Fact, Interruptions, KeptTicks, Nanos, SentInterrupts, TraceEvent,
};
use punctual_trace::{InterruptionRecorder, TraceError, Tracefs};

/// Source of the facts.
const SOURCE: &str = "ipi:ipi_send_cpu, ipi:ipi_send_cpumask, timer:tick_stop in tracefs";
/// Maximum number of threads that are named for the ticks of a CPU.
const NAMED_THREADS: usize = 8;
/// Maximum number of senders that are kept.
const KEPT_SENDERS: usize = 100;

/// A running count.
#[derive(Debug)]
pub struct InterruptionCounter {
    host: Host,
    /// The error makes the counts unknown.
    recorder: Result<InterruptionRecorder, TraceError>,
    begun: Instant,
    counts: Counts,
}

impl InterruptionCounter {
    /// Starts counting interrupts to the measured CPUs (to all if the set is empty), and ticks of
    /// those in `nohz_full`.
    pub fn start(host: &Host, measured: &CpuSet, nohz_full: &CpuSet) -> Self {
        let ticking = if measured.is_empty() {
            nohz_full.clone()
        } else {
            measured.intersection(nohz_full)
        };
        let recorder = Tracefs::find(host.root())
            .and_then(|it| it.record_interruptions(host.own_process(), measured, &ticking));
        Self {
            host: host.clone(),
            recorder,
            begun: Instant::now(),
            counts: Counts {
                measured: measured.clone(),
                ticking,
                ..Counts::default()
            },
        }
    }

    /// Reads the new events. Call it about ten times a second, so that none are lost.
    pub fn poll(&mut self) {
        let Ok(recorder) = &mut self.recorder else {
            return;
        };
        match recorder.read() {
            Ok((events, lost)) => {
                self.counts.lost += lost;
                for event in &events {
                    self.counts.add(event);
                }
                // The name of a thread that has ended is unknown.
                let host = &self.host;
                self.counts.name_threads(|tid| {
                    let thread = i32::try_from(tid).ok().and_then(|tid| host.thread(tid))?;
                    Some(thread.name)
                });
            }
            // Dropping the recorder removes its trace instance.
            Err(error) => self.recorder = Err(error),
        }
    }

    /// Ends the count. The counts are unknown if the events could not be recorded.
    pub fn finish(mut self) -> Fact<Interruptions> {
        self.poll();
        let duration = Nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let stopped = self.recorder.and_then(|recorder| {
            let missing = recorder.missing().to_vec();
            recorder.stop().map(|()| missing)
        });
        let missing = match stopped {
            Ok(missing) => missing,
            Err(error) => return Fact::unknown(SOURCE, error.to_string()),
        };
        let symbols = self.host.symbols();
        let found = self.counts.finish(|address| symbols.name(address));
        Fact::known(
            Interruptions {
                duration,
                missing,
                ..found
            },
            SOURCE,
        )
    }
}

/// A sender: the interrupted CPU, the sender's CPU, its thread (`None` for a handler), and the
/// address of the function.
type Sender = (u32, u32, Option<u32>, u64);

#[derive(Debug, Default)]
struct Counts {
    measured: CpuSet,
    ticking: CpuSet,
    sent: BTreeMap<Sender, u64>,
    /// By CPU and reasons.
    ticks: BTreeMap<(u32, u32), u64>,
    /// Threads that ran on each CPU in `ticking`.
    ran: BTreeMap<u32, BTreeSet<String>>,
    names: BTreeMap<u32, String>,
    lost: u64,
}

impl Counts {
    fn add(&mut self, event: &TraceEvent) {
        match &event.kind {
            EventKind::IpiSend { cpus, callsite, .. } => {
                let in_handler = event.has(TraceEvent::HARDIRQ) || event.has(TraceEvent::SOFTIRQ);
                let thread = (!in_handler).then_some(event.pid);
                for to in cpus {
                    let is_measured = self.measured.is_empty() || self.measured.contains(*to);
                    if is_measured && *to != event.cpu {
                        let sender = (*to, event.cpu, thread, *callsite);
                        *self.sent.entry(sender).or_default() += 1;
                    }
                }
            }
            EventKind::TickStop { dependency, .. }
                if *dependency != 0 && self.ticking.contains(event.cpu) =>
            {
                *self.ticks.entry((event.cpu, *dependency)).or_default() += 1;
            }
            EventKind::Switch { prev, next, .. } if self.ticking.contains(event.cpu) => {
                let ran = self.ran.entry(event.cpu).or_default();
                let threads = [prev, next].into_iter().filter(|task| !task.is_idle());
                ran.extend(threads.map(|task| task.label()));
            }
            _ => {}
        }
    }

    /// Looks up the names of new threads.
    fn name_threads(&mut self, name: impl Fn(u32) -> Option<String>) {
        for tid in self.sent.keys().filter_map(|(_, _, thread, _)| *thread) {
            self.names.entry(tid).or_insert_with(|| match tid {
                0 => "idle".to_owned(),
                tid => match name(tid) {
                    Some(name) => format!("{name}-{tid}"),
                    None => format!("thread {tid}, which has ended"),
                },
            });
        }
    }

    /// Returns the counts, without duration and missing events.
    fn finish(self, symbol: impl Fn(u64) -> Option<String>) -> Interruptions {
        // All addresses in one function count as one sender.
        let mut sent: BTreeMap<_, u64> = BTreeMap::new();
        for ((to, from, thread, callsite), count) in self.sent {
            let function = symbol(callsite).map(|name| match name.split_once('+') {
                Some((function, _)) => function.to_owned(),
                None => name,
            });
            let thread = thread.map(|tid| self.names.get(&tid).cloned().unwrap_or_default());
            *sent.entry((to, from, thread, function)).or_default() += count;
        }
        let mut sent: Vec<SentInterrupts> = sent
            .into_iter()
            .map(|((to, from, thread, function), count)| SentInterrupts {
                to,
                from,
                thread,
                function,
                count,
            })
            .collect();
        sent.sort_by_key(|sent| std::cmp::Reverse(sent.count));
        sent.truncate(KEPT_SENDERS);
        let threads = |cpu| -> Vec<String> {
            let ran = self.ran.get(&cpu).into_iter().flatten();
            ran.take(NAMED_THREADS).cloned().collect()
        };
        let mut ticks: Vec<KeptTicks> = self
            .ticks
            .iter()
            .map(|((cpu, dependency), count)| KeptTicks {
                cpu: *cpu,
                dependency: *dependency,
                threads: threads(*cpu),
                count: *count,
            })
            .collect();
        ticks.sort_by_key(|tick| std::cmp::Reverse(tick.count));
        Interruptions {
            cpus: self.measured,
            sent,
            ticks,
            lost: self.lost,
            ..Interruptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Comm, KernelPriority, Task, TaskState};

    use super::*;

    fn event(cpu: u32, pid: u32, flags: u8, kind: EventKind) -> TraceEvent {
        TraceEvent {
            time: Nanos(1),
            cpu,
            pid,
            flags,
            preempt_count: 0,
            kind,
        }
    }

    fn ipi(cpus: &[u32], callsite: u64) -> EventKind {
        EventKind::IpiSend {
            cpus: cpus.to_vec(),
            callsite,
            callback: 1,
        }
    }

    #[test]
    fn senders_are_counted_by_function() {
        let mut counts = Counts {
            measured: "1-2".parse().unwrap(),
            ..Counts::default()
        };
        counts.add(&event(0, 7, 0, ipi(&[1, 2, 3], 0x10)));
        counts.add(&event(0, 7, 0, ipi(&[1], 0x14)));
        // A CPU that targets itself does not count, nor does an interrupt whose target is unknown.
        counts.add(&event(1, 7, 0, ipi(&[1], 0x10)));
        counts.add(&event(0, 7, 0, ipi(&[], 0x10)));
        counts.add(&event(0, 8, TraceEvent::HARDIRQ, ipi(&[2], 0x10)));
        counts.name_threads(|tid| (tid == 7).then(|| "shim".to_owned()));
        let found = counts.finish(|address| Some(format!("send+{address:#x}")));
        let sent: Vec<_> = found
            .sent
            .iter()
            .map(|sent| (sent.to, sent.thread.as_deref(), sent.count))
            .collect();
        assert_eq!(
            sent,
            [(1, Some("shim-7"), 2), (2, None, 1), (2, Some("shim-7"), 1)]
        );
        assert!(
            found
                .sent
                .iter()
                .all(|sent| sent.function.as_deref() == Some("send"))
        );
    }

    #[test]
    fn ticks_name_reasons_and_threads() {
        let task = |name: &str, pid| Task {
            comm: Comm::new(name.as_bytes()),
            pid,
            prio: KernelPriority(120),
        };
        let mut counts = Counts {
            ticking: "1".parse().unwrap(),
            ..Counts::default()
        };
        let tick = |dependency| EventKind::TickStop {
            success: dependency == 0,
            dependency,
        };
        for (cpu, dependency) in [(1, 4), (1, 4), (1, 2), (1, 0), (0, 4)] {
            counts.add(&event(cpu, 7, 0, tick(dependency)));
        }
        let switch = EventKind::Switch {
            prev: task("a", 7),
            prev_state: TaskState(0),
            next: task("b", 8),
        };
        counts.add(&event(1, 7, 0, switch.clone()));
        counts.add(&event(0, 7, 0, switch));
        let found = counts.finish(|_| None);
        let ticks: Vec<_> = found
            .ticks
            .iter()
            .map(|tick| (tick.cpu, tick.dependency, tick.count))
            .collect();
        assert_eq!(ticks, [(1, 4, 2), (1, 2, 1)]);
        assert_eq!(found.ticks[0].threads, ["a-7", "b-8"]);
    }
}
