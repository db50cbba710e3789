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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, us};

    const TID: u32 = 100;

    fn fault(at: u64, address: u64) -> TraceEvent {
        let kind = EventKind::PageFaultUser {
            address,
            ip: 0,
            error_code: 6,
        };
        event(at, TID, kind)
    }

    fn in_kernel(at: u64, address: u64) -> TraceEvent {
        let kind = EventKind::PageFaultKernel {
            address,
            ip: 0,
            error_code: 6,
        };
        event(at, TID, kind)
    }

    fn end(at: u64, address: u64) -> TraceEvent {
        event(at, TID, EventKind::PageFaultEnd { address })
    }

    fn faults(events: &[TraceEvent]) -> Faults {
        let mut faults = Faults::default();
        events.iter().for_each(|event| faults.note(event));
        faults
    }

    #[test]
    fn last_fault_is_the_one_that_began_by_then() {
        let found = faults(&[fault(100, 1), in_kernel(200, 2)]);
        let last = |at| {
            found
                .last(TID, us(at))
                .map(|fault| (fault.from, fault.user))
        };
        assert_eq!((last(99), last(100)), (None, Some((us(100), true))));
        assert_eq!(
            (last(199), last(200)),
            (Some((us(100), true)), Some((us(200), false)))
        );
        assert_eq!(found.last(9, us(500)), None);
    }

    #[test]
    fn end_belongs_to_the_last_fault_at_its_address() {
        let ends = |events: &[TraceEvent]| {
            let found = faults(events);
            found.last(TID, us(999)).and_then(|fault| fault.end)
        };
        assert_eq!(ends(&[fault(100, 1), end(150, 1)]), Some(us(150)));
        assert_eq!(ends(&[fault(100, 1), end(150, 2)]), None);
        assert_eq!(
            ends(&[fault(100, 1), end(150, 1), end(160, 1)]),
            Some(us(150))
        );
        assert_eq!(ends(&[fault(100, 1), fault(120, 1)]), None);
        assert_eq!(ends(&[end(50, 1)]), None);
    }

    #[test]
    fn edges_are_within_a_time() {
        let found = faults(&[
            fault(100, 1),
            end(150, 1),
            fault(200, 2),
            fault(300, 3),
            end(350, 3),
        ]);
        let edges = |from, to| -> Vec<u64> {
            let edges = found.edges(TID, us(from), us(to)).into_iter();
            edges.map(|edge| edge.0 / 1_000).collect()
        };
        assert_eq!(edges(0, 999), [100, 150, 200, 300, 350]);
        assert_eq!(edges(100, 350), [150, 200, 300]);
        assert_eq!(edges(120, 200), [150]);
        assert_eq!(edges(150, 201), [200]);
        assert_eq!(edges(310, 999), [350]);
        assert!(edges(350, 999).is_empty());
        assert_eq!(found.edges(9, us(0), us(999)), []);
    }
}
