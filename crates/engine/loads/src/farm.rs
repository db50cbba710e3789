//! `farm`: a medium load, as in OSADL's test racks.
//!
//! OSADL's QA farm measures its boards under a medium load: about 1 Mbit/s of network traffic, 1
//! MB/s to the file system and 1 MB/s of allocations. The farm's network traffic goes to another
//! machine. The traffic of this load stays on the loopback interface, and so causes no interrupts
//! from a network card.

use std::io;

use punctual_model::{Arguments, Typed, parameters};

use crate::disk::Files;
use crate::network::{MEGABIT, workers_of_pair};
use crate::space::{self, MIB};
use crate::workers::{Pace, Shift, Worker, Workers};
use crate::{LoadEntry, LoadError, LoadKind, scratch};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "farm",
    summary: "OSADL's medium load: light network traffic, file writing and memory allocation",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| {
        let counted = &[
            "bytes received",
            "bytes written and synced",
            "bytes allocated",
        ];
        Workers::load("farm", counted, plan, arguments)
    },
};

parameters! {
    NETWORK: u64 = rate("network", "Mbit/s sent over the loopback interface with TCP");
    FILE: u64 = rate("file", "MB/s written to $TMPDIR or /var/tmp, and synced");
    MEMORY: u64 = rate("memory", "MB/s allocated, touched and freed");
}

const fn rate(name: &'static str, help: &'static str) -> Typed<u64> {
    Typed::count(name, help, 1..=1000).or("1")
}

/// Amounts handled in one step, in bytes. At the default rates, each is the work of a tenth of a
/// second or less.
const MESSAGE: usize = 1_400;
const ALLOCATION: usize = 64 << 10;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let files = Files {
        folder: scratch::folder(),
        size: 16 * MIB,
        sync: MIB / 8,
        all: 16 * MIB,
    };
    files.fit(ENTRY.name)?;
    let file = FILE.value_in(arguments) * 1_000_000;
    let memory = MEMORY.value_in(arguments) * 1_000_000;
    let network = workers_of_pair(
        true,
        cpus,
        MESSAGE,
        Some(NETWORK.value_in(arguments) * MEGABIT),
    )
    .map_err(|source| LoadError::start(ENTRY.name, "cannot open a connection", source))?;
    let mut workers: Vec<Worker> = network.into();
    workers
        .push(Worker::new(cpus, move |shift| files.write(shift, Pace::new(Some(file)))).counts(1));
    workers.push(Worker::new(cpus, move |shift| allocate(shift, memory)).counts(2));
    Ok(workers)
}

fn allocate(shift: &Shift, rate: u64) -> io::Result<()> {
    let mut pace = Pace::new(Some(rate));
    while !shift.stopping() {
        let mut memory = space::untouched(ALLOCATION)?;
        (0..memory.pages()).for_each(|page| memory.touch(page));
        shift.did(ALLOCATION as u64);
        pace.after(shift, ALLOCATION as u64);
    }
    Ok(())
}
