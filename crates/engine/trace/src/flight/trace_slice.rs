//! The events of a time interval.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_model::{Comm, Nanos, SliceStart, TraceEvent};

use super::recorder::{CpuPipe, Flight, HISTORY_BYTES};
use crate::TraceError;
use crate::ring::Page;

/// The events of a time interval.
#[derive(Clone, Debug, Default)]
pub struct TraceSlice {
    /// The events in ascending order of time. They include all events of the CPUs on which the
    /// victim ran or was woken, and those events of other CPUs that name the victim, its waker or a
    /// holder of its lock. They also include the last event of each of these CPUs before the
    /// interval.
    pub events: Vec<TraceEvent>,
    /// Minimum number of events of these CPUs that were lost in the interval.
    pub lost: u64,
    /// Stacks of threads at waits; only from a job recorder.
    pub stacks: Vec<WaitRecord>,
    /// Names of threads that woke others in the light stage of a job recorder.
    pub wakers: BTreeMap<u32, Comm>,
    /// The pages that contain these events, for export.
    pub pages: Vec<RawPage>,
}

/// A stack that belongs to a wait of a watched thread, or the words at the top of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// When the stack was taken, on CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The thread whose stack it is.
    pub tid: u32,
    /// The thread that this thread woke. `None` if the thread itself begins to sleep.
    pub woken: Option<u32>,
    /// The meaning of the words.
    pub part: StackPart,
    /// The addresses, the innermost function first; or the words.
    pub words: Vec<u64>,
}

/// A part of a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackPart {
    /// The functions in the kernel.
    Kernel,
    /// The functions in the kernel of an interrupt or softirq that woke a thread, and those that it
    /// interrupted.
    Interrupt,
    /// The functions in user space, as far as there are frame pointers.
    User,
    /// The words at the top of the stack in user space.
    Words,
}

/// A page as read from the ring buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPage {
    /// The CPU.
    pub cpu: u32,
    /// The filled part of the page.
    pub bytes: Arc<[u8]>,
}

/// All data that was in a recorder.
#[derive(Clone, Debug, Default)]
pub struct Drained {
    /// The pages of all CPUs.
    pub pages: Vec<RawPage>,
    /// Time from which the data is complete, on CLOCK_MONOTONIC. Before it, events of at least one
    /// CPU were overwritten. `None` if no event was overwritten.
    pub whole_from: Option<Nanos>,
}

impl Flight {
    /// Removes and returns all pages with events at or after `from`, without a memory limit. The
    /// recorder continues.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn drain(&mut self, from: Nanos) -> Result<Drained, TraceError> {
        self.history_bytes = usize::MAX;
        let taken = self.take_out();
        self.history_bytes = HISTORY_BYTES;
        taken?;
        let offset = self.clock.offset_ns;
        let first = from.0.saturating_add_signed(offset.saturating_neg());
        let mut drained = Drained::default();
        for CpuPipe { cpu, history, .. } in &mut self.cpus {
            for (place, page) in history.between(first, u64::MAX).enumerate() {
                if place == 0 && page.lost.is_some() {
                    let begins = Nanos(page.first.saturating_add_signed(offset));
                    drained.whole_from = drained.whole_from.max(Some(begins));
                }
                drained.pages.push(RawPage {
                    cpu: *cpu,
                    bytes: Arc::clone(&page.bytes),
                });
            }
            history.clear();
        }
        Ok(drained)
    }

    /// Returns the events from `from` to `to` that concern the thread `victim`, from the data that
    /// has been read with [`take_out`](Self::take_out). `cpu` is the CPU on which the thread should
    /// have run.
    pub fn slice_for(
        &mut self,
        victim: u32,
        cpu: Option<u32>,
        from: Nanos,
        to: Nanos,
    ) -> TraceSlice {
        self.slice_with(from, to, |events| {
            SliceStart::from_events(events.iter(), victim, cpu)
        })
    }

    /// Returns all events of all CPUs in the interval, and the last event of each CPU before it.
    /// The analysis needs all of them if it is not yet known what blocks a thread.
    pub fn slice_all(&mut self, from: Nanos, to: Nanos) -> TraceSlice {
        let cpus: BTreeSet<u32> = self.cpus.iter().map(|pipe| pipe.cpu).collect();
        self.slice_with(from, to, |_| SliceStart {
            cpus,
            threads: BTreeSet::new(),
        })
    }

    fn slice_with(
        &mut self,
        from: Nanos,
        to: Nanos,
        story: impl FnOnce(&[TraceEvent]) -> SliceStart,
    ) -> TraceSlice {
        let mut events = Vec::new();
        let offset = self.clock.offset_ns.saturating_neg();
        let traced = |time: Nanos| time.0.saturating_add_signed(offset);
        let (first, last) = (traced(from), traced(to));
        for pipe in &self.cpus {
            let mut before = None;
            let decoder = &mut self.decoder;
            for page in pipe.history.between(first, last) {
                let Ok(page) = Page::parse(decoder.layout(), &page.bytes) else {
                    continue;
                };
                decoder.page(
                    &page,
                    pipe.cpu,
                    self.clock,
                    |time| time <= to,
                    |event| {
                        if event.time < from {
                            before = Some(event)
                        } else {
                            events.extend(before.take());
                            events.push(event);
                        }
                    },
                );
            }
            events.extend(before);
        }
        // The sort is stable: events of one CPU with equal times keep their order.
        events.sort_by_key(|event| event.time);
        let story = story(&events);
        events.retain(|event| story.concerns(event));
        let relevant = |pipe: &&CpuPipe| story.cpus.contains(&pipe.cpu);
        let lost = (self.cpus.iter().filter(relevant)).map(|pipe| pipe.history.lost(first, last));
        let all = self.cpus.len() <= TraceSlice::ALL_CPUS;
        let pages = self
            .cpus
            .iter()
            .filter(|pipe| all || relevant(pipe))
            .flat_map(|pipe| {
                let pages = pipe.history.between(first, last);
                pages.map(|page| RawPage {
                    cpu: pipe.cpu,
                    bytes: Arc::clone(&page.bytes),
                })
            });
        TraceSlice {
            lost: lost.sum(),
            stacks: Vec::new(),
            wakers: BTreeMap::new(),
            pages: pages.collect(),
            events,
        }
    }
}

impl TraceSlice {
    /// If a machine has at most this number of CPUs, the pages of all its CPUs are exported.
    const ALL_CPUS: usize = 8;
}
