//! Tests of threads with each policy that this process may set, on real CPUs.
#![allow(clippy::unwrap_used)] // also in test helpers

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_rt::{
    Error, JoinHandle, Policy, PolicyKind, ThreadBuilder, ThreadRef, affinity, current_policy,
    current_tid, max_permitted_priority, policy_of, priority_range, set_policy, thread_usage,
    time_slice,
};

fn deadline(millis: [u64; 3]) -> Policy {
    let [runtime, deadline, period] = millis.map(Duration::from_millis);
    Policy::Deadline {
        runtime,
        deadline,
        period,
    }
}

/// Deadline threads share the bandwidth of the machine, so tests with them run one at a time.
static BANDWIDTH: Mutex<()> = Mutex::new(());

/// Returns a thread with this policy. Prints a skip and returns `None` if the process may not set
/// it.
fn with_policy<T: Send + 'static>(
    policy: Policy,
    f: impl FnOnce() -> T + Send + Clone + 'static,
) -> Option<JoinHandle<T>> {
    // The kernel reclaims bandwidth only at the end of a deadline thread's last period.
    for attempt in 1.. {
        match ThreadBuilder::new("policy").policy(policy).spawn(f.clone()) {
            Ok(thread) => return Some(thread),
            Err(Error::DeadlineOverbooked { .. }) if attempt < 100 => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) if error.is_privilege() => {
                punctual_testing::skip!(Right, "{policy}: {error}");
                return None;
            }
            Err(error @ Error::DeadlineOverbooked { .. }) => {
                punctual_testing::skip!(Quiet, "{policy}: others have it all: {error}");
                return None;
            }
            Err(error) => panic!("{policy}: {error}"),
        }
    }
    None
}

/// Blocks a test's thread until the flag is set.
fn gate() -> (Arc<AtomicBool>, impl FnOnce() + Send + Clone + 'static) {
    let open = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&open);
    let wait = move || {
        while !watched.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    (open, wait)
}

#[test]
fn each_policy_is_set_and_read_back() {
    let _turn = BANDWIDTH.lock().unwrap_or_else(PoisonError::into_inner);
    let nice = match current_policy().unwrap() {
        Policy::Other { nice } => nice,
        _ => 0,
    };
    for policy in [
        Policy::Other { nice },
        Policy::Other { nice: 19 },
        Policy::Other { nice: -20 },
        Policy::Batch { nice: 19 },
        Policy::Idle,
        Policy::Fifo { priority: 1 },
        Policy::Fifo { priority: 99 },
        Policy::RoundRobin { priority: 50 },
        deadline([1, 5, 10]),
    ] {
        let (tell, told) = channel();
        let (end, wait) = gate();
        let thread = with_policy(policy, move || {
            tell.send(current_policy()).unwrap();
            wait();
        });
        if let Some(thread) = thread {
            assert_eq!(told.recv().unwrap().unwrap(), policy, "seen from inside");
            assert_eq!(policy_of(thread.tid()).unwrap(), policy, "from outside");
            end.store(true, Ordering::SeqCst);
            thread.join().unwrap();
        }
    }
}

#[test]
fn another_threads_policy_is_changed() {
    let (end, wait) = channel::<()>();
    let thread = ThreadBuilder::new("other")
        .spawn(move || wait.recv().unwrap())
        .unwrap();
    set_policy(thread.tid(), &Policy::Idle).unwrap();
    assert_eq!(policy_of(thread.tid()).unwrap(), Policy::Idle);
    let tid = thread.tid();
    end.send(()).unwrap();
    thread.join().unwrap();
    // A join returns when the thread has released its stack. The kernel removes the thread ID
    // shortly afterwards.
    let gone = (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        matches!(policy_of(tid), Err(Error::NoSuchThread { .. }))
    });
    assert!(gone, "thread {tid} is still known");
    assert!(matches!(
        set_policy(tid, &Policy::Idle),
        Err(Error::NoSuchThread { .. })
    ));
    assert!(matches!(
        affinity::allowed_cpus(tid),
        Err(Error::NoSuchThread { .. })
    ));
}

