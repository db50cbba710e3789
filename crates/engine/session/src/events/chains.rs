//! Follows chains of threads that wake each other on the running machine.

use std::env::consts::ARCH;

use punctual_culprit::{ChainFinder, ChainStart};
use punctual_host::Host;
use punctual_model::{Comm, Nanos, TraceChains, counted};
use punctual_trace::{ChainEvents, Streamed, TraceError, Tracefs};
use punctual_tracefile::TraceHead;

use crate::SessionError;
use crate::trace_file::chains as chain_evidence;

/// Follows chains until it is dropped. It records events as a trace file has them, and finds the chains
/// in the same way.
#[derive(Debug)]
pub struct ChainSession {
    events: ChainEvents,
    chains: ChainFinder,
    head: TraceHead,
    /// End of the last gap with lost events, if it is not reached yet.
    gap: Option<Nanos>,
    lost: u64,
}

impl ChainSession {
    /// Starts to follow the chains between two ends.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the events, or does not permit them to this
    /// user.
    pub fn start(from: ChainStart, to: Comm, host: &Host) -> Result<Self, SessionError> {
        Self::begin(from, to, host).map_err(SessionError::Chains)
    }

    fn begin(from: ChainStart, to: Comm, host: &Host) -> Result<Self, TraceError> {
        let mut head = TraceHead {
            format: "events of this machine".to_owned(),
            machine: Some(ARCH.to_owned()),
            ..TraceHead::default()
        };
        let calls = chain_evidence::without_input(&head);
        let tracefs = Tracefs::find(host.root())?;
        let events = ChainEvents::start(&tracefs, host.own_process(), &calls)?;
        head.recorded = events
            .recorded()
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
        Ok(Self {
            events,
            chains: ChainFinder::new(from, to, calls),
            head,
            gap: None,
            lost: 0,
        })
    }

    /// Reads the events that the kernel has written in the meantime. Call it about ten times a
    /// second, so that none are lost.
    ///
    /// # Errors
    /// Returns an error if they could not be read.
    pub fn keep_up(&mut self) -> Result<(), SessionError> {
        for item in self.events.read().map_err(SessionError::Chains)? {
            // After a gap, no chain that began in it continues.
            if self.gap.take_if(|until| *until <= item.time()).is_some() {
                self.chains.lost();
            }
            match item {
                Streamed::Event(event) => self.chains.event(&event),
                Streamed::Gap { to, lost, .. } => {
                    self.chains.lost();
                    self.lost += lost;
                    self.gap = self.gap.max(Some(to));
                }
            }
        }
        Ok(())
    }

    /// Ends the recording, and returns the chains.
    ///
    /// # Errors
    /// Returns an error if events could not be read, or if the trace instance cannot be removed; the
    /// next command tries again.
    pub fn finish(mut self) -> Result<TraceChains, SessionError> {
        self.keep_up()?;
        let mut found = self.chains.finish();
        found.file = "live".to_owned();
        found.format.clone_from(&self.head.format);
        found.warnings.extend(chain_evidence::warnings(&self.head));
        found.warnings.extend(self.events.reset_by_others());
        if self.lost > 0 {
            found.warnings.push(format!(
                "the kernel lost {} before they were read: chains at these times are unknown",
                counted(self.lost, "event", "events")
            ));
        }
        self.events.stop().map_err(SessionError::Chains)?;
        Ok(found)
    }
}
