//! Moves this process into a control group of others, so that it gets the same resources as their
//! threads.

use punctual_host::{GroupLocation, Host};
use punctual_loads::Outside;
use punctual_model::GroupFacts;

use crate::SessionError;
use crate::control_group::{enter, places};

/// Keeps this process in a control group until dropped. The membership also ends with the process,
/// no matter how the process ends.
#[derive(Debug)]
pub struct Membership {
    joined: Vec<GroupLocation>,
    outside: Outside,
    facts: GroupFacts,
}

impl Membership {
    /// Moves this process with all its current and future threads into a control group, given by
    /// name or folder path.
    ///
    /// # Errors
    /// Returns an error if the group does not exist or cannot be joined; this process then remains
    /// in its group.
    pub fn join(host: &Host, path: &str) -> Result<Self, SessionError> {
        let (group, places) = places(host, path)?;
        // If a group cannot be joined, leave the groups that were joined before it.
        let mut membership = Self {
            joined: Vec::new(),
            outside: Outside {
                groups: places.iter().map(|place| place.home.clone()).collect(),
                cpus: punctual_rt::affinity::current()?.into_iter().collect(),
            },
            facts: host.group_facts(&group),
        };
        for place in places {
            enter(&place.group, std::process::id())?;
            membership.joined.push(place);
        }
        Ok(membership)
    }

    /// Returns where to run loads that must not be in the group, which is where this process was
    /// before it joined.
    pub const fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Returns the resources of the group's threads.
    pub const fn facts(&self) -> &GroupFacts {
        &self.facts
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        for place in self.joined.drain(..).rev() {
            // If the kernel refuses, this does no harm, because the process will soon end.
            let _ = enter(&place.home, std::process::id());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine() -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("sys/fs/cgroup/cpu/cpu.shares", ""),
            ("sys/fs/cgroup/cpu/home/cgroup.procs", ""),
            ("sys/fs/cgroup/cpu/a/cgroup.procs", ""),
            ("sys/fs/cgroup/cpuset/cpuset.cpus", ""),
            ("sys/fs/cgroup/cpuset/cgroup.procs", ""),
            ("sys/fs/cgroup/cpuset/a/cgroup.procs", ""),
            ("sys/fs/cgroup/cpuset/a/cpuset.cpus", "1"),
            ("sys/fs/cgroup/pids/b/cgroup.procs", ""),
            ("proc/self/cgroup", "2:cpuset:/\n1:cpu:/home\n"),
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let host = Host::new(folder.path());
        (folder, host)
    }

    #[test]
    fn it_joins_each_hierarchy_and_goes_home() {
        let (folder, host) = machine();
        let read = |file: &str| {
            fs::read_to_string(folder.path().join("sys/fs/cgroup").join(file)).unwrap()
        };
        let own = std::process::id().to_string();
        let membership = Membership::join(&host, "/a").unwrap();
        assert_eq!(read("cpu/a/cgroup.procs"), own);
        assert_eq!(read("cpuset/a/cgroup.procs"), own);
        assert!(membership.facts().describe().contains("CPU 1"));
        let home = |file: &str| folder.path().join("sys/fs/cgroup").join(file);
        assert_eq!(
            membership.outside().groups,
            [home("cpu/home/cgroup.procs"), home("cpuset/cgroup.procs")]
        );
        assert_eq!(
            read("cpuset/cgroup.procs") + &read("cpu/home/cgroup.procs"),
            ""
        );
        drop(membership);
        assert_eq!(read("cpuset/cgroup.procs"), own);
        assert_eq!(read("cpu/home/cgroup.procs"), own);
    }

    #[test]
    fn one_that_cannot_be_joined_is_refused() {
        let (folder, host) = machine();
        let error = |path: &str| Membership::join(&host, path).unwrap_err().to_string();
        assert!(error("/none").contains("no control group /none"));
        assert!(error("/b").contains("not in a hierarchy that limits CPUs"));
        // The second file is now a folder, which can be opened for reading but not written.
        let second = folder.path().join("sys/fs/cgroup/cpuset/a/cgroup.procs");
        fs::remove_file(&second).unwrap();
        fs::create_dir(&second).unwrap();
        assert!(error("/a").contains("cpuset/a/cgroup.procs"));
        let home = folder.path().join("sys/fs/cgroup/cpu/home/cgroup.procs");
        assert_eq!(
            fs::read_to_string(home).unwrap(),
            std::process::id().to_string()
        );
    }
}
