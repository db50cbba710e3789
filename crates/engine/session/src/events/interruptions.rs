//! Counts the interrupts between CPUs by sender, and the reasons why the tick of a CPU keeps
//! running.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{
    CpuSet, EventKind, Fact, Interruptions, KeptTicks, Nanos, SentInterrupts, TickReasons,
    TraceEvent,
};
use punctual_trace::{InterruptionRecorder, TraceError, Tracefs};

/// Source of the facts.
const SOURCE: &str = "ipi:ipi_send_cpu, ipi:ipi_send_cpumask, timer:tick_stop in tracefs";
/// Source of the reasons for ticks.
const TICKS: &str = "timer:tick_stop in tracefs";
/// Time between two readings of the events. The buffers hold the events of a longer time.
const BETWEEN: Duration = Duration::from_millis(100);
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
    read: Instant,
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
        let counts = Counts {
            measured: measured.clone(),
            ticking,
            ..Counts::default()
        };
        Self::counting(host, recorder, counts)
    }

    /// Starts counting the reasons for ticks of the measured CPUs in `nohz_full`. Returns `None` if
    /// there are none.
    pub(crate) fn of_ticks(host: &Host, measured: &CpuSet, nohz_full: &CpuSet) -> Option<Self> {
        let ticking = measured.intersection(nohz_full);
        if ticking.is_empty() {
            return None;
        }
        let recorder =
            Tracefs::find(host.root()).and_then(|it| it.record_ticks(host.own_process()));
        let counts = Counts {
            ticking,
            ..Counts::default()
        };
        Some(Self::counting(host, recorder, counts))
    }

    fn counting(
        host: &Host,
        recorder: Result<InterruptionRecorder, TraceError>,
        counts: Counts,
    ) -> Self {
        let begun = Instant::now();
        Self {
            host: host.clone(),
            recorder,
            begun,
            read: begun,
            counts,
        }
    }

    /// Reads the new events if the last reading is long enough ago.
    pub(crate) fn poll_if_due(&mut self) {
        if self.read.elapsed() >= BETWEEN {
            self.poll();
        }
    }

    /// Reads the new events. Call it about ten times a second, so that none are lost.
    pub fn poll(&mut self) {
        self.read = Instant::now();
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

    /// Ends the count of the reasons for ticks. It is unknown if the events could not be recorded.
    pub(crate) fn finish_ticks(self) -> Fact<TickReasons> {
        let cpus = self.counts.ticking.clone();
        let found = self.finish();
        let why = match found.value {
            Some(found) if found.missing.is_empty() => {
                let Interruptions {
                    duration,
                    ticks,
                    lost,
                    ..
                } = found;
                let reasons = TickReasons {
                    duration_ns: duration,
                    cpus,
                    ticks,
                    lost,
                };
                return Fact::known(reasons, TICKS);
            }
            Some(_) => "this kernel has no event timer:tick_stop".to_owned(),
            None => found.unknown.unwrap_or_default(),
        };
        Fact::unknown(TICKS, why)
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
    /// Threads that were running at these ticks.
    ran: BTreeMap<(u32, u32), BTreeSet<u32>>,
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
                let reasons = (event.cpu, *dependency);
                *self.ticks.entry(reasons).or_default() += 1;
                let ran = self.ran.entry(reasons).or_default();
                if event.pid != 0 && ran.len() < NAMED_THREADS {
                    ran.insert(event.pid);
                }
            }
            _ => {}
        }
    }

    /// Looks up the names of new threads.
    fn name_threads(&mut self, name: impl Fn(u32) -> Option<String>) {
        let senders = self.sent.keys().filter_map(|(_, _, thread, _)| *thread);
        for tid in senders.chain(self.ran.values().flatten().copied()) {
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
        let threads = |reasons| -> Vec<String> {
            let ran = self.ran.get(reasons).into_iter().flatten();
            let names = ran.filter_map(|tid| self.names.get(tid).cloned());
            names.collect::<BTreeSet<String>>().into_iter().collect()
        };
        let mut ticks: Vec<KeptTicks> = self
            .ticks
            .iter()
            .map(|(reasons, count)| KeptTicks {
                cpu: reasons.0,
                dependency: reasons.1,
                threads: threads(reasons),
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
        let mut counts = Counts {
            ticking: "1".parse().unwrap(),
            ..Counts::default()
        };
        let tick = |dependency| EventKind::TickStop {
            success: dependency == 0,
            dependency,
        };
        for (cpu, pid, dependency) in [
            (1, 7, 4),
            (1, 8, 4),
            (1, 0, 4),
            (1, 9, 2),
            (1, 7, 0),
            (0, 10, 4),
        ] {
            counts.add(&event(cpu, pid, 0, tick(dependency)));
        }
        counts.name_threads(|tid| (tid != 9).then(|| "job".to_owned()));
        let found = counts.finish(|_| None);
        let ticks: Vec<_> = found
            .ticks
            .iter()
            .map(|tick| (tick.cpu, tick.dependency, tick.count))
            .collect();
        assert_eq!(ticks, [(1, 4, 3), (1, 2, 1)]);
        assert_eq!(found.ticks[0].threads, ["job-7", "job-8"]);
        assert_eq!(found.ticks[1].threads, ["thread 9, which has ended"]);
    }
}
