//! Jobs: the thread's own activity, the threads that it waited for, and their activity.

use punctual_culprit::{find, keep_concerned, thread_activity};
use punctual_model::{
    Blame, Delay, EventKind, Nanos, RealTimeLimit, ShareKind, Task, ThreadState, TraceEvent,
};

use crate::stream::*;

const FUTEX: i64 = 202;
pub(crate) const READ: i64 = 0;
const FSYNC: i64 = 74;
const NANOSLEEP: i64 = 230;
/// FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG; FUTEX_WAIT_BITSET of a condition variable.
const LOCK_PI: u64 = 6 | 128;
const CONDITION: u64 = 9 | 128;

pub(crate) fn low() -> Task {
    task("low", 20, 89)
}

fn mid() -> Task {
    task("mid", 21, 49)
}

/// A job that takes this many µs. Its timer releases it at 0 µs. It runs from 10 µs on, and leaves
/// the kernel at 12 µs.
pub(crate) fn job(us: f64) -> Stream {
    Stream::late(us)
        .change(|window| {
            window.delay = Delay::Job;
            let calls = [
                (FUTEX, "futex"),
                (READ, "read"),
                (FSYNC, "fsync"),
                (NANOSLEEP, "clock_nanosleep"),
            ];
            window.calls = calls.map(|(id, name)| (id, name.to_owned())).into();
        })
        .sleeping_beside(idle())
        .timer(-1.5)
        .switch(10.0, idle(), RUNNABLE, victim())
        .event(12.0, exit(NANOSLEEP))
}

pub(crate) fn enter(id: i64, args: [u64; 2]) -> EventKind {
    EventKind::SysEnter { id, args }
}

pub(crate) fn exit(id: i64) -> EventKind {
    EventKind::SysExit { id, ret: 0 }
}

/// Returns the total of the shares of a kind whose name has this prefix, in µs.
pub(crate) fn share(blame: &Blame, kind: ShareKind, who: &str) -> f64 {
    let fits = blame.shares.iter().filter(|share| share.kind() == kind);
    let ns: u64 = fits
        .filter(|share| share.who().starts_with(who))
        .map(|share| share.ns.0)
        .sum();
    ns as f64 / 1_000.0
}

pub(crate) fn explained(stream: &Stream) -> Blame {
    let blame = find(&stream.window).blame;
    let sum: u64 = blame.shares.iter().map(|share| share.ns.0).sum();
    assert_eq!(sum, stream.window.latency().0, "{blame:#?}");
    let end = find(&stream.window).segments.last().unwrap().to;
    assert_eq!(end, stream.window.actual);
    blame
}

#[test]
fn own_work_calls_and_interrupts_are_shares() {
    let stream = job(1_000.0)
        .irq(100.0, 150.0, 24, "eth0")
        .event(400.0, enter(READ, [5, 0]))
        .event(600.0, exit(READ))
        .event(700.0, fault(0x1000));
    let found = explained(&stream);
    // The thread is in user space from 12 to 100, from 150 to 400 and from 600 to 700 µs.
    assert_eq!(share(&found, ShareKind::OwnWork, "user space"), 438.0);
    let possible = share(&found, ShareKind::OwnWork, "page faults or user space");
    assert_eq!(possible, 300.0);
    assert_eq!(share(&found, ShareKind::SystemCall, "read"), 200.0);
    assert_eq!(share(&found, ShareKind::SystemCall, "clock_nanosleep"), 2.0);
    assert_eq!(share(&found, ShareKind::Interrupt, "eth0"), 50.0);
    assert!(
        found
            .sentence()
            .contains("it computed for 438 µs in user space"),
        "{}",
        found.sentence()
    );
}

