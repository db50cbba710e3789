//! Simulates the kernel's reactions to writes, to the extent that the code for settings depends on
//! them.

use std::fs;
use std::io;
use std::path::Path;

use punctual_host::{Coalescing, Delays, Eee};
use punctual_model::CpuSet;

use crate::fs::{FileSystem, Files};
use crate::testing_resctrl as resctrl;

const EPERM: i32 = 1;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

fn refused<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

/// Returns a file's trimmed text; empty if it does not exist.
fn text_of(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the answer of the kernel about a network card. A card that was unplugged has no folder.
fn answer<T: std::str::FromStr>(root: &Path, kind: &str, card: &str) -> io::Result<T> {
    if !root.join("sys/class/net").join(card).exists() {
        return refused(ENODEV);
    }
    let text = text_of(&root.join(kind).join(card));
    text.parse().or_else(|_| refused(EOPNOTSUPP))
}

/// A simulated kernel.
pub(crate) struct Kernel;

impl Kernel {
    pub(crate) fn set(self, path: &Path, text: &str) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = |name: &str| path.with_file_name(name);
        // A file with the extension `refuses` makes the write fail even for root, which is not
        // possible with a file's mode.
        if path.with_extension("refuses").exists() {
            return refused(5);
        }
        match &*name {
            "dirty_ratio" => Files.set(&beside("dirty_bytes"), "0")?,
            "dirty_bytes" | "dirty_background_bytes" if text == "0" => {
                return refused(EINVAL);
            }
            "dirty_bytes" => Files.set(&beside("dirty_ratio"), "0")?,
            "dirty_background_ratio" => Files.set(&beside("dirty_background_bytes"), "0")?,
            "dirty_background_bytes" => Files.set(&beside("dirty_background_ratio"), "0")?,
            "cgroup.subtree_control" => {
                let on = text == "+cpuset";
                return Files.set(path, if on { "cpu cpuset" } else { "cpu" });
            }
            "scaling_min_freq" | "scaling_max_freq" => return set_limit(path, &name, text),
            // The driver sets the preference when the governor changes. Not every driver restores
            // it later.
            "scaling_governor" if text == "performance" && is_coupled(path) => {
                Files.set(&beside("energy_performance_preference"), text)?;
            }
            "energy_performance_preference"
                if is_coupled(path)
                    && text != "performance"
                    && text_of(&beside("scaling_governor")) == "performance" =>
            {
                return refused(EBUSY);
            }
            "boost"
                if path
                    .parent()
                    .is_some_and(|folder| folder.ends_with("cpufreq")) =>
            {
                // The kernel sets all policies (cpufreq_boost_trigger_state).
                for policy in policies(path)? {
                    if policy.join("boost").exists() {
                        Files.set(&policy.join("boost"), text)?;
                    }
                }
            }
            "control" if path.parent().is_some_and(|folder| folder.ends_with("smt")) => {
                return set_smt(path, text);
            }
            "cpuset.cpus.partition" => return Files.set(path, &partition(path, text)),
            "schemata" | "cpus_list" => return resctrl::set(path, &name, text),
            _ if path.parent().is_some_and(|folder| folder.ends_with("link")) => {
                return set_link(path, &name, text);
            }
            // A task is in exactly one group, so its PID is in exactly one file of the tree.
            "tasks" | "cgroup.procs" => return move_task(path, &name, text),
            _ => {}
        }
        let old = fs::read_to_string(path)?;
        if old.contains('[') {
            let words = old.split_whitespace().map(|word| {
                let word = word.trim_matches(['[', ']']);
                if word == text {
                    format!("[{word}]")
                } else {
                    word.to_owned()
                }
            });
            let words: Vec<String> = words.collect();
            return Files.set(path, &words.join(" "));
        }
        Files.set(path, text)
    }

    pub(crate) fn make_folder(self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)?;
        if resctrl::contains(path) {
            return resctrl::fill(path);
        }
        for file in [
            "cpuset.cpus",
            "cpuset.mems",
            "cpuset.sched_load_balance",
            "cpuset.cpus.partition",
            "tasks",
            "cgroup.procs",
        ] {
            let of_v2 = file == "cpuset.cpus.partition";
            fs::write(path.join(file), if of_v2 { "member" } else { "" })?;
        }
        Ok(())
    }

    /// A file in the tree contains the answer of the simulated kernel.
    pub(crate) fn coalescing(self, root: &Path, card: &str) -> io::Result<Coalescing> {
        answer(root, "ethtool", card)
    }

    pub(crate) fn set_coalescing(
        self,
        root: &Path,
        card: &str,
        wanted: &Coalescing,
    ) -> io::Result<()> {
        let found = self.coalescing(root, card)?;
        let merged = |wanted: Delays, found: Delays| Delays {
            adaptive: wanted.adaptive.or(found.adaptive),
            micros: wanted.micros.or(found.micros),
            frames: wanted.frames.or(found.frames),
        };
        let now = Coalescing {
            receive: merged(wanted.receive, found.receive),
            transmit: merged(wanted.transmit, found.transmit),
        };
        Files.set(&root.join("ethtool").join(card), &now.to_string())
    }

    pub(crate) fn eee(self, root: &Path, card: &str) -> io::Result<Eee> {
        answer(root, "ethtool-eee", card)
    }

    /// As drivers do before Linux 6.8: a card whose Energy-Efficient Ethernet is off advertises no
    /// link mode for it (`phy_ethtool_set_eee` in drivers/net/phy/phy.c).
    pub(crate) fn set_eee(self, root: &Path, card: &str, wanted: &Eee) -> io::Result<()> {
        let found = self.eee(root, card)?;
        let enabled = wanted.enabled.or(found.enabled);
        let advertised = wanted.advertised.or(found.advertised);
        let on = enabled == Some(true) && advertised != Some(0);
        let now = Eee {
            enabled: Some(on),
            active: Some(on),
            sleeps: wanted.sleeps.or(found.sleeps),
            timer_micros: wanted.timer_micros.or(found.timer_micros),
            advertised: if on { advertised } else { Some(0) },
        };
        Files.set(&root.join("ethtool-eee").join(card), &now.to_string())
    }

    pub(crate) fn remove_folder(self, path: &Path) -> io::Result<()> {
        if resctrl::contains(path) {
            return resctrl::remove(path);
        }
        for file in ["tasks", "cgroup.procs"] {
            if !fs::read_to_string(path.join(file))?.trim().is_empty() {
                return refused(EBUSY);
            }
        }
        fs::remove_dir_all(path)
    }
}

