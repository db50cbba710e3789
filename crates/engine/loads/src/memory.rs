//! `memory`: copies memory, which uses memory bandwidth.

use punctual_model::{Arguments, Typed, parameters};

use crate::space::{self, MIB};
use crate::workers::{self, Pace, Shift, Worker, Workers, one_each};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "memory",
    summary: "copies memory to use memory bandwidth",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("memory", &["bytes copied"], plan, arguments),
};

parameters! {
    THREADS: Option<u64> = workers::THREADS;
    SIZE: Option<u64> = Typed::count(
        "size",
        "Total size of the buffers in MiB; default: four times the last-level cache, at least 32 per thread; at most an eighth of the available memory",
        1..=1 << 20,
    );
    RATE: Option<u64> = Typed::count(
        "rate",
        "Maximum copy rate of each thread in MB/s; default: unlimited",
        1..=1_000_000,
    );
}

/// Number of bytes copied between two checks of the stop flag.
const BLOCK: usize = 256 << 10;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let each_on = one_each(arguments, cpus);
    let all = match SIZE.value_in(arguments) {
        Some(mib) => space::asked(ENTRY.name, mib * MIB)?,
        None => space::usual((4 * space::last_level_cache()).max(32 * MIB * each_on.len() as u64)),
    };
    let rate = RATE.value_in(arguments).map(|mega| mega * 1_000_000);
    // One half is the source of the copies, the other half is the destination.
    let half = (all as usize / each_on.len() / 2).max(BLOCK);
    Ok(each_on
        .iter()
        .map(|cpu| {
            Worker::new(cpu, move |shift| {
                let from = space::buffer(half)?;
                let mut to = space::buffer(half)?;
                copy(shift, &from, &mut to, rate);
                Ok(())
            })
        })
        .collect())
}

fn copy(shift: &Shift, from: &[u8], to: &mut [u8], rate: Option<u64>) {
    let mut pace = Pace::new(rate);
    loop {
        for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
            if shift.stopping() {
                return;
            }
            to.copy_from_slice(from);
            std::hint::black_box(&mut *to);
            shift.did(to.len() as u64);
            pace.after(shift, to.len() as u64);
        }
    }
}
