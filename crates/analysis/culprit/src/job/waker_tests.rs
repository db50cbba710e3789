//! Sources of wake-ups, by the state of the CPU.

use super::*;
use crate::testing::{event, flagged, idle, task, us};
use punctual_model::Task;

const WAKER: u32 = 50;
const DISK: u32 = 8;
/// include/linux/interrupt.h
const NET_TX: u32 = 2;
const NET_RX: u32 = 3;
const BLOCK: u32 = 4;

/// The thread `by` wakes another one at 1,000 µs.
fn waking_by(by: u32, flags: u8) -> TraceEvent {
    let woken = task("woken", 60, 120);
    flagged(flags, crate::testing::waking(1_000, by, woken))
}

fn context(change: impl FnOnce(&mut Context)) -> Context {
    let mut context = Context::default();
    change(&mut context);
    context
}

fn thread() -> Task {
    task("server", WAKER, 120)
}

const fn device(device: Device) -> By {
    By::Device(device)
}

#[test]
fn handler_wakes_for_its_device() {
    let irq = |name: &str| Handler::Irq {
        irq: 24,
        name: name.into(),
    };
    let device_irq = |name: &str| Device::Irq {
        irq: 24,
        name: name.into(),
    };
    let vector = |name: &str| device(Device::Vector(name.into()));
    let timer = Handler::Timer {
        hrtimer: 1,
        function: 2,
    };
    let cases = [
        (timer, By::Timer),
        (Handler::Vector(Vector::LocalTimer), By::Timer),
        (irq("arch_timer"), By::Timer),
        (irq("eth0"), device(device_irq("eth0"))),
        (Handler::Vector(Vector::Reschedule), vector("reschedule")),
        (
            Handler::Vector(Vector::CallFunction),
            vector("call of another CPU"),
        ),
        (
            Handler::Vector(Vector::CallFunctionSingle),
            vector("call of another CPU"),
        ),
        (Handler::Vector(Vector::IrqWork), vector("irq_work")),
        (Handler::Vector(Vector::ThermalApic), vector("interrupt")),
    ];
    for (handler, by) in cases {
        let context = context(|context| context.handlers = vec![handler.clone()]);
        let woken = waking_by(WAKER, TraceEvent::HARDIRQ);
        assert_eq!(waker(&woken, &context, None), by, "{handler:?}");
        // A request of a disk has just completed there.
        let disk = device(Device::Disk(DISK));
        assert_eq!(waker(&woken, &context, Some((us(990), DISK))), disk);
    }
}

#[test]
fn disk_wakes_soon_after_its_request_has_completed() {
    let in_handler = waking_by(WAKER, TraceEvent::HARDIRQ);
    let by = |completed: u64| {
        waker(
            &in_handler,
            &Context::default(),
            Some((us(completed), DISK)),
        )
    };
    assert_eq!(by(501), device(Device::Disk(DISK)));
    assert_eq!(by(500), device(Device::Interrupt));
}

/// A softirq is the source of a wake-up, unless a completed disk request explains it.
#[test]
fn softirq_wakes_for_its_work() {
    let server = || Some(thread());
    let ksoftirqd = || Some(task("ksoftirqd/1", WAKER, 120));
    let softirq = |vec| device(Device::Softirq(vec));
    // Current thread, softirq, whether it followed an interrupt, source, and whether a disk may be.
    let cases = [
        (server(), Some(1), false, By::Timer, false),
        (server(), Some(8), false, By::Timer, false),
        // The thread sends data through the loopback interface.
        (server(), Some(NET_RX), false, By::Thread(WAKER), false),
        (server(), Some(NET_TX), false, By::Thread(WAKER), false),
        (server(), Some(NET_RX), true, softirq(NET_RX), true),
        (Some(idle()), Some(NET_RX), false, softirq(NET_RX), true),
        (ksoftirqd(), Some(NET_RX), false, softirq(NET_RX), true),
        (None, Some(NET_RX), false, softirq(NET_RX), true),
        (server(), Some(BLOCK), false, softirq(BLOCK), true),
        // The beginning of the softirq was not recorded.
        (server(), None, false, By::Unrecorded, true),
    ];
    for (current, softirq, of_handler, by, may_be_disk) in cases {
        let context = context(|context| {
            context.current = current;
            context.softirq = softirq;
            context.softirq_of_handler = of_handler;
        });
        let woken = waking_by(WAKER, TraceEvent::SOFTIRQ);
        let name = format!("{current:?} {softirq:?} {of_handler}");
        let disk = if may_be_disk {
            device(Device::Disk(DISK))
        } else {
            by.clone()
        };
        assert_eq!(
            waker(&woken, &context, Some((us(990), DISK))),
            disk,
            "{name}"
        );
        assert_eq!(waker(&woken, &context, None), by, "{name}");
    }
}

