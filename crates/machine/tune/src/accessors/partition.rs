//! Creates a cpuset for CPUs that the scheduler excludes from load balancing.
//!
//! With cgroup v2, the cpuset is a child of the root group, with `isolated` in its
//! `cpuset.cpus.partition`. With v1, load balancing is off in the root group and in a child with
//! the measured CPUs; a second child has all other CPUs, and the tasks of the root group are moved
//! to that child. If the program is killed after any step, the removal continues from that state.

use std::io;

use punctual_model::CpuSet;

use crate::TuneError;
use crate::access::{Access, Ask, invalid, may_write, read, write};
use crate::target::Target;

/// Mount points of cgroup v2, including the one that is used if it is mounted next to v1
/// controllers.
const V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const V1: &str = "/sys/fs/cgroup/cpuset";
const OURS: &str = "punctual";
const REST: &str = "punctual-housekeeping";
const NONE: &str = "none";
/// Value of a partition whose creation was begun but not finished.
const PART: &str = "unfinished";
/// Part of the state that the kernel reports for a partition that it has accepted but that is not
/// in force: `isolated invalid (No cpu available due to hotplug)`.
const INVALID: &str = " invalid";
/// Number of attempts to move all tasks. A task may fork while tasks are being moved, so its child
/// is moved in the next round.
const ROUNDS: usize = 5;

pub(crate) struct Partition;

#[derive(Clone, Copy)]
enum Kind {
    /// Root of the hierarchy.
    V2(&'static str),
    V1,
}

fn kind(target: &Target<'_>) -> Option<Kind> {
    let v2 = V2.into_iter().find(|root| {
        let controllers = target.text(&format!("{root}/cgroup.controllers"));
        controllers.is_some_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
    });
    let v1 = target
        .files
        .exists(&target.below(&format!("{V1}/cpuset.cpus")));
    v2.map(Kind::V2).or(v1.then_some(Kind::V1))
}

fn wanted(target: &Target<'_>) -> Result<Kind, TuneError> {
    kind(target).ok_or_else(|| TuneError::Absent {
        setting: "cpuset-partition".to_owned(),
        reason: "neither cgroup v2 with the cpuset controller nor cgroup v1 is mounted".to_owned(),
    })
}

/// Splits a value into the CPUs and the state of the root to restore.
fn split(value: &str) -> (&str, Option<&str>) {
    match value.split_once("; ") {
        Some((cpus, root)) => (cpus, Some(root)),
        None => (value, None),
    }
}

fn make(target: &Target<'_>, folder: &str) -> Result<(), TuneError> {
    let path = target.below(folder);
    match target.files.make_folder(&path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(target.not_written(path, source))
        }
        _ => Ok(()),
    }
}

/// Moves all tasks of one group to another. Tasks that are bound to a CPU cannot be moved, so they
/// stay.
fn move_tasks(target: &Target<'_>, from: &str, to: &str) -> Result<(), TuneError> {
    for _ in 0..ROUNDS {
        let tasks = read(target, from)?;
        let moved = tasks
            .split_whitespace()
            .filter(|task| write(target, to, task).is_ok())
            .count();
        if moved == 0 {
            break;
        }
    }
    Ok(())
}

/// Removes a group after moving its tasks to the root.
fn remove(
    target: &Target<'_>,
    folder: &str,
    root_tasks: &str,
    tasks: &str,
) -> Result<(), TuneError> {
    let path = target.below(folder);
    if !target.files.exists(&path) {
        return Ok(());
    }
    move_tasks(target, &format!("{folder}/{tasks}"), root_tasks)?;
    let removed = target.files.remove_folder(&path);
    removed.map_err(|source| target.not_written(path, source))
}

fn build_v2(target: &Target<'_>, root: &str, cpus: &str) -> Result<(), TuneError> {
    let control = format!("{root}/cgroup.subtree_control");
    if !has_controller(target, root) {
        write(target, &control, "+cpuset")?;
    }
    let ours = format!("{root}/{OURS}");
    make(target, &ours)?;
    write(target, &format!("{ours}/cpuset.cpus"), cpus)?;
    let file = format!("{ours}/cpuset.cpus.partition");
    write(target, &file, "isolated")?;
    // The kernel reports `isolated invalid (why)` if it has accepted the partition but the
    // partition is not in force.
    let found = read(target, &file)?;
    match found.as_str() {
        "isolated" => Ok(()),
        _ => Err(TuneError::NotVerified {
            path: target.below(&file),
            value: "isolated".to_owned(),
            found,
        }),
    }
}

fn has_controller(target: &Target<'_>, root: &str) -> bool {
    let control = target.text(&format!("{root}/cgroup.subtree_control"));
    control.is_some_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
}

