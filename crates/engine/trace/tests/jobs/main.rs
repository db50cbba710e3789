//! Tests the job recorder on this machine's kernel, if its programs can be loaded.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod counted;
mod timers;
mod wakes;

use std::process::Command;
use std::time::Duration;

use punctual_model::{Comm, Counter, CounterReading, EventKind, Nanos, TraceEvent};
use punctual_trace::{
    CallCost, CounterEvents, Descent, Followed, HELD_BACK, JobAsk, JobRecorder, LateStacks,
    ScoutEvent, StackPart, Stage,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const BUDGET: Nanos = Nanos::from_millis(30);
const TIMED: u32 = 2;

fn recorder() -> Option<JobRecorder> {
    recorder_of(None)
}

fn recorder_of(counters: Option<CounterEvents>) -> Option<JobRecorder> {
    let pid_max = 4 << 20;
    match JobRecorder::start(JobAsk {
        pid_max,
        budget: BUDGET,
        timed: TIMED,
        counted: 1,
        joining: Some(Comm::new(b"joins")),
        counters,
    }) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            punctual_testing::skip_refused("the recorder of jobs", &error);
            None
        }
    }
}

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Returns a request to follow all system calls of a thread.
fn learning(tid: u32) -> Followed {
    Followed {
        tids: vec![tid],
        calls: Vec::new(),
        learning: vec![tid],
        ..Followed::default()
    }
}

fn events(recorder: &mut JobRecorder) -> Vec<TraceEvent> {
    std::thread::sleep(HELD_BACK);
    let read = recorder.read();
    read.into_iter()
        .filter_map(|one| match one {
            ScoutEvent::Event(event) => Some(event),
            _ => None,
        })
        .collect()
}

const SLEEPS: usize = 20;

#[test]
fn watched_threads_waits_have_stacks() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let tid = own_tid();
    recorder.follow(&learning(tid)).unwrap();
    let from = now();
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
    }
    let to = now();
    let seen = events(&mut recorder);
    assert_eq!(recorder.lost(), 0);
    assert!(seen.is_sorted_by_key(|event| event.time));
    let sleeps = |event: &&TraceEvent| {
        event.pid == tid
            && matches!(event.kind, EventKind::SysEnter { id, .. } if id == libc_nanosleep())
    };
    assert!(seen.iter().filter(sleeps).count() >= SLEEPS, "{seen:?}");
    let woken = |event: &&TraceEvent| matches!(&event.kind, EventKind::Waking { task, .. } if task.pid == tid);
    assert!(seen.iter().filter(woken).count() >= SLEEPS, "{seen:#?}");
    // With PREEMPT_RT, ordinary threads are woken from a thread that handles softirqs.
    let interrupted =
        |event: &TraceEvent| event.has(TraceEvent::HARDIRQ) || event.has(TraceEvent::SOFTIRQ);
    assert!(seen.iter().filter(woken).any(interrupted), "{seen:?}");
    assert!(
        seen.iter()
            .all(|event| event.pid == tid || event.kind.is_about(tid))
    );
    // The other thread of this process makes system calls that must not be recorded.
    let cut = recorder.slice(from, to, Stage::Full);
    assert_eq!(cut.lost, 0);
    let stacks = cut.events.iter().filter(|event| event.pid == tid);
    let stacks = stacks.filter(
        |event| matches!(&event.kind, EventKind::KernelStack { frames } if frames.len() > 4),
    );
    assert!(stacks.count() >= SLEEPS);
    let of_others = |event: &&TraceEvent| {
        event.pid != tid
            && matches!(
                event.kind,
                EventKind::SysEnter { .. } | EventKind::SysExit { .. }
            )
    };
    assert_eq!(cut.events.iter().find(of_others), None);
}

/// clock_nanosleep(2)
const fn libc_nanosleep() -> i64 {
    if cfg!(target_arch = "x86_64") {
        230
    } else {
        115
    }
}

