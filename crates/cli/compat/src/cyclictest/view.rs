//! Output of cyclictest during the run.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{Recording, Sample};
use punctual_session::{Snapshot, Watcher};

use super::pipe::Pipe;
use super::settings::{Affinity, CyclictestSettings};
use super::smi::Smis;
use super::snapshot::SnapshotFile;
use crate::CompatError;
use crate::lines::{self, ThreadLine, Unit};
use crate::live_output::{LIVE, LiveOutput, QUIET};

/// The lines on stdout, and the other output of a run.
pub(super) struct View<'a> {
    settings: &'a CyclictestSettings,
    output: LiveOutput<'a>,
    err: &'a mut dyn Write,
    host: Host,
    policy: String,
    lines: Vec<ThreadLine>,
    /// The lines that other programs can read.
    shared: Arc<Mutex<String>>,
    pipe: Option<Pipe>,
    snapshot: Option<SnapshotFile>,
    samples: Samples,
    smis: Smis,
    /// Time at which the lines for other programs were last updated.
    updated: Option<Instant>,
    printed: bool,
    shown_max: u64,
    dropped: u64,
}

/// Observations during the run.
pub(super) struct LiveData {
    pub(super) lines: Vec<ThreadLine>,
    pub(super) samples: Samples,
    /// Number of dropped samples.
    pub(super) dropped: u64,
}

/// Data of individual samples.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// For each thread, the number of samples.
    counts: Vec<u64>,
    /// For each thread, the largest sample that has not been printed yet, and its cycle (`-o`).
    pending: Vec<Pending>,
    /// For each thread, the cycles of the first overflows.
    pub(super) overflows: Vec<Vec<u64>>,
    /// Spikes: thread, value, time in µs.
    pub(super) spikes: Vec<(u32, i64, u64)>,
    /// Their number.
    pub(super) spike_count: u64,
    /// Lines of `-v` whose values are above the break value.
    pub(super) held: Vec<HeldLine>,
}

/// A line of `-v` that has not been printed yet. If one of its values ends the run, that value is
/// the break value, and the original prints it only as such. Scripts rely on this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldLine {
    pub(super) thread: usize,
    pub(super) value: i64,
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    seen: u64,
    cycle: u64,
    max: i64,
}

impl<'a> View<'a> {
    /// Sets up all output of the run except its lines.
    ///
    /// # Errors
    /// Returns an error if the named pipe cannot be created.
    pub(super) fn new(
        settings: &'a CyclictestSettings,
        output: LiveOutput<'a>,
        err: &'a mut dyn Write,
        host: Host,
    ) -> Self {
        let threads = settings.threads as usize;
        let lines: Vec<ThreadLine> = (0..threads)
            .map(|place| {
                let interval = settings.interval_of(place);
                ThreadLine::new(place, settings.priority_of(place), interval, settings.unit)
            })
            .collect();
        let shared = Arc::new(Mutex::new(text_of(&lines)));
        let pipe = settings
            .fifo
            .as_ref()
            .and_then(|path| match Pipe::make(path, &shared) {
                Ok(pipe) => Some(pipe),
                Err(error) => {
                    let _ = writeln!(err, "Error creating fifo {path}: {error}");
                    None
                }
            });
        let snapshot = SnapshotFile::make(&host)
            .inspect_err(|error| {
                let _ = writeln!(err, "ERROR: shm_open {error}");
            })
            .ok();
        Self {
            settings,
            output,
            err,
            host,
            policy: settings.policy_words(),
            lines,
            shared,
            pipe,
            snapshot,
            samples: Samples::new(threads),
            smis: Smis::default(),
            updated: None,
            printed: false,
            shown_max: 0,
            dropped: 0,
        }
    }

    /// Returns what was observed, at the end of the run.
    ///
    /// # Errors
    /// Returns an error if lines could not be written.
    pub(super) fn finish(self) -> Result<LiveData, CompatError> {
        drop(self.pipe);
        self.output.finish()?;
        Ok(LiveData {
            lines: self.lines,
            samples: self.samples,
            dropped: self.dropped,
        })
    }

    fn count_smis(&mut self, now: bool) {
        self.smis.look(now);
        for (place, line) in self.lines.iter_mut().enumerate() {
            line.smis = self.smis.count_at(place);
        }
    }

    fn is_live(&self) -> bool {
        !self.settings.common.quiet && !self.settings.verbose
    }

    /// Prints the block of lines. Before each repetition, the cursor is moved back.
    fn print_block(&mut self) {
        let again = std::mem::replace(&mut self.printed, true);
        let load = self.host.load_averages().unwrap_or_default();
        let (policy, lines) = (&self.policy, &self.lines);
        let unbuffered = self.settings.unbuffered;
        self.output.print(|out| {
            if again {
                write!(out, "\x1b[{}A", lines.len() + 2)?;
            }
            writeln!(out, "policy: {policy}: loadavg: {load}          \n")?;
            for line in lines {
                writeln!(out, "{line}")?;
                if unbuffered {
                    out.flush()?;
                }
            }
            Ok(())
        });
    }

    /// Returns whether the block must be printed now.
    fn is_due(&mut self) -> bool {
        let max = self.lines.iter().map(|line| line.max).max().unwrap_or(0);
        let new_max = max > self.shown_max;
        self.shown_max = self.shown_max.max(max);
        !self.settings.refresh_on_max || new_max || !self.printed
    }

