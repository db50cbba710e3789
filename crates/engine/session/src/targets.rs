//! Whose threads are watched: by number, name or control group.

use std::collections::BTreeMap;
use std::fmt;

use punctual_host::{Container, Host};

/// When a process or thread was started, in ticks after the boot: number and start identify
/// it permanently. `None` where that could not be read.
pub(crate) type Started = Option<u64>;

/// Whose threads are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All of these processes, also those that are made later. The number of a
    /// single thread stands for that thread alone.
    Pids(Vec<u32>),
    /// All threads of this name, of any process, and all of processes of this
    /// name.
    Comm(String),
    /// All processes of a control group and of those below it, also those that come
    /// later: its name, or the path of its folder.
    Group(String),
}

/// `pid 1234, 1240`, `comm motion`, `cgroup /system.slice/redis.service`.
impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pids(pids) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                write!(f, "pid {}", pids.join(", "))
            }
            Self::Comm(comm) => write!(f, "comm {comm}"),
            Self::Group(path) => write!(f, "cgroup {path}"),
        }
    }
}

impl Targets {
    /// The same with the names that the processes bear: `motion (pid 1234)`.
    pub(crate) fn named(&self, threads: &BTreeMap<u32, String>) -> String {
        let pids = match self {
            Self::Pids(pids) => pids,
            Self::Comm(_) => return self.to_string(),
            Self::Group(path) => {
                return match Container::of(path) {
                    Some(container) => format!("{self} ({container})"),
                    None => self.to_string(),
                };
            }
        };
        let named = pids.iter().map(|pid| match threads.get(pid) {
            Some(comm) => format!("{comm} (pid {pid})"),
            None => format!("pid {pid}"),
        });
        named.collect::<Vec<_>>().join(", ")
    }

    /// The threads that are there now, with their names.
    pub(crate) fn threads(&self, host: &Host) -> BTreeMap<u32, String> {
        match self {
            Self::Pids(pids) => pids
                .iter()
                .flat_map(|pid| threads_of_number(host, *pid))
                .collect(),
            Self::Comm(comm) => host
                .processes()
                .into_iter()
                .flat_map(|pid| named(host, pid, comm))
                .collect(),
            Self::Group(path) => {
                let group = host.control_group(path);
                let members = group.map(|group| host.members(&group)).unwrap_or_default();
                members
                    .into_iter()
                    .flat_map(|pid| threads_of_number(host, pid))
                    .collect()
            }
        }
    }
}

/// The threads of a process, or the one thread of this number, with their names. The
/// folder in `/proc` of a thread that leads no process shows all threads of its process,
/// although no listing has it.
pub(crate) fn threads_of_number(host: &Host, pid: u32) -> Vec<(u32, String)> {
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