/// The holder of a lock has itself been preempted, so there is a chain of two.
#[test]
fn lock_names_holder_and_its_preempter() {
    let stream = job(1_000.0)
        .on(0, 20)
        .event(-100.0, exit(READ))
        .on(1, VICTIM)
        .event(50.0, enter(FUTEX, [0x7f10, LOCK_PI]))
        .switch(52.0, victim(), SLEEPS, idle())
        .on(0, 20)
        .switch(200.0, low(), RUNNABLE, mid())
        .switch(700.0, mid(), SLEEPS, low())
        .waking_of(800.0, victim(), 1)
        .on(1, 0)
        .switch(810.0, idle(), RUNNABLE, victim())
        .event(812.0, exit(FUTEX));
    let found = explained(&stream);
    let held = share(&found, ShareKind::LockHolder, "low-20, preempted by mid-21");
    assert_eq!(held, 500.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::LockHolder, "low-20"), 748.0);
    assert!(
        found.sentence().contains("futex 0x7f10"),
        "{}",
        found.sentence()
    );
    let own = thread_activity(&stream.window);
    assert_eq!(own[0].task.pid, VICTIM);
    let low = own.iter().find(|thread| thread.task.pid == 20).unwrap();
    let ready: u64 = low
        .spans
        .iter()
        .filter(|span| span.state == ThreadState::Ready)
        .map(|span| (span.to - span.from).0)
        .sum();
    assert_eq!(ready, 500_000);
    // Threads that were not involved are removed; the others stay.
    let mut window = stream
        .on(3, 77)
        .switch(300.0, task("x", 77, 120), SLEEPS, task("y", 78, 120))
        .window;
    let before = window.events.len();
    keep_concerned(&mut window);
    assert_eq!(window.events.len(), before - 1);
    assert_eq!(find(&window).blame, found);
}

/// The thread that signals a condition variable first waits for the disk.
#[test]
fn the_wakers_are_followed_to_the_disk() {
    let journal = task("jbd2", 33, 120);
    let stream = job(1_000.0)
        .event(50.0, enter(FSYNC, [3, 0]))
        .switch(60.0, victim(), SLEEPS, idle())
        .on(0, 33)
        .switch(70.0, journal, SLEEPS, idle())
        .on(0, 0)
        .event(
            760.0,
            EventKind::IrqEntry {
                irq: 36,
                name: "virtio1".into(),
            },
        )
        .event(
            762.0,
            EventKind::BlockComplete {
                dev: 254 << 20,
                sector: 8,
            },
        )
        .waking_of(764.0, journal, 0)
        .event(766.0, EventKind::IrqExit { irq: 36, ret: 1 })
        .switch(770.0, idle(), RUNNABLE, journal)
        .waking_of(790.0, victim(), 1)
        .on(1, 0)
        .switch(800.0, idle(), RUNNABLE, victim())
        .event(802.0, exit(FSYNC));
    let found = explained(&stream);
    assert_eq!(
        share(&found, ShareKind::Device, "disk 254:0"),
        694.0,
        "{found:#?}"
    );
    let disk = found
        .shares
        .iter()
        .find(|share| share.kind() == ShareKind::Device)
        .unwrap();
    assert_eq!(disk.detail().as_deref(), Some("through jbd2-33"));
    assert_eq!(share(&found, ShareKind::Waiting, "jbd2-33"), 34.0);
}

/// The interrupt stopped a thread of another CPU, which is not part of the job.
#[test]
fn interrupt_on_another_cpu_stays_known() {
    let stream = job(1_000.0)
        .event(50.0, enter(FSYNC, [3, 0]))
        .switch(60.0, victim(), SLEEPS, idle())
        .on(0, 12)
        .irq(700.0, 710.0, 36, "virtio1")
        .event(
            705.0,
            EventKind::BlockComplete {
                dev: 254 << 20,
                sector: 8,
            },
        )
        .flags(TraceEvent::HARDIRQ)
        .waking_of(706.0, victim(), 1)
        .flags(0)
        .on(1, 0)
        .switch(800.0, idle(), RUNNABLE, victim())
        .event(802.0, exit(FSYNC));
    let found = explained(&stream);
    assert_eq!(share(&found, ShareKind::Device, "disk 254:0"), 646.0);
    let mut window = stream.window;
    keep_concerned(&mut window);
    assert_eq!(find(&window).blame, found);
}

