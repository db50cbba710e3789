//! Stops of all goroutines by the runtime of Go programs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::num::NonZeroU32;

use punctual_host::Host;
use punctual_model::{Nanos, RuntimeStop};
use punctual_trace::{RuntimeStops, StopPlaces};

/// The functions of the runtime that stop and start all goroutines. Since Go 1.21, the first one gets
/// the reason as its argument; such a runtime has the third function (1.21) or the fourth (later).
const FUNCTIONS: [&str; 4] = [
    "runtime.stopTheWorldWithSema",
    "runtime.startTheWorldWithSema",
    "runtime.traceSTWStart",
    "runtime.traceLocker.STWStart",
];

/// Maximum number of processes that are watched.
const PROCESSES: usize = 64;

/// Records the stops of watched processes.
pub(super) struct GoStops {
    host: Host,
    /// Threads whose process is known.
    threads: BTreeSet<u32>,
    /// The processes of these threads.
    processes: BTreeSet<u32>,
    watched: BTreeSet<u32>,
    /// `None` as long as no process runs Go.
    stops: Option<RuntimeStops>,
}

impl GoStops {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            threads: BTreeSet::new(),
            processes: BTreeSet::new(),
            watched: BTreeSet::new(),
            stops: None,
        }
    }

    /// Watches the processes of these threads that run Go. Returns a warning for each process whose
    /// stops cannot be recorded.
    pub(super) fn watch(&mut self, tids: &[u32], reader: Option<&Vec<OsString>>) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut last = None;
        for tid in tids {
            if !self.threads.insert(*tid) {
                continue;
            }
            // Most threads belong to the same process as the one before.
            if last.is_some_and(|process| self.host.is_thread_of(*tid, process)) {
                continue;
            }
            let Some(process) = self.host.process_of(*tid) else {
                continue;
            };
            last = Some(process);
            if self.processes.insert(process)
                && self.host.is_built_by_go(process)
                && let Err(why) = self.add(process, reader)
            {
                warnings.push(format!(
                    "garbage collections and other stops of the Go process {process} are not \
                     recorded: {why}"
                ));
            }
        }
        warnings
    }

    fn add(&mut self, process: u32, reader: Option<&Vec<OsString>>) -> Result<(), String> {
        let mut code = self.host.code_of(process, reader.cloned());
        let [stop, start, in_1_21, later] = code.positions(FUNCTIONS);
        let (Some(stop), Some(start)) = (stop, start) else {
            return Err(match code.unread().first() {
                Some(why) => why.clone(),
                None => format!(
                    "its program has no function {} (it was stripped)",
                    FUNCTIONS[0]
                ),
            });
        };
        if self.watched.len() >= PROCESSES {
            return Err(format!("{PROCESSES} other processes are watched already"));
        }
        let number = NonZeroU32::new(process).ok_or("it has no number")?;
        let places = StopPlaces {
            stop,
            start,
            has_reason: in_1_21.or(later).is_some(),
        };
        let stops = match &mut self.stops {
            Some(stops) => stops,
            none => none.insert(RuntimeStops::load().map_err(|error| error.to_string())?),
        };
        let watched = stops.watch(number, &self.host.program_file(process), places);
        watched.map_err(|error| error.to_string())?;
        self.watched.insert(process);
        Ok(())
    }

    /// Returns the stops of a thread's process that overlap an interval.
    pub(super) fn of(&self, tid: u32, span: (Nanos, Nanos)) -> Vec<RuntimeStop> {
        let Some(stops) = &self.stops else {
            return Vec::new();
        };
        let process = self.host.process_of(tid);
        let known = process.filter(|process| self.watched.contains(process));
        known.map_or(Vec::new(), |process| stops.between(process, span))
    }
}