#[test]
fn out_of_range_priority_names_range() {
    assert_eq!(priority_range(PolicyKind::Other), 0..=0);
    assert!(time_slice(ThreadRef::Current).is_some());
    // pid_max is at most 4 million.
    assert_eq!(
        time_slice(punctual_rt::Tid::from_raw(i32::MAX).unwrap()),
        None
    );
    for policy in [
        Policy::Fifo { priority: 0 },
        Policy::Fifo { priority: 100 },
        Policy::RoundRobin { priority: 255 },
    ] {
        let range = priority_range(policy.kind());
        let error = set_policy(ThreadRef::Current, &policy).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&format!("{} to {}", range.start(), range.end())),
            "{text}"
        );
        assert!(!error.is_privilege());
    }
    for nice in [-21, 20, i32::MIN, i32::MAX] {
        let refused = set_policy(ThreadRef::Current, &Policy::Batch { nice });
        assert!(matches!(refused, Err(Error::NiceOutOfRange { .. })));
    }
}

#[test]
fn contradictory_deadlines_are_refused() {
    let check = |millis| {
        std::thread::spawn(move || set_policy(ThreadRef::Current, &deadline(millis)))
            .join()
            .unwrap()
            .unwrap_err()
    };
    for millis in [[0, 1, 1], [2, 1, 3], [1, 3, 2]] {
        let error = check(millis);
        assert!(matches!(error, Error::DeadlineInvalid { .. }), "{error}");
    }
    // A period of about a century is consistent, so only the kernel can reject it.
    let error = check([1, 1, 3_200_000_000_000]);
    assert!(
        matches!(error, Error::DeadlineInvalid { .. }) || error.is_privilege(),
        "{error}"
    );
}

#[test]
fn deadline_bandwidth_ends_and_says_so() {
    let _turn = BANDWIDTH.lock().unwrap_or_else(PoisonError::into_inner);
    // Each thread requests nearly a whole CPU, but only sleeps.
    let greedy = deadline([9, 10, 10]);
    let mut running = Vec::new();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let refusal = loop {
        assert!(running.len() <= cpus * 64, "nothing was refused");
        let (end, wait) = channel::<()>();
        let started = ThreadBuilder::new("greedy").policy(greedy).spawn(move || {
            let _ = wait.recv();
        });
        match started {
            Ok(thread) => running.push((thread, end)),
            Err(error) => break error,
        }
    };
    if refusal.is_privilege() && running.is_empty() {
        punctual_testing::skip!(Right, "deadline bandwidth: {refusal}");
        return;
    }
    assert!(
        matches!(refusal, Error::DeadlineOverbooked { .. }),
        "{refusal}"
    );
    for (thread, end) in running {
        drop(end);
        thread.join().unwrap();
    }
}

#[test]
fn a_deadline_thread_cannot_be_pinned() {
    let _turn = BANDWIDTH.lock().unwrap_or_else(PoisonError::into_inner);
    let cpus = affinity::current().unwrap();
    if cpus.len() < 2 {
        punctual_testing::skip!(Hardware, "pinned deadline thread: one CPU only");
        return;
    }
    let (end, wait) = gate();
    let Some(thread) = with_policy(deadline([1, 10, 10]), wait) else {
        return;
    };
    let error = affinity::set(thread.tid(), &cpus[..1]).unwrap_err();
    assert!(
        matches!(error, Error::AffinityOfDeadlineThread { .. }),
        "{error}"
    );
    end.store(true, Ordering::SeqCst);
    thread.join().unwrap();

    let error = ThreadBuilder::new("pinned")
        .cpus(&cpus[..1])
        .policy(deadline([1, 10, 10]))
        .spawn(|| ())
        .unwrap_err();
    assert!(
        matches!(error, Error::DeadlineRefused { .. }) && error.to_string().contains("root domain"),
        "{error}"
    );
}

