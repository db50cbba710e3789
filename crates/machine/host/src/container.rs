//! Finds control groups by name, their members, and the container or unit that they belong to
//! (cgroups(7), Documentation/admin-guide/cgroup-v2.rst).

use std::collections::BTreeSet;
use std::fmt;

use crate::root::Root;

/// Mount point of the hierarchies.
pub(crate) const MOUNT: &str = "/sys/fs/cgroup";

/// Folders below [`MOUNT`] that can contain groups, for version 1 and the hybrid layout. The first
/// one that contains a group is used.
const HIERARCHIES: [&str; 9] = [
    "",
    "unified",
    "systemd",
    "cpu",
    "cpu,cpuacct",
    "cpuset",
    "pids",
    "memory",
    "freezer",
];

/// Maximum depth of nested groups.
const DEEPEST: usize = 16;

/// A control group that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// Name as in /proc/PID/cgroup: `/system.slice/redis.service`.
    pub name: String,
    /// Folder of the group.
    folder: String,
}

impl ControlGroup {
    /// Finds a group by its name or the path of its folder. Returns `None` if the group does not
    /// exist.
    pub(crate) fn find(root: &Root, path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let there = |folder: &String| root.names(folder).is_ok();
        if let Some(below) = path.strip_prefix(MOUNT) {
            let folder = path.to_owned();
            let hierarchy = HIERARCHIES[1..].iter().find_map(|name| {
                let rest = below.strip_prefix('/')?.strip_prefix(name)?;
                (rest.is_empty() || rest.starts_with('/')).then_some(rest)
            });
            let name = hierarchy.unwrap_or(below);
            let name = if name.is_empty() { "/" } else { name }.to_owned();
            return there(&folder).then_some(Self { name, folder });
        }
        let name = format!("/{}", path.trim_start_matches('/'));
        let folders = HIERARCHIES.iter().map(|hierarchy| match *hierarchy {
            "" => format!("{MOUNT}{name}"),
            hierarchy => format!("{MOUNT}/{hierarchy}{name}"),
        });
        // The folder of a version 1 hierarchy is not a group.
        let is_group = |folder: &String| root.raw_text(&format!("{folder}/cgroup.procs")).is_ok();
        let folder = folders.into_iter().find(is_group)?;
        Some(Self { name, folder })
    }

    /// Returns the processes in the group and in the groups below it, or the threads if this is a
    /// threaded group.
    pub(crate) fn members(&self, root: &Root) -> BTreeSet<u32> {
        let mut members = BTreeSet::new();
        collect(root, &self.folder, 0, &mut members);
        members
    }
}

/// Returns the control groups of a unit of systemd that have processes.
pub(crate) fn groups_of_unit(root: &Root, pids: &[u32], unit: &str) -> BTreeSet<String> {
    groups(root, pids, |name| up_to(name, |part| part == unit))
}

/// Returns the control groups of the services of systemd that these processes belong to.
pub(crate) fn services(root: &Root, pids: &[u32]) -> BTreeSet<String> {
    // The manager of a user's services is itself a service.
    let is_service = |part: &str| part.ends_with(".service") && !part.starts_with("user@");
    groups(root, pids, |name| up_to(name, is_service))
}

/// Returns the control groups of these processes.
pub(crate) fn all_groups(root: &Root, pids: &[u32]) -> BTreeSet<String> {
    groups(root, pids, |name| Some(name.to_owned()))
}

/// Returns what `part` returns for the groups of these processes.
fn groups(root: &Root, pids: &[u32], part: impl Fn(&str) -> Option<String>) -> BTreeSet<String> {
    let texts = pids.iter();
    let texts = texts.filter_map(|pid| root.raw_text(&format!("/proc/{pid}/cgroup")).ok());
    let mut groups = BTreeSet::new();
    for text in texts {
        let names = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        groups.extend(names.filter_map(&part));
    }
    groups
}

/// Returns the part of a group's name up to the first folder that is a unit.
fn up_to(name: &str, is_unit: impl Fn(&str) -> bool) -> Option<String> {
    let mut parts: Vec<&str> = name.split('/').collect();
    let place = parts.iter().position(|part| is_unit(part))?;
    parts.truncate(place + 1);
    Some(parts.join("/"))
}

fn collect(root: &Root, folder: &str, depth: usize, members: &mut BTreeSet<u32>) {
    let read = |file: &str| root.raw_text(&format!("{folder}/{file}"));
    // In version 2, a threaded group refuses to list its processes.
    let text = read("cgroup.procs").or_else(|_| read("cgroup.threads"));
    let numbers = text.unwrap_or_default();
    members.extend(
        numbers
            .lines()
            .filter_map(|line| line.trim().parse::<u32>().ok()),
    );
    if depth >= DEEPEST {
        return;
    }
    for name in root.names(folder).unwrap_or_default() {
        let below = format!("{folder}/{name}");
        // Entries that are not folders are the files of a group.
        if !name.contains("cgroup.") && root.names(&below).is_ok() {
            collect(root, &below, depth + 1, members);
        }
    }
}

