//! CPUs that the scheduler balances nothing onto: a cpuset of their own.
//!
//! With cgroup v2 it is a child of the root whose `cpuset.cpus.partition` is
//! `isolated`; with v1 it is the classical shield: the root balances no load,
//! one child holds the measured CPUs and does not either, another holds all
//! other CPUs, and the tasks of the root are moved there. Each step may be the
//! last one before the program ends: taking it down begins where it was left.

use std::io;

use punctual_model::CpuSet;

use super::{Special, invalid, may_write, read, write};
use crate::knob::Context;
use crate::site::Site;
use crate::{Knob, TuneError};

/// cgroup v2, also beside v1 controllers.
const V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const V1: &str = "/sys/fs/cgroup/cpuset";
const OURS: &str = "punctual";
const REST: &str = "punctual-housekeeping";
const NONE: &str = "none";
/// Begun and not finished.
const PART: &str = "unfinished";
/// In what is read of a partition that the kernel has taken and that does not hold:
/// `isolated invalid (No cpu available due to hotplug)`.
const INVALID: &str = " invalid";
/// Tasks that fork while they are moved are met by the next round.
const ROUNDS: usize = 5;

pub(crate) struct Partition;

#[derive(Clone, Copy)]
enum Kind {
    /// The root of the hierarchy.
    V2(&'static str),
    V1,
}

fn kind(site: &Site<'_>) -> Option<Kind> {
    let v2 = V2.into_iter().find(|root| {
        let controllers = site.text(&format!("{root}/cgroup.controllers"));
        controllers.is_some_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
    });
    let v1 = site.files.exists(&site.below(&format!("{V1}/cpuset.cpus")));
    v2.map(Kind::V2).or(v1.then_some(Kind::V1))
}

fn wanted(site: &Site<'_>) -> Result<Kind, TuneError> {
    kind(site).ok_or_else(|| TuneError::Absent {
        setting: "cpuset-partition".to_owned(),
        reason: "neither cgroup v2 with the controller cpuset nor v1 is mounted".to_owned(),
    })
}

/// The value and, behind it, what else of the root has to be put back.
fn split(value: &str) -> (&str, Option<&str>) {
    match value.split_once("; ") {
        Some((cpus, root)) => (cpus, Some(root)),
        None => (value, None),
    }
}

fn make(site: &Site<'_>, folder: &str) -> Result<(), TuneError> {
    let path = site.below(folder);
    match site.files.make_folder(&path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(site.not_written(path, source))
        }
        _ => Ok(()),
    }
}

/// Moves all tasks of one group to another. Those bound to a CPU refuse: they
/// stay.
fn move_tasks(site: &Site<'_>, from: &str, to: &str) -> Result<(), TuneError> {
    for _ in 0..ROUNDS {
        let tasks = read(site, from)?;
        let moved = tasks
            .split_whitespace()
            .filter(|task| write(site, to, task).is_ok())
            .count();
        if moved == 0 {
            break;
        }
    }
    Ok(())
}

/// Takes a group away, its tasks back to the root.
fn remove(site: &Site<'_>, folder: &str, root_tasks: &str, tasks: &str) -> Result<(), TuneError> {
    let path = site.below(folder);
    if !site.files.exists(&path) {
        return Ok(());
    }
    move_tasks(site, &format!("{folder}/{tasks}"), root_tasks)?;
    let removed = site.files.remove_folder(&path);
    removed.map_err(|source| site.not_written(path, source))
}

fn build_v2(site: &Site<'_>, root: &str, cpus: &str) -> Result<(), TuneError> {
    let control = format!("{root}/cgroup.subtree_control");
    if !has_controller(site, root) {
        write(site, &control, "+cpuset")?;
    }
    let ours = format!("{root}/{OURS}");
    make(site, &ours)?;
    write(site, &format!("{ours}/cpuset.cpus"), cpus)?;
    let file = format!("{ours}/cpuset.cpus.partition");
    write(site, &file, "isolated")?;
    // `isolated invalid (why)` where the kernel has taken it and it does not
    // hold.
    let found = read(site, &file)?;
    match found.as_str() {
        "isolated" => Ok(()),
        _ => Err(TuneError::NotVerified {
            path: site.below(&file),
            value: "isolated".to_owned(),
            found,
        }),
    }
}

fn has_controller(site: &Site<'_>, root: &str) -> bool {
    let control = site.text(&format!("{root}/cgroup.subtree_control"));
    control.is_some_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
}

fn build_v1(site: &Site<'_>, cpus: &str) -> Result<(), TuneError> {
    let parse = |text: &str| text.parse::<CpuSet>().unwrap_or_default();
    let all = parse(&read(site, &format!("{V1}/cpuset.cpus"))?);
    let memory = read(site, &format!("{V1}/cpuset.mems"))?;
    let rest = all.difference(&parse(cpus)).to_string();
    for (folder, cpus, balance) in [(REST, rest.as_str(), "1"), (OURS, cpus, "0")] {
        let folder = format!("{V1}/{folder}");
        make(site, &folder)?;
        write(site, &format!("{folder}/cpuset.cpus"), cpus)?;
        write(site, &format!("{folder}/cpuset.mems"), &memory)?;
        write(
            site,
            &format!("{folder}/cpuset.sched_load_balance"),
            balance,
        )?;
    }
    write(site, &format!("{V1}/cpuset.sched_load_balance"), "0")?;
    move_tasks(site, &format!("{V1}/tasks"), &format!("{V1}/{REST}/tasks"))
}

