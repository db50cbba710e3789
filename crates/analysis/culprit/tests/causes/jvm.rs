//! Stops of threads by a Java virtual machine.

use punctual_model::ShareKind;

use crate::jobs::{enter, exit, explained, job, share};
use crate::stream::*;

const FUTEX: i64 = 202;

/// A Java thread is stopped for a garbage collection. The name of a thread alone proves nothing.
#[test]
fn wait_for_jvm_names_garbage_collection() {
    let vm = task("VM Thread", 40, 120);
    let collector = task("GC Thread#0", 41, 120);
    let stopped = |collected_us: f64| {
        job(1_000.0)
            .event(50.0, enter(FUTEX, [0x7f10, 128]))
            .switch(60.0, victim(), SLEEPS, idle())
            .on(0, 40)
            .switch(100.0, vm, SLEEPS, collector)
            .on(0, 41)
            .waking_of(collected_us, vm, 0)
            .switch(collected_us + 10.0, collector, SLEEPS, vm)
            .on(0, 40)
            .waking_of(900.0, victim(), 1)
            .on(1, 0)
            .switch(910.0, idle(), RUNNABLE, victim())
            .event(912.0, exit(FUTEX))
    };
    let found = explained(&stopped(600.0));
    assert_eq!(share(&found, ShareKind::LockHolder, "VM Thread-40"), 840.0);
    let of_process = |jvm: &[u32]| {
        let jvm = jvm.to_vec();
        explained(&stopped(600.0).change(|window| window.evidence.jvm = jvm))
    };
    let found = of_process(&[40, 41]);
    let name = "a garbage collection of VM Thread-40";
    assert_eq!(share(&found, ShareKind::Waiting, name), 840.0, "{found:#?}");
    let waited = format!("{name}, which waited for GC Thread#0-41");
    assert_eq!(share(&found, ShareKind::Waiting, &waited), 500.0);
    assert!(found.sentence().contains(name), "{}", found.sentence());
    // The collector is a thread of another process.
    let found = of_process(&[40]);
    let name = "a JVM operation of VM Thread-40";
    assert_eq!(share(&found, ShareKind::Waiting, name), 840.0, "{found:#?}");
    // Threads of the virtual machine wait for each other all the time.
    let found = of_process(&[40, 41, VICTIM]);
    assert_eq!(share(&found, ShareKind::LockHolder, "VM Thread-40"), 840.0);
}
