//! The waits between two turns of an observation.

use std::thread;
use std::time::Duration;

use punctual_model::Nanos;
use punctual_trace::{HELD_BACK, JobRecorder};

use super::pace::Due;
use super::profile::ProfileWatch;
use super::windows::Windows;
use super::{Observation, TURN};
use crate::lifecycle::{Source as _, monotonic};

impl Observation<'_> {
    /// Notes whether watched threads have done anything since the last turn.
    pub(super) fn note_activity(&mut self, is_active: bool) {
        let programs = self.explainer.programs();
        let changed = programs.is_none_or(JobRecorder::take_changed);
        self.pace.changed |= changed;
        self.pace.active |= is_active;
        let is_learning = self.finder.jobs().is_some_and(|jobs| jobs.is_learning());
        if changed || (is_active && (is_learning || self.explainer.needs_turns())) {
            self.pace.attend(monotonic());
        }
    }

    /// Returns what the next turn waits for.
    fn due(&mut self) -> Due {
        let windows = self.windows.as_ref();
        let window = windows.and_then(Windows::next);
        let untimed = self
            .explainer
            .programs()
            .map_or(1, |programs| programs.untimed());
        let jobs = self.finder.jobs();
        Due {
            always: window.is_none() || untimed > 0,
            long_job: jobs.as_ref().and_then(|jobs| jobs.next_long_job()),
            window: window.filter(|_| jobs.is_some_and(|jobs| !jobs.is_learning())),
        }
    }

    /// Waits for the next turn. BPF programs may end the wait earlier.
    pub(super) fn wait_for_turn(&mut self) {
        let due = self.due();
        let now = monotonic();
        let mut time = self.pace.next_turn(now, due);
        if let Some(duration) = self.duration() {
            let left = duration.saturating_sub(self.start.elapsed());
            time = time.min(Duration::from(left).max(TURN));
        }
        let programs = self.explainer.programs();
        // The programs keep the counts of the last few rows apart.
        if programs
            .as_ref()
            .is_some_and(|programs| programs.is_counting())
        {
            time = time.min(Duration::from(self.row_length) * 2).max(TURN);
        }
        let Some(programs) = programs.filter(|_| time > TURN) else {
            return thread::sleep(time);
        };
        let samples = self.profile.as_ref().and_then(ProfileWatch::news);
        match &self.background {
            Some(background) => background.rest(|| programs.wait(samples, time)),
            None => programs.wait(samples, time),
        }
        // The newest events cannot be read yet, and there are often several news in a row.
        let elapsed = monotonic().saturating_sub(now);
        if elapsed < Nanos::from(time) {
            thread::sleep(HELD_BACK.max(TURN.saturating_sub(elapsed.into())));
        }
    }
}
