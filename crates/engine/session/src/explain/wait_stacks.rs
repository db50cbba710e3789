//! The stacks of both sides of a job's waits: of the thread that waited, and of its waker.

use std::collections::BTreeMap;
use std::ffi::OsString;

use punctual_host::{Host, ProgramCode, SharedFiles};
use punctual_model::{EventKind, Nanos, ThreadStack, TraceEvent, WaitStacks};
use punctual_trace::{StackPart, WaitRecord};

use super::in_events::name_of;

/// Maximum number of waits whose stacks are kept with a job: the longest ones.
const WAITS: usize = 3;

/// Maximum time from an event to the stacks that belong to it.
pub(super) const AFTER: Nanos = Nanos::from_millis(1);

/// Maximum number of programs whose functions are kept. The functions of one program take up to 64
/// MiB.
const PROGRAMS: usize = 4;

/// Maximum number of programs that share the functions of their files.
const SHARING_PROGRAMS: usize = 256;

/// The code of the programs of watched threads and of their wakers.
pub(crate) struct UserCode {
    host: Host,
    /// The command of a process that reads the program files of other users.
    pub(crate) reader: Option<Vec<OsString>>,
    /// Files that the programs share, if their callers are found.
    files: Option<SharedFiles>,
    /// By process.
    programs: BTreeMap<u32, ProgramCode>,
}

impl UserCode {
    pub(crate) fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            reader: None,
            files: None,
            programs: BTreeMap::new(),
        }
    }

    /// Returns the code of programs whose callers can be found without frame pointers.
    pub(crate) fn finding_callers(host: &Host, reader: Option<Vec<OsString>>) -> Self {
        Self {
            reader,
            files: Some(SharedFiles::default()),
            ..Self::new(host)
        }
    }

    /// Returns the stacks of the longest waits of a thread in a job.
    pub(super) fn waits(
        &mut self,
        tid: u32,
        (from, to): (Nanos, Nanos),
        events: &[TraceEvent],
        stacks: &[WaitRecord],
    ) -> Vec<WaitStacks> {
        // The stack of one wait consists of several records.
        let mut begins: Vec<Nanos> = (stacks.iter())
            .filter(|one| one.tid == tid && one.woken.is_none() && one.part == StackPart::User)
            .map(|one| one.time)
            .filter(|time| (from..to).contains(time))
            .collect();
        begins.sort_unstable();
        // If the wake-up was not recorded, a later one must not end this wait.
        let woken = |after: Nanos| {
            let mut events = events.iter().filter(|event| event.time >= after);
            let next = events.find_map(|event| match &event.kind {
                EventKind::Waking { task, .. } if task.pid == tid => Some(Some(event)),
                EventKind::Switch { next, .. } if next.pid == tid => Some(None),
                _ => None,
            });
            next.flatten()
        };
        let mut waits: Vec<(Nanos, &TraceEvent)> = begins
            .into_iter()
            .filter_map(|begins| Some((begins, woken(begins)?)))
            .collect();
        waits.sort_by_key(|(begins, woken)| std::cmp::Reverse(woken.time - *begins));
        waits.truncate(WAITS);
        let waits = waits.into_iter().map(|(begins, woken)| {
            let own = |one: &&WaitRecord| one.tid == tid && one.woken.is_none();
            let kernel = events.iter().rfind(|event| {
                let is_stack = matches!(event.kind, EventKind::KernelStack { .. });
                is_stack && event.pid == tid && event.time <= begins && event.time + AFTER > begins
            });
            let kernel = kernel.map(|event| event.kind.frames().to_vec());
            let of_waker = |one: &&WaitRecord| one.woken == Some(tid);
            let name = |tid: u32| name_of(events, tid);
            let waiting = part_of(stacks, begins, own);
            let waker = part_of(stacks, woken.time, of_waker);
            let stack = |code: &mut Self, tid, parts: Parts<'_>| {
                let (user, user_unknown) = code.frames(tid, parts.user, parts.words);
                ThreadStack {
                    tid,
                    comm: name(tid),
                    kernel: parts.kernel.to_vec(),
                    user,
                    user_unknown,
                }
            };
            let has_waker = !waker.kernel.is_empty() || !waker.user.is_empty();
            WaitStacks {
                from: begins,
                to: woken.time,
                waiting: ThreadStack {
                    kernel: kernel.unwrap_or_default(),
                    ..stack(self, tid, waiting)
                },
                waker: has_waker.then(|| stack(self, woken.pid, waker)),
            }
        });
        waits.collect()
    }

    /// Returns the functions of a stack, and the reason if some are missing.
    fn frames(
        &mut self,
        tid: u32,
        user: &[u64],
        words: &[u64],
    ) -> (Vec<punctual_model::Frame>, Option<String>) {
        let unknown = |why: &str| (Vec::new(), Some(format!("unknown: {why}")));
        let Some(first) = user.first() else {
            return unknown("the user-space stack was not recorded");
        };
        let Some(pid) = self.host.process_of(tid) else {
            return unknown("the process had ended");
        };
        let code = self.program(pid, *first);
        if !code.is_known() {
            return unknown("its memory map (/proc/PID/maps) is empty or not readable");
        }
        let (frames, is_short) = code.frames(user, words);
        let short = "callers unknown: the program was built without frame pointers";
        (frames, is_short.then(|| short.to_owned()))
    }

    /// Returns the code of a process that was at the address `first`.
    pub(crate) fn program(&mut self, pid: u32, first: u64) -> &mut ProgramCode {
        let most = match self.files {
            Some(_) => SHARING_PROGRAMS,
            None => PROGRAMS,
        };
        if !self.programs.contains_key(&pid) && self.programs.len() == most {
            self.programs.pop_first();
        }
        let (host, reader, files) = (&self.host, &self.reader, &self.files);
        let code = self.programs.entry(pid).or_insert_with(|| {
            let code = host.code_of(pid, reader.clone());
            match files {
                Some(files) => code.finding_callers(files),
                None => code,
            }
        });
        if !code.is_code(first) {
            code.refresh();
        }
        code
    }
}

