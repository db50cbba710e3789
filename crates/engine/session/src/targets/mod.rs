//! Selects threads to watch: by ID, name or control group.

mod error;
mod existing;
mod program;

use std::collections::BTreeMap;
use std::fmt;

use punctual_host::{Container, Host};

pub use error::TargetError;
pub use program::Program;

/// Start time of a process or thread, in ticks after boot. Together, ID and start time identify it
/// permanently. `None` if it could not be read.
pub(crate) type Started = Option<u64>;

/// Selection of threads to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All threads of these processes, including those created later. The ID of a single thread
    /// selects only that thread.
    Pids(Vec<u32>),
    /// All threads with this name, in any process, and all threads of processes with this name.
    Comm(String),
    /// All processes of a control group and its subgroups, including those that join later, by the
    /// group's name or folder path.
    Group(String),
}

/// An application as a user names it. Its threads are found when it is watched, so the name also
/// finds an application that was restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Processes or threads, by ID.
    Pids(Vec<u32>),
    /// Threads or processes, by name.
    Comm(String),
    /// A control group, by name or folder path.
    Group(String),
    /// A unit of systemd. A name without a suffix is a service.
    Unit(String),
    /// A program that is started to be watched, with its arguments. Its process is watched with all
    /// threads, without the processes that it starts.
    Program(Vec<String>),
}

impl Subject {
    /// Returns the option that selects the application on a command line, and its value. `None` for
    /// a program, which is at the end of a command line.
    pub fn option(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::Pids(pids) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                ("pid", pids.join(","))
            }
            Self::Comm(comm) => ("comm", comm.clone()),
            Self::Group(path) => ("cgroup", path.clone()),
            Self::Unit(unit) => ("unit", unit.clone()),
            Self::Program(_) => return None,
        })
    }

    /// Returns what to watch now, and the program if it was started for this.
    ///
    /// # Errors
    /// Returns an error with the names that can be chosen if nothing matches, or if the name belongs
    /// to several services or units; and an error if the program cannot be started.
    pub fn targets(&self, host: &Host) -> Result<(Targets, Option<Program>), TargetError> {
        let targets = match self {
            Self::Pids(pids) => Targets::Pids(pids.clone()),
            Self::Comm(comm) => Targets::Comm(comm.clone()),
            Self::Group(path) => Targets::Group(path.clone()),
            Self::Unit(unit) => Targets::of_unit(unit, host)?,
            Self::Program(words) => {
                let program = Program::start(words)?;
                return Ok((Targets::Pids(vec![program.pid()]), Some(program)));
            }
        };
        targets.check_services(host)?;
        targets.exist(host)?;
        Ok((targets, None))
    }

    /// Refuses an application that does not run, or whose name is ambiguous. A program is not
    /// started for this.
    ///
    /// # Errors
    /// As [`Subject::targets`].
    pub fn check(&self, host: &Host) -> Result<(), TargetError> {
        match self {
            Self::Program(_) => Ok(()),
            other => other.targets(host).map(drop),
        }
    }
}

/// Formats as `unit motion.service`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.option(), self) {
            (Some((option, value)), _) => write!(f, "{option} {value}"),
            (None, Self::Program(words)) => f.write_str(&words.join(" ")),
            (None, _) => Ok(()),
        }
    }
}

