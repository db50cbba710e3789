//! Restarts of the watched processes, which are chosen by name or control group.

use std::thread;

use punctual_model::{ApplicationChange, ChangeKind, Completion, Nanos};
use punctual_trace::HELD_BACK;

use super::Observation;
use crate::lifecycle::{StoreWriter, monotonic};
use crate::{SessionError, Targets};

/// Longest time without any watched process in which a restart is expected. By default, systemd waits
/// for 90 s until it kills a service that does not stop, but the service then still runs.
const RESTART: Nanos = Nanos::from_secs(60);

/// Number of restarts whose times are told.
const TOLD: usize = 8;

/// The restarts so far.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// Time at which no watched thread was left.
    gone_since: Option<Nanos>,
    /// Times of the restarts, with the time at which no thread was left before, if it was noticed.
    restarts: Vec<(Option<Nanos>, Nanos)>,
}

impl Restarts {
    /// Notes that no watched thread is left. Returns whether to wait for others.
    fn is_awaited(&mut self, now: Nanos) -> bool {
        let since = *self.gone_since.get_or_insert(now);
        now.saturating_sub(since) < RESTART
    }

    /// Returns whether there was a restart.
    pub(super) const fn are_some(&self) -> bool {
        !self.restarts.is_empty()
    }

    fn note(&mut self, now: Nanos) {
        self.restarts.push((self.gone_since.take(), now));
    }

    /// Returns the restarts as one change; `None` if there was none.
    pub(super) fn change(&self) -> Option<ApplicationChange> {
        let time = |(gone, back): &(Option<Nanos>, Nanos)| match gone {
            Some(gone) => format!("after {back} (none was left after {gone})"),
            None => format!("after {back}"),
        };
        let times: Vec<String> = self.restarts.iter().take(TOLD).map(time).collect();
        let more = match self.restarts.len().saturating_sub(TOLD) {
            0 => String::new(),
            more => format!(" and {more} more times"),
        };
        self.are_some().then(|| ApplicationChange {
            kind: ChangeKind::Restarted,
            text: format!(
                "the watched processes restarted {}{more}: the new threads are counted together as \
                 threads created later. Jobs in the first second after a restart may be missing",
                times.join(", ")
            ),
        })
    }

    /// Returns a warning that all threads had ended before the end; `None` if some had not.
    pub(super) fn end(&self) -> Option<String> {
        let gone = self.gone_since?;
        Some(format!("all watched threads had ended after {gone}"))
    }
}

impl Observation<'_> {
    /// Returns whether the observation ends, because no watched thread is left. Processes that are
    /// chosen by name or control group may restart.
    pub(super) fn ends_with_threads(
        &mut self,
        store: &mut StoreWriter<'_>,
        elapsed: Nanos,
    ) -> Result<Option<Completion>, SessionError> {
        if !self.watched.all_gone(&self.host) {
            return Ok(None);
        }
        let is_first = self.restarts.gone_since.is_none();
        let is_awaited = self.restarts.is_awaited(elapsed);
        if is_first {
            // Read their last events, with their last names.
            thread::sleep(HELD_BACK);
            self.read(store)?;
            self.pace.changed = true;
        }
        if !matches!(self.request.targets, Targets::Pids(_)) && is_awaited {
            self.pace.attend(monotonic());
            self.pace.changed = true;
            return Ok(None);
        }
        self.pace.changed = true;
        Ok(Some(Completion::Finished))
    }

    /// Notes a restart. There may be new threads.
    pub(super) fn note_restart(&mut self) {
        if self.watched.has_restarted(&self.host) {
            self.restarts.note(self.start.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn restarts_are_told_with_their_times() {
        let mut restarts = Restarts::default();
        assert_eq!((restarts.change(), restarts.end()), (None, None));
        assert!(restarts.is_awaited(Nanos(3 * SECOND)));
        assert!(restarts.is_awaited(Nanos(4 * SECOND)));
        restarts.note(Nanos(5 * SECOND));
        restarts.note(Nanos(7 * SECOND));
        let told = restarts.change().unwrap();
        assert_eq!(told.kind, ChangeKind::Restarted);
        let told = told.text;
        assert!(
            told.contains("restarted after 5.00 s (none was left after 3.00 s), after 7.00 s:"),
            "{told}"
        );
        assert_eq!(restarts.end(), None);
        for second in 20..40 {
            restarts.note(Nanos(second * SECOND));
        }
        let told = restarts.change().unwrap().text;
        assert!(told.contains("and 14 more times"), "{told}");
    }

    #[test]
    fn restart_is_awaited_for_a_minute() {
        let mut restarts = Restarts::default();
        assert!(restarts.is_awaited(Nanos(SECOND)));
        assert!(restarts.is_awaited(Nanos(60 * SECOND)));
        assert!(!restarts.is_awaited(Nanos(61 * SECOND)));
        assert_eq!(restarts.change(), None);
        let told = restarts.end().unwrap();
        assert_eq!(told, "all watched threads had ended after 1.00 s");
    }
}
