//! `--smi`: counts system management interrupts (SMIs) on each thread's CPU.

use std::time::{Duration, Instant};

use punctual_host::{CpuWatch, Host};
use punctual_model::{CpuSet, Recording};

use crate::{CompatError, ToolContext};

/// Interval at which the registers are read. It is long because each read interrupts the CPU.
const LOOK: Duration = Duration::from_secs(1);

/// The counts since the start.
#[derive(Default)]
pub(super) struct Smis {
    threads: Vec<Thread>,
    looked: Option<Instant>,
}

struct Thread {
    watch: CpuWatch,
    before: u64,
    since: u64,
    /// SMIs that have not been printed yet by a line of `-v`.
    untold: u64,
}

/// Checks that SMIs can be counted on these CPUs, and prints the messages of the original if not.
///
/// # Errors
/// Returns an error if they cannot be counted.
pub(super) fn check(cpus: &CpuSet, context: &mut ToolContext<'_>) -> Result<(), CompatError> {
    let fatal = |text: &str| Err(CompatError::Fatal(text.to_owned()));
    if !cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        return fatal("--smi is not available on your arch");
    }
    if context.host.vendor() != Some("GenuineIntel") {
        return fatal("SMI counter is not supported on this processor");
    }
    let unreadable = |cpu: &u32| context.host.watch(*cpu).read().smis.is_none();
    let Some(cpu) = cpus.iter().find(unreadable) else {
        return Ok(());
    };
    context.say(&format!(
        "WARN: /dev/cpu/{cpu}/msr open failed, try chown or chmod +r /dev/cpu/*/msr, or run as root"
    ));
    fatal("Could not open MSR interface")
}

impl Smis {
    /// Starts counting.
    pub(super) fn begin(&mut self, host: &Host, recording: &Recording) {
        let cpus = recording.threads.iter().filter_map(|thread| thread.cpu);
        self.threads = cpus
            .map(|cpu| {
                let mut watch = host.watch(cpu);
                Thread {
                    before: watch.read().smis.unwrap_or_default(),
                    watch,
                    since: 0,
                    untold: 0,
                }
            })
            .collect();
    }

    /// Reads the registers if the interval is over, or if `now` is set.
    pub(super) fn look(&mut self, now: bool) {
        if !now && self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        for thread in &mut self.threads {
            let Some(count) = thread.watch.read().smis else {
                continue;
            };
            // The register has 32 bits.
            let since = (count as u32).wrapping_sub(thread.before as u32).into();
            thread.untold += u64::saturating_sub(since, thread.since);
            thread.since = since;
        }
    }

    /// Returns the number of SMIs of a thread since the start; `None` if they are not counted.
    pub(super) fn count_at(&self, place: usize) -> Option<u64> {
        self.threads.get(place).map(|thread| thread.since)
    }

    /// Returns the number of SMIs of a thread that have not been printed yet.
    pub(super) fn take(&mut self, place: usize) -> Option<u64> {
        let thread = self.threads.get_mut(place)?;
        Some(std::mem::take(&mut thread.untold))
    }
}
