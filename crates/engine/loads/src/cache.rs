//! `cache`: evicts all data from the last-level cache.

use punctual_model::{Arguments, Typed, parameters};

use crate::space::{self, MIB};
use crate::workers::{self, Shift, Worker, Workers, one_each};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "cache",
    summary: "writes to random cache lines of a buffer larger than the last-level cache",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("cache", &["cache lines written"], plan, arguments),
};

parameters! {
    THREADS: Option<u64> = workers::THREADS;
    SIZE: Option<u64> = Typed::count(
        "size",
        "Total size of the buffers in MiB; default: twice the last-level cache, 128 if unknown; at most an eighth of the available memory",
        1..=1 << 20,
    );
}

/// The most common cache-line size. If the lines of a machine are longer, each one is written more
/// often.
const LINE: usize = 64;

/// Number of lines written between two checks of the stop flag.
const BLOCK: usize = 4096;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let all = match SIZE.value_in(arguments) {
        Some(mib) => space::asked(ENTRY.name, mib * MIB)?,
        None => space::usual(2 * space::last_level_cache()),
    };
    let each_on = one_each(arguments, cpus);
    let lines = (all as usize / each_on.len() / LINE).max(1);
    Ok(each_on
        .iter()
        .map(|cpu| {
            Worker::new(cpu, move |shift| {
                let mut buffer = space::buffer(lines * LINE)?;
                thrash(shift, &mut buffer, lines);
                Ok(())
            })
        })
        .collect())
}

/// Writes in random order, to defeat the prefetcher. Each write invalidates the line in the caches
/// of other CPUs and forces a write-back.
fn thrash(shift: &Shift, buffer: &mut [u8], lines: usize) {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    while !shift.stopping() {
        for _ in 0..BLOCK {
            // Marsaglia's xorshift, 64 bits.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Multiplies the high 32 bits by the number of lines, then shifts the product right by
            // 32 bits. This distributes the lines evenly without a division.
            let line = ((random >> 32) * lines as u64) >> 32;
            let byte = &mut buffer[line as usize * LINE];
            *byte = byte.wrapping_add(1);
        }
        shift.did(BLOCK as u64);
    }
}
