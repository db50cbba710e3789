//! Watching an application whose jobs are judged.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;

use punctual_host::Host;
use punctual_model::{LoopRequirement, Nanos};

use crate::targets::Subject;
use crate::{
    ExplainRequest, JobDetail, JobRequest, ObserveRequest, Outcome, RecordingRequest,
    RecordingSink, Release, RunLength, SessionError, Targets, Watcher, observe,
};

/// An application, and the requirement that its jobs are judged by. A check, an experiment and a
/// monitor watch it in the same way.
#[derive(Clone, Debug)]
pub struct ApplicationRequest {
    /// The requirement on its jobs. A period of 0 judges the jobs of all threads; another period
    /// only those of the threads with about this period.
    pub requirement: LoopRequirement,
    /// The application.
    pub subject: Subject,
    /// The wait that releases a job.
    pub release: Release,
    /// When system calls and interrupts are recorded.
    pub detail: JobDetail,
    /// Time to watch.
    pub duration: Nanos,
    /// See [`ObserveRequest::reader`].
    pub reader: Option<Vec<OsString>>,
    /// A name for the recording; `None` for that of the caller.
    pub label: Option<String>,
    /// The command line as the program received it.
    pub command_line: Vec<String>,
}

impl ApplicationRequest {
    /// Watches the application. A program that is started for this is ended afterwards.
    ///
    /// # Errors
    /// See [`Subject::check`] and [`observe`].
    pub fn observe(
        &self,
        label: &str,
        host: &Host,
        store: Option<&dyn RecordingSink>,
        watcher: &mut dyn Watcher,
        stop: &AtomicBool,
    ) -> Result<Outcome, SessionError> {
        self.subject.check(host)?;
        let (targets, program) = self.subject.targets(host)?;
        let request = self.observation(label, targets);
        let outcome = observe(&request, host, store, watcher, stop);
        drop(program);
        outcome
    }

    fn observation(&self, label: &str, targets: Targets) -> ObserveRequest {
        let budget = self.requirement.budget_ns;
        ObserveRequest {
            targets,
            jobs: Some(JobRequest {
                budget,
                release: self.release.clone(),
                detail: self.detail,
            }),
            explain: ExplainRequest::above(budget),
            no_bpf: false,
            no_counters: true,
            profile: false,
            reader: self.reader.clone(),
            length: RunLength::For(self.duration),
            requirement: Some(self.requirement.clone()),
            recording: RecordingRequest {
                label: Some(self.label.clone().unwrap_or_else(|| label.to_owned())),
                command_line: self.command_line.clone(),
            },
        }
    }
}
