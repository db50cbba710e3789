//! Tracks the watched threads.

use std::collections::{BTreeMap, BTreeSet};

use punctual_host::Host;
use punctual_model::{GroupFacts, Recording, Task};

use super::changes::Changes;
use crate::targets::{Started, threads_of_number};
use crate::{TargetError, Targets};

/// Returns whether both start times are known and different.
fn differ(one: Started, other: Started) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

/// Returns the threads that get their own track, at most `most`, and a note about the others.
fn with_threads_limited(
    mut all: BTreeMap<u32, String>,
    most: usize,
) -> (BTreeMap<u32, String>, Vec<String>) {
    let Some(end) = all.keys().nth(most).copied() else {
        return (all, Vec::new());
    };
    let shared = all.split_off(&end).len();
    let note = format!(
        "{shared} threads have no separate figures, because a recording has at most {most} \
         threads. They are counted together with threads that were created later"
    );
    (all, vec![note])
}

/// The watched threads.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// Threads at the start, each with a separate track, and their latest names. An exec(2) changes
    /// the name.
    pub(super) first: BTreeMap<u32, String>,
    /// IDs among these that have been reused by other watched threads.
    passed_on: BTreeSet<u32>,
    /// All current threads, and those that have ended.
    now: BTreeMap<u32, Started>,
    /// Processes that were requested by ID.
    roots: BTreeMap<u32, Started>,
    /// Requested processes whose ID was reused.
    taken: BTreeSet<u32>,
    /// IDs of threads that have ended. Another thread may reuse such an ID.
    ended: BTreeSet<u32>,
    /// The threads at the start, or after the last restart.
    generation: BTreeSet<u32>,
    /// Notes about reused IDs, for the reader.
    notes: Vec<String>,
    /// New names and processes.
    pub(super) changes: Changes,
    /// Resources of the threads in the requested group.
    pub(super) group: Option<GroupFacts>,
}

impl Watched {
    pub(super) fn find(targets: &Targets, host: &Host) -> Result<Self, TargetError> {
        let own = std::process::id();
        let first = targets.find(host)?;
        let mut roots = BTreeMap::new();
        if let Targets::Pids(pids) = targets {
            roots.extend(pids.iter().map(|pid| (*pid, host.process_start(*pid))));
        }
        let found = match targets {
            Targets::Group(path) => host.control_group(path),
            _ => None,
        };
        let group = found.map(|group| host.group_facts(&group));
        if first.contains_key(&own) {
            return Err(TargetError::OwnJobs);
        }
        let changes = Changes::new(targets, &first, host);
        let started = |tid: &u32| (*tid, host.process_start(*tid));
        let now = first.keys().map(started).collect();
        let generation = first.keys().copied().collect();
        let (first, notes) = with_threads_limited(first, Recording::MAX_THREADS - 1);
        Ok(Self {
            now,
            first,
            passed_on: BTreeSet::new(),
            roots,
            taken: BTreeSet::new(),
            ended: BTreeSet::new(),
            generation,
            notes,
            changes,
            group,
        })
    }

    pub(super) fn has(&self, tid: u32) -> bool {
        self.now.contains_key(&tid) && !self.ended.contains(&tid)
    }

    pub(super) fn tids(&self) -> Vec<u32> {
        self.now.keys().copied().collect()
    }

    /// Handles the kernel's report that a thread ended, with its last name.
    pub(super) fn end(&mut self, task: &Task) {
        if self.now.contains_key(&task.pid) && self.ended.insert(task.pid) && !task.comm.is_empty()
        {
            self.rename(task.pid, task.comm.to_string());
        }
    }

    fn rename(&mut self, tid: u32, name: String) {
        if !self.passed_on.contains(&tid)
            && let Some(known) = self.first.get_mut(&tid)
        {
            self.changes.rename(tid, known, &name);
            *known = name;
        }
    }

    fn look_at_name(&mut self, tid: u32, host: &Host) {
        let known = self.first.get(&tid);
        let is_notable = known.is_some_and(|name| self.changes.is_notable(tid, name));
        if is_notable && self.has(tid) && !self.is_gone(tid, host) {
            let mut named = threads_of_number(host, tid).into_iter();
            if let Some((_, name)) = named.find(|(own, _)| *own == tid) {
                self.rename(tid, name);
            }
        }
    }