/// The blocking kernel function is kept with the share; stacks of other threads are dropped.
#[test]
fn the_function_that_blocked_is_named() {
    let stack = |frames: [u64; 3]| EventKind::KernelStack {
        frames: frames.to_vec(),
    };
    let stream = job(1_000.0)
        .change(|window| {
            let names = [
                (0xb1, "__schedule"),
                (0xb2, "schedule"),
                (0xb3, "pipe_read"),
            ];
            window.symbols = names.map(|(at, name)| (at, name.to_owned())).into();
        })
        .event(50.0, enter(READ, [4, 0]))
        .switch(52.0, victim(), SLEEPS, make())
        // This event is written after the switch, on behalf of the thread that has just left the
        // CPU.
        .on(1, VICTIM)
        .event(52.5, stack([0xb1, 0xb2, 0xb3]))
        .on(1, 12)
        .waking_of(500.0, victim(), 1)
        .switch(510.0, make(), SLEEPS, victim())
        .event(511.0, exit(READ));
    let found = explained(&stream);
    let waited = found
        .shares
        .iter()
        .find(|share| share.kind() == ShareKind::Waiting);
    let detail = waited.unwrap().detail();
    let detail = detail.as_deref();
    assert_eq!(
        detail,
        Some("in read, descriptor 4, at pipe_read"),
        "{found:#?}"
    );
    assert_eq!(waited.unwrap().ns, Nanos::from_micros(448));
    let mut window = stream
        .on(1, 12)
        .event(520.0, stack([0xb1, 0xb2, 0xb3]))
        .window;
    keep_concerned(&mut window);
    let stacks = window
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::KernelStack { .. }));
    assert_eq!(stacks.count(), 1);
}

#[test]
fn own_sleep_and_slow_producer_are_causes() {
    let producer = task("producer", 40, 120);
    let stream = job(1_000.0)
        .event(50.0, enter(NANOSLEEP, [1, 0]))
        .switch(52.0, victim(), SLEEPS, idle())
        .timer(250.5)
        .switch(260.0, idle(), RUNNABLE, victim())
        .event(262.0, exit(NANOSLEEP))
        .event(300.0, enter(READ, [4, 0]))
        .switch(302.0, victim(), SLEEPS, idle())
        .on(0, 40)
        .switch(310.0, producer, SLEEPS, idle())
        .event(
            700.0,
            EventKind::VectorEntry {
                vector: punctual_model::Vector::LocalTimer,
            },
        )
        .waking_of(702.0, producer, 0)
        .event(
            704.0,
            EventKind::VectorExit {
                vector: punctual_model::Vector::LocalTimer,
            },
        )
        .switch(710.0, idle(), RUNNABLE, producer)
        .waking_of(900.0, victim(), 1)
        .on(1, 0)
        .switch(905.0, idle(), RUNNABLE, victim())
        .event(906.0, exit(READ));
    let found = explained(&stream);
    assert_eq!(
        share(&found, ShareKind::OwnSleep, "its own timer"),
        200.0,
        "{found:#?}"
    );
    let slept = share(
        &found,
        ShareKind::Waiting,
        "producer-40, which slept until its own timer expired",
    );
    assert_eq!(slept, 392.0);
    assert_eq!(share(&found, ShareKind::Waiting, "producer-40"), 596.0);
}

/// Two threads that wake each other do not loop, and a chain of nine is cut off after eight.
#[test]
fn a_chain_ends() {
    let mut stream = job(1_000.0)
        .event(20.0, enter(FUTEX, [0x10, CONDITION]))
        .switch(22.0, victim(), SLEEPS, idle());
    let thread = |n: u32| task("link", 200 + n, 120);
    for n in 0..12 {
        stream = stream
            .on(2, 200 + n)
            .switch(23.0 + f64::from(n), thread(n), SLEEPS, idle());
    }
    // Each thread is woken by the next one, and the victim is woken by the first.
    for n in (0..11).rev() {
        let at = 900.0 - f64::from(n);
        stream = stream.on(2, 201 + n).waking_of(at, thread(n), 2);
    }
    stream = stream.on(2, 200).waking_of(901.0, victim(), 1);
    stream.window.events.sort_by_key(|event| event.time);
    let found = explained(&stream);
    assert_eq!(found.culprit().matches("link-").count(), 8, "{found:#?}");

    let (a, b) = (thread(0), thread(1));
    let circle = job(1_000.0)
        .event(20.0, enter(FUTEX, [0x10, CONDITION]))
        .switch(22.0, victim(), SLEEPS, idle())
        .on(2, 200)
        .switch(30.0, a, SLEEPS, b)
        .switch(40.0, b, SLEEPS, idle())
        .on(2, 200)
        .waking_of(500.0, b, 2)
        .on(2, 201)
        .waking_of(600.0, a, 2)
        .on(2, 200)
        .waking_of(901.0, victim(), 1);
    explained(&circle);
}

