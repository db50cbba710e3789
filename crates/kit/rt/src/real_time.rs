//! The real-time threads of this process. Each of them drops to SCHED_OTHER before it exits.
//!
//! A thread that exits at real-time priority does the kernel's work of its exit at this priority.
//! If it spins there for a lock that a thread of lower priority on the same CPU holds, the CPU is
//! lost. [`set_policy`](crate::set_policy) therefore calls [`enter`] for each thread of this
//! process that gets a real-time policy.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fs;
use std::io;
#[cfg(not(all(test, loom)))]
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering;

#[cfg(all(test, loom))]
use loom::sync::atomic::AtomicI32;

use crate::sched_attr::{Attributes, RESET_ON_FORK, get_attributes, set_attributes};
use crate::{PolicyKind, ThreadRef, Tid, current_tid};

/// Number of threads that [`demote_own_threads`] knows. Further threads only demote themselves.
const MOST: usize = 4096;

/// Their thread IDs; 0 for a free place. A signal handler reads them, so it must not wait for a lock.
#[cfg(not(all(test, loom)))]
static THREADS: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];

#[cfg(all(test, loom))]
loom::lazy_static! {
    static ref THREADS: Vec<AtomicI32> = (0..MOST).map(|_| AtomicI32::new(0)).collect();
}

/// Takes a free place for a thread. Returns its number.
fn take(places: &[AtomicI32], thread: Tid) -> Option<usize> {
    let takes = |place: &AtomicI32| {
        let taken = place.compare_exchange(0, thread.as_raw(), Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    };
    places.iter().position(takes)
}

/// Returns the threads that have a place.
fn present(places: &[AtomicI32]) -> impl Iterator<Item = Tid> {
    let thread = |place: &AtomicI32| Tid::from_raw(place.load(Ordering::Acquire));
    places.iter().filter_map(thread)
}

fn free(place: &AtomicI32) {
    place.store(0, Ordering::Release);
}

thread_local! {
    static MEMBER: Member = const { Member { place: Cell::new(None), entered: Cell::new(false) } };
}

/// A thread that has or had a real-time policy, until it ends.
struct Member {
    place: Cell<Option<usize>>,
    entered: Cell<bool>,
}

impl Drop for Member {
    /// Runs when the thread ends, also after a panic.
    fn drop(&mut self) {
        demote(ThreadRef::Current);
        if let Some(place) = self.place.get() {
            free(&THREADS[place]);
        }
    }
}

/// Makes the calling thread drop to SCHED_OTHER before it ends, no matter how it ends.
pub(crate) fn enter() {
    // Fails only while the thread is ending.
    let _ = MEMBER.try_with(|member| {
        if !member.entered.replace(true) {
            member.place.set(take(THREADS.as_slice(), current_tid()));
        }
    });
}

/// Gives a thread SCHED_OTHER if it has a real-time or deadline policy. Returns whether it had one
/// and now has not. Only makes system calls, so a signal handler may call it.
///
/// The threads and programs that it starts from now on have an ordinary policy as well
/// (SCHED_FLAG_RESET_ON_FORK), because an unprivileged thread cannot remove this flag.
pub fn demote(thread: impl Into<ThreadRef>) -> bool {
    let thread = thread.into();
    let has = get_attributes(thread).is_some_and(|attributes| {
        let is = |kind: &PolicyKind| kind.number().cast_unsigned() == attributes.policy;
        (PolicyKind::ALL.iter()).any(|kind| kind.is_real_time() && is(kind))
    });
    // Without privileges, the nice value must not decrease; 19 never does.
    has && [0, 19].into_iter().any(|nice| {
        let attributes = Attributes {
            policy: PolicyKind::Other.number().cast_unsigned(),
            flags: RESET_ON_FORK,
            nice,
            ..Attributes::default()
        };
        set_attributes(thread, attributes)
    })
}

/// Demotes all threads of this process that [`set_policy`](crate::set_policy) or
/// [`ThreadBuilder`](crate::ThreadBuilder) gave a real-time policy. Call this before the process
/// exits or executes a fatal signal while such threads may still run: the kernel then ends them
/// where they are. A signal handler may call it.
pub fn demote_own_threads() {
    for thread in present(THREADS.as_slice()) {
        demote(thread);
    }
}

/// Demotes all threads of another process, before it is killed.
pub fn demote_threads_of(process: u32) {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
        // It has ended.
        return;
    };
    let name = |task: io::Result<fs::DirEntry>| task.ok()?.file_name().into_string().ok();
    let threads = tasks.filter_map(name).filter_map(|name| name.parse().ok());
    for thread in threads.filter_map(Tid::from_raw) {
        demote(thread);
    }
}