    /// Updates the threads and their names. Returns whether there are new ones. Threads that have
    /// ended are kept, because their last events may still arrive. Calls `anew` for each ID that
    /// has been reused by another watched thread.
    pub(super) fn refresh(
        &mut self,
        targets: &Targets,
        host: &Host,
        mut anew: impl FnMut(u32),
    ) -> bool {
        self.look_at_roots(host);
        let found = match targets {
            Targets::Pids(pids) => {
                let same = pids.iter().filter(|pid| !self.taken.contains(pid));
                Targets::Pids(same.copied().collect()).threads(host)
            }
            Targets::Comm(_) | Targets::Group(_) => targets.threads(host),
        };
        let own = std::process::id();
        let found = found.into_iter().filter(|(tid, _)| *tid != own);
        let found: BTreeMap<_, _> = found
            .map(|(tid, name)| (tid, (name, host.process_start(tid))))
            .collect();
        self.look_at_others(&found, host);
        let mut new = false;
        for (tid, (name, started)) in found {
            match self.now.get(&tid) {
                None => {
                    self.changes.join(tid, &name, host);
                    self.now.insert(tid, started);
                    new = true;
                }
                Some(known) if differ(*known, started) => {
                    self.now.insert(tid, started);
                    self.ended.remove(&tid);
                    self.passed_on.insert(tid);
                    self.note(format!(
                        "the thread ID {tid} was reused by another watched thread after the first \
                         had ended: the second is counted together with threads that were created \
                         later"
                    ));
                    anew(tid);
                }
                Some(_) => self.rename(tid, name),
            }
        }
        new
    }

    /// Stops watching a process whose ID was reused.
    fn look_at_roots(&mut self, host: &Host) {
        let roots: Vec<_> = self.roots.iter().map(|(pid, at)| (*pid, *at)).collect();
        for (pid, started) in roots {
            if differ(started, host.process_start(pid)) && self.taken.insert(pid) {
                self.ended.insert(pid);
                self.note(format!(
                    "process {pid} has ended, and another process reused its ID: the other \
                     process is not counted"
                ));
            }
        }
    }

    /// Stops watching threads that are not among those found, and whose ID was reused.
    fn look_at_others<T>(&mut self, found: &BTreeMap<u32, T>, host: &Host) {
        let others = self.now.iter();
        let others =
            others.filter(|(tid, _)| !found.contains_key(tid) && !self.ended.contains(tid));
        let others: Vec<_> = others.map(|(tid, at)| (*tid, *at)).collect();
        for (tid, started) in others {
            // A thread that was selected by name is watched on if its name changes.
            self.look_at_name(tid, host);
            if !self.taken.contains(&tid) && differ(started, host.process_start(tid)) {
                self.ended.insert(tid);
                self.note(format!(
                    "thread {tid} has ended, and another thread reused its ID: the other thread \
                     is not counted"
                ));
            }
        }
    }

    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Returns the notes about reused IDs.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns whether no watched thread is left.
    pub(super) fn all_gone(&self, host: &Host) -> bool {
        self.now.keys().all(|tid| self.is_gone(*tid, host))
    }

    fn is_gone(&self, tid: u32, host: &Host) -> bool {
        let started = self.now.get(&tid).copied().flatten();
        let now = host.process_start(tid);
        now.is_none() || differ(started, now)
    }

