//! Page faults of threads: their beginning, and their end if it is recorded.

use std::collections::BTreeMap;

use punctual_model::{EventKind, Nanos, TraceEvent};

/// A page fault of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) from: Nanos,
    address: u64,
    /// Whether the thread was in user space.
    pub(crate) user: bool,
    /// Its end; `None` if no event shows it.
    pub(crate) end: Option<Nanos>,
}

/// Page faults of all threads, in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(BTreeMap<u32, Vec<Fault>>);

impl Faults {
    pub(crate) fn note(&mut self, event: &TraceEvent) {
        match event.kind {
            EventKind::PageFaultUser { address, .. } => self.begin(event, address, true),
            EventKind::PageFaultKernel { address, .. } => self.begin(event, address, false),
            // The address must match, because the beginning of another fault may be missing.
            EventKind::PageFaultEnd { address } => {
                let faults = self.0.get_mut(&event.pid);
                if let Some(last) = faults.and_then(|faults| faults.last_mut())
                    && last.address == address
                    && last.end.is_none()
                {
                    last.end = Some(event.time);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, event: &TraceEvent, address: u64, user: bool) {
        let fault = Fault {
            from: event.time,
            address,
            user,
            end: None,
        };
        self.0.entry(event.pid).or_default().push(fault);
    }

    /// Returns the last fault that began by a given time.
    pub(crate) fn last(&self, tid: u32, at: Nanos) -> Option<Fault> {
        let faults = self.0.get(&tid)?;
        let after = faults.partition_point(|fault| fault.from <= at);
        after.checked_sub(1).map(|before| faults[before])
    }

    /// Returns the beginnings and ends of faults between two times.
    pub(crate) fn edges(&self, tid: u32, from: Nanos, to: Nanos) -> Vec<Nanos> {
        let faults = self.0.get(&tid).map_or(&[][..], Vec::as_slice);
        // A fault that began earlier may end in this time.
        let first = faults.partition_point(|fault| fault.from <= from);
        let faults = &faults[first.saturating_sub(1)..];
        let edges = faults.iter().take_while(|fault| fault.from < to);
        let edges = edges.flat_map(|fault| [Some(fault.from), fault.end]);
        edges
            .flatten()
            .filter(|edge| *edge > from && *edge < to)
            .collect()
    }
}