#[test]
fn release_wait_takes_no_stack() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let tid = own_tid();
    let followed = Followed {
        tids: vec![tid],
        calls: vec![libc_nanosleep()],
        ..Followed::default()
    };
    recorder.follow(&followed).unwrap();
    let from = now();
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
        std::hint::black_box(std::fs::metadata("/proc/self").unwrap());
    }
    let to = now();
    let seen = events(&mut recorder);
    let other = |event: &&TraceEvent| matches!(event.kind, EventKind::SysEnter { id, .. } if id != libc_nanosleep());
    assert_eq!(seen.iter().find(other), None);
    let cut = recorder.slice(from, to, Stage::Full);
    // The records used to analyse a job contain these calls.
    assert!(cut.events.iter().any(|event| other(&event)));
    let stack = |event: &&TraceEvent| matches!(event.kind, EventKind::KernelStack { .. });
    assert_eq!(cut.events.iter().find(stack), None);
}

#[test]
fn ends_of_sleeps_and_faults_are_recorded() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let tid = own_tid();
    recorder.follow(&learning(tid)).unwrap();
    let from = now();
    std::thread::sleep(Duration::from_millis(1));
    let slept = now();
    // A block of this length is never taken from the heap, whose pages may be present. The rings hold
    // the faults of its beginning even if no huge page is free.
    let mut block = vec![0_u8; 40 << 20];
    for byte in block[..512 << 10].iter_mut().step_by(4_096) {
        *byte = 1;
    }
    let addresses = block.as_ptr_range();
    let is_inside =
        |address: u64| (addresses.start as u64..addresses.end as u64).contains(&address);
    let cut = recorder.slice(from, now(), Stage::Full);
    let own: Vec<&TraceEvent> = (cut.events.iter())
        .filter(|event| event.pid == tid)
        .collect();
    let until = own.iter().find_map(|event| match event.kind {
        EventKind::SleepUntil { until } => Some(until),
        _ => None,
    });
    let until = until.expect("the end of the sleep");
    let earliest = from + Nanos::from_millis(1);
    assert!(
        (earliest..=slept).contains(&until),
        "{earliest} {until} {slept}"
    );
    let beginnings = own.iter().filter_map(|event| match event.kind {
        EventKind::PageFaultUser { address, .. } if is_inside(address) => Some(address),
        _ => None,
    });
    let ends = own.iter().filter_map(|event| match event.kind {
        EventKind::PageFaultEnd { address } if is_inside(address) => Some(address),
        _ => None,
    });
    let (beginnings, ends): (Vec<u64>, Vec<u64>) = (beginnings.collect(), ends.collect());
    assert!(!ends.is_empty(), "{own:?}");
    let known = recorder.recorded();
    if known
        .iter()
        .any(|event| event == "exceptions:page_fault_user")
    {
        assert_eq!(beginnings, ends);
    }
}

