//! Watched processes and threads, identified by their IDs and start times.

use std::collections::BTreeMap;

use punctual_host::Host;
use punctual_model::{TaskKind, TaskRecord};
use punctual_trace::LintTarget;

use crate::targets::{Started, not_found};
use crate::{TargetError, Targets};

#[derive(Debug)]
pub(super) struct LintTargets {
    asked: Targets,
    text: String,
    watched: BTreeMap<LintTarget, Started>,
    /// Targets that have ended. Their IDs may have been reused.
    ended: BTreeMap<LintTarget, Started>,
}

impl LintTargets {
    pub(super) fn find(asked: &Targets, host: &Host) -> Result<Self, TargetError> {
        if let Targets::Pids(pids) = asked {
            for pid in pids {
                refuse(host, *pid)?;
            }
        }
        let watched = found(asked, host);
        if watched.is_empty() {
            return Err(not_found(asked, host));
        }
        Ok(Self {
            text: asked.to_string(),
            asked: asked.clone(),
            watched,
            ended: BTreeMap::new(),
        })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn watched(&self) -> Vec<LintTarget> {
        self.watched.keys().copied().collect()
    }

    /// Returns the watched processes, including those of single threads.
    pub(super) fn processes(&self, host: &Host) -> Vec<u32> {
        let targets = self.watched.keys();
        targets
            .map(|target| match *target {
                LintTarget::Process(pid) => pid,
                LintTarget::Thread(tid) => host.process_of(tid).unwrap_or(tid),
            })
            .collect()
    }

    /// Returns new targets, and those that have ended.
    pub(super) fn refresh(&mut self, host: &Host) -> (Vec<LintTarget>, Vec<LintTarget>) {
        let is_there = |(target, started): &(&LintTarget, &Started)| {
            let now = host.process_start(number(**target));
            now.is_some() && (started.is_none() || now == **started)
        };
        let gone: Vec<LintTarget> = (self.watched.iter())
            .filter(|entry| !is_there(entry))
            .map(|(target, _)| *target)
            .collect();
        for target in &gone {
            if let Some(started) = self.watched.remove(target) {
                self.ended.insert(*target, started);
            }
        }
        let mut new = Vec::new();
        // For other targets, IDs refer only to processes that existed at the start.
        if matches!(self.asked, Targets::Comm(_)) {
            for (target, started) in found(&self.asked, host) {
                let known =
                    self.watched.contains_key(&target) || self.ended.get(&target) == Some(&started);
                if !known {
                    self.watched.insert(target, started);
                    new.push(target);
                }
            }
        }
        (new, gone)
    }

    pub(super) fn all_gone(&self) -> bool {
        self.watched.is_empty()
    }

    /// Returns the current threads.
    pub(super) fn tasks(&self, host: &Host) -> Vec<TaskRecord> {
        let targets = self.watched.keys();
        targets.flat_map(|target| tasks(host, *target)).collect()
    }
}

fn number(target: LintTarget) -> u32 {
    match target {
        LintTarget::Process(number) | LintTarget::Thread(number) => number,
    }
}

fn tasks(host: &Host, target: LintTarget) -> Vec<TaskRecord> {
    match target {
        LintTarget::Process(pid) => host.tasks_of(pid),
        LintTarget::Thread(tid) => {
            let pid = host.process_of(tid).unwrap_or(tid);
            let mut tasks = host.tasks_of(pid);
            tasks.retain(|task| task.tid == tid);
            tasks
        }
    }
}

fn refuse(host: &Host, pid: u32) -> Result<(), TargetError> {
    let Some(process) = host.process_of(pid) else {
        return Err(not_found(&Targets::Pids(vec![pid]), host));
    };
    if process == std::process::id() {
        return Err(TargetError::OwnCalls);
    }
    let tasks = host.tasks_of(process);
    match tasks.iter().find(|task| task.kind != TaskKind::User) {
        Some(task) => Err(TargetError::OfKernel {
            number: pid,
            comm: task.comm.clone(),
        }),
        None if tasks.is_empty() => Err(TargetError::Ended(pid)),
        None => Ok(()),
    }
}

fn found(asked: &Targets, host: &Host) -> BTreeMap<LintTarget, Started> {
    let targets: Vec<LintTarget> = match asked {
        Targets::Pids(pids) => {
            let target = |pid: &u32| match host.process_of(*pid) {
                Some(process) if process != *pid => LintTarget::Thread(*pid),
                _ => LintTarget::Process(*pid),
            };
            pids.iter().map(target).collect()
        }
        Targets::Comm(comm) => by_name(host, comm),
        Targets::Group(path) => {
            let group = host.control_group(path);
            let members = group.map(|group| host.members(&group)).unwrap_or_default();
            members.into_iter().map(LintTarget::Process).collect()
        }
    };
    let started = |target: LintTarget| (target, host.process_start(number(target)));
    targets.into_iter().map(started).collect()
}

/// Returns processes with this name, and threads with this name in other processes.
fn by_name(host: &Host, comm: &str) -> Vec<LintTarget> {
    let own = std::process::id();
    let mut targets = Vec::new();
    for pid in host.processes().into_iter().filter(|pid| *pid != own) {
        let threads = host.threads_of(pid);
        if threads
            .iter()
            .any(|(tid, name)| *tid == pid && name == comm)
        {
            targets.push(LintTarget::Process(pid));
            continue;
        }
        let named = threads.iter().filter(|(_, name)| name == comm);
        targets.extend(named.map(|(tid, _)| LintTarget::Thread(*tid)));
    }
    targets
}
