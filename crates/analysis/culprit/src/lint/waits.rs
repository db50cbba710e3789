//! Waits that are suitable for a real-time thread.

use std::collections::BTreeMap;

use punctual_model::{Act, ActKind, FileKind, InCall, PlacedAct};

/// include/uapi/linux/time.h
const CLOCK_MONOTONIC: u32 = 1;
const CLOCK_TAI: u32 = 11;
const TIMER_ABSTIME: u64 = 1;

/// include/uapi/linux/futex.h: the operation without its flags (private, clock).
const FUTEX_COMMAND: u64 = 0x7f;
const INHERITING: [u64; 3] = [6, 11, 13];

/// The most frequent wait of each thread. It is assumed to be the thread's release.
#[derive(Debug, Default)]
pub(crate) struct Releases(BTreeMap<u32, (InCall, [u64; 2])>);

impl Releases {
    pub(crate) fn from_acts(acts: &[PlacedAct]) -> Self {
        let mut counts: BTreeMap<(u32, InCall, [u64; 2]), u64> = BTreeMap::new();
        for PlacedAct { act, .. } in acts {
            if act.kind == ActKind::Sleep && matches!(act.call, InCall::Number(_)) {
                *counts
                    .entry((act.tid, act.call, act.arguments))
                    .or_default() += act.count;
            }
        }
        let mut most: BTreeMap<u32, (u64, InCall, [u64; 2])> = BTreeMap::new();
        for ((tid, call, arguments), count) in counts {
            let known = most.entry(tid).or_insert((0, call, arguments));
            if count > known.0 {
                *known = (count, call, arguments);
            }
        }
        let waits = most.into_iter();
        Self(
            waits
                .map(|(tid, (_, call, args))| (tid, (call, args)))
                .collect(),
        )
    }

    fn is_release(&self, act: &Act) -> bool {
        self.0.get(&act.tid) == Some(&(act.call, act.arguments))
    }
}

pub(crate) fn any(_: &PlacedAct, _: &Releases) -> bool {
    true
}

pub(crate) fn is_fault(placed: &PlacedAct, _: &Releases) -> bool {
    placed.act.kind == ActKind::Fault || placed.act.call == InCall::None
}

/// Calls whose first argument is a file descriptor. Other calls take a path.
const OF_FILE: [&str; 16] = [
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "fsync",
    "fdatasync",
    "flock",
    "close",
    "lseek",
    "ftruncate",
    "fallocate",
    "getdents64",
];

/// Returns whether the act is a call on a file or directory in a file system, or on a path.
pub(crate) fn is_file_io(placed: &PlacedAct, _: &Releases) -> bool {
    match FileKind::of_mode(placed.act.other) {
        Some(kind) => {
            matches!(
                kind,
                FileKind::Regular | FileKind::Directory | FileKind::Disk
            )
        }
        None => !OF_FILE.contains(&call(placed)),
    }
}

/// Returns whether the act is a call on another kind of file, except timers and counters that
/// release the thread.
pub(crate) fn is_other_io(placed: &PlacedAct, _: &Releases) -> bool {
    let kind = FileKind::of_mode(placed.act.other);
    matches!(
        kind,
        Some(FileKind::Pipe | FileKind::Socket | FileKind::Device)
    )
}

fn call(placed: &PlacedAct) -> &str {
    match placed.act.call {
        InCall::Number(_) => placed.call.as_deref().unwrap_or("?"),
        _ => "",
    }
}

fn is_absolute(placed: &PlacedAct) -> bool {
    call(placed) == "clock_nanosleep" && placed.act.arguments[1] & TIMER_ABSTIME != 0
}

fn is_steady(clock: u32) -> bool {
    matches!(clock, CLOCK_MONOTONIC | CLOCK_TAI)
}

fn clock_of_timer(placed: &PlacedAct) -> Option<u32> {
    placed.file.as_ref()?.clock
}

pub(crate) fn is_relative_sleep(placed: &PlacedAct, _: &Releases) -> bool {
    match call(placed) {
        "nanosleep" => true,
        "clock_nanosleep" => !is_absolute(placed),
        _ => false,
    }
}

pub(crate) fn is_clock_that_can_be_set(placed: &PlacedAct, _: &Releases) -> bool {
    let clock = if is_absolute(placed) {
        Some(placed.act.arguments[0] as u32)
    } else {
        clock_of_timer(placed)
    };
    clock.is_some_and(|clock| !is_steady(clock))
}

pub(crate) fn is_futex_without_inheritance(placed: &PlacedAct, _: &Releases) -> bool {
    match call(placed) {
        "futex" => !INHERITING.contains(&(placed.act.arguments[1] & FUTEX_COMMAND)),
        "futex_wait" | "futex_waitv" => true,
        _ => false,
    }
}

/// Returns whether the act is a wait that no other rule judges and that is not a release.
pub(crate) fn is_other_wait(placed: &PlacedAct, releases: &Releases) -> bool {
    match call(placed) {
        // A sleep outside of any call is a page fault. The exit of a thread is not judged.
        "" => placed.act.call == InCall::Unknown,
        "exit" | "exit_group" => false,
        "nanosleep" | "clock_nanosleep" | "futex" | "futex_wait" | "futex_waitv" => false,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => !releases.is_release(&placed.act),
        // A wait for a timer that was armed once is a release, because the timer's periods are as
        // absolute as those of a clock.
        "read" if clock_of_timer(placed).is_some() => !releases.is_release(&placed.act),
        _ => true,
    }
}