#[test]
fn light_stage_records_sleeps_not_calls() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    // If the recorder of a test running in parallel is already using the tracepoints, this recorder
    // adds no cost. This is temporary, so try again.
    let is_whole = |cost: &CallCost| cost.watched > cost.other && cost.other > Nanos::ZERO;
    let mut costs = (0..1_000).map(|_| recorder.measure_cost().unwrap());
    let cost = costs.find(is_whole).expect("the cost of calls is found");
    let tid = own_tid();
    recorder.follow(&learning(tid)).unwrap();
    let sleeps = || {
        for _ in 0..SLEEPS {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    sleeps();
    recorder.enter(Stage::Light).unwrap();
    let taken = recorder.taken(cost);
    assert!(taken > Nanos::ZERO);
    assert!(!events(&mut recorder).is_empty());
    let light = now();
    sleeps();
    Command::new("true").status().unwrap();
    assert_eq!(recorder.taken(cost), taken, "a system call is counted");
    let seen = events(&mut recorder);
    let asleep = |event: &&TraceEvent| {
        event.pid == tid
            && matches!(event.kind, EventKind::SleepsIn { id, .. } if id == libc_nanosleep())
    };
    assert!(seen.iter().filter(asleep).count() >= SLEEPS, "{seen:?}");
    // The sleep is listed just before its switch.
    for (sleep, switch) in seen.iter().zip(&seen[1..]).filter(|(one, _)| asleep(one)) {
        assert!(
            matches!(switch.kind, EventKind::Switch { .. }),
            "{switch:?}"
        );
        assert_eq!((sleep.time, sleep.pid), (switch.time, switch.pid));
    }
    let woken = |event: &&TraceEvent| matches!(&event.kind, EventKind::Waking { task, .. } if task.pid == tid);
    assert!(seen.iter().filter(woken).count() >= SLEEPS, "{seen:?}");
    assert!(!recorder.descents().is_empty());
    let cut = recorder.slice(light, now(), Stage::Light);
    let only_full = |event: &&TraceEvent| {
        event.time > light
            && matches!(
                event.kind,
                EventKind::SysEnter { .. }
                    | EventKind::SysExit { .. }
                    | EventKind::SoftirqEntry { .. }
                    | EventKind::VectorEntry { .. }
            )
    };
    assert_eq!(cut.events.iter().find(only_full), None);
    let opened = now();
    recorder.enter(Stage::Full).unwrap();
    sleeps();
    let to = now();
    assert_eq!(recorder.stage_of(opened, to), Stage::Light);
    assert_eq!(recorder.stage_of(to, to), Stage::Full);
    let again = events(&mut recorder);
    let returns = |event: &&TraceEvent| matches!(event.kind, EventKind::SysExit { .. });
    assert!(again.iter().filter(returns).count() >= SLEEPS, "{again:?}");
    // The state of a CPU in the light stage must not be derived from its events.
    let cut = recorder.slice(light, now(), Stage::Full);
    assert_eq!(cut.lost, 0);
    assert_eq!(cut.events.iter().find(|event| event.time < opened), None);
}

/// Waits several times until another thread sends something. Returns the ID of that thread.
fn wait_for_another_thread() -> u32 {
    let (send, receive) = std::sync::mpsc::channel();
    let waker = std::thread::spawn(move || {
        for turn in 0..SLEEPS {
            std::thread::sleep(Duration::from_millis(2));
            send.send(turn).unwrap();
        }
        own_tid()
    });
    while receive.recv().is_ok() {}
    waker.join().unwrap()
}

/// A pipe's reader is woken by another thread, and a sleeper by its timer's interrupt.
#[test]
fn light_stage_distinguishes_threads_and_interrupts() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    recorder.enter(Stage::Light).unwrap();
    let tid = own_tid();
    recorder.follow(&learning(tid)).unwrap();
    let waker = wait_for_another_thread();
    let by_threads = events(&mut recorder);
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
    }
    let by_timer = events(&mut recorder);
    let interrupt = TraceEvent::HARDIRQ | TraceEvent::SOFTIRQ;
    let woken = |event: &&TraceEvent| matches!(&event.kind, EventKind::Waking { task, .. } if task.pid == tid);
    let of_waker = by_threads
        .iter()
        .filter(woken)
        .filter(|event| event.pid == waker);
    let (from_thread, others): (Vec<_>, Vec<_>) =
        of_waker.partition(|event| event.flags & interrupt == 0);
    assert!(from_thread.len() > SLEEPS / 2, "{by_threads:?}");
    assert!(others.len() < SLEEPS / 4, "{others:?}");
    let timers: Vec<_> = by_timer.iter().filter(woken).collect();
    // With PREEMPT_RT, ordinary threads are woken from a thread that handles softirqs.
    let from_interrupt = timers.iter().filter(|event| event.flags & interrupt != 0);
    assert!(from_interrupt.count() > 0, "{timers:?}");
}

#[test]
fn forked_processes_and_changed_programs_are_reported() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    recorder.follow(&learning(own_tid())).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    recorder.read();
    let forked = recorder
        .descents()
        .iter()
        .any(|one| matches!(one, Descent::Fork { parent, child } if *parent == own_tid() && child.pid == pid));
    assert!(forked, "{:?}", recorder.descents());
}

