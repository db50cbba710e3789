//! The CPUs to which the scheduler moves no threads, whatever isolates them: `isolcpus=`, an
//! isolated cpuset partition of cgroup version 2, or cpusets of version 1 without load balancing.

use punctual_model::{CpuSet, Fact, ReservedCpus};

use crate::Host;
use crate::container::MOUNT;
use crate::root::Root;

/// CPUs that have no tick while only one thread runs on them.
pub(crate) const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";

/// CPUs that `isolcpus=` isolates. Newer kernels also list the CPUs of isolated partitions.
const AT_BOOT: &str = "/sys/devices/system/cpu/isolated";

/// Mount points of cgroup version 2 below [`MOUNT`]: alone, and next to version 1.
const UNIFIED: [&str; 2] = ["", "/unified"];

/// Maximum number of groups whose files are read.
const MOST: usize = 16_384;

/// Maximum depth of nested groups.
const DEEPEST: usize = 16;

impl Host {
    /// Returns the online CPUs that the machine keeps free of other work; `None` if there are none.
    pub fn reserved(&self) -> Option<ReservedCpus> {
        let tickless = self.root.cpu_list(NOHZ_FULL);
        let online = self.online().unwrap_or_default();
        ReservedCpus::find(&isolated(&self.root), &tickless, &online)
    }
}

/// Returns the isolated CPUs. The source names the files that list them.
pub(crate) fn isolated(root: &Root) -> Fact<CpuSet> {
    let at_boot = root.cpu_list(AT_BOOT);
    let mut found: Vec<(CpuSet, String)> = Vec::new();
    if let Some(cpus) = at_boot.get() {
        found.push((cpus.clone(), AT_BOOT.to_owned()));
    }
    for place in UNIFIED {
        found.extend(partitions(root, &format!("{MOUNT}{place}")));
    }
    found.extend(unbalanced(root, &format!("{MOUNT}/cpuset")));
    found.retain(|(cpus, _)| !cpus.is_empty());
    if found.is_empty() {
        return at_boot;
    }
    let cpus: CpuSet = found.iter().flat_map(|(cpus, _)| cpus.iter()).collect();
    let sources: Vec<String> = found.into_iter().map(|(_, source)| source).collect();
    Fact::known(cpus, sources.join(", "))
}

/// Returns the CPUs of the isolated partitions of version 2. The kernel lists them from Linux 6.7
/// on; before, each partition states its own CPUs. A partition that is `isolated invalid` isolates
/// nothing (Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition).
fn partitions(root: &Root, mount: &str) -> Vec<(CpuSet, String)> {
    let list = format!("{mount}/cpuset.cpus.isolated");
    if let Some(cpus) = root.cpu_list(&list).value {
        return vec![(cpus, list)];
    }
    let mut found = Vec::new();
    each_group(root, mount, "cpuset.cpus.partition", &mut |group, state| {
        if state == "isolated" {
            let file = format!("{group}/cpuset.cpus.effective");
            let cpus = root.cpu_list(&file).value.unwrap_or_default();
            found.push((cpus, format!("{group}/cpuset.cpus.partition")));
        }
    });
    found
}

/// Returns the CPUs that no cpuset of version 1 balances. While the root balances, all CPUs are
/// balanced (Documentation/admin-guide/cgroup-v1/cpusets.rst, 1.7).
fn unbalanced(root: &Root, mount: &str) -> Option<(CpuSet, String)> {
    const BALANCE: &str = "cpuset.sched_load_balance";
    let source = format!("{mount}/{BALANCE}");
    if root.text(&source).ok()? != "0" {
        return None;
    }
    let mut balanced = CpuSet::new();
    each_group(root, mount, BALANCE, &mut |group, balance| {
        if balance != "0" {
            let cpus = root.cpu_list(&format!("{group}/cpuset.cpus")).value;
            balanced = balanced
                .iter()
                .chain(cpus.unwrap_or_default().iter())
                .collect();
        }
    });
    let online = root.cpu_list("/sys/devices/system/cpu/online").value?;
    Some((online.difference(&balanced), source))
}

