//! Interrupt handlers, a storm of timers, non-maskable interrupts.

use insta::assert_snapshot;
use punctual_model::{EventKind, Nanos, TraceEvent, Vector};

use crate::stream::*;

#[test]
fn nothing_special() {
    let stream = Stream::late(9.0)
        .sleeping_beside(make())
        .on(1, 12)
        .timer(2.0)
        .switch(6.5, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn a_device_before_and_after_the_timer() {
    let stream = Stream::late(150.0)
        .sleeping_beside(make())
        .irq(-20.0, 60.0, 24, "eth0")
        .timer(60.5)
        .irq(64.0, 140.0, 24, "eth0")
        .switch(145.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn a_storm_of_timers() {
    let mut stream = Stream::late(230.0).sleeping_beside(make()).timer_entry(1.0);
    for n in 0..100 {
        let from = 2.0 + 2.0 * f64::from(n);
        let hrtimer = 0x1000 + n as u64;
        let function = 0xa3;
        stream = stream
            .event(
                from,
                EventKind::HrtimerExpireEntry {
                    hrtimer,
                    function,
                    now_ns: 0,
                },
            )
            .event(from + 1.9, EventKind::HrtimerExpireExit { hrtimer });
    }
    let stream = stream
        .waking(210.0)
        .wakeup(210.5, 1)
        .timer_exit(212.0)
        .switch(220.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn functions_called_for_another_cpu() {
    let vector = || Vector::CallFunction;
    let stream = Stream::late(100.0)
        .sleeping_beside(make())
        .timer(1.0)
        .event(5.0, EventKind::VectorEntry { vector: vector() })
        .event(85.0, EventKind::VectorExit { vector: vector() })
        .switch(90.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// A stream with a call from another CPU. CPU 0 sends the interrupts of `sent`.
fn called(sent: &[(f64, EventKind)], flags: u8) -> Stream {
    let mut stream = Stream::late(100.0).sleeping_beside(make()).timer(1.0);
    stream = stream.on(0, 77).flags(flags);
    stream = stream.switch(4.0, idle(), RUNNABLE, task("containerd-shim", 77, 120));
    for (us, kind) in sent {
        stream = stream.event(*us, kind.clone());
    }
    let vector = Vector::CallFunctionSingle;
    stream
        .flags(0)
        .on(1, 12)
        .event(
            6.0,
            EventKind::VectorEntry {
                vector: vector.clone(),
            },
        )
        .event(85.0, EventKind::VectorExit { vector })
        .switch(90.0, make(), RUNNABLE, victim())
}

fn ipi(cpus: &[u32], callback: u64) -> EventKind {
    EventKind::IpiSend {
        cpus: cpus.to_vec(),
        callsite: 0xa1,
        callback,
    }
}

#[test]
fn sender_of_a_call_is_named() {
    let stream = called(&[(5.0, ipi(&[0, 1], 0xa2))], 0);
    assert_snapshot!(stream.summary());
}

#[test]
fn handler_that_sends_is_no_thread() {
    let stream = called(&[(5.0, ipi(&[1], 0xa2))], TraceEvent::HARDIRQ);
    let summary = stream.summary();
    assert!(
        summary.contains("sent by an interrupt on CPU 0"),
        "{summary}"
    );
    assert!(!summary.contains("containerd"), "{summary}");
}

#[test]
fn other_ipis_do_not_name_a_sender() {
    for sent in [
        vec![],
        // The interrupt goes to another CPU, has no known target, only asks for rescheduling, or
        // comes later.
        vec![(5.0, ipi(&[2], 0xa2))],
        vec![(5.0, ipi(&[], 0xa2))],
        vec![(5.0, ipi(&[1], 0))],
        vec![(7.0, ipi(&[1], 0xa2))],
    ] {
        let summary = called(&sent, 0).summary();
        assert!(!summary.contains("sent by"), "{sent:?}: {summary}");
    }
}

#[test]
fn nmi_is_reported_at_its_end() {
    let stream = Stream::late(90.0)
        .sleeping_beside(make())
        .flags(TraceEvent::NMI)
        .event(
            72.0,
            EventKind::NmiHandler {
                handler: 0xa9,
                delta: Nanos::from_micros(70),
                handled: 1,
            },
        )
        .flags(0)
        .timer(73.0)
        .switch(80.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn it_came_after_the_thread_was_back() {
    let stream = Stream::late(140.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim())
        .irq(9.0, 135.0, 30, "nvme0q1");
    assert_snapshot!(stream.summary());
}