fn build_v1(target: &Target<'_>, cpus: &str) -> Result<(), TuneError> {
    let parse = |text: &str| text.parse::<CpuSet>().unwrap_or_default();
    let all = parse(&read(target, &format!("{V1}/cpuset.cpus"))?);
    let memory = read(target, &format!("{V1}/cpuset.mems"))?;
    let rest = all.difference(&parse(cpus)).to_string();
    for (folder, cpus, balance) in [(REST, rest.as_str(), "1"), (OURS, cpus, "0")] {
        let folder = format!("{V1}/{folder}");
        make(target, &folder)?;
        write(target, &format!("{folder}/cpuset.cpus"), cpus)?;
        write(target, &format!("{folder}/cpuset.mems"), &memory)?;
        write(
            target,
            &format!("{folder}/cpuset.sched_load_balance"),
            balance,
        )?;
    }
    write(target, &format!("{V1}/cpuset.sched_load_balance"), "0")?;
    move_tasks(
        target,
        &format!("{V1}/tasks"),
        &format!("{V1}/{REST}/tasks"),
    )
}

impl Access for Partition {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        Ok(kind(target).map(|_| String::new()).into_iter().collect())
    }

    fn read(&self, target: &Target<'_>, _: &str) -> Result<String, TuneError> {
        let kind = wanted(target)?;
        let (folder, root) = match kind {
            Kind::V2(root) => {
                let on = has_controller(target, root);
                let word = if on { "on" } else { "off" };
                (format!("{root}/{OURS}"), format!("controller={word}"))
            }
            Kind::V1 => {
                let balance = read(target, &format!("{V1}/cpuset.sched_load_balance"))?;
                (format!("{V1}/{OURS}"), format!("balance={balance}"))
            }
        };
        let there = |folder: &str| target.files.exists(&target.below(folder));
        if !there(&folder) && !there(&format!("{V1}/{REST}")) {
            return Ok(format!("{NONE}; {root}"));
        }
        let complete = match kind {
            Kind::V2(_) => {
                let state = target.text(&format!("{folder}/cpuset.cpus.partition"));
                // A partition becomes invalid if its CPUs go offline; the kernel reports the
                // reason.
                if let Some(invalid) = state.as_deref().filter(|state| state.contains(INVALID)) {
                    return Ok(format!("{invalid}; {root}"));
                }
                state.as_deref() == Some("isolated")
            }
            Kind::V1 => root == "balance=0",
        };
        let cpus = target
            .text(&format!("{folder}/cpuset.cpus"))
            .filter(|cpus| complete && !cpus.is_empty());
        Ok(format!("{}; {root}", cpus.as_deref().unwrap_or(PART)))
    }

    fn write(&self, target: &Target<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        let (cpus, root_state) = split(value);
        match (wanted(target)?, cpus) {
            (Kind::V2(root), NONE) => {
                let procs = format!("{root}/cgroup.procs");
                remove(target, &format!("{root}/{OURS}"), &procs, "cgroup.procs")?;
                match root_state {
                    Some("controller=off") if has_controller(target, root) => {
                        write(target, &format!("{root}/cgroup.subtree_control"), "-cpuset")
                    }
                    _ => Ok(()),
                }
            }
            (Kind::V1, NONE) => {
                if let Some(balance) = root_state.and_then(|root| root.strip_prefix("balance=")) {
                    write(target, &format!("{V1}/cpuset.sched_load_balance"), balance)?;
                }
                for folder in [OURS, REST] {
                    let tasks = format!("{V1}/tasks");
                    remove(target, &format!("{V1}/{folder}"), &tasks, "tasks")?;
                }
                Ok(())
            }
            (Kind::V2(root), cpus) => build_v2(target, root, cpus),
            (Kind::V1, cpus) => build_v1(target, cpus),
        }
    }

    fn may_write(&self, target: &Target<'_>, _: &str) -> Result<(), TuneError> {
        match wanted(target)? {
            Kind::V2(root) => may_write(target, &format!("{root}/cgroup.subtree_control")),
            Kind::V1 => may_write(target, &format!("{V1}/cpuset.sched_load_balance")),
        }
    }

    /// Rejects unfinished and invalid partitions, which cannot be restored.
    fn holds(&self, _: &str, value: &str) -> bool {
        let (cpus, root) = split(value);
        let root_known = matches!(
            root,
            None | Some("controller=on" | "controller=off" | "balance=0" | "balance=1")
        );
        let set = || cpus.parse::<CpuSet>().is_ok_and(|cpus| !cpus.is_empty());
        root_known && (cpus == NONE || set())
    }

    /// The root's state is compared only if it has to be restored. An unfinished partition is never
    /// equal to no partition.
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

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            asked,
            context,
            ..
        } = ask;
        let cpus = context.cpus(setting.name, asked)?;
        if cpus.is_empty() {
            return Err(invalid(setting, "", asked));
        }
        if context.online.difference(&cpus).is_empty() {
            return Err(TuneError::Cpus(format!(
                "{}: the list {cpus} contains all CPUs: leave at least one CPU for the system",
                setting.name
            )));
        }
        Ok(Some(cpus.to_string()))
    }

    fn remark(&self, target: &Target<'_>, _: &str, value: &str) -> Option<String> {
        let group = match kind(target)? {
            Kind::V2(root) => format!("{root}/{OURS}/cgroup.procs"),
            Kind::V1 => format!("{V1}/{OURS}/tasks"),
        };
        Some(format!(
            "to run a process on CPU {}, move it to the partition: echo PID > {group}",
            split(value).0
        ))
    }
}
