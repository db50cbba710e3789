//! A deadline task: 1 ms of work in every 10 ms, with a count of runtime overruns.
#![allow(clippy::print_stdout)] // an example may print

use std::time::Duration;

use punctual_rt::{DeadlineThread, Error, spin_for};

/// Runs the example.
pub(crate) fn main() -> Result<(), Error> {
    let ms = Duration::from_millis;
    let task = match DeadlineThread::new(ms(2), ms(10), ms(10)) {
        Ok(task) => task,
        Err(error) => {
            // The error names the reason: a missing privilege, or no bandwidth left.
            println!("without a deadline: {error}");
            return Ok(());
        }
    };
    for _ in 0..20 {
        // The work.
        spin_for(ms(1));
        task.end_job();
    }
    println!("20 jobs, {} overruns", task.overruns());
    Ok(())
}