/// One thread spins on the CPU of a sleeping thread. When the sleeper's timer interrupts the
/// spinning thread, the CPU switches to the sleeper. The timer and the switch are recorded with
/// their stacks.
#[test]
fn late_timer_and_switch_stacks_are_recorded() {
    let mut stacks = match LateStacks::start(4 << 20, Nanos::ZERO) {
        Ok(stacks) => stacks,
        Err(error) => {
            punctual_testing::skip_refused("stacks of what is late", &error);
            return;
        }
    };
    let before = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    sched_setaffinity(None, &one).unwrap();
    let tid = own_tid();
    stacks.watch([tid].into_iter()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let mut found = Vec::new();
        for _ in 0..SLEEPS {
            let from = now();
            std::thread::sleep(Duration::from_millis(2));
            found.extend(between(&stacks, from));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        found
    });
    sched_setaffinity(None, &before).unwrap();
    assert!(found.iter().any(|event| {
        matches!(&event.kind, EventKind::TimerLate { late, .. } if late.0 > 0)
            && event.kind.frames().len() > 3
    }));
    let switched = |event: &&TraceEvent| matches!(&event.kind, EventKind::SwitchedOut { task, .. } if task.pid != tid);
    let switched = found.iter().find(switched).unwrap();
    assert!(switched.kind.frames().len() > 1, "{switched:?}");
    // Switches to threads that are not watched are not recorded.
    stacks.watch([].into_iter()).unwrap();
    let from = now();
    std::thread::sleep(Duration::from_millis(20));
    let rest = between(&stacks, from);
    assert!(!rest.iter().any(switched_out), "{rest:?}");
}

fn between(stacks: &LateStacks, from: Nanos) -> Vec<TraceEvent> {
    stacks.since(from)
}

fn switched_out(event: &TraceEvent) -> bool {
    matches!(event.kind, EventKind::SwitchedOut { .. })
}

/// One thread sleeps on one CPU, and a watched thread sleeps on another. Events of the first thread
/// are recorded only while they can affect the watched thread.
#[test]
fn irrelevant_cpus_are_not_recorded() {
    let all = sched_getaffinity(None).unwrap();
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| all.is_set(*cpu))
        .collect();
    let [own, .., other] = cpus[..] else {
        punctual_testing::skip!(Hardware, "CPUs that do not matter: there is only one");
        return;
    };
    let Some(mut recorder) = recorder() else {
        return;
    };
    let on = |cpu: usize| {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).unwrap();
    };
    on(own);
    recorder.follow(&learning(own_tid())).unwrap();
    let moves = std::sync::atomic::AtomicBool::new(false);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let count = |cut: &[TraceEvent], cpu: usize| {
        let switch = |event: &&TraceEvent| matches!(event.kind, EventKind::Switch { .. });
        let switches = cut.iter().filter(switch);
        switches.filter(|event| event.cpu as usize == cpu).count()
    };
    let (quiet, last) = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The timer interrupts of the watched thread interrupt this thread, but this thread
            // does not wake any other thread.
            while !moves.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            on(other);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        for _ in 0..50 {
            std::thread::sleep(Duration::from_millis(1));
        }
        moves.store(true, std::sync::atomic::Ordering::Relaxed);
        // Wait until creating the sleeper on this CPU no longer has an effect.
        std::thread::sleep(Duration::from_millis(1_300));
        let from = now();
        for _ in 0..100 {
            std::thread::sleep(Duration::from_micros(500));
        }
        let cut = recorder.slice(from, now(), Stage::Full).events;
        let quiet = (count(&cut, own), count(&cut, other));
        // The watched thread now runs on this CPU, so its switches are recorded again.
        on(other);
        let from = now();
        for _ in 0..100 {
            std::thread::sleep(Duration::from_micros(500));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        (
            quiet,
            count(&recorder.slice(from, now(), Stage::Full).events, other),
        )
    });
    sched_setaffinity(None, &all).unwrap();
    assert!(quiet.0 >= 100 && last >= 100, "{quiet:?} {last}");
    match punctual_testing::crowded() {
        _ if quiet.1 == 0 => {}
        // Any thread that wakes the watched thread makes its CPU relevant.
        Some(crowd) => {
            punctual_testing::skip!(Quiet, "{crowd}: CPUs that do not matter: {quiet:?}")
        }
        None => panic!("{quiet:?}"),
    }
}

