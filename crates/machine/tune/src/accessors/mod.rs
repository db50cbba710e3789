//! Access to each setting. Most settings consist of one file, but some need their own code.

mod cache_masks;
mod cache_partition;
mod cards;
mod coalescing;
mod dirty;
mod eee;
mod held_latency;
mod idle_limit;
#[cfg(test)]
mod instance_tests;
mod irq;
mod irqbalance;
mod links;
mod one_file;
mod partition;
#[cfg(test)]
mod partition_tests;
mod priority;
mod smt;
mod turbo;
#[cfg(test)]
mod value_tests;

use punctual_model::{SETTINGS, Setting};

use crate::access::Access;

pub use held_latency::{HOLD_VERB, hold_latency};
pub use idle_limit::deeper_idle_states;
use one_file::OneFile;

/// Settings that need their own code, by name.
const SPECIAL: &[(&str, &dyn Access)] = &[
    ("turbo", &turbo::Turbo),
    ("idle-limit-us", &idle_limit::IdleLimit),
    ("dma-latency-us", &held_latency::HeldLatency),
    ("irq-affinity", &irq::IrqAffinity),
    ("irqbalance-banned", &irqbalance::IrqbalanceBan),
    ("thread-priority", &priority::ThreadPriority),
    ("cpuset-partition", &partition::Partition),
    ("cache-partition", &cache_partition::CachePartition),
    ("pci-link-power", &links::Links),
    ("dirty-limit", &dirty::DIRTY),
    ("dirty-background-limit", &dirty::DIRTY_BACKGROUND),
    ("eee", &eee::EnergyEfficient),
    ("rx-coalescing-us", &coalescing::RECEIVE),
    ("tx-coalescing-us", &coalescing::TRANSMIT),
    ("smt", &smt::Smt),
];

/// All other settings, in the order of the table.
static FILES: [OneFile; SETTINGS.len()] = {
    let mut files = [OneFile(&SETTINGS[0]); SETTINGS.len()];
    let mut row = 0;
    while row < files.len() {
        files[row] = OneFile(&SETTINGS[row]);
        row += 1;
    }
    files
};

/// Returns the implementation that accesses a setting.
pub(crate) fn access(setting: &Setting) -> &'static dyn Access {
    let special = SPECIAL.iter().find(|(name, _)| *name == setting.name);
    let file = || FILES.iter().find(|file| file.0 == setting);
    match special {
        Some((_, access)) => *access,
        None => file().unwrap_or(&FILES[0]),
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::Location;

    use super::*;

    #[test]
    fn only_special_settings_have_own_code() {
        for setting in SETTINGS {
            let special = matches!(setting.location, Location::Special { .. });
            let code = SPECIAL.iter().any(|(name, _)| *name == setting.name);
            assert_eq!(special, code, "{}", setting.name);
        }
    }
}