/// The container or unit that a control group belongs to, with the name that its manager has given
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// `docker`, `podman`, `containerd`, `cri-o`, `kubernetes`, `systemd-nspawn`, `lxc`,
    /// `systemd`.
    pub runtime: &'static str,
    /// Short ID of the container, or the pod, machine or unit.
    pub name: String,
}

/// Describes the owner, such as `docker container 1f2e3d4c5b6a` or `systemd unit redis.service`.
impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.runtime {
            "kubernetes" => "pod",
            "systemd" => "unit",
            "systemd-nspawn" => "machine",
            _ => "container",
        };
        write!(f, "{} {what} {}", self.runtime, self.name)
    }
}

/// Prefix and suffix of a component of a group's name, and the runtime that uses them. The 64
/// hexadecimal digits of the container's ID are between them.
const BY_ID: [(&str, &str, &str); 7] = [
    ("docker-", ".scope", "docker"),
    ("libpod-", ".scope", "podman"),
    ("libpod-", "", "podman"),
    ("cri-containerd-", ".scope", "containerd"),
    ("crio-", ".scope", "cri-o"),
    ("nerdctl-", ".scope", "containerd"),
    ("containerd-", ".scope", "containerd"),
];

/// Like [`BY_ID`], for runtimes that use a name instead of an ID.
const BY_NAME: [(&str, &str, &str); 5] = [
    ("systemd-nspawn@", ".service", "systemd-nspawn"),
    ("machine-", ".scope", "systemd-nspawn"),
    ("lxc.payload.", "", "lxc"),
    ("lxc.payload/", "", "lxc"),
    ("lxc.monitor.", "", "lxc"),
];

/// Number of digits of an ID to show, which is the number that the runtimes show.
const SHORT: usize = 12;

impl Container {
    /// Identifies the container by the name of a control group. The innermost recognized component
    /// determines the result.
    pub fn from_group(group: &str) -> Option<Self> {
        let parts: Vec<&str> = group.split('/').filter(|part| !part.is_empty()).collect();
        let known = |place: usize| Self::of_part(&parts, place);
        (0..parts.len()).rev().find_map(known)
    }

    fn of_part(parts: &[&str], place: usize) -> Option<Self> {
        let part = parts[place];
        let above = place.checked_sub(1).map_or("", |above| parts[above]);
        let make = |runtime, name: &str| {
            Some(Self {
                runtime,
                name: name.to_owned(),
            })
        };
        for (begin, end, runtime) in BY_ID {
            if let Some(id) = between(part, begin, end).filter(|id| is_id(id)) {
                return make(runtime, &id[..SHORT]);
            }
        }
        for (begin, end, runtime) in BY_NAME {
            if let Some(name) = between(part, begin, end).filter(|name| !name.is_empty()) {
                return make(runtime, name);
            }
        }
        if is_id(part) {
            let runtime = match above {
                "docker" => "docker",
                "libpod_parent" => "podman",
                // With cgroupfs, Kubernetes does not name the runtime in the path. Most
                // installations use containerd.
                above if above.starts_with("pod") => "containerd",
                _ => return None,
            };
            return make(runtime, &part[..SHORT]);
        }
        if above == "lxc" || above == "lxc.payload" {
            return make("lxc", part);
        }
        if let Some(pod) = pod(part) {
            return make("kubernetes", &pod);
        }
        // A slice is a group of units and not a unit itself.
        let is_unit = part.ends_with(".service") || part.ends_with(".scope");
        is_unit.then(|| make("systemd", part))?
    }
}