#[test]
fn the_highest_permitted_priority_is_just_that() {
    let highest = max_permitted_priority();
    let set = |priority| {
        std::thread::spawn(move || set_policy(ThreadRef::Current, &Policy::Fifo { priority }))
            .join()
            .unwrap()
    };
    if highest > 0 {
        set(highest).unwrap();
    }
    if highest < *priority_range(PolicyKind::Fifo).end() {
        let error = set(highest + 1).unwrap_err();
        assert!(error.is_privilege(), "{error}");
    }
}

#[test]
fn thread_is_configured_before_its_start() {
    for cpu in affinity::current().unwrap() {
        let thread = ThreadBuilder::new("a-rather-long-name")
            .cpus(&[cpu])
            .stack_size(1 << 20)
            .prefault_stack(512 << 10)
            .spawn(move || {
                assert_eq!(affinity::current().unwrap(), [cpu]);
                let comm = format!("/proc/self/task/{}/comm", current_tid());
                let name = std::fs::read_to_string(PathBuf::from(comm)).unwrap();
                // Touching half a megabyte of stack causes no fault.
                let before = thread_usage().minor_faults;
                let mut frame = [1_u8; 256 << 10];
                std::hint::black_box(&mut frame);
                let after = thread_usage().minor_faults;
                assert_eq!(after, before);
                (current_tid(), name)
            })
            .unwrap();
        let tid = thread.tid();
        let (inside, name) = thread.join().unwrap();
        assert_eq!(inside, tid);
        assert_eq!(name.trim(), "a-rather-long-n");
    }
}

#[test]
fn what_is_refused_never_runs() {
    let ran = Arc::new(AtomicBool::new(false));
    let try_with = |builder: ThreadBuilder| {
        let ran = Arc::clone(&ran);
        builder
            .spawn(move || ran.store(true, Ordering::SeqCst))
            .unwrap_err()
    };
    let builder = || ThreadBuilder::new("refused");
    let error = try_with(builder().cpus(&[8_000]));
    assert!(matches!(error, Error::CpuNotThere { cpu: 8_000, .. }));
    let error = try_with(builder().cpus(&[]));
    assert!(matches!(error, Error::NoCpus));
    let error = try_with(builder().policy(Policy::Fifo { priority: 100 }));
    assert!(matches!(error, Error::PriorityOutOfRange { .. }));
    let error = try_with(builder().stack_size(64 << 10).prefault_stack(1 << 20));
    assert!(matches!(error, Error::StackTooSmall { .. }), "{error}");
    let error = try_with(builder().stack_size(1 << 46));
    assert!(matches!(error, Error::SpawnFailed { .. }), "{error}");
    let error = try_with(ThreadBuilder::new("zero\0byte"));
    assert!(matches!(error, Error::ThreadName { .. }));
    assert!(!ran.load(Ordering::SeqCst));
    // The refused threads have ended, instead of remaining as waiting threads.
    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    for task in names {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        assert_ne!(name.trim(), "refused");
    }
}

#[test]
fn panic_becomes_error_with_message() {
    let spawn = |f: fn()| ThreadBuilder::new("falls").spawn(f).unwrap().join();
    for (f, message) in [
        ((|| panic!("plain")) as fn(), "plain"),
        (|| panic!("number {}", std::hint::black_box(7)), "number 7"),
        (|| std::panic::panic_any(7_u8), "without a message"),
    ] {
        let error = spawn(f).unwrap_err();
        assert!(matches!(error, Error::ThreadPanicked { .. }));
        let text = error.to_string();
        assert!(text.contains(message) && text.contains("falls"), "{text}");
    }
}

#[test]
fn a_scoped_thread_borrows() {
    let numbers = [1_u64, 2, 3];
    std::thread::scope(|scope| {
        let thread = ThreadBuilder::new("scoped")
            .spawn_scoped(scope, || (numbers.iter().sum::<u64>(), current_tid()))
            .unwrap();
        let tid = thread.tid();
        assert_eq!(thread.join().unwrap(), (6, tid));
        let refused = ThreadBuilder::new("refused")
            .cpus(&[8_000])
            .spawn_scoped(scope, || numbers.len());
        assert!(matches!(refused, Err(Error::CpuNotThere { .. })));
    });
}
