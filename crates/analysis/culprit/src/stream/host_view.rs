//! Activity of the host of a virtual machine.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{HostSpan, Nanos, Window};

/// Share of the checked spans, in percent, above which contradictions mean that the clocks of guest
/// and host do not match. Events that the host lost without a trace may cause a few of them.
const CONTRADICTED_PERCENT: u64 = 1;

/// Activity of a host, as far as its trace shows it.
#[derive(Debug)]
pub struct HostView {
    /// The spans, by virtual CPU, in order of time.
    pub(super) spans: BTreeMap<u32, Vec<HostSpan>>,
    /// Largest distance of an event of the guest to the time in which its CPU ran.
    pub(super) error: Nanos,
    /// Number of spans without guest mode that are long enough to be checked, and the number of
    /// those with events of the guest.
    pub(super) contradicted: (u64, u64),
    /// Time of the first and the last event of the host.
    pub span: Option<(Nanos, Nanos)>,
}

impl HostView {
    /// Returns the number of spans without guest mode that contain events of the guest, and the
    /// number of all such spans that are long enough to be checked, if the times of the two traces
    /// cannot be compared.
    pub const fn mismatch(&self) -> Option<(u64, u64)> {
        let (checked, contradicted) = self.contradicted;
        let much = contradicted.saturating_mul(100) > checked.saturating_mul(CONTRADICTED_PERCENT);
        if much {
            Some((contradicted, checked))
        } else {
            None
        }
    }

    /// Adds what the host did to the evidence of a late reaction in the guest.
    pub fn add_to(&self, window: &mut Window) {
        let cpus: BTreeSet<u32> = (window.events.iter().map(|event| event.cpu))
            .chain([window.victim.cpu])
            .collect();
        let (from, to) = (window.expected, window.actual);
        for cpu in cpus {
            let spans = self.spans.get(&cpu).map_or(&[][..], Vec::as_slice);
            let first = spans.partition_point(|span| span.to <= from);
            let inside = spans.iter().skip(first);
            let inside = inside.take_while(|span| span.from < to);
            window.host.extend(inside.cloned());
        }
        window.evidence.virtual_machine = Some(true);
        window.clock_error = window.clock_error.max(self.error);
    }
}
