//! Counters of what no event shows: time stolen, management interrupts.

use punctual_host::{CpuCounts, CpuWatch, Host};
use punctual_model::{Evidence, HostFacts, Nanos};

use crate::time::monotonic;

/// The counters of one CPU, as they were last read: at the start, and at each
/// outlier on it. In between nothing is read: a register of another CPU is read
/// by interrupting it.
pub(super) struct Counted {
    watch: CpuWatch,
    counts: CpuCounts,
    at: Nanos,
    idle_exit: Option<Nanos>,
}

impl Counted {
    pub(super) fn begin(host: &Host, facts: &HostFacts, cpu: u32) -> Self {
        let mut watch = host.watch(cpu);
        Self {
            counts: watch.read(),
            watch,
            at: monotonic(),
            idle_exit: idle_exit(facts, cpu),
        }
    }

    /// What they have counted since they were last read.
    pub(super) fn since(&mut self) -> Evidence {
        let (before, from) = (self.counts, self.at);
        (self.counts, self.at) = (self.watch.read(), monotonic());
        let after = self.counts;
        Evidence {
            span: self.at.saturating_sub(from),
            steal: (before.steal.zip(after.steal)).map(|(from, to)| to.saturating_sub(from)),
            // Of 32 bits.
            smis: (before.smis.zip(after.smis))
                .map(|(from, to)| to.wrapping_sub(from) & u64::from(u32::MAX)),
            idle_exit: self.idle_exit,
            ..Evidence::default()
        }
    }
}

/// What the deepest idle state that is not switched off takes to leave.
fn idle_exit(facts: &HostFacts, cpu: u32) -> Option<Nanos> {
    let states = facts
        .cpus
        .iter()
        .find(|facts| facts.cpu == cpu)?
        .idle_states
        .value
        .as_ref()?;
    let used = states.iter().filter(|state| !state.disabled);
    used.map(|state| state.exit_latency_ns).max()
}
