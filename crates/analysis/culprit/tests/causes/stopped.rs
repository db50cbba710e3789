//! A signal stopped the victim.

use insta::assert_snapshot;
use punctual_model::{Comm, EventKind, ShareKind};

use crate::jobs::{explained, job, share};
use crate::stream::*;

#[test]
fn by_another_process_and_continued_by_it() {
    let kill = task("kill", 90, 120);
    let stream = Stream::late(5_000.0)
        .sleeping_beside(idle())
        .on(0, 90)
        .switch(-250.0, task("swapper/0", 0, 120), RUNNABLE, kill)
        .event(
            -200.0,
            EventKind::SignalGenerate {
                sig: 19,
                pid: VICTIM,
                comm: Comm::new(b"victim"),
            },
        )
        .waking(-198.0)
        .on(1, 0)
        .wakeup(-195.0, 1)
        .switch(-190.0, idle(), RUNNABLE, victim())
        .switch(-180.0, victim(), STOPS, idle())
        .on(0, 90)
        .waking(4_980.0)
        .on(1, 0)
        .wakeup(4_983.0, 1)
        .switch(4_990.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn by_a_debugger() {
    let stream = Stream::late(700.0)
        .switch(-180.0, victim(), 8, idle())
        .on(0, 91)
        .waking(680.0)
        .on(1, 0)
        .wakeup(683.0, 1)
        .switch(690.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// The job is due at 0 µs, while the thread is stopped.
#[test]
fn stop_before_release_names_its_sender() {
    let stop = |at: f64, sig: u32, to: u32, sender: u32| {
        move |stream: Stream| {
            let comm = Comm::new(b"main");
            let signal = EventKind::SignalGenerate { sig, pid: to, comm };
            stream.on(0, sender).event(at, signal).on(1, VICTIM)
        }
    };
    let stopped = |signals: &[&dyn Fn(Stream) -> Stream]| {
        let mut stream = job(1_000.0);
        stream.window.events.clear();
        for signal in signals {
            stream = signal(stream);
        }
        let stream = stream
            .on(1, VICTIM)
            .switch(-300.0, victim(), STOPS, idle())
            .on(0, 90)
            .waking_of(400.0, victim(), 1)
            .on(1, 0)
            .switch(410.0, idle(), RUNNABLE, victim());
        explained(&stream)
    };
    let share = |found, who: &str| share(found, ShareKind::Stopped, who);
    let own = stopped(&[&stop(-310.0, 19, VICTIM, 90), &stop(-305.0, 19, 99, 91)]);
    assert_eq!(share(&own, "signal 19 from thread 90"), 400.0, "{own:#?}");
    // The signal is for the process, and the kernel sends it to another thread.
    let of_process = stopped(&[&stop(-310.0, 19, 99, 90)]);
    assert_eq!(share(&of_process, "signal 19 from thread 90"), 400.0);
    // Either of the two may be the cause. A later one is not.
    let of_either = stopped(&[&stop(-310.0, 19, 99, 90), &stop(-305.0, 19, 98, 91)]);
    assert_eq!(share(&of_either, "a signal or a debugger"), 400.0);
    let none = stopped(&[&stop(-200.0, 19, VICTIM, 90)]);
    assert_eq!(share(&none, "a signal or a debugger"), 400.0, "{none:#?}");
}
