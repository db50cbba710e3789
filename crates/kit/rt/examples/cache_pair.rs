//! Producer and consumer on two CPUs that share a cache. Each is pinned to one CPU, and the values
//! pass through a monitor, so that neither thread spins, allocates, or has to fetch data from the
//! cache of another socket. Usage: `cache_pair [CPU CPU]`. To find CPUs that share a cache, run
//! `punctual machine place beside --cpu 0`.
#![allow(clippy::print_stdout)] // an example may print

use punctual_rt::{Error, Monitor, Policy, ThreadBuilder, max_permitted_priority};

const VALUES: u64 = 1_000;

/// Runs the example.
pub(crate) fn main() -> Result<(), Error> {
    let cpus: Vec<u32> = (std::env::args().skip(1))
        .filter_map(|text| text.parse().ok())
        .collect();
    let [from, to] = cpus[..] else {
        return run(0, 0);
    };
    run(from, to)
}

/// Runs a producer on one CPU and a consumer on another.
pub(crate) fn run(from: u32, to: u32) -> Result<(), Error> {
    // The value in transit.
    let monitor = Monitor::new(None)?;
    let policy = match max_permitted_priority() {
        0 => Policy::Other { nice: 0 },
        highest => Policy::Fifo {
            priority: highest.min(50),
        },
    };
    let builder = |name: &str, cpu| ThreadBuilder::new(name).cpus(&[cpu]).policy(policy);
    let sum = std::thread::scope(|scope| {
        let consumer = builder("consumer", to).spawn_scoped(scope, || {
            let mut sum = 0;
            for _ in 0..VALUES {
                let mut guard = monitor.lock()?;
                let value = loop {
                    match guard.take() {
                        Some(value) => break value,
                        None => guard.wait()?,
                    }
                };
                guard.notify_one()?;
                sum += value;
            }
            Ok::<u64, Error>(sum)
        })?;
        let producer = builder("producer", from).spawn_scoped(scope, || {
            for value in 1..=VALUES {
                let mut guard = monitor.lock()?;
                while guard.is_some() {
                    guard.wait()?;
                }
                *guard = Some(value);
                // Notify while holding the lock, so that the kernel moves the waiters to the lock
                // in priority order.
                guard.notify_one()?;
            }
            Ok::<(), Error>(())
        })?;
        producer.join()??;
        consumer.join()?
    })?;
    assert_eq!(sum, VALUES * (VALUES + 1) / 2);
    println!("{VALUES} values passed from CPU {from} to CPU {to}");
    Ok(())
}
