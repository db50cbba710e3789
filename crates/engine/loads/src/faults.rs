//! `faults`: continuous page faults.

use std::io;

use punctual_model::{Arguments, Typed, parameters};

use crate::space::{self, MIB};
use crate::workers::{self, Pace, Shift, Worker, Workers, one_each};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "faults",
    summary: "maps memory, touches each page once and unmaps it",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("faults", &["page faults"], plan, arguments),
};

parameters! {
    THREADS: Option<u64> = workers::THREADS;
    SIZE: u64 = Typed::count(
        "size",
        "Size of each mapping in MiB; all mappings: at most an eighth of the available memory",
        1..=1 << 20,
    ).or("4");
    RATE: Option<u64> = Typed::count(
        "rate",
        "Maximum page faults per second of each thread; default: unlimited",
        1..=100_000_000,
    );
}

/// Number of pages touched between two checks of the stop flag.
const BLOCK: usize = 64;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let each_on = one_each(arguments, cpus);
    let bytes = SIZE.value_in(arguments) * MIB;
    space::asked(ENTRY.name, bytes.saturating_mul(each_on.len() as u64))?;
    let rate = RATE.value_in(arguments);
    Ok(each_on
        .iter()
        .map(|cpu| Worker::new(cpu, move |shift| fault(shift, bytes as usize, rate)))
        .collect())
}

/// Counts each touched page as one page fault. The kernel maps several pages in one fault only with
/// large folios, which are disabled for this memory.
fn fault(shift: &Shift, bytes: usize, rate: Option<u64>) -> io::Result<()> {
    let mut pace = Pace::new(rate);
    while !shift.stopping() {
        let mut memory = space::untouched(bytes)?;
        let mut next = 0;
        while next < memory.pages() && !shift.stopping() {
            let block = next..memory.pages().min(next + BLOCK);
            let touched = block.len() as u64;
            next = block.end;
            block.for_each(|page| memory.touch(page));
            shift.did(touched);
            pace.after(shift, touched);
        }
    }
    Ok(())
}
