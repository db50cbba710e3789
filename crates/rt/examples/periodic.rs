//! A 1 kHz loop for one second: as real-time as this process may be, with
//! what it lacks told on the first lines.
#![allow(clippy::print_stdout)] // an example's output is what it is for

use std::time::Duration;

use punctual_rt::{
    Clock, Error, LockMode, Nanosleep, PeriodicWait, Policy, ThreadBuilder, Wake,
    lock_process_memory, max_permitted_priority, thread_usage,
};

fn main() -> Result<(), Error> {
    let _locked = lock_process_memory(LockMode::OnFault)
        .inspect_err(|error| println!("memory not locked: {error}"))
        .ok();
    let policy = match max_permitted_priority() {
        0 => {
            println!("no right to real-time priorities: running as a normal thread");
            Policy::Other { nice: 0 }
        }
        highest => Policy::Fifo {
            priority: highest.min(80),
        },
    };
    let thread = ThreadBuilder::new("periodic")
        .policy(policy)
        .prefault_stack(256 << 10)
        .spawn(run)?;
    thread.join()?
}

fn run() -> Result<(), Error> {
    let period = Duration::from_millis(1);
    let clock = Clock::Monotonic;
    let mut wait = Nanosleep::new(clock)?;
    let mut deadline = clock.now() + period;
    let (mut worst, mut missed) = (Duration::ZERO, 0_u32);
    let before = thread_usage();
    for _ in 0..1_000 {
        while wait.wait_until(deadline)? == Wake::Interrupted {}
        // The work would be here.
        let late = clock.now().saturating_duration_since(deadline);
        worst = worst.max(late);
        deadline += period;
        // A period that is gone is counted, not caught up with.
        while deadline < clock.now() {
            deadline += period;
            missed += 1;
        }
    }
    let after = thread_usage();
    println!("worst latency {worst:?}, missed {missed} periods");
    println!(
        "page faults {}, CPU time {:?}",
        after.minor_faults - before.minor_faults,
        after.cpu_time - before.cpu_time
    );
    Ok(())
}
