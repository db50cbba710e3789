//! The flight recorder, which overwrites its oldest events and returns the events of a time
//! interval on request.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use punctual_model::{Nanos, event_names};

use super::history::History;
use super::instance::{CLOCK, Instance, NotRecorded, ON};
use super::name::Owner;
use super::stop_handle::StopHandle;
use crate::Level;
use crate::clock::{ClockMap, ClockMark, monotonic};
use crate::event::Format;
use crate::ring::{Layout, Page};
use crate::{Decoder, TraceError, Tracefs};

/// The settings of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The level of the events to record.
    pub level: Level,
    /// Size of the ring buffer of each CPU in bytes. The default is [`Plan::default_bytes`].
    pub bytes_per_cpu: usize,
}

impl Plan {
    /// Returns the default buffer size for a number of CPUs. A buffer of this size holds the
    /// default events of at least half a second at a thousand wake-ups per second. The total is at
    /// most 64 MiB with fewer than 256 CPUs.
    pub fn default_bytes(cpus: usize) -> usize {
        const ALL: usize = 64 << 20;
        (ALL / cpus.max(1)).clamp(256 << 10, 2 << 20)
    }
}

/// Memory limit in bytes for the pages that were read, for all CPUs together. It is enough for a
/// second with about ten thousand events on two CPUs. Decoding them for one outlier takes four
/// times as much memory. Together with the names of functions (5 MB), the total is below 16 MB.
pub(super) const HISTORY_BYTES: usize = 2 << 20;

/// Number of marks used to compare the clocks. More marks make the result more exact.
const MARKS: usize = 32;

/// Start of the text of a mark. A number follows it.
const MARK: &str = "punctual ";

pub(super) const MONO: &str = "mono";

/// The pipe from the ring buffer of one CPU, and the pages read from it.
pub(crate) struct CpuPipe {
    pub(crate) cpu: u32,
    pub(crate) pipe: Box<dyn Read + Send>,
    pub(crate) history: History,
}

/// A running recorder. Dropping it or calling [`stop`](Self::stop) removes its instance and
/// disables its events.
pub struct Flight {
    // This field is dropped before the instance, because the instance cannot be removed while its
    // files are open.
    pub(crate) cpus: Vec<CpuPipe>,
    marker: Option<Box<dyn Write + Send>>,
    stop_handle: Held,
    instance: Instance,
    tracefs: Tracefs,
    pub(crate) decoder: Decoder,
    pub(crate) clock: ClockMap,
    same_clock: bool,
    print: Option<Format>,
    not_recorded: Vec<NotRecorded>,
    warnings: Vec<String>,
    page: Vec<u8>,
    bytes_per_cpu: usize,
    /// Memory limit for the pages that were read, in bytes.
    pub(super) history_bytes: usize,
}