impl Special for Partition {
    fn path(&self) -> &'static str {
        "/sys/fs/cgroup/punctual/cpuset.cpus.partition, or /sys/fs/cgroup/cpuset/punctual (v1)"
    }

    fn instances(&self, site: &Site<'_>) -> Result<Vec<String>, TuneError> {
        Ok(kind(site).map(|_| String::new()).into_iter().collect())
    }

    fn read(&self, site: &Site<'_>, _: &str) -> Result<String, TuneError> {
        let kind = wanted(site)?;
        let (folder, root) = match kind {
            Kind::V2(root) => {
                let on = has_controller(site, root);
                let word = if on { "on" } else { "off" };
                (format!("{root}/{OURS}"), format!("controller={word}"))
            }
            Kind::V1 => {
                let balance = read(site, &format!("{V1}/cpuset.sched_load_balance"))?;
                (format!("{V1}/{OURS}"), format!("balance={balance}"))
            }
        };
        let there = |folder: &str| site.files.exists(&site.below(folder));
        if !there(&folder) && !there(&format!("{V1}/{REST}")) {
            return Ok(format!("{NONE}; {root}"));
        }
        let complete = match kind {
            Kind::V2(_) => {
                let state = site.text(&format!("{folder}/cpuset.cpus.partition"));
                // It turns invalid by itself where its CPUs go, and says why.
                if let Some(invalid) = state.as_deref().filter(|state| state.contains(INVALID)) {
                    return Ok(format!("{invalid}; {root}"));
                }
                state.as_deref() == Some("isolated")
            }
            Kind::V1 => root == "balance=0",
        };
        let cpus = site
            .text(&format!("{folder}/cpuset.cpus"))
            .filter(|cpus| complete && !cpus.is_empty());
        Ok(format!("{}; {root}", cpus.as_deref().unwrap_or(PART)))
    }

    fn write(&self, site: &Site<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        let (cpus, root_state) = split(value);
        match (wanted(site)?, cpus) {
            (Kind::V2(root), NONE) => {
                let procs = format!("{root}/cgroup.procs");
                remove(site, &format!("{root}/{OURS}"), &procs, "cgroup.procs")?;
                match root_state {
                    Some("controller=off") if has_controller(site, root) => {
                        write(site, &format!("{root}/cgroup.subtree_control"), "-cpuset")
                    }
                    _ => Ok(()),
                }
            }
            (Kind::V1, NONE) => {
                if let Some(balance) = root_state.and_then(|root| root.strip_prefix("balance=")) {
                    write(site, &format!("{V1}/cpuset.sched_load_balance"), balance)?;
                }
                for folder in [OURS, REST] {
                    let tasks = format!("{V1}/tasks");
                    remove(site, &format!("{V1}/{folder}"), &tasks, "tasks")?;
                }
                Ok(())
            }
            (Kind::V2(root), cpus) => build_v2(site, root, cpus),
            (Kind::V1, cpus) => build_v1(site, cpus),
        }
    }

    fn may_write(&self, site: &Site<'_>, _: &str) -> Result<(), TuneError> {
        match wanted(site)? {
            Kind::V2(root) => may_write(site, &format!("{root}/cgroup.subtree_control")),
            Kind::V1 => may_write(site, &format!("{V1}/cpuset.sched_load_balance")),
        }
    }

    /// What is unfinished or invalid leads back to nothing.
    fn holds(&self, _: &str, value: &str) -> bool {
        let (cpus, root) = split(value);
        let root_known = matches!(
            root,
            None | Some("controller=on" | "controller=off" | "balance=0" | "balance=1")
        );
        let set = || cpus.parse::<CpuSet>().is_ok_and(|cpus| !cpus.is_empty());
        root_known && (cpus == NONE || set())
    }

    /// The root's own state counts where it is to be put back; half of a
    /// partition is never the same as none.
    fn same(&self, found: &str, wanted: &str) -> bool {
        let (found_cpus, found_root) = split(found);
        let (wanted_cpus, wanted_root) = split(wanted);
        let same_cpus = found_cpus == wanted_cpus
            || (found_cpus
                .parse::<CpuSet>()
                .is_ok_and(|cpus| !cpus.is_empty() && wanted_cpus.parse::<CpuSet>() == Ok(cpus)));
        same_cpus && (wanted_root.is_none() || found_root == wanted_root)
    }

    fn readable(&self, value: &str) -> String {
        match split(value).0 {
            other @ (NONE | PART) => other.to_owned(),
            invalid if invalid.contains(INVALID) => invalid.to_owned(),
            cpus => format!("CPU {cpus}"),
        }
    }

    fn resolve(
        &self,
        knob: &Knob,
        _: &Site<'_>,
        _: &str,
        asked: &str,
        context: &Context,
    ) -> Result<Option<String>, TuneError> {
        let cpus = context.cpus(knob.name, asked)?;
        if cpus.is_empty() {
            return Err(invalid(knob, "", asked));
        }
        if context.online.difference(&cpus).is_empty() {
            return Err(TuneError::Cpus(format!(
                "{}: CPU {cpus} are all there are: one must be left for the system",
                knob.name
            )));
        }
        Ok(Some(cpus.to_string()))
    }

    fn remark(&self, site: &Site<'_>, _: &str, value: &str) -> Option<String> {
        let group = match kind(site)? {
            Kind::V2(root) => format!("{root}/{OURS}/cgroup.procs"),
            Kind::V1 => format!("{V1}/{OURS}/tasks"),
        };
        Some(format!(
            "what is to run on CPU {} is moved there: echo PID > {group}",
            split(value).0
        ))
    }
}
