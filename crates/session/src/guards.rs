//! What is held while measuring, and given back however the run ends.

use std::path::Path;

use punctual_model::CpuSet;
use punctual_rt::{DmaLatency, Error, LockMode, MemoryLock};

use crate::rights;

/// Locked memory, and CPUs kept out of deep idle states.
pub(crate) struct Guards {
    _memory: Option<MemoryLock>,
    _dma_latency: Option<DmaLatency>,
}

impl Guards {
    /// Refusals are warnings: the figures stand, but the reader must know.
    pub(crate) fn hold(dma_latency_us: Option<i32>, warnings: &mut Vec<String>) -> Self {
        // On fault: what is used is locked, what is merely mapped takes no memory.
        let mut lacks = Vec::new();
        let mut refused = |error: Error, right, what: &str| match error.is_privilege() {
            true => lacks.push(right),
            false => warnings.push(format!("{what}: {error}")),
        };
        let memory = punctual_rt::lock_process_memory(LockMode::OnFault)
            .map_err(|error| refused(error, rights::MEMORY, "memory is not locked"))
            .ok();
        let dma_latency = dma_latency_us.and_then(|micros| {
            DmaLatency::hold(Path::new(DmaLatency::DEFAULT_PATH), micros)
                .map_err(|error| {
                    refused(
                        error,
                        rights::IDLE_STATES,
                        "CPUs may enter deep idle states",
                    );
                })
                .ok()
        });
        rights::tell_of_lacking(&lacks, warnings);
        Self {
            _memory: memory,
            _dma_latency: dma_latency,
        }
    }
}

/// Keeps the calling thread off the measured CPUs, where there are others.
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

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was in force before; should it be refused now, staying
            // elsewhere does no harm.
            let _ = punctual_rt::affinity::set(punctual_rt::current_tid(), before);
        }
    }
}
