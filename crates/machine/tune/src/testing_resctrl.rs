//! Simulates the kernel's control groups for caches (`fs/resctrl/rdtgroup.c` of the kernel), to the
//! extent that the code for cache partitions depends on them.

use std::fs;
use std::io;
use std::path::Path;

use punctual_model::CpuSet;

use crate::fs::{FileSystem, Files};

/// `EINVAL` from errno(3).
const INVALID: i32 = 22;

/// Returns whether a folder is below the root group.
pub(crate) fn contains(path: &Path) -> bool {
    path.parent()
        .is_some_and(|folder| folder.ends_with("sys/fs/resctrl"))
}

fn text_of(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Fills a new group: it has no CPU, and shares all ways that no group has for itself.
pub(crate) fn fill(group: &Path) -> io::Result<()> {
    let root = group.parent().unwrap();
    let full = text_of(&root.join("info/L3/cbm_mask"));
    let masks: Vec<String> = text_of(&root.join("schemata"))
        .lines()
        .map(|line| match line.trim().strip_prefix("L3:") {
            Some(domains) => {
                let domain =
                    |one: &str| format!("{}={}", one.split('=').next().unwrap(), full.trim());
                let domains: Vec<String> = domains.split(';').map(domain).collect();
                format!("    L3:{}", domains.join(";"))
            }
            None => line.to_owned(),
        })
        .collect();
    fs::write(group.join("schemata"), masks.join("\n"))?;
    fs::write(group.join("cpus_list"), "\n")?;
    fs::write(group.join("tasks"), "")
}

/// The CPUs of a removed group belong to the root group again.
pub(crate) fn remove(group: &Path) -> io::Result<()> {
    let root = group.parent().unwrap().join("cpus_list");
    let (above, own) = (cpus(&root), cpus(&group.join("cpus_list")));
    let all: CpuSet = above.iter().chain(own.iter()).collect();
    fs::write(root, format!("{all}\n"))?;
    fs::remove_dir_all(group)
}

fn cpus(file: &Path) -> CpuSet {
    text_of(file).trim().parse().unwrap_or_default()
}

pub(crate) fn set(path: &Path, name: &str, text: &str) -> io::Result<()> {
    if name == "schemata" {
        return set_masks(path, text);
    }
    // A CPU is in exactly one group.
    let wanted: CpuSet = text.parse().unwrap();
    let group = path.parent().unwrap();
    let above = group.parent().unwrap().join("cpus_list");
    let rest = cpus(&above).difference(&wanted);
    Files.set(&above, &rest.to_string())?;
    Files.set(path, text)
}

/// Changes only the domains in `text`. A mask is one contiguous block of ways.
fn set_masks(path: &Path, text: &str) -> io::Result<()> {
    let (kind, wanted) = text.split_once(':').unwrap();
    for one in wanted.split(';') {
        let mask = u64::from_str_radix(one.split_once('=').unwrap().1, 16).unwrap();
        let block = mask >> mask.trailing_zeros();
        if mask == 0 || block & (block + 1) != 0 {
            return Err(io::Error::from_raw_os_error(INVALID));
        }
    }
    let now = text_of(path);
    let lines: Vec<String> = now
        .lines()
        .map(|line| match line.trim().split_once(':') {
            Some((name, domains)) if name == kind => {
                let domain = |one: &str| {
                    let id = one.split('=').next().unwrap();
                    let new = wanted
                        .split(';')
                        .find(|new| new.split('=').next() == Some(id));
                    new.unwrap_or(one).to_owned()
                };
                let domains: Vec<String> = domains.split(';').map(domain).collect();
                format!("    {name}:{}", domains.join(";"))
            }
            _ => line.to_owned(),
        })
        .collect();
    Files.set(path, &lines.join("\n"))
}