/// See `aspm_attr_store_common` in drivers/pci/pcie/aspm.c: the substates need L1.
fn set_link(path: &Path, name: &str, text: &str) -> io::Result<()> {
    let beside = |name: &str| path.with_file_name(name);
    let substates = ["l1_1_aspm", "l1_2_aspm", "l1_1_pcipm", "l1_2_pcipm"];
    match (name, text) {
        ("l1_aspm", "0") => {
            for substate in substates.map(beside).iter().filter(|file| file.exists()) {
                Files.set(substate, "0")?;
            }
        }
        (substate, "1") if substates.contains(&substate) => Files.set(&beside("l1_aspm"), "1")?,
        _ => {}
    }
    Files.set(path, text)
}

/// Moves a task out of all groups at this level, above and below, into this one. The order of the
/// tasks is kept.
fn move_task(path: &Path, name: &str, task: &str) -> io::Result<()> {
    let here = path.parent().unwrap();
    let above = here.parent().unwrap();
    let mut groups = vec![here.to_owned(), above.to_owned()];
    for folder in [here, above] {
        for entry in fs::read_dir(folder)? {
            groups.push(entry?.path());
        }
    }
    for group in groups {
        let file = group.join(name);
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let mut tasks: Vec<&str> = text.split_whitespace().filter(|t| *t != task).collect();
        if group == here {
            tasks.push(task);
        }
        tasks.sort_unstable();
        fs::write(&file, tasks.join("\n"))?;
    }
    Ok(())
}

/// Returns whether the driver of a policy sets the preference with the governor.
fn is_coupled(file: &Path) -> bool {
    text_of(&file.with_file_name("scaling_driver")) == "intel_pstate"
}

/// Returns the frequency policies in the folder of `boost`.
fn policies(boost: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let entries = fs::read_dir(boost.with_file_name(""))?;
    let all = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(all.filter(|path| path.is_dir()).collect())
}

/// Stores the requested limit, and sets the limit in force: the minimum frequency is never above
/// the maximum (cpufreq_verify_within_limits in include/linux/cpufreq.h). Kernels before 5.3 refuse
/// limits that cross.
fn set_limit(path: &Path, name: &str, text: &str) -> io::Result<()> {
    let request = |name: &str| path.with_file_name(name.replace("scaling", "request"));
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    let other = match name {
        "scaling_min_freq" => "scaling_max_freq",
        _ => "scaling_min_freq",
    };
    if path.with_file_name("old_kernel").exists() {
        let beside = number(&text_of(&path.with_file_name(other)));
        let crosses = match name {
            "scaling_min_freq" => number(text) > beside,
            _ => number(text) < beside,
        };
        return if crosses {
            refused(EINVAL)
        } else {
            Files.set(path, text)
        };
    }
    Files.set(&request(name), text)?;
    let wanted = |name: &str| number(&text_of(&request(name)));
    let most = wanted("scaling_max_freq");
    let least = wanted("scaling_min_freq").min(most);
    Files.set(&path.with_file_name("scaling_max_freq"), &most.to_string())?;
    Files.set(&path.with_file_name("scaling_min_freq"), &least.to_string())
}

/// See `control_store` in kernel/cpu.c.
fn set_smt(path: &Path, text: &str) -> io::Result<()> {
    match text_of(path).as_str() {
        "forceoff" => refused(EPERM),
        "notsupported" | "notimplemented" => refused(ENODEV),
        _ => Files.set(path, text),
    }
}

/// Returns the text of `cpuset.cpus.partition` after a write (`update_prstate` in
/// kernel/cgroup/cpuset.c). An impossible partition is accepted but is invalid.
fn partition(path: &Path, text: &str) -> String {
    let cpus = |file: &Path| text_of(file).parse::<CpuSet>().unwrap_or_default();
    if text == "member" {
        return text.to_owned();
    }
    let ours = cpus(&path.with_file_name("cpuset.cpus"));
    if ours.is_empty() {
        let why = "cpuset.cpus and cpuset.cpus.exclusive are empty";
        return format!("{text} invalid ({why})");
    }
    let here = path.parent().unwrap();
    let beside = fs::read_dir(here.parent().unwrap()).unwrap();
    let taken = beside
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|group| group != here)
        .any(|group| {
            let exclusive = cpus(&group.join("cpuset.cpus.exclusive"));
            !exclusive.intersection(&ours).is_empty()
        });
    if taken {
        format!("{text} invalid (Cpu list in cpuset.cpus not exclusive)")
    } else {
        text.to_owned()
    }
}
