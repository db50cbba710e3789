//! A 1 kHz loop for one second. Uses the real-time settings that this process is allowed to use,
//! and first prints which ones are missing.
#![allow(clippy::print_stdout)] // an example may print

use std::time::Duration;

use punctual_rt::{
    Error, LockMode, OverrunPolicy, Periodic, Policy, ThreadBuilder, lock_process_memory,
    max_permitted_priority, thread_usage,
};

/// Runs the example.
pub(crate) fn main() -> Result<(), Error> {
    let _locked = lock_process_memory(LockMode::OnFault)
        .inspect_err(|error| println!("memory not locked: {error}"))
        .ok();
    let policy = match max_permitted_priority() {
        0 => {
            println!("real-time priorities are not permitted: running as a normal thread");
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
    let mut periodic = Periodic::new(Duration::from_millis(1), OverrunPolicy::Skip)?;
    let mut largest = 0;
    let before = thread_usage();
    while periodic.account().run < 1_000 {
        // `None`: a signal handler ran. A real program would check its stop flag here.
        let Some(job) = periodic.wait()? else {
            continue;
        };
        // The work goes here.
        largest = largest.max(job.latency_ns());
    }
    let after = thread_usage();
    let account = periodic.account();
    println!(
        "maximum latency {:?}, missed {} of {} periods",
        Duration::from_nanos(largest),
        account.missed,
        account.due
    );
    println!(
        "page faults {}, CPU time {:?}",
        after.minor_faults - before.minor_faults,
        after.cpu_time - before.cpu_time
    );
    Ok(())
}
