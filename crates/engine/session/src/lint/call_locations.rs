//! Locations of actions: functions, system calls and files, resolved while the process is alive.

use std::collections::BTreeMap;
use std::ffi::OsString;

use punctual_host::{Host, ProgramCode, system_call_name};
use punctual_model::{
    Act, ActKind, Acts, Frame, InCall, PlacedAct, Polled, TIMER_SIGNAL, WaitedFile, WaitedTimer,
};

/// Key that identifies equal actions.
type Key = (ActKind, u32, InCall, u32, [u64; 2], Vec<u64>);

/// Known details about the location of an action.
#[derive(Debug, Default)]
struct Location {
    file: Option<WaitedFile>,
    timers: Vec<WaitedTimer>,
    frames: Vec<Frame>,
    unknown: Option<String>,
}

#[derive(Debug)]
pub(super) struct CallLocations {
    host: Host,
    acts: BTreeMap<Key, Act>,
    locations: BTreeMap<Key, Location>,
    /// Process of each thread, and its code.
    processes: BTreeMap<u32, Option<u32>>,
    code: BTreeMap<u32, ProgramCode>,
    /// The command of a process that reads the program files of other users.
    reader: Option<Vec<OsString>>,
    execs: u64,
}

/// Maximum number of files without known functions that are named individually.
const MOST_UNREAD: usize = 5;

impl CallLocations {
    pub(super) fn new(host: &Host, reader: Option<Vec<OsString>>) -> Self {
        Self {
            host: host.clone(),
            acts: BTreeMap::new(),
            locations: BTreeMap::new(),
            processes: BTreeMap::new(),
            code: BTreeMap::new(),
            reader,
            execs: 0,
        }
    }

    /// Processes all actions seen so far.
    pub(super) fn take(&mut self, acts: Acts) {
        if acts.execs != self.execs {
            self.execs = acts.execs;
            self.code.values_mut().for_each(ProgramCode::refresh);
        }
        for act in acts.acts {
            // A site that was just created has no count yet.
            if act.count == 0 {
                continue;
            }
            let key = key(&act);
            if !self.locations.contains_key(&key) {
                let place = self.find(&act);
                self.locations.insert(key.clone(), place);
            }
            self.acts.insert(key, act);
        }
    }