/// A handle whose file is closed when the recorder ends.
struct Held(Arc<StopHandle>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Tracefs {
    /// Checks whether a recorder can be armed, without changing anything.
    ///
    /// # Errors
    /// Returns an error if the kernel has no scheduler events, or if they cannot be read.
    pub fn may_arm(&self) -> Result<(), TraceError> {
        self.text(&self.file("events/sched/sched_switch/format"))?;
        Layout::parse(&self.text(&self.file("events/header_page"))?).map(drop)
    }

    /// Arms a recorder in a separate instance. Its events stay disabled until [`Flight::switch`]
    /// enables them. `owner` is this process; later programs use it to find out whether the
    /// instance is still in use. `text_begin` is the address of the kernel's `_stext`, if known.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. In that case, nothing is left behind.
    pub fn arm(
        &self,
        plan: Plan,
        owner: Owner,
        text_begin: Option<u64>,
    ) -> Result<Flight, TraceError> {
        self.may_arm()?;
        self.arm_with(
            plan.bytes_per_cpu,
            owner,
            text_begin,
            |instance, decoder| instance.choose(plan.level, decoder),
        )
    }

    /// Arms a recorder for the events that `choose` registers.
    pub(super) fn arm_with(
        &self,
        bytes_per_cpu: usize,
        owner: Owner,
        text_begin: Option<u64>,
        choose: impl FnOnce(&mut Instance, &mut Decoder) -> Result<Vec<NotRecorded>, TraceError>,
    ) -> Result<Flight, TraceError> {
        let mut instance = Instance::make(self, owner)?;
        instance.write("options/overwrite", "1")?;
        let same_clock = choose_clock(self, &instance);
        let kib = (bytes_per_cpu / 1_024).max(1);
        instance.write("buffer_size_kb", &kib.to_string())?;
        let layout = instance.layout()?;
        let mut decoder = Decoder::new(layout, text_begin);
        let not_recorded = choose(&mut instance, &mut decoder)?;
        let print = self.text_if_there(&self.file("events/ftrace/print/format"))?;
        let mut flight = Flight {
            cpus: pipes(self, &instance.folder)?,
            marker: self.files().sink(&instance.file("trace_marker")).ok(),
            stop_handle: Held(Arc::new(StopHandle::new(
                self.files().sink(&instance.file(ON)).ok(),
            ))),
            instance,
            tracefs: self.clone(),
            decoder,
            clock: ClockMap::default(),
            same_clock,
            print: print.as_deref().and_then(Format::parse),
            not_recorded,
            warnings: Vec::new(),
            page: vec![0; layout.page_bytes],
            bytes_per_cpu,
            history_bytes: HISTORY_BYTES,
        };
        flight.instance.write(ON, "1")?;
        flight.compare_clocks()?;
        for cpu in &mut flight.cpus {
            cpu.history.clear();
        }
        Ok(flight)
    }
}

/// Sets the trace clock to CLOCK_MONOTONIC. Returns whether the kernel accepted this clock.
pub(super) fn choose_clock(tracefs: &Tracefs, instance: &Instance) -> bool {
    let path = instance.file(CLOCK);
    let chosen = |text: &str| crate::name::in_force(text).as_deref() == Some(MONO);
    instance.write(CLOCK, MONO).is_ok() && tracefs.text(&path).is_ok_and(|text| chosen(&text))
}

/// Opens the pipe of each CPU of an instance: `per_cpu/cpuN/trace_pipe_raw`.
pub(crate) fn pipes(tracefs: &Tracefs, instance: &Path) -> Result<Vec<CpuPipe>, TraceError> {
    let folder = instance.join("per_cpu");
    let names = tracefs.files().names(&folder);
    let names = names.map_err(|source| TraceError::Read {
        path: folder.clone(),
        source,
    })?;
    let number = |name: &String| name.strip_prefix("cpu")?.parse().ok();
    let mut cpus: Vec<u32> = names.iter().filter_map(number).collect();
    cpus.sort_unstable();
    let open = |cpu| {
        let path = folder.join(format!("cpu{cpu}/trace_pipe_raw"));
        match tracefs.files().stream(&path) {
            Ok(pipe) => Ok(CpuPipe {
                cpu,
                pipe,
                history: History::default(),
            }),
            Err(source) => Err(TraceError::Read { path, source }),
        }
    };
    cpus.into_iter().map(open).collect()
}

impl Flight {
    /// Enables or disables the events that are recorded for all threads.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the scheduler's events. [`warnings`](Self::warnings)
    /// lists other rejected events.
    pub fn switch(&mut self, on: bool) -> Result<(), TraceError> {
        let refused = self.instance.switch(on)?;
        for what in refused {
            let text = format!("an event is not recorded: {what}");
            if !self.warnings.contains(&text) {
                self.warnings.push(text);
            }
        }
        Ok(())
    }

    /// Sets the watched threads. Some events (page faults, signals) are recorded only for these.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the filter.
    pub fn watch(&mut self, tids: &[u32]) -> Result<(), TraceError> {
        self.instance.watch(tids)
    }

    /// Returns the events that are not recorded, each with the reason.
    pub fn not_recorded(&self) -> &[NotRecorded] {
        &self.not_recorded
    }

    /// Returns the recorded events, under their names in [`event_names`].
    pub fn recorded(&self) -> Vec<String> {
        let named = event_names().filter(|name| self.records(name));
        named.map(str::to_owned).collect()
    }

    /// Returns the events that are not recorded, and whose information is therefore missing.
    pub fn missing(&self) -> Vec<String> {
        let missing = event_names().filter(|name| !self.records(name));
        missing.map(str::to_owned).collect()
    }

    fn records(&self, name: &str) -> bool {
        let fits = |folder: &str| match (name.split_once(":*"), folder.split_once('/')) {
            (Some((system, ending)), Some((of, event))) => of == system && event.ends_with(ending),
            (None, Some((of, event))) => name.split_once(':') == Some((of, event)),
            _ => false,
        };
        self.folders().any(fits)
    }

    /// Returns the errors despite which the recorder continued.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns a warning if another program has stopped or reset the recorder.
    pub fn reset_by_others(&self) -> Option<String> {
        let stopped = self.stop_handle.0.stopped_at().is_some();
        let clock = self.same_clock.then_some(MONO);
        (!stopped)
            .then(|| self.instance.reset_by_others(clock))
            .flatten()
    }

    /// Returns the conversion from trace times to CLOCK_MONOTONIC, with its error.
    pub const fn clock(&self) -> ClockMap {
        self.clock
    }

    /// Returns whether the trace clock is CLOCK_MONOTONIC.
    pub const fn has_same_clock(&self) -> bool {
        self.same_clock
    }

    /// Returns the layout of the recorder's pages.
    pub const fn layout(&self) -> Layout {
        self.decoder.layout()
    }

    /// Returns the recorded CPUs.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.cpus.iter().map(|cpu| cpu.cpu)
    }

    /// Returns the tracefs of the recorder, which contains the descriptions of its events.
    pub(crate) const fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }

    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.instance.file(name)
    }

    /// Returns the events that the pages can contain, as folders relative to `events`.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &str> {
        self.instance.armed.iter().map(|armed| armed.folder())
    }

    /// Reads the kernel's buffer while the recorder continues. Call this soon after an outlier,
    /// before later events overwrite its events.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn take_out(&mut self) -> Result<(), TraceError> {
        self.take_out_until(Nanos(u64::MAX))
    }

    /// Reads the kernel's buffer up to a time on CLOCK_MONOTONIC. Later events stay in the kernel.
    /// Otherwise, they could displace the requested ones if this is called late.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn take_out_until(&mut self, until: Nanos) -> Result<(), TraceError> {
        // A stopped recorder cannot record marks.
        if !self.same_clock && self.stop_handle.0.stopped_at().is_none() {
            return self.compare_clocks();
        }
        let offset = self.clock.offset_ns.saturating_neg();
        self.read_pages(until.0.saturating_add_signed(offset))
    }

    /// Returns a handle that stops the recorder from another thread.
    pub fn stop_handle(&self) -> Arc<StopHandle> {
        Arc::clone(&self.stop_handle.0)
    }

    /// Removes the instance.
    ///
    /// # Errors
    /// Returns an error if the kernel does not remove the instance. The next program tries again.
    pub fn stop(mut self) -> Result<(), TraceError> {
        self.cpus.clear();
        self.marker = None;
        self.stop_handle.0.close();
        // Disable the events first, so that no event stays enabled if the instance cannot be
        // removed.
        let off = self.instance.switch(false);
        self.instance.remove()?;
        off.map(drop)
    }

    /// Reads the buffer of each CPU until a page begins after `until`, on the trace clock.
    fn read_pages(&mut self, until: u64) -> Result<(), TraceError> {
        let Self {
            cpus,
            page,
            decoder,
            bytes_per_cpu,
            history_bytes,
            ..
        } = self;
        let layout = decoder.layout();
        let keep = (*history_bytes / cpus.len().max(1)).max(32 * layout.page_bytes);
        // The kernel keeps writing during the read, so read at most twice the size of the buffer.
        let most = 2 * *bytes_per_cpu / layout.page_bytes + 16;
        for cpu in cpus {
            for _ in 0..most {
                if cpu.history.begins_after(until) {
                    break;
                }
                match cpu.pipe.read(page) {
                    Ok(0) => break,
                    Ok(count) => {
                        cpu.history.push(layout, &page[..count]);
                        cpu.history.keep(keep);
                    }
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock => break,
                        io::ErrorKind::Interrupted => {}
                        _ => {
                            let pipe = format!("per_cpu/cpu{}/trace_pipe_raw", cpu.cpu);
                            return Err(TraceError::Read {
                                path: self.instance.file(&pipe),
                                source: error,
                            });
                        }
                    },
                }
            }
        }
        Ok(())
    }

    /// Writes marks into the trace, reading the clock before and after each. Then reads the buffer
    /// and computes the clock offset from the marks.
    fn compare_clocks(&mut self) -> Result<(), TraceError> {
        let mut readings = Vec::with_capacity(MARKS);
        if let Some(marker) = &mut self.marker {
            for number in 0..MARKS {
                let text = format!("{MARK}{number}");
                let before = monotonic().0;
                let written = marker.write(text.as_bytes());
                let after = monotonic().0;
                if written.is_ok() {
                    readings.push((number, before, after));
                }
            }
        }
        self.read_pages(u64::MAX)?;
        match ClockMap::measure(&self.marks(&readings)) {
            Some(map) => self.clock = map,
            None if self.same_clock => {
                self.warn(
                    "the trace clock could not be compared with the probe's clock, because no \
                     mark was found in the trace",
                );
            }
            None => return Err(TraceError::NoClock),
        }
        Ok(())
    }

    /// Finds the marks in the latest pages.
    fn marks(&self, readings: &[(usize, u64, u64)]) -> Vec<ClockMark> {
        let Some(print) = &self.print else {
            return Vec::new();
        };
        let Some(text) = print.position("buf") else {
            return Vec::new();
        };
        let layout = self.decoder.layout();
        let mut marks = Vec::new();
        for page in self.cpus.iter().flat_map(|cpu| cpu.history.latest()) {
            let Ok(page) = Page::parse(layout, &page.bytes) else {
                continue;
            };
            for record in page.records() {
                let number = (record.data.get(..2))
                    .filter(|id| layout.unsigned(id) == u64::from(print.id))
                    .and_then(|_| number(text.bytes(&layout, record.data)?));
                let reading = readings.iter().find(|reading| Some(reading.0) == number);
                // There may be older marks with the same numbers, so only the latest marks are used
                // below.
                marks.extend(reading.map(|(_, before, after)| ClockMark {
                    before: *before,
                    after: *after,
                    traced: record.time,
                }));
            }
        }
        let latest = marks.len().saturating_sub(readings.len());
        marks.split_off(latest)
    }

    fn warn(&mut self, text: &str) {
        if !self.warnings.iter().any(|warning| warning == text) {
            self.warnings.push(text.to_owned());
        }
    }
}

/// Parses a mark such as `punctual 7\n`.
fn number(text: &[u8]) -> Option<usize> {
    let until = text.iter().position(|byte| *byte == 0);
    let text = std::str::from_utf8(&text[..until.unwrap_or(text.len())]).ok()?;
    text.trim_end().strip_prefix(MARK)?.parse().ok()
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight")
            .field("instance", &self.instance.folder)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