fn between<'a>(part: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    part.strip_prefix(begin)?.strip_suffix(end)
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the UID of a pod from `kubepods-burstable-pod1_2.slice`, or from `pod1-2` (cgroupfs).
fn pod(part: &str) -> Option<String> {
    let of_slice = part
        .strip_suffix(".slice")
        .filter(|slice| slice.starts_with("kubepods"))
        .and_then(|slice| slice.rsplit_once("pod").map(|(_, uid)| uid));
    let uid = of_slice.or_else(|| part.strip_prefix("pod"))?;
    let fits = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'_';
    (uid.len() >= 32 && uid.bytes().all(fits)).then(|| uid.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const ID: &str = "1f2e3d4c5b6a79880123456789abcdef1f2e3d4c5b6a79880123456789abcdef";
    const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";

    #[test]
    fn container_runtimes_are_known_by_name() {
        let slice = UID.replace('-', "_");
        for (group, expected) in [
            (
                format!("/system.slice/docker-{ID}.scope"),
                "docker container 1f2e3d4c5b6a",
            ),
            (format!("/docker/{ID}"), "docker container 1f2e3d4c5b6a"),
            (
                format!("/machine.slice/libpod-{ID}.scope/container"),
                "podman container 1f2e3d4c5b6a",
            ),
            (
                format!("/libpod_parent/libpod-{ID}"),
                "podman container 1f2e3d4c5b6a",
            ),
            (
                format!("/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-{ID}.scope"),
                "containerd container 1f2e3d4c5b6a",
            ),
            (
                format!("/kubepods/burstable/pod{UID}/{ID}"),
                "containerd container 1f2e3d4c5b6a",
            ),
            (
                format!("/kubepods.slice/kubepods-burstable-pod{slice}.slice/crio-{ID}.scope"),
                "cri-o container 1f2e3d4c5b6a",
            ),
            (
                format!("/kubepods.slice/kubepods-pod{slice}.slice"),
                "kubernetes pod 0a1b2c3d-1111-2222-3333-444455556666",
            ),
            (
                format!("/kubepods/pod{UID}"),
                "kubernetes pod 0a1b2c3d-1111-2222-3333-444455556666",
            ),
            (
                "/machine.slice/systemd-nspawn@deb.service/payload".into(),
                "systemd-nspawn machine deb",
            ),
            (
                "/machine.slice/machine-deb.scope".into(),
                "systemd-nspawn machine deb",
            ),
            (
                "/lxc.payload.web/init.scope".into(),
                "systemd unit init.scope",
            ),
            ("/lxc.payload.web".into(), "lxc container web"),
            ("/lxc/web".into(), "lxc container web"),
            (
                "/system.slice/redis.service".into(),
                "systemd unit redis.service",
            ),
            (
                "/user.slice/user-1000.slice/session-2.scope".into(),
                "systemd unit session-2.scope",
            ),
        ] {
            let found = Container::from_group(&group).map(|one| one.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{group}");
        }
        for none in [
            "/",
            "",
            "/user.slice",
            "/docker",
            "/docker/short",
            "/podcast",
        ] {
            assert_eq!(Container::from_group(none), None, "{none}");
        }
    }

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn members_are_found_in_every_version() {
        for (mount, asked) in [
            ("sys/fs/cgroup", "/sys/fs/cgroup/a/b"),
            ("sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu/a/b"),
            ("sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/a/b"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), &format!("{mount}/a/cgroup.procs"), "1\n");
            write(
                folder.path(),
                &format!("{mount}/a/b/cgroup.procs"),
                "7\n9\n",
            );
            write(
                folder.path(),
                &format!("{mount}/a/b/c/cgroup.threads"),
                "12\n",
            );
            let root = Root::new(folder.path().into());
            for path in [asked, "/a/b", "a/b/"] {
                let group = ControlGroup::find(&root, path).unwrap();
                assert_eq!(group.name, "/a/b", "{path}");
                assert_eq!(group.members(&root), BTreeSet::from([7, 9, 12]), "{path}");
            }
            for wrong in ["/none", "/a/../a/b", "/sys/fs/cgroup/none"] {
                assert_eq!(ControlGroup::find(&root, wrong), None, "{wrong}");
            }
        }
    }

    #[test]
    fn unit_is_found_by_the_groups_of_its_processes() {
        let folder = tempfile::tempdir().unwrap();
        for (pid, text) in [
            (
                10,
                "1:name=systemd:/system.slice/redis.service\n0::/system.slice/redis.service\n",
            ),
            (11, "0::/system.slice/redis.service/worker\n"),
            (
                12,
                "0::/user.slice/user@1000.service/app.slice/dup.service\n",
            ),
            (
                13,
                "0::/user.slice/user@1001.service/app.slice/dup.service\n",
            ),
            (14, "0::/system.slice/redis.service.d\n"),
        ] {
            let place = folder.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("cgroup"), text).unwrap();
        }
        let host = crate::Host::new(folder.path());
        let found = |unit: &str| Vec::from_iter(host.groups_of_unit(unit));
        assert_eq!(found("redis.service"), ["/system.slice/redis.service"]);
        assert_eq!(found("dup.service").len(), 2);
        assert!(found("other.service").is_empty());
        let services = host.services_of(&[10, 11, 13, 14]);
        let dup = "/user.slice/user@1001.service/app.slice/dup.service";
        assert_eq!(
            Vec::from_iter(services),
            ["/system.slice/redis.service", dup]
        );
    }
}
