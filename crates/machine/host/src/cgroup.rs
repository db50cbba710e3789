//! The control groups of a thread, and counters of their CPU quotas (cgroups(7); kernel:
//! Documentation/scheduler/sched-bwc.rst, cgroup-v2.rst).

use std::fs::File;
use std::os::unix::fs::FileExt;

use punctual_model::{GroupThrottle, Nanos};

use crate::root::Root;

/// The hierarchies: the controller's name in version 1 (`None` for version 2), and the usual mount
/// point.
const HIERARCHIES: [(Option<&str>, &str); 4] = [
    (Some("cpu"), "/sys/fs/cgroup/cpu"),
    (Some("cpu"), "/sys/fs/cgroup/cpu,cpuacct"),
    (None, "/sys/fs/cgroup"),
    (None, "/sys/fs/cgroup/unified"),
];

/// Number of bytes to read from `cpu.stat`, which has only a few lines.
const STAT_BYTES: usize = 4_096;

/// Finds the group in the text of /proc/PID/cgroup: the group of a controller of version 1, or the
/// group of version 2 if `controller` is `None`.
pub(crate) fn group_in<'a>(text: &'a str, controller: Option<&str>) -> Option<&'a str> {
    let group = text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let whether = match controller {
            Some(name) => controllers.split(',').any(|c| c == name),
            None => controllers.is_empty(),
        };
        whether.then_some(group)
    })?;
    // The name of a control group must not lead outside the file system of the control groups.
    (!group.split('/').any(|part| part == "..")).then_some(group.trim_end_matches('/'))
}