/// Formats as `pid 1234, 1240`, `comm motion` or `cgroup /system.slice/redis.service`.
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
    /// Returns the processes of a unit of systemd. A name without a suffix is a service.
    ///
    /// # Errors
    /// Returns an error if no process belongs to the unit, or if several units have this name.
    fn of_unit(unit: &str, host: &Host) -> Result<Self, TargetError> {
        let name = if unit.contains('.') {
            unit.to_owned()
        } else {
            format!("{unit}.service")
        };
        let groups: Vec<String> = host.groups_of_unit(&name).into_iter().collect();
        match groups.as_slice() {
            [] => Err(TargetError::NoUnit {
                existing: existing::services(&name, host),
                unit: name,
            }),
            [one] => Ok(Self::Group(one.clone())),
            _ => Err(TargetError::SeveralUnits { unit: name, groups }),
        }
    }

    /// Refuses a name that selects threads of several services of systemd.
    ///
    /// # Errors
    /// Returns [`TargetError::SeveralServices`] with their control groups.
    fn check_services(&self, host: &Host) -> Result<(), TargetError> {
        let Self::Comm(comm) = self else {
            return Ok(());
        };
        let all = host.processes().into_iter();
        let pids: Vec<u32> = all
            .filter(|pid| !named(host, *pid, comm).is_empty())
            .collect();
        let groups: Vec<String> = host.services_of(&pids).into_iter().collect();
        if groups.len() < 2 {
            return Ok(());
        }
        Err(TargetError::SeveralServices {
            comm: comm.clone(),
            groups,
        })
    }

    /// Formats with the names of the processes: `motion (pid 1234)`.
    pub(crate) fn named(&self, threads: &BTreeMap<u32, String>) -> String {
        let pids = match self {
            Self::Pids(pids) => pids,
            Self::Comm(_) => return self.to_string(),
            Self::Group(path) => {
                return match Container::from_group(path) {
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

    /// Tests whether there is something to watch. This does not read all names of a process.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    fn exist(&self, host: &Host) -> Result<(), TargetError> {
        let Self::Pids(pids) = self else {
            return self.find(host).map(drop);
        };
        match pids.iter().find(|pid| !host.has_threads(**pid)) {
            Some(missing) => Err(not_found(&Self::Pids(vec![*missing]), host)),
            None => Ok(()),
        }
    }

    /// Returns the current threads, with their names.
    ///
    /// # Errors
    /// Returns an error with the names that exist if nothing matches, or if a process is missing.
    pub(crate) fn find(&self, host: &Host) -> Result<BTreeMap<u32, String>, TargetError> {
        match self {
            Self::Pids(_) => self.exist(host)?,
            Self::Group(path) if host.control_group(path).is_none() => {
                return Err(TargetError::no_group(path, host));
            }
            Self::Comm(_) | Self::Group(_) => {}
        }
        let threads = self.threads(host);
        if threads.is_empty() {
            return Err(not_found(self, host));
        }
        Ok(threads)
    }

    /// Returns the current threads, with their names.
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

/// Refuses to trace threads from a container whose process IDs are not those of the host.
pub(crate) fn same_pids_as_events(host: &Host) -> Result<(), TargetError> {
    match host.pid_namespace() {
        Some(namespace) => Err(TargetError::PidNamespace(namespace)),
        None => Ok(()),
    }
}

/// Refuses to trace threads from a time namespace whose clock is not that of the kernel's events.
pub(crate) fn same_clock_as_events(host: &Host) -> Result<(), TargetError> {
    match host.monotonic_offset() {
        Some(offset) => Err(TargetError::TimeNamespace(offset)),
        None => Ok(()),
    }
}

/// Returns the error for threads that were not found, which may only be hidden.
pub(crate) fn not_found(targets: &Targets, host: &Host) -> TargetError {
    if let Some(option) = host.hiding_option() {
        return TargetError::Hidden {
            targets: targets.clone(),
            option,
        };
    }
    let existing = match targets {
        Targets::Pids(_) => existing::processes(host),
        Targets::Comm(comm) => existing::names(comm, host),
        Targets::Group(path) => existing::groups(path, host),
    };
    match targets {
        Targets::Pids(pids) if pids.len() == 1 => TargetError::NoProcess {
            pid: pids[0],
            existing,
        },
        targets => TargetError::NoThread {
            targets: targets.clone(),
            existing,
        },
    }
}

/// Returns the threads of a process, or the single thread with this ID, with their names. A thread
/// that is not a group leader is not listed in `/proc`, but it has a folder there, which shows all
/// threads of its process.
pub(crate) fn threads_of_number(host: &Host, pid: u32) -> Vec<(u32, String)> {
    let threads = host.threads_of(pid);
    let leads = host.process_of(pid).is_none_or(|process| process == pid);
    if leads {
        threads
    } else {
        threads.into_iter().filter(|(tid, _)| *tid == pid).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_in_several_services_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let process = |pid: u32, comm: &str, group: &str| {
            let place = folder.path().join(format!("proc/{pid}"));
            let task = place.join(format!("task/{pid}"));
            std::fs::create_dir_all(&task).unwrap();
            std::fs::write(task.join("comm"), format!("{comm}\n")).unwrap();
            std::fs::write(place.join("cgroup"), format!("0::{group}\n")).unwrap();
        };
        process(10, "motion", "/system.slice/motion.service");
        process(11, "motion", "/system.slice/motion.service/worker");
        process(12, "redis", "/system.slice/redis.service");
        process(13, "motion", "/user.slice/session-1.scope");
        let host = Host::new(folder.path());
        let motion = Targets::Comm("motion".to_owned());
        assert!(motion.check_services(&host).is_ok());
        process(14, "motion", "/system.slice/other.service");
        let refused = motion.check_services(&host).unwrap_err().to_string();
        assert!(
            refused.ends_with("/system.slice/motion.service, /system.slice/other.service"),
            "{refused}"
        );
        assert!(Targets::Pids(vec![10, 14]).check_services(&host).is_ok());
    }
}
