//! Counters of the machine, read at the start and end of a run.

use punctual_host::{Counters, Host, PowerWatch, Quotas};
use punctual_model::{CpuSet, Nanos, Recording};
use punctual_rt::ProcessUsage;

use crate::machine::quota_warnings;

/// Values of the counters at the start of the run.
pub(super) struct MachineCounters {
    host: Host,
    cpus: CpuSet,
    before: Counters,
    power: PowerWatch,
    quotas: Quotas,
    used: ProcessUsage,
}

impl MachineCounters {
    pub(super) fn begin(host: &Host, cpus: CpuSet, quota_pids: &[u32]) -> Self {
        Self {
            cpus,
            before: host.counters(),
            power: host.watch_power(host.online().unwrap_or_default()),
            quotas: host.quotas(quota_pids),
            used: punctual_rt::process_usage(),
            host: host.clone(),
        }
    }

    /// Reads temperature and frequency, if a reading is due.
    pub(super) fn poll(&mut self, elapsed: Nanos) {
        self.power.poll(elapsed, &self.cpus);
    }

    /// Adds the differences to the recording. Returns a warning for each control group that was
    /// throttled.
    pub(super) fn finish(mut self, recording: &mut Recording, elapsed: Nanos) -> Vec<String> {
        let used = punctual_rt::process_usage();
        recording.interference = self
            .host
            .counters()
            .since(&self.before, &self.cpus, elapsed);
        recording.interference.groups = self.quotas.finish();
        self.power.finish(&mut recording.interference);
        recording.observer.peak_memory_bytes = used.peak_memory_bytes;
        recording.observer.cpu_time_ns =
            Nanos::from(used.cpu_time) - Nanos::from(self.used.cpu_time);
        let threads = recording.threads.iter().map(|thread| thread.scheduling);
        quota_warnings(&recording.interference, threads)
    }
}