/// Demotes all threads of a process group, before it is killed.
pub fn demote_group(group: u32) {
    let Ok(processes) = fs::read_dir("/proc") else {
        return;
    };
    let name = |process: io::Result<fs::DirEntry>| process.ok()?.file_name().into_string().ok();
    let processes = processes
        .filter_map(name)
        .filter_map(|name| name.parse().ok());
    for process in processes {
        // SAFETY: the call takes no pointer. The wrapper of rustix panics for group 0, which kernel
        // threads have, and processes outside of this PID namespace.
        let own: i32 = unsafe { libc::getpgid(process) };
        if u32::try_from(own) == Ok(group) {
            demote_threads_of(process.unsigned_abs());
        }
    }
}

/// If the calling thread has inherited a real-time policy, for example from chrt(1), it keeps the
/// policy until it ends, but the threads and programs that it starts do not inherit it. Call this
/// at the start of a program.
pub fn keep_inherited_policy() {
    if let Some(attributes) = get_attributes(ThreadRef::Current)
        && attributes.priority > 0
    {
        enter();
        let flags = attributes.flags | RESET_ON_FORK;
        set_attributes(
            ThreadRef::Current,
            Attributes {
                flags,
                ..attributes
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, ThreadBuilder, current_policy, policy_of, set_policy};

    const FIFO: Policy = Policy::Fifo { priority: 1 };

    /// Runs in a thread with a real-time policy, or skips the test.
    fn as_fifo<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match ThreadBuilder::new("fifo").policy(FIFO).spawn(test) {
            Ok(thread) => Some(thread.join().unwrap()),
            Err(error) => {
                punctual_testing::skip_refused("SCHED_FIFO", &error);
                None
            }
        }
    }

    /// Runs when the thread ends, after the destructors that were registered after it.
    struct AtEnd(std::sync::mpsc::Sender<Policy>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let _ = self.0.send(current_policy().unwrap());
        }
    }

    thread_local! {
        static AT_END: Cell<Option<AtEnd>> = const { Cell::new(None) };
    }

    #[test]
    fn thread_ends_without_real_time_policy() {
        for panics in [false, true] {
            let (send, at_end) = std::sync::mpsc::channel();
            let thread = ThreadBuilder::new("ends").spawn(move || {
                AT_END.set(Some(AtEnd(send)));
                if let Err(error) = set_policy(ThreadRef::Current, &FIFO) {
                    punctual_testing::skip_refused("SCHED_FIFO", &error);
                    return;
                }
                assert_eq!(current_policy().unwrap(), FIFO);
                assert!(!panics, "on purpose");
            });
            let ended = thread.unwrap().join();
            let policy = at_end.recv().unwrap();
            assert_eq!(policy, Policy::Other { nice: 0 }, "{ended:?}");
        }
    }

    #[test]
    fn children_of_real_time_threads_are_ordinary() {
        let started = as_fifo(|| {
            let thread = std::thread::spawn(|| current_policy().unwrap());
            let program = std::process::Command::new("cat")
                .arg("/proc/self/stat")
                .output()
                .unwrap();
            (thread.join().unwrap(), program.stdout)
        });
        let Some((policy, stat)) = started else {
            return;
        };
        assert_eq!(policy, Policy::Other { nice: 0 });
        let stat = String::from_utf8(stat).unwrap();
        // Fields 40 and 41 (proc_pid_stat(5)): priority and policy.
        let fields: Vec<&str> = stat.split_whitespace().collect();
        assert_eq!(fields[39..41], ["0", "0"], "{stat}");
    }

    #[test]
    fn all_real_time_threads_can_be_demoted() {
        // In a process of its own, because the tests share one.
        if std::env::var_os("PUNCTUAL_DEMOTES").is_none() {
            let this = std::env::current_exe().unwrap();
            let name = "real_time::tests::all_real_time_threads_can_be_demoted";
            let mut command = std::process::Command::new(this);
            command.args(["--exact", name, "--nocapture"]);
            let status = command.env("PUNCTUAL_DEMOTES", "1").status().unwrap();
            assert!(status.success());
            return;
        }
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let waits = move || _ = held.recv();
        let thread = match ThreadBuilder::new("fifo").policy(FIFO).spawn(waits) {
            Ok(thread) => thread,
            Err(error) => {
                punctual_testing::skip_refused("SCHED_FIFO", &error);
                return;
            }
        };
        assert_eq!(policy_of(thread.tid()).unwrap(), FIFO);
        demote_own_threads();
        assert_eq!(policy_of(thread.tid()).unwrap(), Policy::Other { nice: 0 });
        set_policy(thread.tid(), &FIFO).unwrap();
        demote_threads_of(std::process::id());
        assert_eq!(policy_of(thread.tid()).unwrap(), Policy::Other { nice: 0 });
        assert!(!demote(thread.tid()), "it is not real-time any more");
        drop(hold);
        thread.join().unwrap();
    }

    #[test]
    fn places_are_used_again() {
        for _ in 0..3 * MOST / 100 {
            if as_fifo(|| ()).is_none() {
                return;
            }
        }
        assert!(present(THREADS.as_slice()).count() < 100);
    }
}

