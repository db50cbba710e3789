//! Steal time and context switches of /proc/stat.

use std::collections::BTreeMap;

use punctual_model::CpuSet;

/// Counters of /proc/stat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    /// Steal time of each online CPU, in ticks; `None` if the kernel does not count steal time.
    steal: BTreeMap<u32, Option<u64>>,
    /// Context switches since boot.
    pub(super) context_switches: Option<u64>,
}

/// Index of `steal` among the numbers of a `cpuN` line, which are user nice system idle iowait irq
/// softirq steal (proc_stat(5)).
const STEAL: usize = 7;

impl Stat {
    /// Parses the known lines and skips all others.
    pub(super) fn parse(text: &str) -> Self {
        let mut stat = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let key = words.next().unwrap_or_default();
            if key == "ctxt" {
                stat.context_switches = words.next().and_then(|count| count.parse().ok());
            } else if let Some(cpu) = key.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok())
                && cpu <= CpuSet::MAX_CPU
            {
                let steal = words.nth(STEAL).and_then(|ticks| ticks.parse().ok());
                stat.steal.insert(cpu, steal);
            }
        }
        stat
    }

    /// Returns the CPUs that have a line.
    pub(super) fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.steal.keys().copied()
    }

    /// Returns the steal time of a CPU in ticks.
    pub(super) fn steal_ticks(&self, cpu: u32) -> Option<u64> {
        *self.steal.get(&cpu)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steal_is_the_eighth_number() {
        let stat = Stat::parse(
            "cpu  9 9 9 9 9 9 9 99 9 9\ncpu0 1 2 3 4 5 6 7 402 0 0\ncpu3 1 2 3 4\nintr 5 0\nctxt 486605\n",
        );
        assert_eq!(stat.cpus().collect::<Vec<_>>(), [0, 3]);
        assert_eq!(stat.steal_ticks(0), Some(402));
        assert_eq!(stat.steal_ticks(3), None);
        assert_eq!(stat.steal_ticks(1), None);
        assert_eq!(stat.context_switches, Some(486_605));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(cpu[0-9]{0,12}|ctxt|[ 0-9\\n]|\\PC){0,100}") {
            let _ = Stat::parse(&text);
        }
    }
}
