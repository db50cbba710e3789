//! Waits that are suitable for a real-time thread.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{
    Act, ActKind, Frame, InCall, LintFacts, PlacedAct, Policy, Polled, TIMER_SIGNAL,
};

/// include/uapi/linux/time.h
const CLOCK_REALTIME: u32 = 0;
const CLOCK_MONOTONIC: u32 = 1;
const CLOCK_TAI: u32 = 11;
const TIMER_ABSTIME: u64 = 1;

/// include/uapi/linux/futex.h: the operation without its flags (private, clock).
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_CLOCK_REALTIME: u64 = 0x100;
const INHERITING: [u64; 3] = [6, 11, 13];

/// Facts about threads that the rules about single acts need.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// The most frequent wait of each thread. It is assumed to be the thread's release.
    releases: BTreeMap<u32, (InCall, [u64; 2])>,
    /// Threads of SCHED_DEADLINE.
    deadline: BTreeSet<u32>,
}

impl Threads {
    pub(crate) fn from_facts(facts: &LintFacts) -> Self {
        let mut counts: BTreeMap<(u32, InCall, [u64; 2]), u64> = BTreeMap::new();
        for PlacedAct { act, .. } in &facts.acts {
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
        let of_deadline = |policy| policy == Policy::Deadline;
        let deadline = (facts.threads.iter()).filter(|thread| of_deadline(thread.policy));
        Self {
            releases: waits
                .map(|(tid, (_, call, args))| (tid, (call, args)))
                .collect(),
            deadline: deadline.map(|thread| thread.tid).collect(),
        }
    }

    fn is_release(&self, act: &Act) -> bool {
        self.releases.get(&act.tid) == Some(&(act.call, act.arguments))
    }
}

pub(crate) fn any(_: &PlacedAct, _: &Threads) -> bool {
    true
}

pub(crate) fn is_fault(placed: &PlacedAct, _: &Threads) -> bool {
    placed.act.kind == ActKind::Fault || placed.act.call == InCall::None
}

/// Migrations of a SCHED_DEADLINE thread are judged by another rule, because the kernel does not
/// let it be pinned.
pub(crate) fn is_avoidable_migration(placed: &PlacedAct, threads: &Threads) -> bool {
    !threads.deadline.contains(&placed.act.tid)
}

pub(crate) fn is_deadline_migration(placed: &PlacedAct, threads: &Threads) -> bool {
    threads.deadline.contains(&placed.act.tid)
}

/// Returns whether a timer sent the signal, or whether the thread waits for such a signal.
pub(crate) fn is_timer_signal(placed: &PlacedAct, _: &Threads) -> bool {
    match placed.act.kind {
        ActKind::Signal => placed.act.other & TIMER_SIGNAL != 0,
        _ => is_wait_for_timer_signal(placed),
    }
}

pub(crate) fn is_other_signal(placed: &PlacedAct, threads: &Threads) -> bool {
    !is_timer_signal(placed, threads)
}

fn is_wait_for_timer_signal(placed: &PlacedAct) -> bool {
    call(placed) == "rt_sigtimedwait" && !placed.timers.is_empty()
}

pub(super) fn call(placed: &PlacedAct) -> &str {
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

/// Returns whether the call polls, and can wait for several descriptors.
pub(super) fn is_poll(name: &str) -> bool {
    matches!(name, "poll" | "ppoll" | "select" | "pselect6")
}

/// Returns the descriptors, if the call polls any. Some programs poll nothing to sleep.
fn polled(placed: &PlacedAct) -> Option<Polled> {
    is_poll(call(placed)).then(|| Polled::from_arguments(placed.act.arguments))
}

/// Returns whether the interpreter CPython sleeps: it makes an absolute deadline of the present time
/// and the duration, so that the sleep is relative to the program.
pub(super) fn is_python_sleep(placed: &PlacedAct) -> bool {
    let functions = ["pysleep", "time_sleep"];
    is_absolute(placed) && placed.frames.iter().any(|frame| is_in(frame, &functions))
}

/// Returns whether the frame belongs to one of these functions.
fn is_in(frame: &Frame, functions: &[&str]) -> bool {
    let symbol = frame.symbol.as_deref().unwrap_or_default();
    let name = symbol.split(['+', '@']).next().unwrap_or_default();
    // The compiler adds a suffix to a copy of a function: `pysleep.isra.0`.
    functions.contains(&name.split('.').next().unwrap_or_default())
}

/// Returns whether the thread waits on a condition variable of the C library.
pub(crate) fn is_wait_on_condition(placed: &PlacedAct, _: &Threads) -> bool {
    let functions = [
        "pthread_cond_wait",
        "pthread_cond_timedwait",
        "pthread_cond_clockwait",
        "__pthread_cond_wait",
        "__pthread_cond_timedwait",
        "__pthread_cond_clockwait",
        "cnd_wait",
        "cnd_timedwait",
    ];
    is_plain_futex(placed) && placed.frames.iter().any(|frame| is_in(frame, &functions))
}

fn clock_of_timer(placed: &PlacedAct) -> Option<u32> {
    placed.file.as_ref()?.clock
}

pub(crate) fn is_relative_sleep(placed: &PlacedAct, _: &Threads) -> bool {
    match call(placed) {
        "nanosleep" => true,
        "clock_nanosleep" => !is_absolute(placed) || is_python_sleep(placed),
        _ => polled(placed).is_some_and(|polled| polled.is_empty && polled.has_timeout),
    }
}

/// Returns the clocks that can end the wait, if they are known.
pub(super) fn clocks(placed: &PlacedAct) -> Vec<u32> {
    let timers = placed.timers.iter().map(|timer| timer.clock);
    // The call of a signal is the call that the signal interrupted.
    if placed.act.kind == ActKind::Signal {
        return timers.collect();
    }
    let [first, second] = placed.act.arguments;
    match call(placed) {
        "clock_nanosleep" if is_absolute(placed) => vec![first as u32],
        // The flag has a meaning only if there is a timeout.
        "futex" if second & FUTEX_CLOCK_REALTIME != 0 && first != 0 => vec![CLOCK_REALTIME],
        "clock_nanosleep" | "futex" => Vec::new(),
        _ => clock_of_timer(placed).into_iter().chain(timers).collect(),
    }
}

pub(crate) fn is_clock_that_can_be_set(placed: &PlacedAct, _: &Threads) -> bool {
    clocks(placed).into_iter().any(|clock| !is_steady(clock))
}

fn is_plain_futex(placed: &PlacedAct) -> bool {
    match call(placed) {
        "futex" => !INHERITING.contains(&(placed.act.arguments[1] & FUTEX_COMMAND)),
        "futex_wait" | "futex_waitv" => true,
        _ => false,
    }
}

pub(crate) fn is_futex_without_inheritance(placed: &PlacedAct, threads: &Threads) -> bool {
    is_plain_futex(placed) && !is_wait_on_condition(placed, threads)
}

/// Returns whether the act is a wait that no other rule judges and that is not a release.
pub(crate) fn is_other_wait(placed: &PlacedAct, threads: &Threads) -> bool {
    match call(placed) {
        // A sleep outside of any call is a page fault. The exit of a thread is not judged.
        "" => placed.act.call == InCall::Unknown,
        "exit" | "exit_group" => false,
        "nanosleep" | "clock_nanosleep" | "futex" | "futex_wait" | "futex_waitv" => false,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => !threads.is_release(&placed.act),
        name if is_poll(name) => {
            let sleeps = polled(placed).is_some_and(|polled| polled.is_empty && polled.has_timeout);
            !sleeps && !threads.is_release(&placed.act)
        }
        "rt_sigtimedwait" if is_wait_for_timer_signal(placed) => false,
        // A wait for a timer that was armed once is a release, because the timer's periods are as
        // absolute as those of a clock.
        "read" if clock_of_timer(placed).is_some() => !threads.is_release(&placed.act),
        _ => true,
    }
}