/// Tries each order of the accesses that the memory model allows.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;

    fn tid(number: i32) -> Tid {
        Tid::from_raw(number).unwrap()
    }

    /// One thread stays while another one comes and goes, as a third one sees it.
    #[test]
    fn no_order_hides_a_thread_that_stays() {
        loom::model(|| {
            let places = Arc::new([AtomicI32::new(0), AtomicI32::new(0)]);
            let stays = take(&*places, tid(1)).unwrap();
            let other = loom::thread::spawn({
                let places = Arc::clone(&places);
                move || {
                    let place = take(&*places, tid(2)).unwrap();
                    assert_ne!(place, stays);
                    assert!(present(&*places).eq([tid(1), tid(2)]));
                    free(&places[place]);
                }
            });
            let seen: Vec<Tid> = present(&*places).collect();
            assert!(seen == [tid(1)] || seen == [tid(1), tid(2)], "{seen:?}");
            other.join().unwrap();
            assert!(present(&*places).eq([tid(1)]));
        });
    }

    /// A thread that comes late takes the place of one that goes, or the other one.
    #[test]
    fn no_order_loses_a_place() {
        loom::model(|| {
            let places = Arc::new([AtomicI32::new(0), AtomicI32::new(0)]);
            let goes = take(&*places, tid(1)).unwrap();
            let other = loom::thread::spawn({
                let places = Arc::clone(&places);
                move || take(&*places, tid(2)).unwrap()
            });
            free(&places[goes]);
            let place = other.join().unwrap();
            assert!(present(&*places).eq([tid(2)]));
            free(&places[place]);
            assert_eq!(take(&*places, tid(3)), Some(0));
        });
    }

    #[test]
    fn no_order_gives_a_place_to_two_threads() {
        loom::model(|| {
            let places = Arc::new([AtomicI32::new(0), AtomicI32::new(0)]);
            let takes = |number| {
                let places = Arc::clone(&places);
                loom::thread::spawn(move || take(&*places, tid(number)).unwrap())
            };
            let (one, other) = (takes(1), takes(2));
            assert_ne!(one.join().unwrap(), other.join().unwrap());
            assert_eq!(present(&*places).count(), 2);
        });
    }
}
