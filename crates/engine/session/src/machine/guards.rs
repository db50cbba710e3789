//! Guards that are held during a measurement and released however the run ends.

use std::path::Path;

use punctual_model::CpuSet;
use punctual_rt::{DmaLatency, Error, LockMode, MemoryLock};

use super::rights;

/// Locks memory, and keeps CPUs out of deep idle states.
#[derive(Default)]
pub(crate) struct Guards {
    _memory: Option<MemoryLock>,
    _dma_latency: Option<DmaLatency>,
    /// Rights that these guards require and that are missing.
    lacks: Vec<&'static str>,
}

impl Guards {
    /// Refusals become warnings: the measurement is still valid, but the reader must know.
    pub(crate) fn awake(dma_latency_us: Option<i32>, warnings: &mut Vec<String>) -> Self {
        let mut guards = Self::default();
        if let Some(micros) = dma_latency_us {
            guards._dma_latency = DmaLatency::hold(Path::new(DmaLatency::DEFAULT_PATH), micros)
                .map_err(|error| {
                    let what = "CPUs may enter deep idle states";
                    guards.refused(error, rights::IDLE_STATES, what, warnings);
                })
                .ok();
        }
        guards
    }

    /// Locks the pages that are used from now on. Must be called last before the measuring threads
    /// start.
    pub(crate) fn lock_memory(&mut self, warnings: &mut Vec<String>) {
        self._memory = punctual_rt::lock_process_memory(LockMode::OnFault)
            .map_err(|error| {
                self.refused(error, rights::MEMORY, "memory is not locked", warnings);
            })
            .ok();
        rights::tell_of_lacking(&self.lacks, warnings);
    }

    fn refused(
        &mut self,
        error: Error,
        right: &'static str,
        what: &str,
        warnings: &mut Vec<String>,
    ) {
        if error.is_privilege() {
            // The right to lock memory is requested last, but is named first.
            self.lacks.insert(0, right)
        } else {
            warnings.push(format!("{what}: {error}"))
        }
    }
}

/// Keeps the calling thread off the measured CPUs, if there are others.
pub(crate) struct Elsewhere(Option<Vec<u32>>);

impl Elsewhere {
    pub(crate) fn than(measured: &CpuSet) -> Self {
        let before = punctual_rt::affinity::current().unwrap_or_default();
        let rest: Vec<u32> = before
            .iter()
            .copied()
            .filter(|cpu| !measured.contains(*cpu))
            .collect();
        let moved = !rest.is_empty()
            && punctual_rt::affinity::set(punctual_rt::current_tid(), &rest).is_ok();
        Self(moved.then_some(before))
    }
}

impl Elsewhere {
    /// Keeps the calling thread off these CPUs permanently, because something occupies them.
    pub(crate) fn stay(&mut self) {
        self.0 = None;
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // This affinity was in force before. If it is refused now, staying on the other CPUs
            // does no harm.
            let _ = punctual_rt::affinity::set(punctual_rt::current_tid(), before);
        }
    }
}
