//! Changes of the watched application during an observation: new names, and forks.

use std::collections::{BTreeMap, BTreeSet};

use punctual_host::Host;
use punctual_model::{ApplicationChange, ChangeKind, listed};

use crate::Targets;

/// Number of changes that a warning lists.
const TOLD: usize = 8;

/// The changes so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// The name that selects the threads.
    comm: Option<String>,
    /// The main threads, which have the names of the processes.
    leaders: BTreeSet<u32>,
    /// First and last name of each thread that changed its name.
    renamed: BTreeMap<u32, [String; 2]>,
    /// Processes that were found later, in the same control group or with the same name.
    joined: BTreeMap<u32, String>,
    /// Processes that the watched ones had started before.
    children: BTreeSet<u32>,
}

impl Changes {
    pub(super) fn new(targets: &Targets, first: &BTreeMap<u32, String>, host: &Host) -> Self {
        let mut changes = Self {
            comm: match targets {
                Targets::Comm(comm) => Some(comm.clone()),
                Targets::Pids(_) | Targets::Group(_) => None,
            },
            leaders: leaders(first.keys().copied(), host),
            ..Self::default()
        };
        if let Targets::Pids(_) = targets {
            changes.children = changes.started(host);
        }
        changes
    }

    /// Returns whether the name of a thread is that of its process, or selected it.
    pub(super) fn is_notable(&self, tid: u32, name: &str) -> bool {
        self.leaders.contains(&tid) || self.comm.as_deref() == Some(name)
    }

    pub(super) fn rename(&mut self, tid: u32, old: &str, new: &str) {
        if self.renamed.contains_key(&tid) || old != new && self.is_notable(tid, old) {
            let first = || [old.to_owned(), String::new()];
            self.renamed.entry(tid).or_insert_with(first)[1] = new.to_owned();
        }
    }

    /// Notes a new thread, which may be the main thread of a new process.
    pub(super) fn join(&mut self, tid: u32, name: &str, host: &Host) {
        if host.process_of(tid) == Some(tid) {
            self.leaders.insert(tid);
            self.joined.insert(tid, name.to_owned());
        }
    }

    /// Returns the processes whose parent is watched, and which are not watched themselves.
    fn started(&self, host: &Host) -> BTreeSet<u32> {
        let is_child = |pid: &u32| {
            let parent = host
                .fork_family(*pid)
                .and_then(|[parent, ..]| u32::try_from(parent).ok());
            parent.is_some_and(|parent| self.leaders.contains(&parent))
        };
        let all = host.processes().into_iter();
        all.filter(|pid| !self.leaders.contains(pid))
            .filter(is_child)
            .collect()
    }

    /// Returns all changes. Processes that joined after a restart are those that restarted.
    pub(super) fn all(
        &self,
        targets: &Targets,
        restarted: bool,
        host: &Host,
    ) -> Vec<ApplicationChange> {
        let name = |pid: u32| {
            let threads = host.threads_of(pid).into_iter();
            let mut main = threads.filter(|(tid, _)| *tid == pid);
            main.next().map(|(_, name)| format!("{name} (pid {pid})"))
        };
        let renamed = self.renamed.iter().filter(|(_, [old, new])| old != new);
        let renamed = renamed.map(|(tid, [old, new])| format!("{old}-{tid} is now {new}"));
        let joined = self.joined.iter().filter(|_| !restarted);
        let joined = joined.map(|(pid, name)| format!("{name} (pid {pid})"));
        let started = match targets {
            Targets::Pids(_) => self.started(host),
            Targets::Comm(_) | Targets::Group(_) => BTreeSet::new(),
        };
        let started = started.difference(&self.children).copied();
        [
            (
                ChangeKind::Renamed,
                "watched threads changed their names, and were watched on",
                renamed.collect(),
            ),
            (
                ChangeKind::Joined,
                "new processes joined the watched ones, and were watched with them",
                joined.collect(),
            ),
            (
                ChangeKind::Started,
                "the watched processes started others, which were not watched (--comm and --cgroup \
                 watch them)",
                started.filter_map(name).collect::<Vec<String>>(),
            ),
        ]
        .into_iter()
        .filter(|(.., list)| !list.is_empty())
        .map(|(kind, what, list)| ApplicationChange {
            kind,
            text: format!("{what}: {}", listed(&list, TOLD)),
        })
        .collect()
    }
}

/// Returns those of the threads that are the main threads of processes.
fn leaders(tids: impl Iterator<Item = u32>, host: &Host) -> BTreeSet<u32> {
    let processes: BTreeSet<u32> = host.processes().into_iter().collect();
    tids.filter(|tid| processes.contains(tid)).collect()
}