/// Calls `act` with the folder of each group below `mount` that has this file, and with its text.
fn each_group(root: &Root, mount: &str, file: &str, act: &mut dyn FnMut(&str, &str)) {
    let mut waiting = vec![(mount.to_owned(), 0)];
    let mut count = 0;
    while let Some((group, depth)) = waiting.pop() {
        count += 1;
        let text = root.text(&format!("{group}/{file}"));
        // A group without the controller has no group below with the controller.
        if (text.is_err() && depth > 0) || count > MOST {
            continue;
        }
        if let Ok(text) = text {
            act(&group, &text);
        }
        if depth < DEEPEST {
            let below = root.folders(&group).into_iter();
            waiting.extend(below.map(|name| (format!("{group}/{name}"), depth + 1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(files: &[(&str, &str)]) -> Fact<CpuSet> {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        isolated(&Root::new(folder.path().into()))
    }

    const NONE: (&str, &str) = ("sys/devices/system/cpu/isolated", "\n");
    const GROUP: &str = "sys/fs/cgroup";

    #[test]
    fn every_kind_of_isolation_is_found() {
        let partition = |state: &'static str| {
            [
                NONE,
                ("sys/fs/cgroup/a/cpuset.cpus.partition", "member\n"),
                ("sys/fs/cgroup/a/b/cpuset.cpus.partition", state),
                ("sys/fs/cgroup/a/b/cpuset.cpus.effective", "2-3\n"),
                ("sys/fs/cgroup/c/d/cpuset.cpus.partition", "isolated\n"),
            ]
        };
        let scanned = found(&partition("isolated\n"));
        let file = format!("/{GROUP}/a/b/cpuset.cpus.partition");
        assert_eq!(scanned, Fact::known("2-3".parse().unwrap(), file));
        for state in [
            "isolated invalid (Parent is not a partition root)\n",
            "root\n",
        ] {
            let nothing = found(&partition(state));
            assert_eq!(nothing, Fact::known(CpuSet::new(), AT_BOOT), "{state}");
        }
        let both = found(&[
            ("sys/devices/system/cpu/isolated", "1\n"),
            ("sys/fs/cgroup/cpuset.cpus.isolated", "2-3\n"),
        ]);
        let list = format!("{AT_BOOT}, /{GROUP}/cpuset.cpus.isolated");
        assert_eq!(both, Fact::known("1-3".parse().unwrap(), list));
        let unified = found(&[NONE, ("sys/fs/cgroup/unified/cpuset.cpus.isolated", "2\n")]);
        assert_eq!(unified.value.unwrap().to_string(), "2");
        assert_eq!(found(&[]).unknown.unwrap(), "not there");
    }

    #[test]
    fn version_1_isolates_what_nothing_balances() {
        let groups = |root: &'static str| {
            found(&[
                NONE,
                ("sys/devices/system/cpu/online", "0-3\n"),
                ("sys/fs/cgroup/cpuset/cpuset.sched_load_balance", root),
                ("sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n"),
                ("sys/fs/cgroup/cpuset/rt/cpuset.sched_load_balance", "0\n"),
                ("sys/fs/cgroup/cpuset/rt/cpuset.cpus", "2-3\n"),
                ("sys/fs/cgroup/cpuset/rest/cpuset.sched_load_balance", "1\n"),
                ("sys/fs/cgroup/cpuset/rest/cpuset.cpus", "0-1\n"),
            ])
        };
        let file = "/sys/fs/cgroup/cpuset/cpuset.sched_load_balance";
        assert_eq!(groups("0\n"), Fact::known("2-3".parse().unwrap(), file));
        assert_eq!(groups("1\n").value, Some(CpuSet::new()));
    }
}