    /// Returns notes for the reader about the call locations.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.execs > 0 {
            let note = "a watched process was replaced by exec: call sites before and after \
                        belong to different programs";
            notes.push(note.to_owned());
        }
        let unread: Vec<&String> = self.code.values().flat_map(ProgramCode::unread).collect();
        notes.extend(unread.iter().take(MOST_UNREAD).copied().cloned());
        if let Some(more @ 1..) = unread.len().checked_sub(MOST_UNREAD) {
            notes.push(format!("functions of {more} more files are unknown"));
        }
        notes
    }

    pub(super) fn finish(mut self) -> Vec<PlacedAct> {
        let acts = std::mem::take(&mut self.acts);
        let placed = acts.into_iter().map(|(key, act)| {
            let place = self.locations.remove(&key).unwrap_or_default();
            let call = match act.call {
                InCall::Number(number) => system_call_name(number).map(str::to_owned),
                _ => None,
            };
            PlacedAct {
                call,
                file: place.file,
                timers: place.timers,
                frames: place.frames,
                frames_unknown: place.unknown,
                act,
            }
        });
        placed.collect()
    }

    fn find(&mut self, act: &Act) -> Location {
        let host = &self.host;
        let mut process = |tid| {
            *self
                .processes
                .entry(tid)
                .or_insert_with(|| host.process_of(tid))
        };
        let of_thread = process(act.tid);
        // The stack of a wake-up belongs to the waker.
        let of_stack = match act.kind {
            ActKind::WokenByThread => process(act.other),
            _ => of_thread,
        };
        let file = of_thread.and_then(|pid| self.file(pid, act));
        let timers = of_thread.map_or_else(Vec::new, |pid| self.timers(pid, act));
        let (frames, unknown) = match (act.kind, of_stack) {
            // These are decisions of the scheduler, so they have no call site.
            (ActKind::Migrate | ActKind::Queue, _) => (Vec::new(), None),
            (_, None) => (
                Vec::new(),
                Some("unknown: the process had ended".to_owned()),
            ),
            (_, Some(pid)) => self.frames(pid, act),
        };
        Location {
            file,
            timers,
            frames,
            unknown,
        }
    }

    fn file(&self, pid: u32, act: &Act) -> Option<WaitedFile> {
        let InCall::Number(number) = act.call else {
            return None;
        };
        let by_descriptor = matches!(
            system_call_name(number)?,
            "read"
                | "write"
                | "pread64"
                | "pwrite64"
                | "readv"
                | "writev"
                | "recvfrom"
                | "recvmsg"
                | "recvmmsg"
                | "connect"
                | "sendto"
                | "sendmsg"
                | "sendmmsg"
                | "accept"
                | "accept4"
                | "ioctl"
                | "fsync"
                | "fdatasync"
                | "flock"
                | "preadv"
                | "pwritev"
                | "lseek"
                | "ftruncate"
                | "fallocate"
                | "getdents64"
                | "close"
                | "epoll_wait"
                | "epoll_pwait"
                | "epoll_pwait2"
        );
        if by_descriptor {
            self.host.open_file(pid, act.arguments[0])
        } else {
            None
        }
    }

    /// Returns the timers that end a wait for several files or for signals.
    fn timers(&self, pid: u32, act: &Act) -> Vec<WaitedTimer> {
        let by_signal = |is_awaited: &dyn Fn(u64) -> bool| {
            let mut timers = self.host.signal_timers(pid);
            timers.retain(|timer| is_awaited(timer.number));
            timers
        };
        if act.kind == ActKind::Signal {
            let number = u64::from(act.other & !TIMER_SIGNAL);
            return if act.other & TIMER_SIGNAL == 0 {
                Vec::new()
            } else {
                by_signal(&|signal| signal == number)
            };
        }
        let InCall::Number(number) = act.call else {
            return Vec::new();
        };
        match system_call_name(number) {
            Some("epoll_wait" | "epoll_pwait" | "epoll_pwait2") => {
                self.host.epoll_timers(pid, act.arguments[0])
            }
            Some("poll" | "ppoll" | "select" | "pselect6") => {
                let polled = Polled::from_arguments(act.arguments);
                let timers = polled.descriptors().filter_map(|number| {
                    let clock = self.host.open_file(pid, number)?.clock?;
                    Some(WaitedTimer { number, clock })
                });
                timers.collect()
            }
            Some("rt_sigtimedwait") => {
                let set = act.arguments[0];
                by_signal(&|signal| (1..=64).contains(&signal) && set >> (signal - 1) & 1 == 1)
            }
            _ => Vec::new(),
        }
    }

    /// Returns the call site, and the reason if it is incomplete.
    fn frames(&mut self, pid: u32, act: &Act) -> (Vec<Frame>, Option<String>) {
        let Some(first) = act.stack.first().copied() else {
            let why = "unknown: the user-space stack was not recorded";
            return (Vec::new(), Some(why.to_owned()));
        };
        let host = &self.host;
        let reader = &self.reader;
        let code = (self.code.entry(pid)).or_insert_with(|| host.code_of(pid, reader.clone()));
        if !code.is_code(first) {
            code.refresh();
        }
        if !code.is_known() {
            let why = "unknown: /proc/PID/maps is empty or not readable";
            return (Vec::new(), Some(why.to_owned()));
        }
        let searches = act.kind != ActKind::Fault || !code.is_in_program(first);
        let words: &[u64] = if searches { &act.words } else { &[] };
        let (frames, is_short) = code.frames(&act.stack, words);
        let short = "callers unknown: the program was built without frame pointers".to_owned();
        (frames, is_short.then_some(short))
    }
}

fn key(act: &Act) -> Key {
    let stack = act.stack.clone();
    (act.kind, act.tid, act.call, act.other, act.arguments, stack)
}