/// The parts of a stack that were recorded.
#[derive(Default)]
struct Parts<'a> {
    kernel: &'a [u64],
    user: &'a [u64],
    words: &'a [u64],
}

/// Returns the first records that fit at or after a time.
fn part_of(stacks: &[WaitRecord], at: Nanos, fits: impl Fn(&&WaitRecord) -> bool) -> Parts<'_> {
    let mut parts = Parts::default();
    let near = |one: &&WaitRecord| (at..at + AFTER).contains(&one.time);
    for one in stacks.iter().filter(fits).filter(near) {
        let part = match one.part {
            StackPart::Kernel => &mut parts.kernel,
            StackPart::User => &mut parts.user,
            StackPart::Words => &mut parts.words,
            StackPart::Interrupt => continue,
        };
        if part.is_empty() {
            *part = &one.words;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use punctual_model::{Comm, KernelPriority, Task};

    use super::*;

    const TID: u32 = 7;

    fn event(time: u64, pid: u32, kind: EventKind) -> TraceEvent {
        TraceEvent {
            time: Nanos(time),
            cpu: 0,
            pid,
            flags: 0,
            preempt_count: 0,
            kind,
        }
    }

    fn waking(time: u64, by: u32) -> TraceEvent {
        let task = Task {
            comm: Comm::new(b"victim"),
            pid: TID,
            prio: KernelPriority(120),
        };
        let target_cpu = 0;
        event(time, by, EventKind::Waking { task, target_cpu })
    }

    fn record(time: u64, tid: u32, woken: Option<u32>, part: StackPart) -> WaitRecord {
        let words = vec![time, 2];
        WaitRecord {
            time: Nanos(time),
            tid,
            woken,
            part,
            words,
        }
    }

    #[test]
    fn longest_waits_have_both_stacks() {
        use StackPart::{Kernel, User, Words};
        let mut stacks = Vec::new();
        let mut events = Vec::new();
        for number in 1..=5_u64 {
            let (begins, length) = (number * 10_000_000, number * 1_000);
            let frames = vec![begins];
            events.push(event(begins, TID, EventKind::KernelStack { frames }));
            stacks.push(record(begins + 10, TID, None, User));
            stacks.push(record(begins + 20, TID, None, Words));
            events.push(waking(begins + length, 9));
            // An interrupt ends the fourth wait.
            if number != 4 {
                let woken = Some(TID);
                stacks.push(record(begins + length + 5, 9, woken, Kernel));
                stacks.push(record(begins + length + 6, 9, woken, User));
            }
        }
        let mut code = UserCode::new(&Host::new("/nonexistent"));
        let whole = (Nanos(1), Nanos(100_000_000));
        let waits = code.waits(TID, whole, &events, &stacks);
        let lengths: Vec<u64> = waits.iter().map(|wait| (wait.to - wait.from).0).collect();
        assert_eq!(lengths, [4_990, 3_990, 2_990]);
        assert_eq!(waits[0].waiting.kernel, [50_000_000]);
        assert_eq!(waits[0].waiting.comm.to_string(), "victim");
        let why = "unknown: the process had ended";
        assert_eq!(waits[0].waiting.user_text(), why);
        let waker = waits[0].waker.as_ref().unwrap();
        assert_eq!((waker.tid, &*waker.kernel), (9, &[50_005_005, 2][..]));
        assert_eq!(waits[1].waker, None);
        // The second wait has no wake-up: the thread runs again, and sleeps until the third one ends.
        let missing = Nanos(20_002_000);
        events.retain(|event| event.time != missing);
        let task = |pid| Task {
            comm: Comm::new(b"victim"),
            pid,
            prio: KernelPriority(120),
        };
        let kind = EventKind::Switch {
            prev: task(0),
            prev_state: Default::default(),
            next: task(TID),
        };
        events.push(event(missing.0 + 10, 0, kind));
        events.sort_by_key(|event| event.time);
        let waits = code.waits(TID, (Nanos(1), Nanos(30_000_000)), &events, &stacks);
        let lengths: Vec<u64> = waits.iter().map(|wait| (wait.to - wait.from).0).collect();
        assert_eq!(lengths, [990]);
        // Waits outside of the job do not count.
        let waits = code.waits(TID, (Nanos(1), Nanos(9_000_000)), &events, &stacks);
        assert_eq!(waits, []);
    }
}
