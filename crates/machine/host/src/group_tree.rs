//! The control groups of the machine, indexed by the IDs that the kernel uses for them: the inode
//! numbers of their folders (`kernfs_node.id`, cgroups(7)).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cgroup::group_in;
use crate::container::{ControlGroup, MOUNT};
use crate::root::Root;

/// Maximum number of groups.
const MOST: usize = 16_384;

/// Maximum depth of nested groups.
const DEEPEST: usize = 16;

/// A hierarchy of control groups. Its IDs identify the group of a thread in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupHierarchy {
    /// Version 2, even if it is mounted next to version 1.
    Unified,
    /// The controller `cpu` of version 1.
    Scheduler,
}

impl GroupHierarchy {
    /// Returns the hierarchy's controller in /proc/PID/cgroup.
    const fn controller(self) -> Option<&'static str> {
        match self {
            Self::Unified => None,
            Self::Scheduler => Some("cpu"),
        }
    }
}

/// Mount points of each hierarchy below [`MOUNT`], and a file that only the hierarchy's root has.
const PLACES: [(GroupHierarchy, &str, &str); 4] = [
    (GroupHierarchy::Unified, "", "cgroup.controllers"),
    (GroupHierarchy::Unified, "/unified", "cgroup.controllers"),
    (GroupHierarchy::Scheduler, "/cpu", "cpu.shares"),
    (GroupHierarchy::Scheduler, "/cpu,cpuacct", "cpu.shares"),
];

/// The groups of one hierarchy.
#[derive(Clone, Debug)]
pub struct GroupTree {
    root: Root,
    mount: String,
    hierarchy: GroupHierarchy,
    paths: BTreeMap<u64, String>,
    ids: HashMap<String, u64>,
}

impl GroupTree {
    /// Finds the hierarchy with the largest number of groups that have members. With `path`,
    /// considers only hierarchies that have this group, and chooses the one in which the group has
    /// the most members. Returns `None` if there is none.
    pub(crate) fn find(root: &Root, path: Option<&str>) -> Option<Self> {
        let wanted = match path {
            Some(path) => Some(ControlGroup::find(root, path)?.name),
            None => None,
        };
        let trees = PLACES.iter().filter_map(|(hierarchy, place, marker)| {
            let mount = format!("{MOUNT}{place}");
            root.open(&format!("{mount}/{marker}")).ok()?;
            let mut tree = Self {
                root: root.clone(),
                mount,
                hierarchy: *hierarchy,
                paths: BTreeMap::new(),
                ids: HashMap::new(),
            };
            tree.refresh();
            let has = |name: &String| tree.ids.contains_key(name);
            wanted.as_ref().is_none_or(has).then_some(tree)
        });
        let used = |tree: &Self| match &wanted {
            Some(name) => tree.members(name),
            None => tree.used(),
        };
        // `max_by_key` returns the last of equal hierarchies, but the first one is preferred.
        let mut trees: Vec<Self> = trees.collect();
        trees.reverse();
        trees.into_iter().max_by_key(used)
    }

    /// Returns the kind of hierarchy.
    pub const fn hierarchy(&self) -> GroupHierarchy {
        self.hierarchy
    }

    /// Reads the current groups again. The names of removed groups are kept.
    pub fn refresh(&mut self) {
        let mut found = Vec::new();
        collect(&self.root, &self.mount, "", 0, &mut found);
        for (id, name) in found {
            self.ids.insert(name.clone(), id);
            self.paths.insert(id, name);
        }
    }

    /// Returns the name of a group by its ID.
    pub fn path(&self, id: u64) -> Option<&str> {
        // On machines with 32-bit inode numbers, the IDs are only the lower half of the kernel's
        // IDs.
        let found = self.paths.get(&id);
        let found = found.or_else(|| self.paths.get(&(id & u64::from(u32::MAX))));
        found.map(String::as_str)
    }

