//! A stream of scheduler events, from a separate trace instance that is filtered by the kernel and
//! read periodically.

use std::io;
use std::path::PathBuf;

use punctual_model::{EVENTS, Nanos, TraceEvent};

use super::instance::Instance;
use super::name::Owner;
use super::recorder::{CpuPipe, MONO, choose_clock, pipes};
use crate::clock::{ClockMap, monotonic};
use crate::event::Format;
use crate::ring::Page;
use crate::{Decoder, TraceError, Tracefs};

/// A trace instance with some scheduler events. Dropping it or calling [`stop`](Self::stop) removes
/// the instance.
pub(crate) struct Stream {
    // This field is dropped before the instance, because the instance cannot be removed while its
    // files are open.
    cpus: Vec<CpuPipe>,
    instance: Instance,
    tracefs: Tracefs,
    decoder: Decoder,
    clock: ClockMap,
    same_clock: bool,
    page: Vec<u8>,
    kib_per_cpu: usize,
}

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Streamed {
    /// An event.
    Event(TraceEvent),
    /// Events lost on one CPU.
    Gap {
        /// Time of the previous event on this CPU, or earlier.
        from: Nanos,
        /// Time of the first event after the lost events.
        to: Nanos,
        /// The CPU.
        cpu: u32,
        /// Minimum number of lost events.
        lost: u64,
    },
}

impl Streamed {
    /// Returns the time of the item. For a gap, this is its start.
    pub(crate) const fn time(&self) -> Nanos {
        match self {
            Self::Event(event) => event.time,
            Self::Gap { from, .. } => *from,
        }
    }
}

impl Stream {
    /// Creates a stream of these events from the model's table. All of them are disabled at first.
    /// `clock` is the conversion from the trace clock to CLOCK_MONOTONIC.
    pub(crate) fn open(
        tracefs: &Tracefs,
        owner: Owner,
        clock: ClockMap,
        kib_per_cpu: usize,
        names: &[&str],
    ) -> Result<Self, TraceError> {
        let instance = Instance::make(tracefs, owner)?;
        instance.write("options/overwrite", "1")?;
        let same_clock = choose_clock(tracefs, &instance);
        instance.write("buffer_size_kb", &kib_per_cpu.to_string())?;
        let layout = instance.layout()?;
        let mut decoder = Decoder::new(layout, None);
        for name in names {
            let spec = EVENTS.iter().find(|spec| spec.name == *name);
            let folder = tracefs.path().join("events").join(system_of(name));
            let path = folder.join(name).join("format");
            let format = Format::parse(&tracefs.text(&path)?);
            let learnt = match (spec, format) {
                (Some(spec), Some(format)) => decoder.learn(spec, &format),
                _ => Err("format"),
            };
            learnt.map_err(|field| TraceError::NoField { path, field })?;
        }
        let cpus = pipes(tracefs, &instance.folder)?;
        instance.write("tracing_on", "1")?;
        Ok(Self {
            cpus,
            instance,
            tracefs: tracefs.clone(),
            decoder,
            clock,
            same_clock,
            page: vec![0; layout.page_bytes],
            kib_per_cpu,
        })
    }

    /// Returns whether the trace clock is CLOCK_MONOTONIC.
    pub(crate) const fn has_same_clock(&self) -> bool {
        self.same_clock
    }

    /// Returns the recorded CPUs.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = u32> {
        self.cpus.iter().map(|cpu| cpu.cpu)
    }

    /// Returns whether the kernel has this event from the model's table.
    pub(crate) fn has(tracefs: &Tracefs, event: &str) -> bool {
        let folder = tracefs.path().join("events").join(system_of(event));
        folder.join(event).join("format").exists()
    }

    fn folder(&self, event: &str) -> PathBuf {
        let events = self.instance.folder.join("events");
        events.join(system_of(event)).join(event)
    }

    /// Enables an event with a filter.
    pub(crate) fn on(&self, event: &str, filter: Option<&str>) -> Result<(), TraceError> {
        let folder = self.folder(event);
        if let Some(filter) = filter {
            self.tracefs.write(&folder.join("filter"), filter)?;
        }
        self.tracefs.write(&folder.join("enable"), "1")
    }

    /// Disables an event.
    pub(crate) fn off(&self, event: &str) -> Result<(), TraceError> {
        let folder = self.folder(event);
        self.tracefs.write(&folder.join("enable"), "0")
    }

    /// Returns the items since the last call, in ascending order of time. Gaps are sorted by their
    /// start.
    pub(crate) fn read(&mut self) -> Result<Vec<Streamed>, TraceError> {
        let mut all = Vec::new();
        let layout = self.decoder.layout();
        // The kernel keeps writing during the read, so read at most twice the size of the buffer.
        let most = 2 * self.kib_per_cpu * 1_024 / layout.page_bytes + 16;
        for cpu in &mut self.cpus {
            let gap = |from, to, lost| Streamed::Gap {
                from,
                to,
                cpu: cpu.cpu,
                lost,
            };
            let mut latest = Nanos::ZERO;
            for _ in 0..most {
                let count = match cpu.pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(source) => {
                        let pipe = format!("per_cpu/cpu{}/trace_pipe_raw", cpu.cpu);
                        let path = self.instance.file(&pipe);
                        return Err(TraceError::Read { path, source });
                    }
                };
                let Ok(page) = Page::parse(layout, &self.page[..count]) else {
                    all.push(gap(latest, monotonic(), 1));
                    continue;
                };
                let to = self.clock.monotonic(page.time());
                all.extend(page.lost().map(|lost| gap(latest, to, lost.at_least())));
                let take = |event: TraceEvent| {
                    latest = event.time;
                    all.push(Streamed::Event(event));
                };
                self.decoder
                    .page(&page, cpu.cpu, self.clock, |_| true, take);
            }
        }
        // The sort is stable: events of one CPU with equal times keep their order.
        all.sort_by_key(Streamed::time);
        Ok(all)
    }

    /// Returns a warning if another program has stopped or reset the stream.
    pub(crate) fn reset_by_others(&self) -> Option<String> {
        self.instance
            .reset_by_others(self.same_clock.then_some(MONO))
    }

    pub(crate) fn stop(mut self) -> Result<(), TraceError> {
        self.cpus.clear();
        self.instance.remove()
    }
}

/// Returns the folder of an event from the model's table, by its name.
fn system_of(name: &str) -> &'static str {
    let spec = EVENTS.iter().find(|spec| spec.name == name);
    spec.map_or("sched", |spec| spec.system)
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("instance", &self.instance.folder)
            .finish_non_exhaustive()
    }
}
