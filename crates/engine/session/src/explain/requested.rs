//! Events that the user requested, in addition to those for explanations.

use punctual_host::Host;
use punctual_model::{Nanos, TraceEvent, counted};
use punctual_trace::{Description, EventChoice, Flight, RawPage, TraceError, Tracefs};

/// Maximum number of events that are kept with an outlier. The latest ones are kept.
const KEPT: usize = 500;

/// A separate recorder for these events, so that their number and filters do not affect the
/// explanations.
pub(super) struct Requested {
    flight: Flight,
    choices: Vec<EventChoice>,
    /// Number of events overwritten before they were read, around explained outliers.
    lost: u64,
    /// Number of events beyond [`KEPT`].
    left_out: u64,
}

impl Requested {
    pub(super) fn arm(host: &Host, choices: &[EventChoice]) -> Result<Self, TraceError> {
        let tracefs = Tracefs::find(host.root())?;
        Ok(Self {
            flight: tracefs.arm_requested(choices, host.own_process())?,
            choices: choices.to_vec(),
            lost: 0,
            left_out: 0,
        })
    }

    /// Returns the choices as written by the user.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.choices.iter().map(EventChoice::to_string)
    }

    pub(super) fn switch(&mut self, on: bool) -> Result<(), TraceError> {
        self.flight.switch(on)
    }

    pub(super) fn take_out_until(&mut self, until: Nanos) -> Result<(), TraceError> {
        self.flight.take_out_until(until)
    }

    /// Describes the pages.
    fn describe(&self) -> Result<Description, TraceError> {
        self.flight.describe()
    }

    /// Returns the events of an interval on all CPUs, and their pages.
    pub(super) fn between(&mut self, from: Nanos, to: Nanos) -> (Vec<TraceEvent>, Vec<RawPage>) {
        let cut = self.flight.slice_all(from, to);
        self.lost += cut.lost;
        let mut events = cut.events;
        events.retain(|event| event.time >= from);
        let beyond = events.len().saturating_sub(KEPT);
        self.left_out += beyond as u64;
        events.drain(..beyond);
        (events, cut.pages)
    }

    /// Adds warnings for the reader of the recording.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.flight.warnings().to_vec();
        warnings.extend(self.flight.reset_by_others());
        if self.lost > 0 {
            warnings.push(format!(
                "lost {} of --event, which were overwritten before they were read: use a filter \
                 to reduce the number of events",
                counted(self.lost, "event", "events")
            ));
        }
        if self.left_out > 0 {
            warnings.push(format!(
                "dropped {} of --event: only the last {KEPT} of each outlier are stored",
                counted(self.left_out, "event", "events")
            ));
        }
        warnings
    }

    pub(super) fn stop(self) -> Result<(), TraceError> {
        self.flight.stop()
    }
}

impl super::Explainer {
    /// Also records these events, and shows them with the outliers.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have an event, or rejects its filter.
    pub(crate) fn record_too(
        &mut self,
        host: &Host,
        choices: &[EventChoice],
    ) -> Result<(), TraceError> {
        if !choices.is_empty() {
            let requested = Requested::arm(host, choices)?;
            self.buffer.describe_too(requested.describe()?);
            self.requested = Some(requested);
        }
        Ok(())
    }
}
