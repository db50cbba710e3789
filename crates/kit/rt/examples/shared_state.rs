//! State shared by a control thread and an ordinary thread. The lock has priority inheritance: its
//! owner gets the priority of a waiting thread, so that no thread of medium priority can delay the
//! control thread.
#![allow(clippy::print_stdout)] // an example may print

use std::time::Duration;

use punctual_rt::{
    Clock, Error, Monitor, OverrunPolicy, Periodic, Policy, ThreadBuilder, max_permitted_priority,
};

#[derive(Default)]
struct State {
    setpoint: f64,
    measured: f64,
    jobs: u32,
}

const JOBS: u32 = 200;

/// Runs the example.
pub(crate) fn main() -> Result<(), Error> {
    let state = Monitor::new(State::default())?;
    let policy = match max_permitted_priority() {
        0 => Policy::Other { nice: 0 },
        highest => Policy::Fifo {
            priority: highest.min(60),
        },
    };
    let measured = std::thread::scope(|scope| {
        let builder = ThreadBuilder::new("control").policy(policy);
        let control = builder.spawn_scoped(scope, || {
            let mut periodic = Periodic::new(Duration::from_millis(1), OverrunPolicy::Skip)?;
            let mut jobs = 0;
            while jobs < JOBS {
                let Some(_job) = periodic.wait()? else {
                    continue;
                };
                jobs += 1;
                let mut state = state.lock()?;
                state.measured += 0.1 * (state.setpoint - state.measured);
                state.jobs = jobs;
                state.notify_all()?;
            }
            Ok::<(), Error>(())
        })?;
        let mut guard = state.lock()?;
        guard.setpoint = 1.0;
        while guard.jobs < JOBS {
            guard.wait_until(Clock::Monotonic.now() + Duration::from_secs(1))?;
        }
        let measured = guard.measured;
        drop(guard);
        control.join()??;
        Ok::<f64, Error>(measured)
    })?;
    println!("measured {measured:.3} of 1");
    Ok(())
}