    /// Returns whether the watched processes have restarted since the last call: all threads of that
    /// time have ended, and there are others.
    pub(super) fn has_restarted(&mut self, host: &Host) -> bool {
        if (self.generation.iter()).any(|tid| !self.is_gone(*tid, host)) {
            return false;
        }
        let left = self.now.keys().filter(|tid| !self.is_gone(**tid, host));
        let left: BTreeSet<u32> = left.copied().collect();
        let has_restarted = !left.is_empty();
        if has_restarted {
            self.generation = left;
        }
        has_restarted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    use punctual_model::{ChangeKind, Comm, KernelPriority};

    /// A process, or one of its threads, in a fake /proc.
    fn write_stat(root: &Path, pid: u32, tid: u32, started: u64) {
        let stat = format!("{tid} (motion) S {}{started} 0 0", "0 ".repeat(18));
        for folder in [format!("proc/{pid}/task/{tid}"), format!("proc/{tid}")] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("stat"), &stat).unwrap();
            fs::write(folder.join("comm"), "motion\n").unwrap();
        }
    }

    fn machine() -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().unwrap();
        write_stat(folder.path(), 40, 40, 100);
        write_stat(folder.path(), 40, 41, 200);
        let host = Host::new(folder.path());
        (folder, host)
    }

    const PID: u32 = 40;

    fn task(pid: u32, comm: &str) -> Task {
        Task {
            pid,
            comm: Comm::new(comm.as_bytes()),
            prio: KernelPriority(120),
        }
    }

    #[test]
    fn excess_threads_share_a_thread_slot() {
        let all: BTreeMap<u32, String> = (1..=5).map(|tid| (tid, "x".to_owned())).collect();
        assert_eq!(
            with_threads_limited(all.clone(), 5),
            (all.clone(), Vec::new())
        );
        let (first, notes) = with_threads_limited(all, 3);
        assert_eq!(first.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert!(
            notes[0].starts_with("2 threads have no separate figures"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_thread_bears_its_last_name() {
        let (folder, host) = machine();
        let targets = Targets::Pids(vec![PID]);
        let mut watched = Watched::find(&targets, &host).unwrap();
        let rename = |tid: u32, name: &str| {
            let comm = folder.path().join(format!("proc/40/task/{tid}/comm"));
            fs::write(comm, format!("{name}\n")).unwrap();
        };
        rename(40, "control");
        assert!(!watched.refresh(&targets, &host, |_| panic!()));
        assert_eq!(watched.first[&40], "control");
        assert_eq!(watched.first[&41], "motion");
        assert_eq!(targets.named(&watched.first), "control (pid 40)");
        // The thread ended before the next update.
        watched.end(&task(40, "done"));
        watched.end(&task(40, "other"));
        assert_eq!(watched.first[&40], "done");
        // Another watched thread has the ID of one of the first.
        write_stat(folder.path(), 40, 41, 300);
        rename(41, "later");
        for _ in 0..2 {
            watched.refresh(&targets, &host, |_| {});
        }
        watched.end(&task(41, "later"));
        assert_eq!(watched.first[&41], "motion");
    }

    #[test]
    fn reused_process_number_is_not_watched() {
        let (folder, host) = machine();
        let targets = Targets::Pids(vec![PID]);
        let mut watched = Watched::find(&targets, &host).unwrap();
        assert!(watched.has(40) && watched.has(41));
        assert!(!watched.refresh(&targets, &host, |_| panic!()));
        assert!(!watched.all_gone(&host));
        // The process ends, and another one reuses its ID, with a thread.
        fs::remove_dir_all(folder.path().join("proc")).unwrap();
        assert!(watched.all_gone(&host));
        write_stat(folder.path(), 40, 40, 900);
        write_stat(folder.path(), 40, 43, 901);
        assert!(!watched.refresh(&targets, &host, |_| panic!()));
        assert!(!watched.has(40) && !watched.has(43));
        assert!(watched.all_gone(&host));
        assert!(watched.notes()[0].contains("reused its ID"));
        let told = watched.notes().len();
        watched.refresh(&targets, &host, |_| panic!());
        assert_eq!(watched.notes().len(), told);
    }

    #[test]
    fn reused_thread_number_is_distinguished() {
        let (folder, host) = machine();
        let targets = Targets::Pids(vec![PID]);
        let mut watched = Watched::find(&targets, &host).unwrap();
        for tid in [41, 77] {
            watched.end(&task(tid, "motion"));
        }
        assert!(!watched.has(41) && !watched.has(77));
        // A new thread in the same process is watched, but is not treated as the previous thread.
        write_stat(folder.path(), 40, 41, 300);
        let mut anew = Vec::new();
        watched.refresh(&targets, &host, |tid| anew.push(tid));
        assert_eq!(anew, [41]);
        assert!(watched.has(41));
        // In another process: not watched.
        fs::remove_dir_all(folder.path().join("proc/40/task/41")).unwrap();
        write_stat(folder.path(), 60, 41, 400);
        watched.refresh(&targets, &host, |tid| panic!("{tid}"));
        assert!(!watched.has(41) && watched.has(40));
        assert_eq!(watched.notes().len(), 2, "{:?}", watched.notes());
    }

    #[test]
    fn processes_joining_a_group_are_watched() {
        let (folder, host) = machine();
        let members = folder.path().join("sys/fs/cgroup/docker/a");
        fs::create_dir_all(&members).unwrap();
        fs::write(members.join("cgroup.procs"), "40\n").unwrap();
        let targets = Targets::Group("/docker/a".to_owned());
        let mut watched = Watched::find(&targets, &host).unwrap();
        assert!(watched.has(40) && watched.has(41));
        write_stat(folder.path(), 50, 50, 600);
        assert!(!watched.refresh(&targets, &host, |_| panic!()));
        fs::write(members.join("cgroup.procs"), "40\n50\n").unwrap();
        assert!(watched.refresh(&targets, &host, |_| panic!()));
        assert!(watched.has(50));
        let wrong = Targets::Group("/docker/b".to_owned());
        let error = Watched::find(&wrong, &host).unwrap_err().to_string();
        assert!(error.contains("no control group /docker/b"), "{error}");
    }

    #[test]
    fn new_processes_after_the_last_are_a_restart() {
        let (folder, host) = machine();
        let targets = Targets::Comm("motion".to_owned());
        let mut watched = Watched::find(&targets, &host).unwrap();
        assert!(!watched.has_restarted(&host));
        // Threads come and go, but the process stays.
        write_stat(folder.path(), 40, 44, 500);
        watched.refresh(&targets, &host, |_| panic!());
        fs::remove_dir_all(folder.path().join("proc/40/task/41")).unwrap();
        fs::remove_dir_all(folder.path().join("proc/41")).unwrap();
        assert!(!watched.has_restarted(&host));
        fs::remove_dir_all(folder.path().join("proc")).unwrap();
        assert!(watched.all_gone(&host) && !watched.has_restarted(&host));
        for (pid, started) in [(50, 900), (60, 901)] {
            write_stat(folder.path(), pid, pid, started);
            assert!(watched.refresh(&targets, &host, |_| panic!()));
            assert!(!watched.all_gone(&host));
            // The second process joins the first.
            assert_eq!(watched.has_restarted(&host), pid == 50);
            assert!(!watched.has_restarted(&host));
        }
    }

    /// A server forks, and one of its processes changes its name.
    #[test]
    fn forks_and_new_names_are_told() {
        let (folder, host) = machine();
        let status = |pid: u32| {
            let file = folder.path().join(format!("proc/{pid}/status"));
            fs::write(file, format!("Tgid:\t{pid}\n")).unwrap();
        };
        status(40);
        let targets = Targets::Comm("motion".to_owned());
        let mut watched = Watched::find(&targets, &host).unwrap();
        let told = |watched: &Watched| {
            let changes = watched.changes.all(&targets, false, &host).into_iter();
            changes
                .map(|change| (change.kind, change.text))
                .collect::<Vec<_>>()
        };
        assert!(told(&watched).is_empty());
        write_stat(folder.path(), 50, 50, 900);
        status(50);
        let comm = folder.path().join("proc/40/task/40/comm");
        fs::write(comm, "control\n").unwrap();
        watched.refresh(&targets, &host, |_| panic!());
        assert!(watched.has(40) && watched.has(50));
        assert_eq!(
            told(&watched),
            [
                (
                    ChangeKind::Renamed,
                    "watched threads changed their names, and were watched on: motion-40 is now control",
                ),
                (
                    ChangeKind::Joined,
                    "new processes joined the watched ones, and were watched with them: motion (pid 50)",
                ),
            ]
            .map(|(kind, text)| (kind, text.to_owned()))
        );
    }

    #[test]
    fn new_threads_found_missing_processes_named() {
        let (folder, host) = machine();
        let targets = Targets::Comm("motion".to_owned());
        let mut watched = Watched::find(&targets, &host).unwrap();
        write_stat(folder.path(), 40, 44, 500);
        assert!(watched.refresh(&targets, &host, |_| panic!()));
        assert!(watched.has(44));
        let error = Watched::find(&Targets::Pids(vec![999]), &host).unwrap_err();
        assert!(error.to_string().contains("999"), "{error}");
    }
}