#[test]
fn flags_tell_threads_from_handlers() {
    let nothing = Context::default();
    let by = |pid, flags| waker(&waking_by(pid, flags), &nothing, None);
    assert_eq!(by(WAKER, 0), By::Thread(WAKER));
    assert_eq!(by(WAKER, TraceEvent::HARDIRQ), device(Device::Interrupt));
    assert_eq!(by(WAKER, TraceEvent::NMI), device(Device::Interrupt));
    assert_eq!(by(WAKER, TraceEvent::SOFTIRQ), By::Unrecorded);
    // The idle thread wakes no one by itself.
    assert_eq!(by(0, 0), device(Device::Interrupt));
    // A preempted softirq is not that of the thread that runs now.
    let preempted = context(|context| context.softirq = Some(BLOCK));
    assert_eq!(
        waker(&waking_by(WAKER, 0), &preempted, None),
        By::Thread(WAKER)
    );
    // A thread does not wake for the disk, but the idle CPU may.
    let completed = Some((us(990), DISK));
    assert_eq!(
        waker(&waking_by(WAKER, 0), &nothing, completed),
        By::Thread(WAKER)
    );
    assert_eq!(
        waker(&waking_by(0, 0), &nothing, completed),
        device(Device::Disk(DISK))
    );
}

/// The light stage records the stacks of wake-ups by interrupts.
#[test]
fn stacks_show_the_interrupt_in_the_light_stage() {
    let known = |at, woken, by| InterruptWakeup {
        at: us(at),
        woken,
        by,
    };
    let by =
        |flags, known: &[InterruptWakeup]| waker_in_light_stage(&waking_by(WAKER, flags), known);
    let net = || Device::Irq {
        irq: 24,
        name: "eth0".into(),
    };
    let sources = [
        (InterruptSource::Timer, By::Timer),
        (InterruptSource::Device(net()), device(net())),
        (InterruptSource::Peer, By::Thread(WAKER)),
    ];
    for (source, expected) in sources {
        let one = known(1_000, 60, source);
        assert_eq!(by(TraceEvent::HARDIRQ, &[one]), expected);
    }
    // Stacks of another time or thread do not count.
    let others = [
        known(999, 60, InterruptSource::Timer),
        known(1_000, 61, InterruptSource::Timer),
    ];
    assert_eq!(by(TraceEvent::HARDIRQ, &others), By::Unrecorded);
    assert_eq!(by(TraceEvent::SOFTIRQ, &others), By::Unrecorded);
    assert_eq!(by(0, &others), By::Thread(WAKER));
    assert_eq!(waker_in_light_stage(&waking_by(0, 0), &[]), By::Unrecorded);
    let other = event(1_000, WAKER, EventKind::SoftirqRaise { vec: 3 });
    assert_eq!(waker_in_light_stage(&other, &[]), By::Unrecorded);
}

#[test]
fn completion_names_its_disk_and_time() {
    let complete = EventKind::BlockComplete {
        dev: DISK,
        sector: 77,
    };
    assert_eq!(completed(&event(30, 0, complete)), Some((us(30), DISK)));
    assert_eq!(completed(&waking_by(WAKER, 0)), None);
}