/// A disk completes a request on the same CPU shortly before the thread's own timer expires.
#[test]
fn own_timer_after_disk_is_own_sleep() {
    let stream = job(1_000.0)
        .event(50.0, enter(NANOSLEEP, [1, 0]))
        .switch(52.0, victim(), SLEEPS, idle())
        .irq(100.0, 110.0, 36, "virtio1")
        .event(
            120.0,
            EventKind::IrqEntry {
                irq: 36,
                name: "virtio1".into(),
            },
        )
        .event(
            121.0,
            EventKind::BlockComplete {
                dev: 254 << 20,
                sector: 8,
            },
        )
        .event(124.0, EventKind::IrqExit { irq: 36, ret: 1 })
        .timer(250.5)
        .switch(260.0, idle(), RUNNABLE, victim())
        .event(262.0, exit(NANOSLEEP));
    let found = explained(&stream);
    assert_eq!(
        share(&found, ShareKind::OwnSleep, "its own timer"),
        200.0,
        "{found:#?}"
    );
    let device = |share: &punctual_model::Share| share.kind() == ShareKind::Device;
    assert!(!found.shares.iter().any(device), "{found:#?}");
}

#[test]
fn page_from_disk_is_page_fault() {
    let stream = job(1_000.0)
        .event(50.0, fault(0x7000))
        .switch(55.0, victim(), SLEEPS, idle())
        .event(
            500.0,
            EventKind::IrqEntry {
                irq: 36,
                name: "virtio1".into(),
            },
        )
        .event(
            501.0,
            EventKind::BlockComplete {
                dev: 254 << 20,
                sector: 8,
            },
        )
        .waking(503.0)
        .event(504.0, EventKind::IrqExit { irq: 36, ret: 1 })
        .switch(510.0, idle(), RUNNABLE, victim());
    let found = explained(&stream);
    assert_eq!(
        share(&found, ShareKind::PageFault, "page faults"),
        453.0,
        "{found:#?}"
    );
    let page = found
        .shares
        .iter()
        .find(|share| share.kind() == ShareKind::PageFault);
    let detail = page.unwrap().detail();
    let detail = detail.as_deref();
    assert_eq!(detail, Some("waiting for a page from disk 254:0"));
}

#[test]
fn a_stop_and_a_preemption() {
    let hog = task("hog", 61, 0);
    let stop = EventKind::SignalGenerate {
        sig: 19,
        pid: VICTIM,
        comm: punctual_model::Comm::new(b"victim"),
    };
    let stream = job(1_000.0)
        .on(0, 12)
        .event(95.0, stop)
        .on(1, VICTIM)
        .switch(100.0, victim(), STOPS, hog)
        .on(0, 12)
        .waking_of(400.0, victim(), 1)
        .on(1, 61)
        .switch(700.0, hog, SLEEPS, victim());
    let found = explained(&stream);
    assert_eq!(
        share(&found, ShareKind::Stopped, "signal 19"),
        300.0,
        "{found:#?}"
    );
    assert_eq!(share(&found, ShareKind::HigherPriority, "hog-61"), 300.0);
    // The result is flagged only if the hog is this program itself.
    assert!(!find(&stream.window).blame.by_observer);
    let ours = job(1_000.0)
        .switch(100.0, victim(), RUNNABLE, hog)
        .switch(900.0, hog, SLEEPS, victim())
        .change(|window| window.evidence.observer = vec![61]);
    assert!(find(&ours.window).blame.by_observer);
    let sentence = explained(&ours).sentence();
    assert!(
        sentence.ends_with("The recording of events by punctual caused this delay."),
        "{sentence}"
    );
}

