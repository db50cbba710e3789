//! The limits of a control group, in both versions: effective CPUs and quota. Also the
//! `cgroup.procs` files through which a process joins it.

use std::path::PathBuf;

use punctual_model::{CpuQuota, CpuSet, GroupFacts, Nanos};

use crate::cgroup::group_in;
use crate::container::{Container, ControlGroup, MOUNT};
use crate::root::Root;
use crate::topology;

/// Hierarchies that limit threads: the mount point below [`MOUNT`], the controller in
/// /proc/PID/cgroup (`None` for version 2), and a file that exists in the root of the hierarchy.
const HIERARCHIES: [(&str, Option<&str>, &str); 5] = [
    ("", None, "cgroup.controllers"),
    ("/unified", None, "cgroup.controllers"),
    ("/cpu", Some("cpu"), "cpu.shares"),
    ("/cpu,cpuacct", Some("cpu"), "cpu.shares"),
    ("/cpuset", Some("cpuset"), "cpuset.cpus"),
];

/// Files that move a process into a group and back. Writing a PID to one of them moves that
/// process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLocation {
    /// `cgroup.procs` of the group to join.
    pub group: PathBuf,
    /// `cgroup.procs` of the group that this process is in now.
    pub home: PathBuf,
}

/// Returns the folder of the group in each hierarchy that has the group, with the hierarchy's mount
/// point and controller.
fn folders(root: &Root, name: &str) -> Vec<(String, &'static str, Option<&'static str>)> {
    let mut found: Vec<(String, &str, Option<&str>)> = Vec::new();
    for (place, controller, marker) in HIERARCHIES {
        let mount = format!("{MOUNT}{place}");
        let folder = format!("{mount}{}", name.trim_end_matches('/'));
        let is_mounted = root.open(&format!("{mount}/{marker}")).is_ok();
        let has = root.open(&format!("{folder}/cgroup.procs")).is_ok();
        // `cpu` is a link to `cpu,cpuacct`.
        let known = found.iter().any(|(_, _, one)| *one == controller);
        if is_mounted && has && !known {
            found.push((folder, place, controller));
        }
    }
    found
}

/// Returns the files with which a process can join a group: one pair for each hierarchy that limits
/// threads and has the group.
pub(crate) fn locations(root: &Root, group: &ControlGroup) -> Vec<GroupLocation> {
    let own = root.raw_text("/proc/self/cgroup").unwrap_or_default();
    let folders = folders(root, &group.name).into_iter();
    let place = |(folder, place, controller): (String, &str, Option<&str>)| {
        let home = group_in(&own, controller)?;
        let path = |file: String| root.path().join(file.trim_start_matches('/'));
        Some(GroupLocation {
            group: path(format!("{folder}/cgroup.procs")),
            home: path(format!("{MOUNT}{place}{home}/cgroup.procs")),
        })
    };
    folders.filter_map(place).collect()
}

pub(crate) fn facts(root: &Root, group: &ControlGroup) -> GroupFacts {
    let folders = folders(root, &group.name);
    let container = Container::from_group(&group.name);
    let (cpus, exclusive) = cpuset(root, &folders);
    let (quota, quota_known) = quota(root, &group.name, &folders);
    let mut facts = GroupFacts {
        path: group.name.clone(),
        container: container.map(|container| container.to_string()),
        exclusive,
        quota,
        quota_known,
        shared_cores: CpuSet::new(),
        shared_cache: CpuSet::new(),
        cpus,
    };
    if let Some(cpus) = &facts.cpus {
        facts.shared_cores = topology::siblings_outside(root, cpus);
        facts.shared_cache = topology::cache_sharers_outside(root, cpus);
    }
    facts
}

