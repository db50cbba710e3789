//! A thread of lower rank keeps the CPU, or delays its interrupts.

use insta::assert_snapshot;
use punctual_model::{EventKind, TraceEvent};

use crate::stream::*;

#[test]
fn in_a_system_call() {
    let stream = Stream::late(200.0)
        .sleeping_beside(make())
        .event(
            -40.0,
            EventKind::SysEnter {
                id: 1,
                args: [0; 2],
            },
        )
        .timer(2.0)
        .switch(190.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn in_a_page_fault() {
    let fault = EventKind::PageFaultUser {
        address: 0x7000,
        ip: 0x40,
        error_code: 6,
    };
    let stream = Stream::late(200.0)
        .sleeping_beside(make())
        .event(-3.0, fault)
        .timer(2.0)
        .switch(190.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn in_a_worker_with_preemption_disabled() {
    let worker = task("kworker/1:2", 44, 120);
    let stream = Stream::late(90.0)
        .sleeping_beside(worker)
        .change(|window| {
            window.symbols.insert(0xb1, "vmstat_update".to_owned());
        })
        .event(
            -5.0,
            EventKind::WorkqueueStart {
                work: 0x99,
                function: 0xb1,
            },
        )
        .timer(2.0)
        .switch(80.0, worker, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn spinning_for_a_kernel_lock() {
    let spins = |flags| {
        let stream = Stream::late(200.0)
            .sleeping_beside(make())
            .change(|window| {
                window.missing_events.clear();
                window.symbols.insert(0xd1, "tasklist_lock".to_owned());
            })
            .event(
                -40.0,
                EventKind::SysEnter {
                    id: 1,
                    args: [0; 2],
                },
            )
            .event(
                -20.0,
                EventKind::ContentionBegin {
                    lock_addr: 0xd1,
                    flags,
                },
            )
            .timer(2.0)
            .switch(190.0, make(), RUNNABLE, victim());
        stream.summary()
    };
    let found = spins(1);
    assert!(
        found.contains("spinning for the kernel lock tasklist_lock"),
        "{found}"
    );
    // A thread that waits for a mutex does not spin all the time.
    assert!(!spins(32).contains("tasklist_lock"));
}

#[test]
fn interrupts_disabled_with_the_place() {
    let stream = Stream::late(300.0)
        .sleeping_beside(make())
        .change(|window| {
            window.missing_events.clear();
            window
                .symbols
                .insert(0xc1, "_raw_spin_lock_irqsave".to_owned());
        })
        .event(
            -15.0,
            EventKind::IrqDisable {
                caller: 0xc1,
                parent: 0xc2,
            },
        )
        .event(
            280.0,
            EventKind::IrqEnable {
                caller: 0xc1,
                parent: 0xc2,
            },
        )
        .timer(280.5)
        .switch(290.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// The flag is set in an event of the thread, and the current system call is named as the location.
#[test]
fn interrupts_disabled_by_a_flag() {
    let stream = Stream::late(300.0)
        .sleeping_beside(make())
        .event(
            -50.0,
            EventKind::SysEnter {
                id: 1,
                args: [0; 2],
            },
        )
        .flags(TraceEvent::IRQS_OFF)
        .waking_of(-15.0, task("other", 77, 120), 0)
        .flags(0)
        .timer(280.5)
        .switch(290.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}
