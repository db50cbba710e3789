//! Page faults of the victim itself.

use insta::assert_snapshot;
use punctual_model::EventKind;

use crate::stream::*;

#[test]
fn many_small_ones() {
    let mut stream = Stream::late(90.0)
        .sleeping_beside(idle())
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .event(8.0, EventKind::SysExit { id: 230, ret: 0 });
    for n in 0..40 {
        stream = stream.event(10.0 + 2.0 * f64::from(n), fault(0x1000 * n as u64));
    }
    assert_snapshot!(stream.summary());
}

#[test]
fn one_that_waits_for_the_disk() {
    let stream = Stream::late(4_000.0)
        .sleeping_beside(idle())
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .event(10.0, fault(0x1000))
        .switch(15.0, victim(), 2, idle())
        .irq(3_970.0, 3_980.0, 30, "nvme0q1")
        .waking(3_981.0)
        .wakeup(3_982.0, 1)
        .switch(3_990.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// No event shows when a fault ends. A fault that happened long before the due time does not
/// account for any time after it.
#[test]
fn one_from_long_before_takes_nothing() {
    let stream = Stream::late(890.0)
        .switch(-900.0, idle(), SLEEPS, victim())
        .event(-400.0, fault(0x1000));
    let summary = stream.summary();
    assert!(
        !summary.contains("page faults of its own took"),
        "{summary}"
    );
    assert_snapshot!(summary);
}

/// The victim went to sleep until its timer expires, in a system call that is not recorded.
#[test]
fn fault_before_sleep_is_not_its_cause() {
    for (state, reason) in [(SLEEPS, "a timer's sleep"), (2, "long after the fault")] {
        let stream = Stream::late(900.0)
            .missing("raw_syscalls:sys_enter")
            .sleeping_beside(idle())
            .timer(1.0)
            .switch(6.0, idle(), RUNNABLE, victim())
            .event(8.0, fault(0x1000))
            .switch(200.0, victim(), state, idle())
            .timer(880.0)
            .switch(890.0, idle(), RUNNABLE, victim());
        let summary = stream.summary();
        assert!(
            !summary.contains("waiting for a page"),
            "{reason}: {summary}"
        );
    }
}
