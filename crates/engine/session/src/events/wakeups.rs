//! Watches all wake-ups of the machine.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use punctual_host::{Container, GroupHierarchy, GroupTree, Host};
use punctual_model::{Nanos, OpenWait, TaskRecord, WakeupSource, Wakeups};
use punctual_trace::{
    GroupAsk, GroupFinder, GroupsOf, Tracefs, Waiting, WakeupWatch, WatchAsk, WatchError,
};

use super::no_programs::NoPrograms;
use super::own_wakeups::OwnWakeups;
use super::wakeup_request::{WakeupRequest, seen};
use crate::explain::may_record;
use crate::targets::same_clock_as_events;
use crate::{SessionError, TargetError};

/// Counts wake-ups until it is dropped.
#[derive(Debug)]
pub struct WakeupSession {
    watch: Watch,
    host: Host,
    groups: Option<Groups>,
}

#[derive(Debug)]
enum Watch {
    All(WakeupWatch),
    Own(Box<OwnWakeups>),
}

impl Watch {
    fn count_only(&mut self, ids: &BTreeSet<u64>) -> Result<(), SessionError> {
        match self {
            Self::All(watch) => Ok(watch.count_only(ids)?),
            Self::Own(own) => {
                own.count_only(ids);
                Ok(())
            }
        }
    }
}

/// Control groups that are watched.
#[derive(Debug)]
struct Groups {
    tree: GroupTree,
    only: Option<String>,
    looked: Instant,
}

/// Interval of searching for new control groups.
const LOOK: Duration = Duration::from_millis(500);

impl Groups {
    fn find(request: &WakeupRequest, host: &Host) -> Result<Option<Self>, TargetError> {
        if !request.by_group && request.group.is_none() {
            return Ok(None);
        }
        let path = request.group.as_deref();
        let tree = host.group_tree(path).ok_or_else(|| match path {
            Some(path) => TargetError::NoCpuGroup(path.to_owned()),
            None => TargetError::NoHierarchy,
        })?;
        let only = path.and_then(|path| host.control_group(path));
        Ok(Some(Self {
            tree,
            only: only.map(|group| group.name),
            looked: Instant::now(),
        }))
    }

    fn ask(&self, rows: bool) -> GroupAsk {
        GroupAsk {
            of: match self.tree.hierarchy() {
                GroupHierarchy::Unified => GroupsOf::Unified,
                GroupHierarchy::Scheduler => GroupsOf::Scheduler,
            },
            rows,
            only: self.only.is_some(),
        }
    }

    /// Returns a function that finds the groups of threads, with a cache.
    fn finder(&self) -> GroupFinder {
        let mut tree = self.tree.clone();
        let mut known: HashMap<u32, Option<u64>> = HashMap::new();
        let mut cleared = Instant::now();
        Box::new(move |tid| {
            if cleared.elapsed() > LOOK {
                known.clear();
                cleared = Instant::now();
            }
            *known.entry(tid).or_insert_with(|| tree.of_thread(tid))
        })
    }

    /// Also watches groups that have been created in the meantime.
    fn refresh(&mut self, watch: &mut Watch) -> Result<(), SessionError> {
        self.tree.refresh();
        self.looked = Instant::now();
        if let Some(only) = &self.only {
            watch.count_only(&self.tree.below(only))?;
        }
        Ok(())
    }

    fn name(&self, seen: &mut Wakeups) {
        for group in seen.rows.iter_mut().filter_map(|row| row.group.as_mut()) {
            group.path = self.tree.path(group.id).map(str::to_owned);
            let container = group.path.as_deref().and_then(Container::from_group);
            group.container = container.map(|container| container.to_string());
        }
    }
}

/// Minimum length of an open wait that is reported. Shorter ones are normal.
const LEAST_OPEN: Nanos = Nanos::from_millis(1);

/// Maximum number of open waits whose thread is looked up. The longest are chosen.
const MOST_OPEN: usize = 32;

impl WakeupSession {
    /// Returns the maximum interval between calls of [`keep_up`](Self::keep_up).
    pub fn turn(&self) -> Duration {
        match &self.watch {
            Watch::All(_) => WakeupWatch::KEEP_UP,
            Watch::Own(own) => own.turn(),
        }
    }

