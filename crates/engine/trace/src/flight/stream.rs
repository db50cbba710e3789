//! A stream of events, from a separate trace instance that is filtered by the kernel and
//! read periodically.

use std::io;

use punctual_model::{EVENTS, EventLevel, Nanos, TraceEvent};

use super::instance::Instance;
use super::name::Owner;
use super::recorder::{CpuPipe, MONO, Plan, choose_clock, pipes};
use crate::clock::{ClockMap, monotonic};
use crate::event::Format;
use crate::ring::Page;
use crate::{Decoder, TraceError, Tracefs};

/// Total size of the ring buffers of all CPUs. At a hundred thousand wake-ups per second, a tenth
/// of a second takes 1 MiB.
const BUFFER_KIB: usize = 8 << 10;

/// Minimum and maximum size of the ring buffer of one CPU.
const KIB_PER_CPU: std::ops::RangeInclusive<usize> = 256..=2_048;

/// A trace instance with some events. Dropping it or calling [`stop`](Self::stop) removes
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
pub enum Streamed {
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
    pub const fn time(&self) -> Nanos {
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
            for folder in folders(tracefs, name) {
                let path = tracefs.path().join("events").join(folder).join("format");
                let format = Format::parse(&tracefs.text(&path)?);
                let learnt = match (spec, format) {
                    (Some(spec), Some(format)) => decoder.learn(spec, &format),
                    _ => Err("format"),
                };
                learnt.map_err(|field| TraceError::NoField { path, field })?;
            }
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

    /// Creates a stream of these events, each with a filter, whose times are on CLOCK_MONOTONIC, and
    /// enables them. Read it about ten times a second, so that no events are lost.
    pub(crate) fn watch(
        tracefs: &Tracefs,
        owner: Owner,
        wanted: &[(&str, Option<&str>)],
    ) -> Result<Self, TraceError> {
        let cpus = aya::util::nr_cpus().unwrap_or(1).max(1);
        let kib = (BUFFER_KIB / cpus).clamp(*KIB_PER_CPU.start(), *KIB_PER_CPU.end());
        let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
        // Use a recorder to measure the offset of the trace clock, because CLOCK_MONOTONIC of this
        // process may differ from that of the kernel (time_namespaces(7)).
        let small = Plan {
            level: EventLevel::Default,
            bytes_per_cpu: 64 << 10,
        };
        let recorder = tracefs.arm(small, owner, None)?;
        let clock = recorder.clock();
        recorder.stop()?;
        let stream = Self::open(tracefs, owner, clock, kib, &names)?;
        // A conversion between clocks would not be exact enough, because a delay is measured
        // between events of two CPUs, and these times are reported.
        if !stream.has_same_clock() {
            return Err(TraceError::NoClock);
        }
        for (name, filter) in wanted {
            // If the kernel rejects the filter, record all events, and let the counter filter them.
            match stream.on(name, *filter) {
                Err(_) if filter.is_some() => stream.on(name, None)?,
                on => on?,
            }
        }
        Ok(stream)
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
        let has_format = |folder: &String| {
            let folder = tracefs.path().join("events").join(folder);
            folder.join("format").exists()
        };
        folders(tracefs, event).iter().any(has_format)
    }

    /// Enables an event with a filter.
    pub(crate) fn on(&self, event: &str, filter: Option<&str>) -> Result<(), TraceError> {
        for folder in folders(&self.tracefs, event) {
            let folder = self.instance.folder.join("events").join(folder);
            if let Some(filter) = filter {
                self.tracefs.write(&folder.join("filter"), filter)?;
            }
            self.tracefs.write(&folder.join("enable"), "1")?;
        }
        Ok(())
    }

    /// Disables an event.
    pub(crate) fn off(&self, event: &str) -> Result<(), TraceError> {
        for folder in folders(&self.tracefs, event) {
            let folder = self.instance.folder.join("events").join(folder);
            self.tracefs.write(&folder.join("enable"), "0")?;
        }
        Ok(())
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

/// Returns the folders in `events` of an event from the model's table, by its name. If the name
/// begins with `*`, these are the folders of all events with this ending.
fn folders(tracefs: &Tracefs, name: &str) -> Vec<String> {
    let spec = EVENTS.iter().find(|spec| spec.name == name);
    let system = spec.map_or("sched", |spec| spec.system);
    let names = match name.strip_prefix('*') {
        None => vec![name.to_owned()],
        Some(ending) => {
            let folder = tracefs.path().join("events").join(system);
            let mut names = tracefs.files().names(&folder).unwrap_or_default();
            names.retain(|name| name.ends_with(ending));
            names
        }
    };
    let path = |name| format!("{system}/{name}");
    names.into_iter().map(path).collect()
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("instance", &self.instance.folder)
            .finish_non_exhaustive()
    }
}
