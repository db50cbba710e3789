//! A session of the kernel's tracers timerlat and osnoise.

mod sample;
mod settings;

use std::fmt;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use punctual_model::{CpuSet, Nanos, NoiseReports};

use crate::clock::ClockMap;
use crate::flight::{CpuPipe, Owner, instance_layout, pipes};
use crate::ring::{Lost, Page};
use crate::tracer::{CLOCK, CURRENT, MONO, ON, not_started};
use crate::{TraceError, Tracefs};
use sample::Reader;
pub(crate) use settings::NoiseName;
use settings::OsnoiseSettings;

/// The name of the tracer timerlat.
pub const TIMERLAT: &str = "timerlat";

/// The option of osnoise that disables interrupts during a spin.
const IRQ_DISABLE: &str = "OSNOISE_IRQ_DISABLE";

/// The name of the tracer osnoise.
pub const OSNOISE: &str = "osnoise";

/// Size of the ring buffer of each CPU: enough for about ten seconds at a period of 1 ms.
const KIB_PER_CPU: usize = 1_024;

/// Returns the file that a user-space thread on this CPU reads to wait for a timer of timerlat
/// (since Linux 6.5).
fn user_file(tracefs: &Tracefs, cpu: u32) -> PathBuf {
    tracefs.file(&format!("osnoise/per_cpu/cpu{cpu}/timerlat_fd"))
}

/// The settings of a session. The tracers use whole microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoiseAsk {
    /// timerlat: a timer on each CPU, and a thread that it wakes.
    Timerlat {
        /// The CPUs.
        cpus: CpuSet,
        /// Time between two expiries of the timer, from 100 us to 1 s.
        period: Nanos,
        /// Whether user-space threads wait for the timer ([`Osnoise::user_wait`]) instead of the
        /// kernel's threads.
        user: bool,
        /// Latency of the thread above which the kernel stack of the interrupt is recorded; `None`
        /// to never record it. Not all kernels support this, and none of them supports it for
        /// user-space threads.
        stacks_above: Option<Nanos>,
    },
    /// osnoise: a thread on each CPU, which spins and looks for gaps.
    Osnoise {
        /// The CPUs.
        cpus: CpuSet,
        /// Time from the start of one spin to the start of the next.
        period: Nanos,
        /// Duration of the spin in each period.
        runtime: Nanos,
        /// Minimum length of a gap that counts as noise; 0 for the kernel's default, about 1 us.
        threshold: Nanos,
        /// Length above which a gap is reported individually.
        told_above: Nanos,
        /// Whether interrupts stay enabled during the spin (disabling them: since Linux 6.2).
        interrupts: bool,
        /// When the kernel itself stops the trace.
        stop: NoiseStop,
    },
}

/// Noise at which the kernel turns off tracing in all instances of osnoise, in us; 0 for never.
/// The threads continue to spin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoiseStop {
    /// A single gap of at least this length.
    pub single_us: u64,
    /// A sum of the gaps of one period above this.
    pub total_us: u64,
}

impl NoiseAsk {
    /// Returns the name of the tracer.
    pub fn tracer(&self) -> &'static str {
        match self {
            Self::Timerlat { .. } => TIMERLAT,
            Self::Osnoise { .. } => OSNOISE,
        }
    }

    /// Returns the tracers' settings for this session. Options that would cause a panic are off, and
    /// so is the stop of the trace unless it is requested.
    fn settings(&self, before: &OsnoiseSettings) -> OsnoiseSettings {
        let mut wanted = OsnoiseSettings {
            stop_us: 0,
            stop_total_us: 0,
            print_stack_us: before.print_stack_us.map(|_| 0),
            ..before.clone()
        };
        let irqs_off = matches!(
            self,
            Self::Osnoise {
                interrupts: false,
                ..
            }
        );
        for (name, on) in [
            ("PANIC_ON_STOP", false),
            ("OSNOISE_PREEMPT_DISABLE", false),
            (IRQ_DISABLE, irqs_off),
        ] {
            wanted.options = wanted.options.with_option(name, on);
        }
        let (set, own_threads) = match self {
            Self::Timerlat {
                cpus,
                period,
                user,
                stacks_above,
            } => {
                wanted.timerlat_period_us =
                    wanted.timerlat_period_us.map(|_| period.whole_micros());
                // With 0, no stack would be recorded.
                let above = stacks_above.map_or(0, |above| above.whole_micros().max(1));
                wanted.print_stack_us = wanted.print_stack_us.map(|_| above);
                (cpus, !user)
            }
            Self::Osnoise {
                cpus,
                period,
                runtime,
                threshold,
                stop,
                ..
            } => {
                wanted.stop_us = stop.single_us;
                wanted.stop_total_us = stop.total_us;
                wanted.period_us = period.whole_micros();
                wanted.runtime_us = runtime.whole_micros();
                wanted.threshold_us = threshold.whole_micros();
                (cpus, true)
            }
        };
        wanted.cpus = set.clone();
        wanted.options = wanted.options.with_option("OSNOISE_WORKLOAD", own_threads);
        wanted
    }
}