/// The kernel's own counters take the place of those of the processor: page faults of the watched
/// thread are counted between its sleeps, and those of another thread are not.
#[test]
fn counters_are_those_of_the_thread() {
    const PAGES: usize = 300;
    let Some(mut recorder) = recorder_of(Some(CounterEvents::SOFTWARE)) else {
        return;
    };
    assert_eq!(recorder.no_counters(), None);
    let tid = own_tid();
    recorder.follow(&learning(tid)).unwrap();
    let touch = |pages: usize| {
        let length = pages * 4_096;
        // A new mapping is not in memory, unlike a block that the allocator reuses.
        let mut block = vec![0_u8; length.max(64 << 20)];
        for byte in block[..length].iter_mut().step_by(4_096) {
            *byte = 1;
        }
        std::hint::black_box(&block);
    };
    let nap = || std::thread::sleep(Duration::from_millis(2));
    nap();
    touch(PAGES);
    nap();
    // This thread sleeps while another one runs.
    let other = std::thread::spawn(move || touch(3 * PAGES));
    other.join().unwrap();
    nap();
    std::thread::sleep(HELD_BACK);
    let readings: Vec<CounterReading> = (recorder.read().into_iter())
        .filter_map(|one| match one {
            ScoutEvent::Counter(reading) => Some(reading),
            _ => None,
        })
        .collect();
    assert!(readings.iter().all(|reading| reading.tid == tid));
    let rises = |counter: Counter| {
        let of = readings.iter().filter(move |one| one.counter == counter);
        let of: Vec<&CounterReading> = of.collect();
        assert!(of.len() > 3, "{of:?}");
        // The thread ran before it was watched, so the first reading is incomplete.
        let (first, last) = (of[0], of[of.len() - 1]);
        let [time, counted] = [last.enabled - first.enabled, last.running - first.running];
        // No other user shares these counters.
        assert_eq!(time, counted, "{of:?}");
        (last.value - first.value, counted)
    };
    // In the order of CounterEvents::SOFTWARE.
    let [(clock, ran), (faults, _), _] = Counter::ALL.map(rises);
    // The system may map several pages at a fault.
    let pages = PAGES as u64;
    assert!(faults > 0 && faults < 2 * pages, "{readings:?}");
    // The clock of the CPU rises while the thread runs.
    assert!(
        clock > 0 && clock.abs_diff(ran.0) < ran.0 / 10 + 100_000,
        "{clock} {ran}"
    );
    let whole = readings[readings.len() - 1].time - readings[0].time;
    assert!(ran < whole, "{ran} of {whole}");
}

/// A machine without the counters of a processor records jobs without them.
#[test]
fn recorder_works_without_hardware_counters() {
    let Some(recorder) = recorder_of(Some(CounterEvents::HARDWARE)) else {
        return;
    };
    if let Some(why) = recorder.no_counters() {
        assert!(why.contains("perf_event_open"), "{why}");
    }
    assert!(
        recorder
            .recorded()
            .iter()
            .any(|name| name == "sched:sched_switch")
    );
}

/// The stacks of both sides of a wait name the functions of each thread.
#[test]
fn waits_have_stacks_of_both_threads() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let tid = own_tid();
    recorder.follow(&learning(tid)).unwrap();
    let from = now();
    let waker = wait_for_another_thread();
    let cut = recorder.slice(from, now(), Stage::Full);
    let parts = |of: u32, woken: Option<u32>, part: StackPart| {
        let stacks = cut.stacks.iter();
        let fits = stacks.filter(|one| (one.tid, one.woken, one.part) == (of, woken, part));
        fits.filter(|one| one.words.len() > 1).count()
    };
    for part in [StackPart::User, StackPart::Words] {
        assert!(
            parts(tid, None, part) > SLEEPS / 2,
            "{part:?} of the thread"
        );
    }
    for part in [StackPart::Kernel, StackPart::User, StackPart::Words] {
        assert!(
            parts(waker, Some(tid), part) > SLEEPS / 2,
            "{part:?} of its waker"
        );
    }
    assert_eq!(recorder.stacks_dropped(), 0);
    // More sleeps than the limit for stacks allows.
    for _ in 0..2_000 {
        std::thread::sleep(Duration::from_nanos(1));
    }
    let short = now();
    recorder.enter(Stage::Light).unwrap();
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
    }
    let cut = recorder.slice(short, now(), Stage::Light);
    assert_eq!(cut.stacks, []);
}
