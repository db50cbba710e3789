//! Facts about each CPU.

use punctual_model::{CpuFacts, CpuSet, Fact, IdleState, Nanos, ProcessorFacts};

use super::cpuinfo::CpuInfo;
use crate::Unread;
use crate::root::{Root, number, word};
use crate::unread::{NoValue, Unparsed};

/// Returns the facts about each present CPU in ascending order.
pub(super) fn facts(root: &Root, processor: &ProcessorFacts, info: &CpuInfo) -> Vec<CpuFacts> {
    let online = processor.online.get();
    let mut cpus: CpuSet = info
        .values("processor")
        .filter_map(|number| number.parse().ok())
        .filter(|cpu| *cpu <= CpuSet::MAX_CPU)
        .collect();
    for known in [online, processor.present.get()].into_iter().flatten() {
        cpus = cpus.iter().chain(known.iter()).collect();
    }
    cpus.iter()
        .map(|cpu| match online {
            // The files of an offline CPU do not exist, but "not there" would be a misleading
            // reason.
            Some(online) if !online.contains(cpu) => offline(cpu),
            _ => one(root, cpu),
        })
        .collect()
}

fn one(root: &Root, cpu: u32) -> CpuFacts {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
    let file = |name: &str| format!("{folder}/{name}");
    CpuFacts {
        cpu,
        package: root.number(&file("topology/physical_package_id")),
        core: root.number(&file("topology/core_id")),
        siblings: root.cpu_list(&file("topology/thread_siblings_list")),
        shares_cache_with: shared_cache(root, &file("cache")),
        governor: root.word(&file("cpufreq/scaling_governor")),
        frequency_min_khz: root.number(&file("cpufreq/scaling_min_freq")),
        frequency_max_khz: root.number(&file("cpufreq/scaling_max_freq")),
        idle_states: idle_states(root, &file("cpuidle")),
    }
}

fn offline(cpu: u32) -> CpuFacts {
    fn fact<T>(cpu: u32) -> Fact<T> {
        Fact::unknown(
            format!("/sys/devices/system/cpu/cpu{cpu}"),
            "the CPU is offline",
        )
    }
    CpuFacts {
        cpu,
        package: fact(cpu),
        core: fact(cpu),
        siblings: fact(cpu),
        shares_cache_with: fact(cpu),
        governor: fact(cpu),
        frequency_min_khz: fact(cpu),
        frequency_max_khz: fact(cpu),
        idle_states: fact(cpu),
    }
}

/// Returns the CPUs that share the last-level cache. The kernel numbers caches from the nearest to
/// the farthest, so the last-level cache has the highest index.
fn shared_cache(root: &Root, folder: &str) -> Fact<CpuSet> {
    match root
        .numbered(folder, "index")
        .map(|found| found.last().copied())
    {
        Ok(Some(last)) => root.cpu_list(&format!("{folder}/index{last}/shared_cpu_list")),
        Ok(None) => Fact::unknown(folder, "empty"),
        Err(reason) => Fact::unknown(folder, reason.to_string()),
    }
}

/// The reason why the idle states of a CPU are unknown.
#[derive(Debug, thiserror::Error)]
enum NoIdleStates {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("empty")]
    Empty,
    #[error("{file}: {why}")]
    File { file: String, why: NoValue },
}

/// Returns the idle states in ascending order, or none if one of them cannot be read: a list with a
/// gap would look as if it were complete.
fn idle_states(root: &Root, folder: &str) -> Fact<Vec<IdleState>> {
    let states = || {
        let numbers = root.numbered(folder, "state")?;
        if numbers.is_empty() {
            return Err(NoIdleStates::Empty);
        }
        numbers
            .iter()
            .map(|number| idle_state(root, &format!("{folder}/state{number}")))
            .collect()
    };
    match states() {
        Ok(states) => Fact::known(states, folder),
        Err(reason) => Fact::unknown(folder, reason.to_string()),
    }
}

/// Reads one idle state (`Documentation/admin-guide/pm/cpuidle.rst`: `latency` in microseconds,
/// `disable` set by the administrator).
fn idle_state(root: &Root, folder: &str) -> Result<IdleState, NoIdleStates> {
    fn value<T>(
        root: &Root,
        file: String,
        read: impl FnOnce(&str) -> Result<T, Unparsed>,
    ) -> Result<T, NoIdleStates> {
        let value = root.value(&file, read);
        value.map_err(|why| NoIdleStates::File { file, why })
    }
    let latency_us: u64 = value(root, format!("{folder}/latency"), number)?;
    let disabled: u64 = value(root, format!("{folder}/disable"), number)?;
    Ok(IdleState {
        name: value(root, format!("{folder}/name"), word)?,
        exit_latency_ns: Nanos(latency_us.saturating_mul(1_000)),
        disabled: disabled != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_idle_states_are_unknown_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned());
        let reason = || idle_states(&root, "/idle").unknown.unwrap_or_default();
        assert_eq!(reason(), "not there");
        std::fs::create_dir_all(folder.path().join("idle/state0")).unwrap();
        assert_eq!(reason(), "/idle/state0/latency: not there");
        std::fs::write(folder.path().join("idle/state0/latency"), "soon").unwrap();
        assert_eq!(
            reason(),
            "/idle/state0/latency: not readable as a number: 'soon'"
        );
        std::fs::remove_dir_all(folder.path().join("idle/state0")).unwrap();
        assert_eq!(reason(), "empty");
    }
}
