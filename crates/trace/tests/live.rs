//! The flight recorder on this machine's kernel, where it may be had.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::Path;
use std::time::Duration;

use punctual_model::{EventKind, Nanos};
use punctual_trace::{Flight, Level, Owner, Plan, Tracefs};

fn owner() -> Owner {
    // No process was started at that time: others' clearing takes it for left
    // behind, ours is by the number of this test.
    Owner {
        pid: std::process::id(),
        start: 1,
    }
}

fn arm(level: Level) -> Option<(Tracefs, Flight)> {
    let plan = Plan {
        level,
        bytes_per_cpu: 512 << 10,
    };
    let tracefs = Tracefs::find(Path::new("/"));
    match tracefs.and_then(|tracefs| Ok((tracefs.arm(plan, owner(), None)?, tracefs))) {
        Ok((flight, tracefs)) => Some((tracefs, flight)),
        Err(error) => {
            eprintln!("SKIP flight recorder: {error}");
            None
        }
    }
}

fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

#[test]
fn what_a_thread_did_is_told_on_the_probes_clock() {
    let Some((_tracefs, mut flight)) = arm(Level::Full) else {
        return;
    };
    flight.switch(true).unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    flight.watch(&[tid]).unwrap();
    let from = now();
    let sleeps = 20;
    for _ in 0..sleeps {
        std::thread::sleep(Duration::from_millis(1));
    }
    let to = now();
    flight.take_out().unwrap();
    let cut = flight.cut(tid, None, from, to);
    eprintln!(
        "{} events, {} lost, {:?}",
        cut.events.len(),
        cut.lost,
        flight.clock()
    );
    for event in cut.events.iter().take(20) {
        eprintln!("{event:?}");
    }
    for not in flight.not_recorded() {
        eprintln!("{not:?}");
    }
    assert_eq!(cut.lost, 0);
    let woken = cut.events.iter().filter(|event| match &event.kind {
        EventKind::Waking { task, .. } => task.pid == tid,
        _ => false,
    });
    assert!(woken.count() >= sleeps);
    let switched = |into: bool| {
        let fits = |event: &&punctual_model::TraceEvent| match &event.kind {
            EventKind::Switch { prev, next, .. } => tid == if into { next.pid } else { prev.pid },
            _ => false,
        };
        cut.events.iter().filter(fits).count()
    };
    assert!(switched(true) >= sleeps && switched(false) >= sleeps);
    assert!(cut.events.is_sorted_by_key(|event| event.time));
    assert!(flight.clock().error < Nanos::from_millis(1));
    flight.stop().unwrap();
}
