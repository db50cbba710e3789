//! Sizes of the machine's memory and caches.

use crate::facts;
use crate::root::{Root, number};

/// Returns the bytes of memory available without swapping: the kernel's estimate `MemAvailable` in
/// proc_meminfo(5).
pub(crate) fn memory_available(root: &Root) -> Option<u64> {
    let meminfo = root.raw_text("/proc/meminfo").ok()?;
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    // In this file, a kB means a KiB.
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The largest value of `kernel.pid_max` (kernel: include/linux/threads.h).
const LARGEST_PID_MAX: u32 = 4 << 20;

/// Returns the largest possible thread ID: `kernel.pid_max`, or the largest value of that setting
/// if it cannot be read.
pub(crate) fn pid_max(root: &Root) -> u32 {
    let text = root.text("/proc/sys/kernel/pid_max").ok();
    text.and_then(|text| text.parse().ok())
        .unwrap_or(LARGEST_PID_MAX)
}

/// Returns the size in bytes of the largest last-level cache of an online CPU. The kernel numbers
/// the caches of a CPU from the nearest to the farthest. Virtual machines often have no caches in
/// sysfs.
pub(crate) fn last_level_cache(root: &Root) -> Option<u64> {
    root.require_cpu_list(facts::ONLINE)
        .ok()?
        .iter()
        .filter_map(|cpu| {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
            let last = *root.numbered(&folder, "index").ok()?.last()?;
            size(&root.text(&format!("{folder}/index{last}/size")).ok()?)
        })
        .max()
}

/// Returns the load averages in the format of /proc/loadavg (proc_loadavg(5)).
pub(crate) fn load_averages(root: &Root) -> Option<String> {
    let text = root.raw_text("/proc/loadavg").ok()?;
    Some(text.trim_end().to_owned())
}

/// Returns the memory node of a CPU, which is the number in the name of the entry `node*` in the
/// CPU's folder.
pub(crate) fn node_of(root: &Root, cpu: u32) -> Option<u32> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
    root.numbered(&folder, "node").ok()?.first().copied()
}

/// Parses `32768K`, as printed by `drivers/base/cacheinfo.c`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let kib: u64 = number(text.strip_suffix('K')?).ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path().to_owned());
        (folder, root)
    }

    #[test]
    fn the_largest_last_level_counts() {
        let cache = "sys/devices/system/cpu";
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/online", "0-2\n"),
            (&format!("{cache}/cpu0/cache/index0/size"), "48K\n"),
            (&format!("{cache}/cpu0/cache/index3/size"), "32768K\n"),
            (&format!("{cache}/cpu1/cache/index2/size"), "2048K\n"),
        ]);
        assert_eq!(last_level_cache(&root), Some(32 << 20));
    }

    #[test]
    fn load_and_nodes_are_read() {
        let (_folder, root) = tree(&[
            ("proc/loadavg", "3.78 3.05 2.05 6/122 1364\n"),
            ("sys/devices/system/cpu/cpu1/node1/cpulist", "1\n"),
        ]);
        let load = load_averages(&root).unwrap();
        assert_eq!(load, "3.78 3.05 2.05 6/122 1364");
        assert_eq!((node_of(&root, 0), node_of(&root, 1)), (None, Some(1)));
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let (_folder, root) = tree(&[("sys/devices/system/cpu/online", "0\n")]);
        assert_eq!(load_averages(&root), None);
        assert_eq!(last_level_cache(&root), None);
        assert_eq!(memory_available(&root), None);
        for text in ["", "K", "12", "99999999999999999999K", "-1K"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn available_memory_is_read() {
        let (_folder, root) = tree(&[(
            "proc/meminfo",
            "MemTotal:  24683120 kB\nMemAvailable:   1000 kB\n",
        )]);
        assert_eq!(memory_available(&root), Some(1_024_000));
        let (_folder, strange) = tree(&[("proc/meminfo", "MemAvailable: many kB\n")]);
        assert_eq!(memory_available(&strange), None);
    }
}
