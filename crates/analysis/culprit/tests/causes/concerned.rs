//! The events that are kept with a slow job.

use punctual_culprit::{find, keep_concerned};
use punctual_model::{EventKind, Nanos, TraceEvent};

use crate::jobs::{explained, job};
use crate::stream::*;

/// An interrupt of another thread on the job's CPU is part of its causes. Events of other CPUs are
/// not, except those about the job's thread, and those that only show a position in the kernel.
#[test]
fn events_of_the_jobs_cpu_are_kept() {
    let hog = task("hog", 61, 0);
    let (other, next) = (task("x", 77, 120), task("y", 78, 120));
    let position = EventKind::SwitchedOut {
        task: other,
        waited: Nanos::from_micros(3),
        frames: Vec::new(),
    };
    let stream = job(1_000.0)
        .switch(200.0, victim(), RUNNABLE, hog)
        .irq(300.0, 350.0, 24, "eth0")
        .switch(500.0, hog, SLEEPS, victim())
        .on(3, 77)
        .irq(400.0, 420.0, 25, "eth1")
        .event(440.0, position)
        .wakeup(445.0, 1)
        .switch(450.0, other, SLEEPS, next);
    let found = explained(&stream);
    let mut window = stream.window;
    keep_concerned(&mut window);
    assert_eq!(find(&window).blame, found);
    let elsewhere: Vec<&TraceEvent> = (window.events.iter())
        .filter(|event| event.cpu == 3)
        .collect();
    assert_eq!(elsewhere.len(), 2, "{elsewhere:#?}");
    assert!(matches!(elsewhere[0].kind, EventKind::SwitchedOut { .. }));
    assert!(elsewhere[1].kind.is_about(VICTIM));
}