/// A running tracer, in a separate trace instance. Calling [`stop`](Self::stop) or dropping it
/// restores all settings.
pub struct Osnoise {
    // This field is dropped first, because the instance cannot be removed while its files are open.
    cpus: Vec<CpuPipe>,
    tracefs: Tracefs,
    folder: PathBuf,
    before: OsnoiseSettings,
    reader: Option<Reader>,
    page: Vec<u8>,
    over: bool,
    /// Lock that shows other processes that this process is alive.
    _held: Option<OwnedFd>,
}

impl Tracefs {
    /// Checks that the kernel has the tracer and that its settings can be read. Changes nothing.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the tracer, if a setting cannot be read, or if
    /// another program is using the tracer.
    pub fn may_start_osnoise(&self, ask: &NoiseAsk) -> Result<(), TraceError> {
        self.require(ask.tracer())?;
        let settings = OsnoiseSettings::read(self)?;
        if let NoiseAsk::Osnoise {
            interrupts: false, ..
        } = ask
            && settings.options.get(IRQ_DISABLE).is_none()
        {
            return Err(TraceError::NoIrqDisable);
        }
        if let NoiseAsk::Timerlat {
            cpus, user: true, ..
        } = ask
            && !self.has_user_timerlat(cpus)
        {
            return Err(TraceError::NoUserTimerlat {
                path: user_file(self, cpus.first().unwrap_or_default()),
            });
        }
        self.nobody_uses_osnoise(None)
    }

    /// Returns whether user-space threads can wait for the timers of timerlat.
    pub fn has_user_timerlat(&self, cpus: &CpuSet) -> bool {
        // The file cannot be opened yet even if it exists, so search for its name in the folder.
        let there = |cpu: u32| {
            let file = user_file(self, cpu);
            let folder = file.parent().unwrap_or(Path::new("/"));
            let names = self.files().names(folder).unwrap_or_default();
            names.iter().any(|name| name == "timerlat_fd")
        };
        cpus.iter().all(there)
    }

    /// Fails if another instance is using timerlat or osnoise, because both tracers share one set
    /// of threads and settings in the whole kernel. `but` is the instance of this session, which is
    /// ignored.
    fn nobody_uses_osnoise(&self, but: Option<&Path>) -> Result<(), TraceError> {
        let path = self.instances();
        let names = match self.files().names(&path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => {
                return Err(TraceError::Instance {
                    what: "list",
                    path,
                    source,
                });
            }
        };
        let others = names.iter().map(|name| path.join(name));
        let others = others.filter(|folder| Some(folder.as_path()) != but);
        for folder in std::iter::once(self.path().to_owned()).chain(others) {
            let named = folder.file_name().and_then(|name| name.to_str());
            let prepares = named.is_some_and(NoiseName::fits);
            let tracer = self.text_if_there(&folder.join(CURRENT))?;
            if prepares || tracer.is_some_and(|tracer| tracer == TIMERLAT || tracer == OSNOISE) {
                return Err(TraceError::NoiseBusy { path: folder });
            }
        }
        Ok(())
    }

