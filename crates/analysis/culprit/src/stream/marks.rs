//! Latencies that texts and events in the trace state.

use punctual_model::{Comm, Delay, EventKind, KernelPriority, Nanos, Task};

use super::osnoise::TracerSample;
use super::stated_latency::{StatedLatency, TimerlatIrq, stated_latency, timerlat};
use super::{Ended, LateReactions, THREADS};
use crate::finder::Late;

/// Maximum time from the end of a latency until the program writes the latency into the trace.
pub(super) const STATED_WITHIN: Nanos = Nanos::from_millis(1);

/// Returns the name of a thread that no event names: the kernel gives each of the tracer's threads the
/// number of its CPU.
fn unnamed(sample: Option<TracerSample>, cpu: u32) -> Comm {
    match sample {
        Some(TracerSample::Osnoise) => Comm::new(format!("osnoise/{cpu}").as_bytes()),
        _ => Comm::default(),
    }
}

impl LateReactions {
    /// Processes a text that a thread wrote into the trace.
    /// Returns whether the text states a latency.
    pub fn mark(&mut self, time: Nanos, cpu: u32, thread: Task, text: &str) -> bool {
        self.advance(time);
        let tid = thread.pid;
        if !thread.comm.is_empty() && self.names.len() < THREADS {
            self.names.entry(tid).or_insert(thread);
        }
        if thread.comm.bytes().starts_with(b"osnoise/") {
            self.tracers.insert(cpu, thread);
        }
        let sample = timerlat(text);
        if sample.is_some() {
            self.found.note_line(cpu, time);
        }
        if let Some(cpu) = text.strip_prefix("stop tracing hit on cpu ") {
            self.stopped_on = cpu.trim().parse().ok();
        }
        if let Some(sample) = sample.filter(|sample| sample.in_interrupt) {
            let (at, ran) = (time, None);
            let irq = TimerlatIrq {
                sample,
                thread,
                at,
                ran,
            };
            self.interrupts.insert(cpu, irq);
            return true;
        }
        let (latency, sample) = match stated_latency(text) {
            Some(StatedLatency::Timerlat(sample)) => {
                let due = time.saturating_sub(sample.latency);
                let interrupt = self.interrupts.get_mut(&cpu);
                let of_same = interrupt.filter(|irq| irq.sample.activation == sample.activation);
                let (mut woken, mut ran) = (None, None);
                if let Some(irq) = of_same {
                    ran = irq.ran.filter(|_| sample.returns);
                    irq.ran = irq.ran.or((!sample.returns).then_some(time));
                    // Without the thread's own sample, it is unknown when its work began.
                    let is_known = !sample.returns || ran.is_some();
                    woken = is_known.then_some((due + irq.sample.latency, irq.thread));
                }
                (sample.latency, Some(TracerSample::Timerlat { woken, ran }))
            }
            Some(StatedLatency::Cyclictest(number)) => (self.in_unit(tid, number), None),
            None => return false,
        };
        let end = match sample {
            None => self.end_of_sample(tid, latency),
            Some(_) => self.now,
        };
        self.stated_latency((tid, cpu), (end, latency), sample, text);
        true
    }

    /// Returns the end of a latency that a program measured before it wrote it into the trace.
    fn end_of_sample(&self, tid: u32, latency: Nanos) -> Nanos {
        let since = self.now.saturating_sub(STATED_WITHIN);
        let mut events = self.history.back(tid, since);
        // The last system call is the write of the text, and the one before it the wait.
        let write = events.find(|event| matches!(event.kind, EventKind::SysEnter { id: 0.., .. }));
        let end = write.map_or(self.now, |event| event.time);
        let mut woke = events.find(|event| matches!(event.kind, EventKind::SysExit { .. }));
        let returned = woke.take().map(|event| event.time);
        let switched = events.find(|event| matches!(event.kind, EventKind::Switch { .. }));
        // The thread was late before it was switched in, so the latency did not begin after that.
        match (write, returned, switched) {
            (Some(_), Some(returned), Some(switched)) => {
                (switched.time + latency).clamp(returned.min(end), end)
            }
            _ => end,
        }
    }

    /// Processes a text or an event that states that a thread was late.
    pub(super) fn stated_latency(
        &mut self,
        (tid, cpu): (u32, u32),
        (end, latency): (Nanos, Nanos),
        sample: Option<TracerSample>,
        text: &str,
    ) {
        self.has_samples |= sample.is_some();
        let task = self.names.get(&tid);
        let expected = end.saturating_sub(latency);
        let late = Late {
            tid,
            comm: task.map_or_else(|| unnamed(sample, cpu), |task| task.comm),
            prio: task.map_or(KernelPriority::UNKNOWN, |task| task.prio),
            cpu,
            delay: match sample {
                Some(TracerSample::Osnoise) => Delay::Step,
                _ => Delay::Timer,
            },
            expected,
            actual: end,
            events_from: expected,
        };
        self.forget(tid, expected);
        self.ended(Ended {
            late,
            waker: None,
            before: self.left.get(&tid).cloned().into_iter().collect(),
            stated: Some(text.to_owned()),
            sample,
            segments: Vec::new(),
        });
    }

    /// Removes the waits of a thread that ended after a time, because they are part of a stated
    /// latency and not other reactions.
    pub(super) fn forget(&mut self, tid: u32, expected: Nanos) {
        self.open
            .retain(|one| one.late.tid != tid || one.late.actual < expected);
        self.real_time.remove(tid, expected);
        self.others.remove(tid, expected);
    }

    /// Returns the latency that cyclictest printed as `number`, in µs or ns. cyclictest sleeps
    /// until it is due, so if a latency in µs would begin before the thread went to sleep, the
    /// number is in ns. The thread may have slept again since, while it waited for a lock.
    fn in_unit(&self, tid: u32, number: u64) -> Nanos {
        let micros = Nanos(number.saturating_mul(1_000));
        let asleep = self.slept.get(&tid).copied().or_else(|| {
            let left = self.left.get(&tid)?;
            let sleeps = matches!(left.kind, EventKind::Switch { prev_state, .. } if !prev_state.is_runnable());
            sleeps.then_some(left.time)
        });
        match asleep {
            Some(asleep) if self.now.saturating_sub(micros) < asleep => Nanos(number),
            _ => micros,
        }
    }
}
