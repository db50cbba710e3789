//! Merges the streams of all CPUs by time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::path::PathBuf;

use punctual_model::{EventKind, Nanos, Task, TraceEvent};

use super::bits::Values;
use super::events::Routes;
use super::stream::{Record, Stream};
use super::types::Metadata;
use super::unused::Unused;
use crate::dat::clock::differs;
use crate::listed::listed_name;
use crate::{Item, TraceFileError, TraceHead, TraceReader};

/// A reader of a CTF trace.
pub(super) struct CtfReader {
    metadata: Metadata,
    streams: Vec<(Stream, Option<Record>)>,
    /// For each stream, the time of its next event and its index.
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    routes: Routes,
    /// The thread that runs on each CPU.
    current: BTreeMap<u32, Task>,
    unused: Unused,
    ready: VecDeque<Item>,
    head: TraceHead,
    is_at_end: bool,
}

impl CtfReader {
    /// `warnings`: about other traces in the folder.
    pub(super) fn new(
        metadata: Metadata,
        files: &[PathBuf],
        warnings: Vec<String>,
    ) -> Result<Self, TraceFileError> {
        let mut routes = Routes::default();
        let mut recorded = BTreeSet::new();
        let classes = metadata.streams.values();
        for event in classes.flat_map(|class| class.events.values()) {
            let listed = routes.of(&event.name).and_then(|route| route.listed());
            recorded.extend(listed.map(|event| listed_name(event.index).to_owned()));
        }
        if recorded.is_empty() {
            let of_programs = if metadata.is_kernel() {
                ""
            } else {
                " but those of programs (LTTng-UST)"
            };
            return Err(TraceFileError::NothingUsed {
                format: format!(
                    "CTF trace, which has no events of the kernel's scheduler{of_programs},"
                ),
                remedy: ". Record with lttng enable-event --kernel 'sched_*'",
            });
        }
        let clock = metadata
            .clock
            .as_ref()
            .map(|clock| match clock.name.as_str() {
                "monotonic" => "mono".to_owned(),
                "perf_clock" => "perf".to_owned(),
                other => other.to_owned(),
            });
        let mut streams = Vec::new();
        for file in files {
            streams.push((Stream::open(file)?, None));
        }
        let mut reader = Self {
            head: TraceHead {
                format: "CTF trace".to_owned(),
                clocks_differ: clock
                    .as_deref()
                    .and_then(|name| differs(name, false).ok().flatten()),
                clock,
                resolution: Nanos(1),
                kernel: (metadata.environment.get("kernel_release"))
                    .or_else(|| metadata.environment.get("release"))
                    .cloned(),
                recorded,
                lists_events: true,
                calls: routes.calls.clone(),
                warnings,
                ..TraceHead::default()
            },
            metadata,
            streams,
            order: BinaryHeap::new(),
            routes,
            current: BTreeMap::new(),
            unused: Unused::default(),
            ready: VecDeque::new(),
            is_at_end: false,
        };
        for index in 0..reader.streams.len() {
            reader.advance(index)?;
        }
        Ok(reader)
    }

    /// Reads the next event of a stream, and returns the one before.
    fn advance(&mut self, index: usize) -> Result<Option<Record>, TraceFileError> {
        let Some((stream, place)) = self.streams.get_mut(index) else {
            return Ok(None);
        };
        let before = place.take();
        *place = stream.next(&self.metadata)?;
        if let Some(next) = place {
            self.order.push(Reverse((next.time, index)));
        }
        self.unused.warn(stream.warnings.drain(..));
        Ok(before)
    }

    /// Adds the items of an event.
    fn take(&mut self, record: Record) {
        let (cpu, time) = (record.cpu, record.time);
        if let Some(count) = record.lost {
            self.current.remove(&cpu);
            self.lost(cpu, count, time);
        }
        let name = &record.class.name;
        let Some(route) = self.routes.of(name) else {
            return self.unused.foreign(name);
        };
        let header = OfPerf::new(&record.fields);
        let is_of_perf = header.is_some();
        let Some(kind) = (self.routes).decode(&route, &record.fields, is_of_perf) else {
            self.unused.unreadable += 1;
            self.current.remove(&cpu);
            self.lost(cpu, Some(1), time);
            return;
        };
        let known = self.current.get(&cpu).map(|task| task.pid);
        let pid = match &kind {
            EventKind::Switch { prev, next, .. } => {
                self.current.insert(cpu, *next);
                Some(prev.pid)
            }
            _ => record
                .thread
                .or(header.as_ref().map(|header| header.pid))
                .or(known),
        };
        let Some(pid) = pid else {
            return self.unused.threadless(cpu, name);
        };
        if self.unused.switch(cpu) {
            self.lost(cpu, None, time);
        }
        self.ready.push_back(Item::Event(TraceEvent {
            time,
            cpu,
            pid,
            flags: header.as_ref().map_or(0, |header| header.flags),
            preempt_count: header.map_or(0, |header| header.preempt_count),
            kind,
        }));
    }

    fn lost(&mut self, cpu: u32, count: Option<u64>, until: Nanos) {
        self.ready.push_back(Item::Lost { cpu, count, until });
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.is_at_end, true) {
            return;
        }
        self.head.warnings.extend(self.unused.take());
    }
}

/// The fields of an event that perf takes from the kernel's record.
struct OfPerf {
    pid: u32,
    flags: u8,
    preempt_count: u8,
}

impl OfPerf {
    /// Returns `None` if perf did not write the event.
    fn new(fields: &Values) -> Option<Self> {
        let number = |name| fields.number(name);
        Some(Self {
            pid: number("common_pid")? as u32,
            flags: number("common_flags")? as u8,
            preempt_count: number("common_preempt_count")? as u8,
        })
    }
}

impl TraceReader for CtfReader {
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let Some(Reverse((_, index))) = self.order.pop() else {
                self.end();
                return Ok(None);
            };
            if let Some(record) = self.advance(index)? {
                self.take(record);
            }
            if let Some((stream, None)) = self.streams.get_mut(index)
                && let Some((cpu, count, until)) = stream.take_loss()
            {
                self.lost(cpu, count, until);
            }
        }
    }

    fn head(&self) -> &TraceHead {
        &self.head
    }
}
