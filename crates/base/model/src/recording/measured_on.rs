//! The machine and time of a measurement.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{CpuSet, Recording};

/// The machine and time of a measurement. A report needs them as evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredOn {
    /// Host name. Null if unknown.
    pub hostname: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Processor model.
    pub processor: Option<String>,
    /// Fingerprint, the same as in recordings made on this machine.
    pub fingerprint: String,
    /// The measured CPUs.
    pub cpus: CpuSet,
    /// Start of the first measurement.
    pub started: Timestamp,
}

impl MeasuredOn {
    /// Returns the machine and time of a recording.
    pub fn from_recording(recording: &Recording) -> Self {
        let host = &recording.host;
        let cpus = recording.threads.iter().filter_map(|thread| thread.cpu);
        Self {
            hostname: host.hostname.get().cloned(),
            kernel: host.kernel.release.get().cloned(),
            processor: host.processor.model.get().cloned(),
            fingerprint: host.fingerprint.clone(),
            cpus: cpus.collect(),
            started: recording.started,
        }
    }

    /// Returns `box1, kernel 6.12.8-rt, Intel Core i7, CPUs 2-3`.
    pub fn line(&self) -> String {
        let kernel = match &self.kernel {
            Some(kernel) => format!("kernel {kernel}"),
            None => "kernel unknown".to_owned(),
        };
        let name = self.hostname.clone();
        let mut parts = vec![name.unwrap_or_else(|| "unknown host".to_owned()), kernel];
        parts.extend(self.processor.clone());
        parts.push(match self.cpus.len() {
            0 => "CPUs unknown".to_owned(),
            1 => format!("CPU {}", self.cpus),
            _ => format!("CPUs {}", self.cpus),
        });
        parts.join(", ")
    }

    /// Returns `2026-11-25 20:01 UTC`.
    pub fn date(&self) -> String {
        self.started.strftime("%F %H:%M UTC").to_string()
    }
}
