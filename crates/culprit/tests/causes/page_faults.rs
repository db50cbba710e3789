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