    /// Returns the IDs of a group and all groups below it.
    pub fn below(&self, group: &str) -> BTreeSet<u64> {
        let group = group.trim_end_matches('/');
        let is_below = |name: &str| {
            let rest = name.strip_prefix(group);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let all = self.paths.iter();
        all.filter(|(_, name)| is_below(name))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the ID of a thread's group, or `None` if the thread has ended.
    pub fn of_thread(&mut self, tid: u32) -> Option<u64> {
        let text = self.root.raw_text(&format!("/proc/{tid}/cgroup")).ok()?;
        let group = match group_in(&text, self.hierarchy.controller())? {
            "" => "/",
            group => group,
        };
        if !self.ids.contains_key(group) {
            self.refresh();
        }
        self.ids.get(group).copied()
    }

    /// Returns the number of groups that have members.
    fn used(&self) -> usize {
        self.ids
            .keys()
            .filter(|name| self.members(name) > 0)
            .count()
    }

    fn members(&self, name: &str) -> usize {
        let file = format!("{}{}/cgroup.procs", self.mount, name.trim_end_matches('/'));
        let text = self.root.raw_text(&file).unwrap_or_default();
        usize::from(!text.trim().is_empty())
    }
}

fn collect(root: &Root, mount: &str, name: &str, depth: usize, found: &mut Vec<(u64, String)>) {
    let folder = format!("{mount}{name}");
    let Some(id) = root
        .inode(&format!("{folder}/cgroup.procs"))
        .and_then(|_| root.inode(&folder))
    else {
        return;
    };
    let shown = if name.is_empty() { "/" } else { name };
    found.push((id, shown.to_owned()));
    if depth >= DEEPEST || found.len() >= MOST {
        return;
    }
    for below in root.folders(&folder) {
        collect(root, mount, &format!("{name}/{below}"), depth + 1, found);
    }
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

    /// Returns the hierarchy that is used, and the group to which thread 7 belongs in it.
    fn found(files: &[(&str, &str)], path: Option<&str>) -> Option<(GroupHierarchy, String)> {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            write(folder.path(), file, text);
        }
        let mut tree = GroupTree::find(&Root::new(folder.path().into()), path)?;
        let id = tree.of_thread(7)?;
        assert_eq!(tree.of_thread(8), None);
        let name = tree.path(id)?.to_owned();
        assert!(tree.below(&name).contains(&id) && tree.below("/").contains(&id));
        assert!(!tree.below("/other").contains(&id));
        Some((tree.hierarchy(), name))
    }

    #[test]
    fn groups_are_numbered_in_every_version() {
        let v2 = [
            ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
            ("sys/fs/cgroup/cgroup.procs", "1\n"),
            ("sys/fs/cgroup/a/cgroup.procs", ""),
            ("sys/fs/cgroup/a/b/cgroup.procs", "7\n"),
            ("proc/7/cgroup", "0::/a/b\n"),
        ];
        let unified = GroupHierarchy::Unified;
        assert_eq!(found(&v2, None), Some((unified, "/a/b".to_owned())));
        assert_eq!(found(&v2, Some("/a")), Some((unified, "/a/b".to_owned())));
        assert_eq!(found(&v2, Some("/none")), None);
        let v1 = [
            ("sys/fs/cgroup/cpu/cpu.shares", "1024\n"),
            ("sys/fs/cgroup/cpu/cgroup.procs", "1\n"),
            ("sys/fs/cgroup/cpu/a/cgroup.procs", "7\n"),
            ("proc/7/cgroup", "3:cpu,cpuacct:/a\n1:name=systemd:/x\n"),
        ];
        let scheduler = GroupHierarchy::Scheduler;
        assert_eq!(found(&v1, None), Some((scheduler, "/a".to_owned())));
        let hybrid = [
            &v1[..3],
            &[
                ("sys/fs/cgroup/unified/cgroup.controllers", ""),
                ("sys/fs/cgroup/unified/cgroup.procs", "1\n"),
                ("sys/fs/cgroup/unified/s/cgroup.procs", "5\n"),
                ("sys/fs/cgroup/unified/t/cgroup.procs", "7\n"),
                ("proc/7/cgroup", "3:cpu:/a\n0::/t\n"),
            ],
        ]
        .concat();
        // In this hierarchy, more groups have members.
        assert_eq!(found(&hybrid, None), Some((unified, "/t".to_owned())));
        assert_eq!(
            found(&hybrid, Some("/a")),
            Some((scheduler, "/a".to_owned()))
        );
        assert_eq!(found(&[], None), None);
    }
}
