//! The threads whose jobs the programs time, with their release waits.

use std::collections::BTreeMap;

use aya::maps::{HashMap, MapData, MapError};

use crate::flight::ReleaseCall;
use crate::{WatchError, bpf};

/// Number of release waits in `struct job`.
const WAITS: usize = 4;

/// The words of `struct job`: arguments, ignored bits, two calls in each word, and the job in
/// progress.
type Value = [u64; 2 * WAITS + WAITS / 2 + 2];

/// ENOENT, if the kernel has removed an entry, because its thread ended.
const GONE: i32 = libc::ENOENT;

fn value(waits: &[ReleaseCall]) -> Value {
    let mut value = [0; _];
    for place in 0..WAITS {
        let wait = waits.get(place);
        let call = wait.and_then(|wait| u32::try_from(wait.id).ok());
        value[place] = wait.map_or(0, |wait| wait.argument);
        value[WAITS + place] = wait.map_or(0, |wait| wait.ignored);
        let half = u64::from(call.unwrap_or(u32::MAX));
        let shift = if (place % 2 == 0) == cfg!(target_endian = "little") {
            0
        } else {
            32
        };
        value[2 * WAITS + place / 2] |= half << shift;
    }
    value
}

/// Replaces the threads whose jobs are timed. Returns the number of threads that do not fit.
pub(super) fn replace(
    programs: &mut bpf::Programs,
    before: &BTreeMap<u32, Vec<ReleaseCall>>,
    now: &BTreeMap<u32, Vec<ReleaseCall>>,
) -> Result<usize, WatchError> {
    let mut jobs: HashMap<&mut MapData, u32, Value> = programs.map_mut("jobs")?.try_into()?;
    for tid in before.keys().filter(|tid| !now.contains_key(tid)) {
        match jobs.remove(tid) {
            Err(error) if errno(&error) != Some(GONE) => return Err(error.into()),
            _ => {}
        }
    }
    let mut excess = 0;
    for (tid, waits) in now {
        let is_new = before.get(tid) != Some(waits);
        match is_new.then(|| jobs.insert(tid, value(waits), 0)) {
            Some(Err(error)) if errno(&error) == Some(libc::E2BIG) => excess += 1,
            Some(Err(error)) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(excess)
}

fn errno(error: &MapError) -> Option<i32> {
    match error {
        MapError::KeyNotFound | MapError::ElementNotFound => Some(GONE),
        MapError::SyscallError(error) => error.io_error.raw_os_error(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_fill_the_places_of_the_kernel() {
        let wait = |id, argument| ReleaseCall {
            id,
            argument,
            ignored: 7,
        };
        let value = value(&[wait(232, 5), wait(202, 0x7f00), wait(35, 1)]);
        assert_eq!(value[..4], [5, 0x7f00, 1, 0]);
        assert_eq!(value[4..8], [7, 7, 7, 0]);
        let calls: Vec<u32> = (value[8..10].iter())
            .flat_map(|word| {
                word.to_ne_bytes()
                    .chunks(4)
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
            })
            .map(|half| u32::from_ne_bytes(half.try_into().unwrap()))
            .collect();
        assert_eq!(calls, [232, 202, 35, u32::MAX]);
        assert_eq!(value[10..], [0, 0]);
    }
}
