//! The events of a time interval.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_model::{Nanos, SliceStart, TraceEvent};

use super::recorder::{CpuPipe, Flight, HISTORY_BYTES};
use crate::TraceError;
use crate::ring::Page;

/// The events of a time interval.
#[derive(Clone, Debug, Default)]
pub struct TraceSlice {
    /// In ascending order of time: all events of the CPUs where the victim ran or was woken, and
    /// events of other CPUs that name it, its waker or a holder of its lock. Before them, the last
    /// event of each of these CPUs before the interval.
    pub events: Vec<TraceEvent>,
    /// Events lost in the interval, on these CPUs.
    pub lost: u64,
    /// Their pages, for export.
    pub pages: Vec<RawPage>,
}

/// A page as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPage {
    /// The CPU.
    pub cpu: u32,
    /// The filled part of the page.
    pub bytes: Arc<[u8]>,
}

/// All data that a recorder held.
#[derive(Clone, Debug, Default)]
pub struct Drained {
    /// The pages of all CPUs.
    pub pages: Vec<RawPage>,
    /// Some CPU's events before this time, on CLOCK_MONOTONIC, were overwritten; `None` if none
    /// were.
    pub whole_from: Option<Nanos>,
}

impl Flight {
    /// Takes all pages with events from `from` on, without a memory limit. The recorder continues
    /// without them.
    ///
    /// # Errors
    /// If a pipe cannot be read.
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

    /// Returns the events from `from` to `to` for the thread `victim`, from the data that was
    /// [taken out](Self::take_out). `cpu`: where it should have run.
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

    /// Returns all events of all CPUs in the interval, and the last of each before it. A thread's
    /// blockers are known only after the events were read.
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
        // Stable: events of one CPU with equal times keep their order.
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
            pages: pages.collect(),
            events,
        }
    }
}

impl TraceSlice {
    /// Up to this number of CPUs, the pages of all are kept for export.
    const ALL_CPUS: usize = 8;
}