/// Returns the effective CPUs, and whether the group has them exclusively.
fn cpuset(root: &Root, folders: &[(String, &str, Option<&str>)]) -> (Option<CpuSet>, Option<bool>) {
    for folder in folders
        .iter()
        .flat_map(|(folder, place, _)| up_from(folder, place))
    {
        let set = |file: &str| -> Option<CpuSet> {
            let text = root.text(&format!("{folder}/{file}")).ok()?;
            (!text.is_empty()).then(|| text.parse().ok())?
        };
        let of_version_2 = set("cpuset.cpus.effective");
        let cpus = of_version_2
            .or_else(|| set("cpuset.effective_cpus"))
            .or_else(|| set("cpuset.cpus"));
        if cpus.is_none() {
            continue;
        }
        let partition = root.text(&format!("{folder}/cpuset.cpus.partition"));
        let flag = root.text(&format!("{folder}/cpuset.cpu_exclusive"));
        let exclusive = match (partition, flag) {
            // `root invalid (...)` means that the partition has lost its CPUs.
            (Ok(text), _) => Some(matches!(text.as_str(), "root" | "isolated")),
            (Err(_), Ok(text)) => Some(text == "1"),
            _ => None,
        };
        return (cpus, exclusive);
    }
    (None, None)
}

/// Returns a group's folder and the folders above it, up to the hierarchy's root. In version 2, a
/// group without its own cpuset uses the cpuset of the group above it.
fn up_from<'a>(folder: &'a str, place: &str) -> impl Iterator<Item = &'a str> {
    let root = MOUNT.len() + place.len();
    let above = move |folder: &&'a str| {
        let (above, _) = folder.rsplit_once('/')?;
        (above.len() >= root).then_some(above)
    };
    std::iter::successors(Some(folder.trim_end_matches('/')), above)
}

/// Returns the tightest quota among those of the group and all groups above it, and whether the
/// limit of any of them could be read.
fn quota(
    root: &Root,
    name: &str,
    folders: &[(String, &str, Option<&str>)],
) -> (Option<CpuQuota>, bool) {
    let mut tightest: Option<CpuQuota> = None;
    let mut known = false;
    for (_, place, _) in folders {
        let mut group = name.trim_end_matches('/');
        loop {
            let folder = format!("{MOUNT}{place}{group}");
            let shown = if group.is_empty() { "/" } else { group };
            match limit(root, &folder) {
                Some(Some((quota, period))) => {
                    known = true;
                    let one = CpuQuota {
                        group: shown.to_owned(),
                        quota_ns: quota,
                        period_ns: period,
                    };
                    let is_tighter = |known: &CpuQuota| one.millicpus() < known.millicpus();
                    if tightest.as_ref().is_none_or(is_tighter) {
                        tightest = Some(one);
                    }
                }
                Some(None) => known = true,
                None => {}
            }
            match group.rsplit_once('/') {
                Some((above, _)) => group = above,
                None => break,
            }
        }
    }
    (tightest, known)
}

