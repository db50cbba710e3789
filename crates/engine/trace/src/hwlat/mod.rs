//! A session of the kernel's hardware latency detector.

mod settings;

use std::fmt;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use punctual_model::{CpuSet, Nanos};

use crate::name::{HwlatSettings, Name};
use crate::tracer::{CLOCK, CURRENT, MONO, ON, THRESHOLD, not_started};
use crate::{Gap, Owner, TraceError, Tracefs};
pub use settings::HWLAT;
pub(crate) use settings::restore;
use settings::{put_duty, put_mode};

// Files in the folder of an instance.
const CPUS: &str = "tracing_cpumask";
const PIPE: &str = "trace_pipe";

/// The mode in which a single thread moves to the next CPU in each window.
const ROUND_ROBIN: &str = "round-robin";

/// Maximum number of bytes read in one call. Without a limit, reading might never end if the kernel
/// fills the pipe as fast as it is read.
const MOST_AT_ONCE: usize = 1 << 20;

/// Maximum length of a line in bytes. Typical lines have about 150 bytes.
const LONGEST_LINE: usize = 4_096;

/// The settings of the detector, in whole microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Time from the start of one spin to the start of the next. The kernel pauses for a whole
    /// number of milliseconds, and for at least one.
    pub window: Nanos,
    /// Duration of the spin in each window, with interrupts disabled.
    pub width: Nanos,
    /// The threshold above which gaps are reported.
    pub threshold: Nanos,
    /// The CPUs on which the detector spins, one after the other.
    pub cpus: CpuSet,
}

impl Ask {
    fn check(&self) -> Result<(u64, u64, u64), TraceError> {
        let window_us = self.window.whole_micros();
        let width_us = self.width.whole_micros();
        let threshold_us = self.threshold.whole_micros();
        // A threshold of 0 would select the tracer's default.
        if width_us == 0 || threshold_us == 0 || width_us >= window_us {
            return Err(TraceError::Ask {
                width_us,
                window_us,
                threshold_us,
            });
        }
        Ok((window_us, width_us, threshold_us))
    }
}

/// The running detector, in a separate trace instance. Calling [`stop`](Self::stop) or dropping it
/// restores all settings.
pub struct Hwlat {
    tracefs: Tracefs,
    folder: PathBuf,
    before: HwlatSettings,
    /// The tracer's own threshold, which is known only after the tracer has been selected.
    used_us: Option<u64>,
    pipe: Option<Box<dyn Read + Send>>,
    /// The start of a line whose end has not been read yet.
    rest: Vec<u8>,
    over: bool,
    /// Lock that shows other processes that this process is alive.
    _held: Option<OwnedFd>,
}

impl Tracefs {
    /// Checks that the kernel has the detector and that its settings can be read. Changes nothing.
    /// Only [`start_hwlat`](Self::start_hwlat) finds out whether the settings can be written, and
    /// whether another program is using the detector.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the detector, or if a setting cannot be read.
    pub fn may_start_hwlat(&self) -> Result<(), TraceError> {
        self.require(HWLAT)?;
        HwlatSettings::read(self).map(drop)
    }

    /// Starts the detector. `owner` is this process; later programs use it to find out whether the
    /// instance is still in use.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the detector, if another program is using it,
    /// or if a write is rejected. In that case, all settings are restored.
    pub fn start_hwlat(&self, ask: &Ask, owner: Owner) -> Result<Hwlat, TraceError> {
        let micros = ask.check()?;
        self.require(HWLAT)?;
        let before = HwlatSettings::read(self)?;
        let name = Name {
            pid: owner.pid,
            start: Some(owner.start),
            before,
        };
        let folder = self.instances().join(name.to_string());
        let held = self.make_instance(&folder)?;
        let mut hwlat = Hwlat {
            tracefs: self.clone(),
            folder,
            before: name.before,
            used_us: None,
            pipe: None,
            rest: Vec::new(),
            over: false,
            _held: held,
        };
        let Err(error) = hwlat.begin(micros, &ask.cpus) else {
            return Ok(hwlat);
        };
        Err(not_started(error, hwlat.stop(), &hwlat.folder))
    }
}

