//! One measurement at a time on a CPU.

use std::path::PathBuf;

use punctual_files::folder;
use punctual_files::lock::{Asked, Lock, ask};
use punctual_host::Host;
use punctual_model::CpuSet;

use crate::{Session, SessionError};

/// CPUs that no other measurement takes until this is dropped.
#[derive(Debug)]
pub struct CpuLocks {
    _held: Vec<Lock>,
}

impl CpuLocks {
    /// Holds `cpus` in each of `folders`. A folder that is not there is made where that is
    /// possible; where it is not, others cannot be kept off.
    ///
    /// # Errors
    /// [`SessionError::CpuInUse`], without waiting.
    pub fn hold(folders: &[PathBuf], cpus: &CpuSet, what: &str) -> Result<Self, SessionError> {
        let note = format!("{what}, process {}", std::process::id());
        let mut held = Vec::new();
        for place in folders {
            // What is lacking is seen at the file.
            let _ = folder::make(place, 0o755);
            for cpu in cpus.iter() {
                match ask(&place.join(format!("cpu-{cpu}")), &note) {
                    Ok(Asked::Held(lock)) => held.push(lock),
                    Ok(Asked::Busy { note }) => {
                        let who = note.unwrap_or_else(|| "another user's program".to_owned());
                        return Err(SessionError::CpuInUse { cpu, who });
                    }
                    Ok(Asked::Impossible) | Err(_) => {}
                }
            }
        }
        Ok(Self { _held: held })
    }

    /// Those of this machine that a program without a CPU list measures.
    ///
    /// # Errors
    /// As [`hold`](Self::hold); CPUs that cannot be read.
    pub fn hold_usual(
        folders: &[PathBuf],
        cpus: Option<&CpuSet>,
        host: &Host,
        what: &str,
    ) -> Result<Self, SessionError> {
        match cpus {
            Some(cpus) => Self::hold(folders, cpus, what),
            None => Self::hold(folders, &host.allowed()?, what),
        }
    }
}

impl Session {
    /// Holds the CPUs that it measures.
    ///
    /// # Errors
    /// As [`CpuLocks::hold`].
    pub fn hold_cpus(&self, folders: &[PathBuf]) -> Result<CpuLocks, SessionError> {
        CpuLocks::hold(folders, &self.cpus(), self.request.probe.name)
    }
}
