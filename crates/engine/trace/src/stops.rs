//! Records when the runtime of a Go program stops all goroutines, using BPF programs at two of its
//! functions (`bpf/stops.bpf.c`). The kernel puts a breakpoint into the code of these processes, and
//! removes it when this recorder is dropped.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;

use aya::include_bytes_aligned;
use punctual_model::{Nanos, RuntimeStop, StopReason};

use crate::WatchError;
use crate::bpf::{Mapped, Programs, Reads, settled};

/// The object file with the BPF programs, built by `bpf/build.sh`.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../bpf/stops.bpf.o");

/// Values that are also defined in the BPF programs.
const STOPS: usize = 4096;

/// Number of words in `struct stop`.
const WORDS: usize = 4;

/// The places in the file of a Go program at which its runtime stops and starts all goroutines, in
/// bytes from the start of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopPlaces {
    /// The function that stops them.
    pub stop: u64,
    /// The function that lets them continue.
    pub start: u64,
    /// Whether the first argument of the function that stops them is the reason (since Go 1.21).
    pub has_reason: bool,
}

/// The running programs. Dropping this value stops them.
pub struct RuntimeStops {
    programs: Programs,
    stops: Mapped,
    /// Processes whose runtime gives no reasons.
    without_reason: BTreeSet<u32>,
}

impl std::fmt::Debug for RuntimeStops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeStops").finish_non_exhaustive()
    }
}

impl RuntimeStops {
    /// Loads the programs. No process is watched yet.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs.
    pub fn load() -> Result<Self, WatchError> {
        let programs = Programs::load(OBJECT, Reads::Registers, |_| {})?;
        let mapped = Mapped::new(programs.array("stops")?, STOPS * WORDS);
        Ok(Self {
            programs,
            stops: mapped.map_err(|error| WatchError::refused(&error))?,
            without_reason: BTreeSet::new(),
        })
    }

    /// Watches a process. `file` is its program.
    ///
    /// # Errors
    /// Returns an error if the kernel has no uprobes (CONFIG_UPROBE_EVENTS), or refuses to set them.
    pub fn watch(
        &mut self,
        process: NonZeroU32,
        file: &Path,
        places: StopPlaces,
    ) -> Result<(), WatchError> {
        // The beginning last: otherwise, a stop could seem to last until the end of the next one.
        self.programs
            .attach_to_function("starting", process, file, places.start)?;
        self.programs
            .attach_to_function("stopping", process, file, places.stop)?;
        if !places.has_reason {
            self.without_reason.insert(process.get());
        }
        Ok(())
    }

    /// Returns the stops of a process that overlap an interval, in ascending order of time. A stop
    /// that has not ended is missing.
    pub fn between(&self, process: u32, (from, to): (Nanos, Nanos)) -> Vec<RuntimeStop> {
        let mut found: Vec<RuntimeStop> = (0..STOPS)
            .filter_map(|place| self.stop(place))
            .filter(|(of, stop)| *of == process && stop.from < to && stop.to > from)
            .map(|(_, stop)| stop)
            .collect();
        found.sort_by_key(|stop| stop.from);
        found
    }

    /// Returns an entry of the array and its process; `None` if it is empty or still being written.
    fn stop(&self, place: usize) -> Option<(u32, RuntimeStop)> {
        let word = |at: usize| self.stops.word(place * WORDS + at);
        let read = || [word(0), word(1), word(2), word(3)];
        let [since, until, who, reason] = settled(|| word(1), read)?;
        let [a, b, c, d, e, f, g, h] = who.to_ne_bytes();
        let [process, by] = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
        let reason = (!self.without_reason.contains(&process)).then_some(reason);
        let stop = RuntimeStop {
            from: Nanos(since),
            to: Nanos(until),
            by,
            reason: reason.map_or(StopReason::Unknown, StopReason::of_go),
        };
        Some((process, stop))
    }
}