    /// Updates the lines for other programs ten times a second, and prints them on
    /// stderr after SIGUSR1.
    fn update_readers(&mut self) {
        let show = self.output.signals().show.swap(false, Ordering::Relaxed);
        let is_time = self
            .updated
            .is_none_or(|updated| updated.elapsed() >= QUIET);
        if !show && !is_time {
            return;
        }
        let lines = text_of(&self.lines);
        let rule = "#---------------------------";
        let status = format!("{rule}\n# cyclictest current status:\n{lines}{rule}\n");
        if show {
            let _ = write!(self.err, "{status}");
        }
        if !is_time {
            return;
        }
        self.updated = Some(Instant::now());
        if let Some(Err(error)) = self.snapshot.as_ref().map(|file| file.put(&status)) {
            let _ = writeln!(self.err, "ERROR: {error}");
            self.snapshot = None;
        }
        if self.pipe.is_some() {
            *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = lines;
        }
    }

    /// Prints the values of one thread, or only one value with `-o`.
    fn print_values(&mut self, thread: u32, samples: &[Sample]) {
        let settings = self.settings;
        let Some(pending) = self.samples.pending.get_mut(thread as usize) else {
            return;
        };
        let first = self.samples.counts[thread as usize];
        let (smis, held) = (&mut self.smis, &mut self.samples.held);
        let limit = settings.break_value().unwrap_or(i64::MAX);
        self.output.print(|out| {
            for (cycle, sample) in (first..).zip(samples) {
                let value = settings.unit.convert(sample.latency);
                if value > limit {
                    held.push(HeldLine {
                        thread: thread as usize,
                        value,
                        text: format!("{thread:8}:{cycle:8}:{value:8}"),
                    });
                    continue;
                }
                if value > pending.max {
                    (pending.max, pending.cycle) = (value, cycle);
                }
                pending.seen += 1;
                if pending.seen < settings.oscope {
                    continue;
                }
                let (cycle, max) = (pending.cycle, pending.max);
                write!(out, "{thread:8}:{cycle:8}:{max:8}")?;
                // SMIs are counted once a second. The count is printed with the first value after
                // that.
                if let Some(smis) = smis.take(thread as usize) {
                    write!(out, "{smis:8}")?;
                }
                writeln!(out)?;
                if settings.unbuffered {
                    out.flush()?;
                }
                (pending.seen, pending.max) = (0, 0);
            }
            Ok(())
        });
    }
}

impl Watcher for View<'_> {
    fn begin(&mut self, recording: &Recording) {
        if self.settings.smi {
            self.smis.begin(&self.host, recording);
        }
        if !self.settings.verbose {
            return;
        }
        let bound = matches!(self.settings.affinity, Affinity::Chosen(_));
        for (place, thread) in recording.threads.iter().enumerate() {
            // At the end, the original prints the interval of the next thread.
            let next = match self.settings.histogram {
                0 => self.settings.interval_of(place + 1),
                _ => self.settings.interval_us,
            };
            self.output.print(|out| {
                if let (true, Some(cpu)) = (bound, thread.cpu) {
                    writeln!(out, "Thread {place} using cpu {cpu}.")?;
                }
                writeln!(out, "Thread {place} Interval: {next}")
            });
        }
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        lines::update(&mut self.lines, snapshot);
        self.count_smis(false);
        self.dropped = snapshot.workers.iter().map(|worker| worker.dropped).sum();
        self.update_readers();
        if self.is_live() && self.is_due() {
            self.print_block();
        }
    }

    fn end(&mut self) {
        self.count_smis(true);
        // Print the lines that -M has suppressed so far.
        if self.is_live() && self.settings.refresh_on_max {
            self.print_block();
        }
    }

    fn every(&self) -> Duration {
        if self.settings.common.quiet && !self.settings.verbose {
            QUIET
        } else {
            LIVE
        }
    }

    fn wants_samples(&self) -> bool {
        self.settings.verbose || self.settings.histogram > 0 || self.settings.spike > 0
    }

    fn samples(&mut self, thread: u32, samples: &[Sample]) {
        if self.settings.verbose {
            self.print_values(thread, samples);
        }
        self.samples.take(thread, samples, self.settings);
    }
}

/// Returns all lines, each with a newline.
fn text_of(lines: &[ThreadLine]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

impl Samples {
    fn new(threads: usize) -> Self {
        Self {
            counts: vec![0; threads],
            pending: vec![Pending::default(); threads],
            overflows: vec![Vec::new(); threads],
            ..Self::default()
        }
    }

    fn take(&mut self, thread: u32, samples: &[Sample], settings: &CyclictestSettings) {
        let place = thread as usize;
        if place >= self.counts.len() {
            return;
        }
        let (unit, limit) = (settings.unit, settings.histogram as u64);
        let first = self.counts[place];
        self.counts[place] += samples.len() as u64;
        let list = &mut self.overflows[place];
        for (cycle, sample) in (first..).zip(samples) {
            let value = unit.convert(sample.latency);
            let is_above = |limit: u64| value.unsigned_abs() >= limit && value >= 0;
            if limit > 0 && list.len() < settings.histogram && is_above(limit) {
                list.push(cycle);
            }
            if settings.spike > 0 && is_above(settings.spike + 1) {
                self.spike_count += 1;
                if self.spikes.len() < settings.spike_nodes {
                    let woke = sample.expected.0.saturating_add_signed(sample.latency.0);
                    self.spikes
                        .push((thread, value, woke / Unit::Micros.one().0));
                }
            }
        }
    }
}