impl Hwlat {
    /// Selects and configures the tracer in the order that `kernel/trace/trace_hwlat.c` requires.
    /// The tracer is selected first, while the instance is off, so that it does not spin yet and no
    /// other program can select it. The kernel-wide settings are changed after that.
    fn begin(
        &mut self,
        (window_us, width_us, threshold_us): (u64, u64, u64),
        cpus: &CpuSet,
    ) -> Result<(), TraceError> {
        let tracefs = self.tracefs.clone();
        let own = |name: &str| self.folder.join(name);
        tracefs.write(&own(ON), "0")?;
        tracefs.write(&own(CPUS), &mask(cpus))?;
        let busy = || TraceError::Busy {
            path: tracefs.path().to_owned(),
        };
        tracefs.take_tracer(&self.folder, HWLAT, busy())?;
        let now = HwlatSettings::read(&tracefs)?;
        let threshold_us_before = self.before.threshold_us;
        let expected = HwlatSettings {
            // If this is 0, the tracer uses its own threshold.
            threshold_us: match threshold_us_before {
                0 => now.threshold_us,
                threshold => threshold,
            },
            ..self.before.clone()
        };
        if now != expected {
            // Another program has just restored its own settings, so the values in the name of the
            // instance are outdated. Nothing has been changed yet.
            tracefs.write(&own(CURRENT), "nop")?;
            return Err(busy());
        }
        self.used_us = Some(now.threshold_us);
        tracefs.write(&own(CLOCK), MONO)?;
        tracefs.put_number(&tracefs.file(THRESHOLD), threshold_us)?;
        put_duty(&tracefs, window_us, width_us)?;
        if self.before.mode.is_some() {
            put_mode(&tracefs, Some(ROUND_ROBIN))?;
        }
        // Open the pipe last, because the tracer of an instance cannot be changed while a pipe is
        // open.
        let path = own(PIPE);
        let pipe = tracefs.files().stream(&path);
        self.pipe = Some(pipe.map_err(|source| TraceError::Read { path, source })?);
        tracefs.write(&self.folder.join(ON), "1")
    }

    /// Returns the reports since the last call, without waiting, ordered by sequence number.
    ///
    /// # Errors
    /// Returns an error if the pipe cannot be read.
    pub fn take(&mut self) -> Result<Vec<Gap>, TraceError> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(Vec::new());
        };
        let mut buffer = [0; 8_192];
        let mut gaps = Vec::new();
        let mut taken = 0;
        while taken < MOST_AT_ONCE {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    taken += count;
                    self.rest.extend_from_slice(&buffer[..count]);
                    cut_lines(&mut self.rest, &mut gaps);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    io::ErrorKind::Interrupted => {}
                    _ => {
                        return Err(TraceError::Read {
                            path: self.folder.join(PIPE),
                            source: error,
                        });
                    }
                },
            }
        }
        gaps.sort_by_key(|gap| gap.sequence);
        Ok(gaps)
    }

    /// Ends the detector, restores its settings and removes the instance. After
    /// success, further calls do nothing.
    ///
    /// # Errors
    /// Returns an error if a setting could not be restored. The instance is kept, and the next
    /// program tries again ([`Tracefs::clear_left_behind`]).
    pub fn stop(&mut self) -> Result<(), TraceError> {
        if self.over {
            return Ok(());
        }
        // An open pipe keeps the tracer and the instance in use.
        self.pipe = None;
        restore(&self.tracefs, &self.folder, &self.before, self.used_us)?;
        self.over = true;
        Ok(())
    }
}

impl Drop for Hwlat {
    fn drop(&mut self) {
        // Callers that need the result call `stop`.
        let _ = self.stop();
    }
}

impl fmt::Debug for Hwlat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hwlat")
            .field("folder", &self.folder)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

/// Removes complete lines from the front of the buffer and parses them.
fn cut_lines(bytes: &mut Vec<u8>, gaps: &mut Vec<Gap>) {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n');
    if let Some(end) = whole {
        let lines = String::from_utf8_lossy(&bytes[..end]);
        gaps.extend(lines.lines().filter_map(Gap::parse));
        bytes.drain(..=end);
    }
    if bytes.len() > LONGEST_LINE {
        bytes.clear();
    }
}

/// Formats CPUs as a mask in the kernel's format: 32-bit words in hexadecimal, most significant
/// word first (`bitmap_parse` in `lib/bitmap-str.c`).
fn mask(cpus: &CpuSet) -> String {
    let words = cpus.iter().next_back().map_or(1, |last| last / 32 + 1);
    let mut bits = vec![0_u32; words as usize];
    for cpu in cpus.iter() {
        bits[(cpu / 32) as usize] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = bits
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests;