/// Returns the quota and period of one group. The inner `None` means unlimited, and the outer
/// `None` means unknown.
fn limit(root: &Root, folder: &str) -> Option<Option<(Nanos, Nanos)>> {
    let us = |text: &str| text.parse::<u64>().ok().map(Nanos::from_micros);
    if let Ok(text) = root.text(&format!("{folder}/cpu.max")) {
        let (quota, period) = text.split_once(' ')?;
        return match quota {
            "max" => Some(None),
            quota => Some(Some((us(quota)?, us(period)?))),
        };
    }
    let quota = root.text(&format!("{folder}/cpu.cfs_quota_us")).ok()?;
    if quota.starts_with('-') {
        return Some(None);
    }
    let period = root.text(&format!("{folder}/cpu.cfs_period_us")).ok()?;
    Some(Some((us(&quota)?, us(&period)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path().into());
        (folder, root)
    }

    const CORES: [(&str, &str); 2] = [
        (
            "sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
            "0,2\n",
        ),
        (
            "sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
            "1,3\n",
        ),
    ];

    #[test]
    fn version_2() {
        let files = [
            ("sys/fs/cgroup/cgroup.controllers", "cpu cpuset\n"),
            ("sys/fs/cgroup/cgroup.procs", "1\n"),
            ("sys/fs/cgroup/a/cgroup.procs", ""),
            ("sys/fs/cgroup/a/cpu.max", "20000 100000\n"),
            ("sys/fs/cgroup/a/b/cgroup.procs", ""),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/cpuset.cpus.effective", "2-3\n"),
            ("sys/fs/cgroup/a/b/cpuset.cpus.partition", "isolated\n"),
            ("proc/self/cgroup", "0::/mine\n"),
        ];
        let (folder, root) = machine(&[&files[..], &CORES].concat());
        let group = ControlGroup::find(&root, "/a/b").unwrap();
        let found = facts(&root, &group);
        assert_eq!(
            found.describe(),
            "/a/b: CPU 2-3, quota of /a 20.0 ms in 100 ms, CPUs exclusive, cores shared with CPU 0-1"
        );
        let path = |file: &str| folder.path().join(file);
        let place = GroupLocation {
            group: path("sys/fs/cgroup/a/b/cgroup.procs"),
            home: path("sys/fs/cgroup/mine/cgroup.procs"),
        };
        assert_eq!(locations(&root, &group), [place]);
    }

    #[test]
    fn version_1_and_hybrid() {
        let files = [
            ("sys/fs/cgroup/cpu/cpu.shares", "1024\n"),
            ("sys/fs/cgroup/cpu/a/cgroup.procs", ""),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n"),
            ("sys/fs/cgroup/cpuset/a/cgroup.procs", ""),
            ("sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "1,3\n"),
            ("sys/fs/cgroup/cpuset/a/cpuset.cpu_exclusive", "0\n"),
            ("sys/fs/cgroup/unified/cgroup.controllers", "\n"),
            ("sys/fs/cgroup/unified/a/cgroup.procs", ""),
            ("proc/self/cgroup", "4:cpuset:/\n3:cpu,cpuacct:/x\n0::/s\n"),
        ];
        let (_folder, root) = machine(&[&files[..], &CORES].concat());
        let group = ControlGroup::find(&root, "/a").unwrap();
        assert_eq!(
            facts(&root, &group).describe(),
            "/a: CPU 1,3, quota 50.0 ms in 100 ms, CPUs shared with other groups"
        );
        let homes = locations(&root, &group);
        let homes: Vec<String> = homes
            .iter()
            .map(|place| place.home.display().to_string())
            .collect();
        assert_eq!(homes.len(), 3, "{homes:?}");
        for (home, end) in homes.iter().zip([
            "unified/s/cgroup.procs",
            "cpu/x/cgroup.procs",
            "cpuset/cgroup.procs",
        ]) {
            assert!(home.ends_with(end), "{home}");
        }
    }

    #[test]
    fn group_inherits_parent_cpuset() {
        let files = [
            ("sys/fs/cgroup/cgroup.controllers", "cpu cpuset\n"),
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"),
            ("sys/fs/cgroup/a/cpuset.cpus.effective", "1\n"),
            ("sys/fs/cgroup/a/b/cgroup.procs", ""),
            ("sys/fs/cgroup/c/d/cgroup.procs", ""),
        ];
        let (_folder, root) = machine(&files);
        let cpus = |name: &str| {
            let group = ControlGroup::find(&root, name).unwrap();
            facts(&root, &group).cpus.map(|cpus| cpus.to_string())
        };
        assert_eq!(cpus("/a/b").as_deref(), Some("1"));
        assert_eq!(cpus("/c/d").as_deref(), Some("0-3"));
    }

    #[test]
    fn what_no_controller_says_is_unknown() {
        let files = [
            ("sys/fs/cgroup/unified/cgroup.controllers", "\n"),
            ("sys/fs/cgroup/unified/a/cgroup.procs", ""),
        ];
        let (_folder, root) = machine(&files);
        let group = ControlGroup::find(&root, "/a").unwrap();
        assert_eq!(
            facts(&root, &group).describe(),
            "/a: cpuset unknown, quota unknown"
        );
    }
}