/// Returns whether a thread is in `group` or below it.
pub(crate) fn is_in(root: &Root, tid: u32, group: &str) -> bool {
    let Ok(text) = root.raw_text(&format!("/proc/{tid}/cgroup")) else {
        return false;
    };
    let group = group.trim_end_matches('/');
    [Some("cpu"), None].into_iter().any(|controller| {
        let rest = group_in(&text, controller).and_then(|own| own.strip_prefix(group));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Returns the file that prevents a thread (`self`, or a thread ID) from getting real-time
/// priority: `cpu.rt_runtime_us` of its control group, if its value is 0. The group then has no
/// real-time runtime. The file exists only in version 1 with CONFIG_RT_GROUP_SCHED. Returns `None`
/// if there is no such file or its value is not 0.
pub(crate) fn without_real_time(root: &Root, tid: &str) -> Option<String> {
    let text = root.raw_text(&format!("/proc/{tid}/cgroup")).ok()?;
    let group = group_in(&text, Some("cpu"))?;
    let mounts = HIERARCHIES.iter().filter(|(version, _)| version.is_some());
    let mut files = mounts.map(|(_, mount)| format!("{mount}{group}/cpu.rt_runtime_us"));
    files.find(|file| root.text(file).is_ok_and(|text| text == "0"))
}

/// The counters of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaCounts {
    /// Number of quota periods in which the group was runnable (`nr_periods`).
    pub periods: u64,
    /// Number of those periods in which the group was throttled (`nr_throttled`).
    pub throttled: u64,
    /// Throttled time, summed over CPUs.
    pub throttled_time: Nanos,
}

/// One group with its counters.
#[derive(Debug)]
struct Group {
    name: String,
    stat: File,
    limited: bool,
    counts: QuotaCounts,
}

/// The control groups of some threads and all groups above them, with counters of their CPU quotas.
/// Their files stay open so that they can be read frequently.
#[derive(Debug, Default)]
pub struct Quotas {
    groups: Vec<Group>,
}

impl Quotas {
    /// Opens the groups of these processes or threads (`self`, or an ID) and all groups above them,
    /// innermost first. Leaves out groups that cannot be read: most have no such counters.
    pub(crate) fn above(root: &Root, pids: impl Iterator<Item = String>) -> Self {
        let mut quotas = Self::default();
        for pid in pids {
            let Ok(text) = root.raw_text(&format!("/proc/{pid}/cgroup")) else {
                continue;
            };
            for (controller, mount) in HIERARCHIES {
                if let Some(group) = group_in(&text, controller) {
                    quotas.add_all(root, mount, group);
                }
            }
        }
        let depth = |group: &Group| group.name.matches('/').count() + group.name.len();
        quotas
            .groups
            .sort_by_key(|group| std::cmp::Reverse(depth(group)));
        quotas
    }

    /// Adds a group and all groups above it.
    fn add_all(&mut self, root: &Root, mount: &str, group: &str) {
        let mut name = group;
        loop {
            self.add(root, mount, name);
            let Some((above, _)) = name.rsplit_once('/') else {
                return;
            };
            name = above;
        }
    }

    fn add(&mut self, root: &Root, mount: &str, group: &str) {
        let name = if group.is_empty() { "/" } else { group };
        if self.groups.iter().any(|known| known.name == name) {
            return;
        }
        let folder = format!("{mount}{group}");
        let Ok(stat) = root.open(&format!("{folder}/cpu.stat")) else {
            return;
        };
        let Some(counts) = read(&stat) else { return };
        let has = |file: &str, unlimited: &dyn Fn(&str) -> bool| {
            let text = root.text(&format!("{folder}/{file}"));
            text.is_ok_and(|text| !unlimited(&text))
        };
        let limited = has("cpu.max", &|text| text.starts_with("max"))
            || has("cpu.cfs_quota_us", &|text| text.starts_with('-'));
        self.groups.push(Group {
            name: name.to_owned(),
            stat,
            limited,
            counts,
        });
    }

    /// Keeps only the groups that currently have a quota.
    pub fn limited(mut self) -> Self {
        self.groups.retain(|group| group.limited);
        self
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Reads the counters again, and calls `rose` with the increase for each group that was
    /// throttled since the last call.
    pub fn read(&mut self, mut rose: impl FnMut(&str, QuotaCounts)) {
        for group in &mut self.groups {
            let Some(now) = read(&group.stat) else {
                continue;
            };
            let by = now.since(group.counts);
            group.counts = now;
            if by.throttled > 0 || by.throttled_time > Nanos::ZERO {
                rose(&group.name, by);
            }
        }
    }

    /// Returns the effect of the quotas since the groups were opened.
    pub fn finish(self) -> Vec<GroupThrottle> {
        let moved = |group: Group| {
            let by = read(&group.stat)?.since(group.counts);
            (by.periods > 0).then_some(GroupThrottle {
                group: group.name,
                periods: by.periods,
                throttled: by.throttled,
                throttled_ns: by.throttled_time,
            })
        };
        self.groups.into_iter().filter_map(moved).collect()
    }
}

impl QuotaCounts {
    fn since(self, before: Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(before.periods),
            throttled: self.throttled.saturating_sub(before.throttled),
            throttled_time: self.throttled_time.saturating_sub(before.throttled_time),
        }
    }
}

fn read(stat: &File) -> Option<QuotaCounts> {
    let mut bytes = [0; STAT_BYTES];
    let length = stat.read_at(&mut bytes, 0).ok()?;
    counts(&String::from_utf8_lossy(&bytes[..length]))
}

/// Parses the counters. Returns `None` if the group has no counters. In version 2, this is the case
/// for the root group and for groups without the controller `cpu`.
fn counts(text: &str) -> Option<QuotaCounts> {
    let value = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == key).then(|| value.trim().parse::<u64>().ok())?
        })
    };
    let time = value("throttled_time")
        .or_else(|| value("throttled_usec").map(|us| us.saturating_mul(1_000)));
    Some(QuotaCounts {
        periods: value("nr_periods")?,
        throttled: value("nr_throttled")?,
        throttled_time: Nanos(time?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(periods: u64, throttled: u64, time: &str) -> String {
        format!("nr_periods {periods}\nnr_throttled {throttled}\n{time}\n")
    }

    fn quotas(root: &Path) -> Quotas {
        Quotas::above(&Root::new(root.into()), ["self".to_owned()].into_iter())
    }

    #[test]
    fn parent_groups_are_read_in_both_versions() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/self/cgroup", "3:cpu,cpuacct:/a/b\n0::/other\n");
        write(
            root,
            "sys/fs/cgroup/cpu/a/b/cpu.stat",
            &stat(5, 1, "throttled_time 900"),
        );
        write(root, "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
        write(
            root,
            "sys/fs/cgroup/cpu/a/cpu.stat",
            &stat(7, 3, "throttled_time 1000"),
        );
        write(root, "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
        write(
            root,
            "sys/fs/cgroup/unified/other/cpu.stat",
            "usage_usec 5\n",
        );
        let before = quotas(root);
        let mut watched = quotas(root).limited();
        assert_eq!(before.groups.len(), 2);
        assert_eq!(watched.groups.len(), 1);
        write(
            root,
            "sys/fs/cgroup/cpu/a/cpu.stat",
            &stat(9, 4, "throttled_time 41000"),
        );
        let expected = GroupThrottle {
            group: "/a".to_owned(),
            periods: 2,
            throttled: 1,
            throttled_ns: Nanos(40_000),
        };
        assert_eq!(before.finish(), [expected]);
        let mut rises = Vec::new();
        watched.read(|group, by| rises.push((group.to_owned(), by.throttled_time)));
        watched.read(|group, _| panic!("{group} did not rise again"));
        assert_eq!(rises, [("/a".to_owned(), Nanos(40_000))]);
    }

    #[test]
    fn version_2_uses_microseconds_and_container_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/self/cgroup", "0::/\n");
        write(root, "sys/fs/cgroup/cpu.max", "50000 100000\n");
        write(
            root,
            "sys/fs/cgroup/cpu.stat",
            &stat(1, 0, "throttled_usec 0"),
        );
        let before = quotas(root).limited();
        assert!(!before.is_empty());
        write(
            root,
            "sys/fs/cgroup/cpu.stat",
            &stat(4, 2, "throttled_usec 70"),
        );
        let found = before.finish();
        assert_eq!((found[0].group.as_str(), found[0].throttled), ("/", 2));
        assert_eq!(found[0].throttled_ns, Nanos(70_000));
    }

    #[test]
    fn a_group_without_real_time_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/self/cgroup", "1:cpu:/a\n");
        let runtime = "sys/fs/cgroup/cpu/a/cpu.rt_runtime_us";
        write(root, runtime, "0\n");
        let asked = || without_real_time(&Root::new(root.into()), "self");
        assert_eq!(asked(), Some(format!("/{runtime}")));
        write(root, runtime, "950000\n");
        assert_eq!(asked(), None);
        write(root, "proc/self/cgroup", "0::/a\n");
        assert_eq!(asked(), None);
    }

    #[test]
    fn thread_belongs_to_its_parent_groups() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "proc/7/cgroup", "1:cpu:/a/b\n0::/\n");
        let root = Root::new(folder.path().into());
        for (group, is) in [
            ("/a/b", true),
            ("/a", true),
            ("/a/bc", false),
            ("/c", false),
        ] {
            assert_eq!(is_in(&root, 7, group), is, "{group}");
        }
        assert!(!is_in(&root, 8, "/a"));
    }

    #[test]
    fn no_text_is_no_way_out() {
        assert_eq!(group_in("1:cpu:/../../etc\n", Some("cpu")), None);
        assert_eq!(group_in("garbage\n9\n", None), None);
        assert_eq!(counts("nr_periods x\n"), None);
    }
}