    /// Starts the tracer. `owner` is this process; later programs use it to find out whether the
    /// instance is still in use.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the tracer, if another program is using it, or
    /// if a write is rejected. In that case, all settings are restored.
    pub fn start_osnoise(&self, ask: &NoiseAsk, owner: Owner) -> Result<Osnoise, TraceError> {
        self.may_start_osnoise(ask)?;
        let before = OsnoiseSettings::read(self)?;
        let name = NoiseName { owner, before };
        let folder = self.instances().join(name.text()?);
        let held = self.make_instance(&folder)?;
        let mut session = Osnoise {
            cpus: Vec::new(),
            tracefs: self.clone(),
            folder,
            before: name.before,
            reader: None,
            page: Vec::new(),
            over: false,
            _held: held,
        };
        let Err(error) = session.begin(ask) else {
            return Ok(session);
        };
        Err(not_started(error, session.stop(), &session.folder))
    }
}

impl Osnoise {
    /// Changes the kernel-wide settings before it selects the tracer, because an active tracer
    /// restarts its threads after each change. If two programs start at the same time, each finds
    /// the instance of the other, and both stop.
    fn begin(&mut self, ask: &NoiseAsk) -> Result<(), TraceError> {
        let tracefs = self.tracefs.clone();
        let own = |name: &str| self.folder.join(name);
        tracefs.nobody_uses_osnoise(Some(&self.folder))?;
        tracefs.write(&own("options/overwrite"), "1")?;
        tracefs.write(&own("buffer_size_kb"), &KIB_PER_CPU.to_string())?;
        let layout = instance_layout(&tracefs, &self.folder)?;
        self.page = vec![0; layout.page_bytes];
        self.reader = Some(match ask {
            NoiseAsk::Timerlat { stacks_above, .. } => {
                Reader::timerlat(&tracefs, layout, stacks_above.is_some())?
            }
            NoiseAsk::Osnoise { .. } => Reader::osnoise(&tracefs, layout)?,
        });
        // The clock of the instance indicates that there may be settings to restore.
        tracefs.write(&own(CLOCK), MONO)?;
        if let Some(first) = ask
            .settings(&self.before)
            .write(&tracefs)
            .into_iter()
            .next()
        {
            return Err(first);
        }
        if let NoiseAsk::Osnoise { told_above, .. } = ask {
            let event = own("events").join(sample::GAP.0);
            let filter = format!("duration > {}", told_above.0);
            tracefs.write(&event.join("filter"), &filter)?;
            tracefs.write(&event.join("enable"), "1")?;
        }
        let busy = TraceError::NoiseBusy {
            path: tracefs.path().to_owned(),
        };
        tracefs.take_tracer(&self.folder, ask.tracer(), busy)?;
        // Open the pipes last, because the tracer of an instance cannot be changed while its pipes
        // are open.
        self.cpus = pipes(&tracefs, &self.folder)?;
        let (NoiseAsk::Timerlat { cpus, .. } | NoiseAsk::Osnoise { cpus, .. }) = ask;
        self.cpus.retain(|pipe| cpus.contains(pipe.cpu));
        Ok(())
    }

