//! Producer and consumer on CPUs that share a cache: each bound to one, handing values
//! over by a monitor, so that neither spins, allocates, or misses a cache of another
//! socket. `cache_pair [CPU CPU]`; which CPUs share one: `punctual place beside --cpu 0`.
#![allow(clippy::print_stdout)] // an example's output is what it is for

use punctual_rt::{Error, Monitor, Policy, ThreadBuilder, max_permitted_priority};

const VALUES: u64 = 1_000;

/// Runs it.
pub(crate) fn main() -> Result<(), Error> {
    let cpus: Vec<u32> = (std::env::args().skip(1))
        .filter_map(|text| text.parse().ok())
        .collect();
    let [from, to] = cpus[..] else {
        return run(0, 0);
    };
    run(from, to)
}

/// With a producer on one CPU and a consumer on another.
pub(crate) fn run(from: u32, to: u32) -> Result<(), Error> {
    // The value that is under way.
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
                // With the lock held: the waiter is moved to it, by its priority.
                guard.notify_one()?;
            }
            Ok::<(), Error>(())
        })?;
        producer.join()??;
        consumer.join()?
    })?;
    assert_eq!(sum, VALUES * (VALUES + 1) / 2);
    println!("{VALUES} values handed over from CPU {from} to CPU {to}");
    Ok(())
}
