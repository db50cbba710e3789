//! Which threads are watched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use punctual_host::Host;

use crate::SessionError;

/// Whose threads are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All of these processes, also those that are made later. The number of a
    /// single thread stands for that thread alone.
    Pids(Vec<u32>),
    /// All threads of this name, of any process, and all of processes of this
    /// name.
    Comm(String),
}

/// `pid 1234, 1240`, `comm motion`.
impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pids(pids) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                write!(f, "pid {}", pids.join(", "))
            }
            Self::Comm(comm) => write!(f, "comm {comm}"),
        }
    }
}

impl Targets {
    /// The threads that are there now, with their names.
    fn threads(&self, host: &Host) -> BTreeMap<u32, String> {
        match self {
            Self::Pids(pids) => pids.iter().flat_map(|pid| of_pid(host, *pid)).collect(),
            Self::Comm(comm) => host
                .processes()
                .into_iter()
                .flat_map(|pid| named(host, pid, comm))
                .collect(),
        }
    }
}

/// A number of `/proc` may be a thread's that leads no process: its folder is
/// there, although it is in no listing, and shows all threads of its process.
fn of_pid(host: &Host, pid: u32) -> Vec<(u32, String)> {
    let threads = host.threads_of(pid);
    let leads = threads
        .first()
        .is_none_or(|_| host.processes().contains(&pid));
    match leads {
        true => threads,
        false => threads.into_iter().filter(|(tid, _)| *tid == pid).collect(),
    }
}

fn named(host: &Host, pid: u32, comm: &str) -> Vec<(u32, String)> {
    let threads = host.threads_of(pid);
    let process = threads
        .iter()
        .any(|(tid, name)| *tid == pid && name == comm);
    let fits = |thread: &(u32, String)| process || thread.1 == comm;
    threads.into_iter().filter(fits).collect()
}

/// The threads that are watched.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// Those of the beginning, each with a lane of its own.
    pub(super) first: BTreeMap<u32, String>,
    /// All that are there now.
    now: BTreeSet<u32>,
}

impl Watched {
    pub(super) fn find(targets: &Targets, host: &Host) -> Result<Self, SessionError> {
        let own = std::process::id();
        let first = targets.threads(host);
        if let Targets::Pids(pids) = targets
            && let Some(missing) = pids.iter().find(|pid| of_pid(host, **pid).is_empty())
        {
            return Err(SessionError::Unfit(format!(
                "there is no process {missing}"
            )));
        }
        if first.is_empty() {
            return Err(SessionError::Unfit(format!(
                "there is no thread to watch: {targets}"
            )));
        }
        if first.contains_key(&own) {
            return Err(SessionError::Unfit(
                "this program cannot watch itself: what it does would be what it sees".to_owned(),
            ));
        }
        Ok(Self {
            now: first.keys().copied().collect(),
            first,
        })
    }

    pub(super) fn has(&self, tid: u32) -> bool {
        self.now.contains(&tid)
    }

    pub(super) fn tids(&self) -> Vec<u32> {
        self.now.iter().copied().collect()
    }

    /// Looks which there are; whether there are new ones. Those that ended stay:
    /// their last events may still be to come.
    pub(super) fn look_again(&mut self, targets: &Targets, host: &Host) -> bool {
        let before = self.now.len();
        self.now.extend(targets.threads(host).into_keys());
        self.now.remove(&std::process::id());
        self.now.len() > before
    }

    /// Whether none of them is there any more.
    pub(super) fn all_gone(&self, host: &Host) -> bool {
        self.now
            .iter()
            .all(|tid| host.process_start(*tid).is_none())
    }
}
