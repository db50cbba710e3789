//! Memory limits of loads.

use std::io;

use punctual_host::Host;
use punctual_rt::{Mapping, MappingRequest};

use crate::LoadError;

/// One MiB.
pub(crate) const MIB: u64 = 1 << 20;

/// Assumed size of the last-level cache if the kernel does not report it.
const USUAL_CACHE: u64 = 64 * MIB;

/// Returns the size of the last-level cache in bytes, or an estimate that is rarely too small.
pub(crate) fn last_level_cache() -> u64 {
    Host::live().last_level_cache().unwrap_or(USUAL_CACHE)
}

/// Returns the memory limit of one load: an eighth of the available memory, so that several loads
/// at once do not exhaust it.
fn limit() -> u64 {
    Host::live().memory_available().unwrap_or(512 * MIB) / 8
}

/// Returns `asked`, the total size in bytes that the user requested, or an error if it exceeds the
/// memory limit.
pub(crate) fn asked(load: &'static str, asked: u64) -> Result<u64, LoadError> {
    let limit = limit();
    if asked > limit {
        return Err(LoadError::Unfit {
            load,
            why: format!(
                "{} MiB is more than an eighth of the available memory, {} MiB: choose a smaller size or fewer threads",
                asked.div_ceil(MIB),
                limit / MIB
            ),
        });
    }
    Ok(asked)
}

/// Returns `usual`, the default total size in bytes, or the memory limit if that is smaller.
pub(crate) fn usual(usual: u64) -> u64 {
    usual.min(limit())
}

/// Returns a populated buffer: each page is filled with nonzero bytes, because the kernel may map
/// one shared page for zeroes.
pub(crate) fn buffer(bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer
        .try_reserve_exact(bytes)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    buffer.resize(bytes, 0x5a);
    Ok(buffer)
}

/// Maps at least `bytes` bytes without touching them, so that the first access to each page faults.
pub(crate) fn untouched(bytes: usize) -> io::Result<Mapping> {
    Mapping::new(&MappingRequest::untouched(bytes)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_load_gets_more_than_its_part() {
        assert!(usual(u64::MAX) < u64::MAX / 8);
        let error = asked("cache", u64::MAX).unwrap_err().to_string();
        assert!(error.contains("an eighth"), "{error}");
        assert_eq!(asked("cache", 1).unwrap(), 1);
    }

    #[test]
    fn each_untouched_page_faults_once() {
        std::thread::spawn(|| {
            let mut memory = untouched(1 << 20).unwrap();
            let pages = memory.pages();
            let faults = || punctual_rt::thread_usage().minor_faults;
            let before = faults();
            (0..pages).for_each(|page| memory.touch(page));
            let first = faults();
            (0..pages).for_each(|page| memory.touch(page));
            assert!(first - before >= pages as u64, "{}", first - before);
            assert_eq!(faults(), first);
        })
        .join()
        .unwrap();
        assert!(untouched(0).is_err());
    }

    #[test]
    fn too_large_a_buffer_is_an_error() {
        assert!(buffer(isize::MAX as usize).is_err());
        assert_eq!(buffer(3).unwrap(), [0x5a; 3]);
    }
}
