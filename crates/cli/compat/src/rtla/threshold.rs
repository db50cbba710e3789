//! What happens when a limit is reached: the trace stops, and the actions of `--on-threshold` run
//! while the measuring threads still exist. Then the run ends or continues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_session::KernelTrace;

use super::actions::{continues, perform};
use super::settings::RtlaSettings;
use crate::live_output::LiveOutput;

/// Time that the latency has to be explained before the actions run, because nothing is explained
/// while they do.
const EXPLAINED: Duration = Duration::from_millis(100);

pub(super) struct Threshold<'a> {
    settings: &'a RtlaSettings,
    /// The trace of the kernel's tracer, if it measures.
    trace: Option<Arc<KernelTrace>>,
    /// When a limit was reached. `None` once its actions have run.
    reached: Option<Instant>,
    stopped: bool,
    failures: Vec<String>,
}

/// Results after the run.
pub(super) struct ThresholdResult {
    /// Whether a limit that is checked here ended the run.
    pub(super) stopped: bool,
    /// Errors of the actions.
    pub(super) failures: Vec<String>,
}

impl<'a> Threshold<'a> {
    pub(super) fn new(settings: &'a RtlaSettings, trace: Option<Arc<KernelTrace>>) -> Self {
        Self {
            settings,
            trace,
            reached: None,
            stopped: false,
            failures: Vec::new(),
        }
    }

    /// Returns whether the run must end, after the actions.
    pub(super) fn has_stopped(&self) -> bool {
        self.stopped
    }

    pub(super) fn finish(self) -> ThresholdResult {
        ThresholdResult {
            stopped: self.stopped,
            failures: self.failures,
        }
    }

    /// Returns whether the run continues if no action fails.
    pub(super) fn continues(&self) -> bool {
        continues(&self.settings.on_threshold)
    }

    /// Notes that a limit was reached, and stops the trace after this line.
    pub(super) fn reach(&mut self, mark: &str) {
        if self.stopped || self.reached.is_some() {
            return;
        }
        self.reached = Some(Instant::now());
        if let Some(trace) = &self.trace {
            let paused = trace.pause(mark);
            self.failures
                .extend(paused.err().map(|error| error.to_string()));
        }
    }

    /// Performs the actions if a limit was reached. Must be called often during the run. Returns
    /// whether actions ran.
    pub(super) fn turn(&mut self, output: &mut LiveOutput<'_>) -> bool {
        if self.stopped {
            return false;
        }
        let trace = self.trace.as_deref();
        if trace.is_some_and(KernelTrace::has_stopped) {
            self.reached.get_or_insert_with(Instant::now);
        }
        let explains = self.settings.explained_above_us().is_some();
        let wait = if explains { EXPLAINED } else { Duration::ZERO };
        if self.reached.is_none_or(|at| at.elapsed() < wait) {
            return false;
        }
        self.reached = None;
        let mut done = Ok(());
        output.print(|out| {
            done = perform(&self.settings.on_threshold, trace, out);
            Ok(())
        });
        if done.is_ok() && self.continues() {
            let resumed = trace.map_or(Ok(()), KernelTrace::resume);
            done = resumed.map_err(|error| error.to_string());
        }
        self.stopped = done.is_err() || !self.continues();
        self.failures.extend(done.err());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::actions::Action;
    use super::*;
    use crate::Signals;

    fn settings(commands: &[&str], on: bool) -> RtlaSettings {
        let shell = |command: &&str| Action::Shell((*command).to_owned());
        let mut settings = RtlaSettings::timerlat();
        settings.on_threshold = commands.iter().map(shell).collect();
        settings.on_threshold.extend(on.then_some(Action::Continue));
        settings
    }

    /// Reaches a limit this often. Returns whether the run ended, and the failures.
    fn reached(settings: &RtlaSettings, times: usize) -> (bool, Vec<String>) {
        let mut out = Vec::new();
        let mut output = LiveOutput::new(&mut out, Signals::default());
        let mut threshold = Threshold::new(settings, None);
        assert!(!threshold.turn(&mut output));
        for _ in 0..times {
            threshold.reach("mark");
            threshold.turn(&mut output);
        }
        let result = threshold.finish();
        (result.stopped, result.failures)
    }

    #[test]
    fn run_ends_unless_all_actions_succeed_and_one_continues() {
        assert_eq!(reached(&settings(&[], false), 1), (true, vec![]));
        assert_eq!(reached(&settings(&["true"], true), 3), (false, vec![]));
        let (ended, failures) = reached(&settings(&["exit 3"], true), 3);
        assert!(ended && failures.len() == 1, "{failures:?}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ran").display().to_string();
        let once = format!("[ ! -e {path} ] && touch {path}");
        assert_eq!(reached(&settings(&[&once], true), 1), (false, vec![]));
        assert!(reached(&settings(&[&once], true), 1).0);
    }

    #[test]
    fn latency_is_explained_before_the_actions() {
        let mut settings = settings(&[], false);
        settings.stop_total_us = 5;
        assert!(!reached(&settings, 1).0);
        settings.no_analysis = true;
        assert!(reached(&settings, 1).0);
    }
}
