//! `syscalls`: short system calls.

use std::fs::{File, OpenOptions};
use std::io;

use punctual_model::{Arguments, Typed, parameters};

use crate::workers::{self, Pace, Shift, Worker, Workers, one_each};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "syscalls",
    summary: "short system calls in a loop",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("syscalls", &["system calls"], plan, arguments),
};

parameters! {
    THREADS: Option<u64> = workers::THREADS;
    RATE: Option<u64> = Typed::count(
        "rate",
        "Maximum system calls per second of each thread; default: unlimited",
        1..=100_000_000,
    );
}

/// Number of iterations between two checks of the stop flag.
const BLOCK: u64 = 16;
/// See [`turn`].
const CALLS_A_TURN: u64 = 5;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let rate = RATE.value_in(arguments);
    Ok(one_each(arguments, cpus)
        .iter()
        .map(|cpu| Worker::new(cpu, move |shift| call(shift, rate)))
        .collect())
}

fn call(shift: &Shift, rate: Option<u64>) -> io::Result<()> {
    let zero = File::open("/dev/zero")?;
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    let mut pace = Pace::new(rate);
    while !shift.stopping() {
        for _ in 0..BLOCK {
            turn(&zero, &null)?;
        }
        shift.did(BLOCK * CALLS_A_TURN);
        pace.after(shift, BLOCK * CALLS_A_TURN);
    }
    Ok(())
}

/// Makes five system calls: one without effect, a read, a write, a stat and a yield.
fn turn(zero: &File, null: &File) -> io::Result<()> {
    let mut bytes = [0; 64];
    std::hint::black_box(rustix::process::getppid());
    retry(|| rustix::io::read(zero, &mut bytes).map(|_| ()))?;
    retry(|| rustix::io::write(null, &[0; 64]).map(|_| ()))?;
    std::hint::black_box(rustix::fs::fstat(zero)?);
    rustix::thread::sched_yield();
    Ok(())
}

/// Retries a call that a signal to the program interrupted.
fn retry(mut call: impl FnMut() -> rustix::io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}