    /// Returns the reports since the last call, without waiting.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn take(&mut self) -> Result<NoiseReports, TraceError> {
        let mut reports = NoiseReports::default();
        let Some(reader) = &self.reader else {
            return Ok(reports);
        };
        // The kernel keeps writing during the read, so read at most twice the size of the buffer.
        let most = 2 * KIB_PER_CPU * 1_024 / self.page.len().max(1) + 16;
        for pipe in &mut self.cpus {
            for _ in 0..most {
                let count = match pipe.pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(source) => {
                        let file = format!("per_cpu/cpu{}/trace_pipe_raw", pipe.cpu);
                        return Err(TraceError::Read {
                            path: self.folder.join(file),
                            source,
                        });
                    }
                };
                let lost = match Page::parse(reader.layout(), &self.page[..count]) {
                    Ok(page) => {
                        reader.page(&page, pipe.cpu, ClockMap::default(), &mut reports);
                        page.lost().map_or(0, Lost::at_least)
                    }
                    Err(_) => 1,
                };
                if lost > 0 {
                    *reports.lost.entry(pipe.cpu).or_default() += lost;
                }
            }
        }
        Ok(reports)
    }

    /// Returns the file that shows whether the kernel has stopped the trace.
    pub fn switch(&self) -> TraceSwitch {
        TraceSwitch {
            tracefs: self.tracefs.clone(),
            file: self.folder.join(ON),
        }
    }

    /// Opens the file that a user-space thread reads to wait for the timer of timerlat. Call this
    /// on that thread, pinned to this CPU only, and only if the session uses user-space threads.
    /// Close the file before the tracer stops; otherwise the kernel kills the program.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the thread, because it is not pinned or because
    /// another thread already has the file open.
    pub fn user_wait(&self, cpu: u32) -> Result<UserWait, TraceError> {
        open_user_wait(&self.tracefs, cpu)
    }

    /// Ends the tracer, restores its settings and removes the instance. After
    /// success, further calls do nothing.
    ///
    /// # Errors
    /// Returns an error if a setting could not be restored. The instance is kept, and the next
    /// program tries again ([`Tracefs::clear_left_behind`]).
    pub fn stop(&mut self) -> Result<(), TraceError> {
        if self.over {
            return Ok(());
        }
        // Open pipes keep the tracer and the instance in use.
        self.cpus.clear();
        restore(&self.tracefs, &self.folder, &self.before)?;
        self.over = true;
        Ok(())
    }
}

/// The file `tracing_on` of a running session.
#[derive(Clone, Debug)]
pub struct TraceSwitch {
    tracefs: Tracefs,
    file: PathBuf,
}

impl TraceSwitch {
    /// Returns whether the trace is on.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, for example because the session has ended.
    pub fn is_on(&self) -> Result<bool, TraceError> {
        Ok(self.tracefs.text(&self.file)? == "1")
    }

    /// Turns the trace on again.
    ///
    /// # Errors
    /// Returns the errors of write(2).
    pub fn turn_on(&self) -> Result<(), TraceError> {
        self.tracefs.write(&self.file, "1")
    }
}

fn open_user_wait(tracefs: &Tracefs, cpu: u32) -> Result<UserWait, TraceError> {
    let path = user_file(tracefs, cpu);
    match tracefs.files().stream(&path) {
        Ok(file) => Ok(UserWait { file, path }),
        Err(source) => Err(TraceError::Read { path, source }),
    }
}

impl Drop for Osnoise {
    fn drop(&mut self) {
        // Callers that need the result call `stop`.
        let _ = self.stop();
    }
}

impl fmt::Debug for Osnoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Osnoise")
            .field("folder", &self.folder)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

/// A user-space thread that waits for timers of timerlat (`osnoise/per_cpu/cpuN/timerlat_fd`).
pub struct UserWait {
    file: Box<dyn Read + Send>,
    path: PathBuf,
}

impl UserWait {
    /// Ends the work of the current period and sleeps until the timer expires again or a signal
    /// arrives.
    ///
    /// # Errors
    /// Returns an error if the tracer was stopped, or the thread was moved to another CPU.
    pub fn wait(&mut self) -> Result<(), TraceError> {
        match self.file.read(&mut [0]) {
            // Reading returns no data, but only waits.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(source) => Err(TraceError::Read {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

impl fmt::Debug for UserWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserWait")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Ends the tracer of the instance `folder`, restores the settings `before` and removes the
/// instance. Only settings that differ are written, so this can be called again after a failure.
pub(crate) fn restore(
    tracefs: &Tracefs,
    folder: &Path,
    before: &OsnoiseSettings,
) -> Result<(), TraceError> {
    let current = folder.join(CURRENT);
    let kept = |errors| TraceError::NotRestored {
        path: folder.to_owned(),
        errors,
    };
    if tracefs.text(&current)? != "nop" {
        tracefs
            .write(&current, "nop")
            .map_err(|error| kept(vec![error]))?;
    }
    // Restore the settings after the tracer has ended, because a running tracer restarts its
    // threads after each change.
    let clocks = tracefs.text(&folder.join(CLOCK))?;
    if crate::name::in_force(&clocks).as_deref() == Some(MONO) {
        let errors = before.write(tracefs);
        if !errors.is_empty() {
            return Err(kept(errors));
        }
    }
    tracefs.remove_instance(folder)
}

#[cfg(test)]
mod tests;