/// Unrecorded activity is reported as unknown.
#[test]
fn user_space_claim_needs_system_calls() {
    let mut stream = job(1_000.0).missing("raw_syscalls:sys_enter");
    stream
        .window
        .events
        .retain(|event| !matches!(event.kind, EventKind::SysExit { .. }));
    let found = explained(&stream);
    let own = found
        .shares
        .iter()
        .find(|share| share.kind() == ShareKind::OwnWork)
        .unwrap();
    assert_eq!(own.who(), "the thread itself");
    assert!(own.detail().as_deref().unwrap().contains("not recorded"));
    let mut empty = job(1_000.0).window;
    empty.events.clear();
    let found = find(&empty).blame;
    assert_eq!(found.shares[0].kind(), ShareKind::Unexplained);
    assert_eq!(found.shares[0].ns, Nanos::from_millis(1));
}

/// The thread seems to compute for 900 µs, but the CPU was taken by a hypervisor for 600 of them.
#[test]
fn stolen_time_is_not_own_work() {
    let stream = job(1_000.0)
        .event(912.0, enter(READ, [5, 0]))
        .change(|window| {
            window.evidence.virtual_machine = Some(true);
            window.evidence.stolen = vec![exactly(&[(-700.0, 912.0, 600.0)])];
        });
    let found = explained(&stream);
    assert_eq!(share(&found, ShareKind::OwnWork, "user space"), 300.0);
    assert_eq!(
        share(
            &found,
            ShareKind::Undecided,
            "user space, or the hypervisor"
        ),
        600.0
    );
    let closer = stream.change(|window| {
        window.evidence.stolen = vec![exactly(&[(100.0, 750.0, 600.0)])];
    });
    let found = explained(&closer);
    assert_eq!(share(&found, ShareKind::Stolen, "the hypervisor"), 600.0);
}

/// Without system call events, a fault from long before the sleep is considered over.
#[test]
fn old_page_fault_does_not_explain_sleep() {
    let slept = |from: f64, kernel: bool| {
        let touch = if kernel {
            EventKind::PageFaultKernel {
                address: 0x1000,
                ip: 0x401000,
                error_code: 6,
            }
        } else {
            fault(0x1000)
        };
        job(1_000.0)
            .event(15.0, touch)
            .switch(from, victim(), 2, idle())
            .irq(900.0, 910.0, 30, "nvme0q1")
            .flags(TraceEvent::HARDIRQ)
            .waking(905.0)
            .flags(0)
            .switch(950.0, idle(), RUNNABLE, victim())
    };
    let page = |stream: Stream| share(&explained(&stream), ShareKind::PageFault, "") > 0.0;
    let unrecorded = |stream: Stream| stream.missing("raw_syscalls:sys_enter");
    assert!(page(slept(20.0, false)) && page(unrecorded(slept(20.0, false))));
    // The fault came from user space and there has been no system call since, so the thread is
    // still in the fault.
    assert!(page(slept(700.0, false)));
    assert!(!page(unrecorded(slept(700.0, false))));
    assert!(!page(slept(700.0, true)));
}

/// The CPU of the thread is idle, and no event shows whether the wake-up has already reached that
/// CPU.
#[test]
fn an_idle_cpu_alone_is_no_throttle() {
    let woken = |arrived: bool| {
        let stream = job(9_000.0)
            .event(20.0, enter(READ, [5, 0]))
            .switch(30.0, victim(), SLEEPS, make())
            .on(0, 33)
            .waking_of(100.0, victim(), 1)
            .on(1, 12);
        let stream = if arrived {
            stream.wakeup(110.0, 1)
        } else {
            stream
        };
        stream
            .switch(200.0, make(), SLEEPS, idle())
            .switch(8_900.0, idle(), RUNNABLE, victim())
            .change(|window| window.evidence.real_time_limit = Some(RealTimeLimit::Throttling))
    };
    let throttled = |arrived| share(&explained(&woken(arrived)), ShareKind::Throttled, "");
    assert_eq!(throttled(true), 8_700.0);
    assert_eq!(throttled(false), 0.0);
}