    /// Starts counting.
    ///
    /// # Errors
    /// Returns an error if the kernel does not permit the requested source to this user.
    pub fn start(request: &WakeupRequest, host: &Host) -> Result<Self, SessionError> {
        let groups = Groups::find(request, host)?;
        let ask = WatchAsk {
            groups: groups.as_ref().map(|groups| groups.ask(request.by_group)),
            by_comm: request.by_comm,
            real_time_only: request.real_time_only,
            pid_max: host.pid_max(),
            longest: request.longest,
        };
        let only_events = request.source == Some(WakeupSource::Events);
        let why = if only_events {
            NoPrograms::NotWanted.to_string()
        } else {
            match WakeupWatch::by_programs(ask) {
                Ok(watch) => return Self::begin(Watch::All(watch), host, groups),
                Err(error) if request.source.is_some() => return Err(error.into()),
                Err(error) => error.to_string(),
            }
        };
        let owner = host.own_process();
        let finder = groups.as_ref().map(Groups::finder);
        let watch = Tracefs::find(host.root())
            .and_then(|tracefs| WakeupWatch::by_events(&tracefs, owner, ask, why.clone(), finder));
        let watch = match watch {
            Ok(watch) => Watch::All(watch),
            Err(events) if only_events => return Err(WatchError::Events(events).into()),
            Err(events) if events.is_refused() && may_record(host).is_ok() => {
                same_clock_as_events(host)?;
                let finder = groups.as_ref().map(Groups::finder);
                let own = OwnWakeups::begin(request, host, events.to_string(), finder);
                Watch::Own(Box::new(own))
            }
            Err(events) => {
                let programs = why;
                return Err(WatchError::Neither { programs, events }.into());
            }
        };
        Self::begin(watch, host, groups)
    }

    fn begin(
        mut watch: Watch,
        host: &Host,
        mut groups: Option<Groups>,
    ) -> Result<Self, SessionError> {
        if let Some(groups) = &mut groups {
            groups.refresh(&mut watch)?;
        }
        Ok(Self {
            watch,
            host: host.clone(),
            groups,
        })
    }

    /// Returns why wake-ups are counted from trace events instead of by BPF programs; `None` if they
    /// are not.
    pub fn why_events(&self) -> Option<&str> {
        match &self.watch {
            Watch::All(watch) => watch.why_not_programs(),
            Watch::Own(_) => None,
        }
    }

    /// Reads the data that the kernel has written in the meantime.
    ///
    /// # Errors
    /// Returns an error if it could not be read.
    pub fn keep_up(&mut self) -> Result<(), SessionError> {
        if let Some(groups) = self
            .groups
            .as_mut()
            .filter(|one| one.looked.elapsed() > LOOK)
        {
            groups.refresh(&mut self.watch)?;
        }
        match &mut self.watch {
            Watch::All(watch) => Ok(watch.keep_up()?),
            Watch::Own(own) => {
                own.keep_up();
                Ok(())
            }
        }
    }

    /// Returns the counts so far, with the open waits.
    ///
    /// # Errors
    /// Returns an error if they could not be read.
    pub fn read(&mut self) -> Result<Wakeups, SessionError> {
        let mut seen = match &mut self.watch {
            Watch::All(watch) => {
                let seen = watch.read()?;
                let open = open_waits(&self.host, watch.waiting()?);
                Wakeups { open, ..seen }
            }
            Watch::Own(own) => own.read(),
        };
        if let Some(groups) = &mut self.groups {
            groups.tree.refresh();
            groups.name(&mut seen);
        }
        Ok(seen)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// Returns an error if the kernel does not release something; the next command tries again.
    pub fn stop(self) -> Result<(), SessionError> {
        match self.watch {
            Watch::All(watch) => Ok(watch.stop()?),
            Watch::Own(_) => Ok(()),
        }
    }
}

/// Returns the waiting threads with their CPU and the thread that runs there, according to /proc,
/// longest wait first. Threads that are running or sleeping by then are omitted.
fn open_waits(host: &Host, waiting: Waiting) -> Vec<OpenWait> {
    let Waiting {
        at,
        mut notes,
        running,
    } = waiting;
    let has_cpu = |tid| running.values().any(|other| *other == tid);
    notes.retain(|note| at.saturating_sub(note.woken) >= LEAST_OPEN && !has_cpu(note.tid));
    notes.sort_by_key(|note| note.woken);
    notes.truncate(MOST_OPEN);
    let open = notes.into_iter().filter_map(|note| {
        let victim = task(host, note.tid).filter(|task| task.state == 'R')?;
        let behind = running.get(&victim.last_cpu).copied();
        Some(OpenWait {
            woken_ns: note.woken,
            waited_ns: at.saturating_sub(note.woken),
            cpu: Some(victim.last_cpu),
            victim: seen(&victim),
            behind: behind.and_then(|tid| task(host, tid)).as_ref().map(seen),
            waker: note.waker,
        })
    });
    open.collect()
}

fn task(host: &Host, tid: u32) -> Option<TaskRecord> {
    let tasks = host.tasks_of(tid);
    tasks.into_iter().find(|task| task.tid == tid)
}
