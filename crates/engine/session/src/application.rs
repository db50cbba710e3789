//! Watching an application whose jobs are judged.

use std::ffi::OsString;

use punctual_host::Host;
use punctual_model::{LoopRequirement, Nanos};

use crate::targets::Subject;
use crate::{
    ExplainRequest, JobDetail, JobRequest, ObserveRequest, RecordingRequest, Release, RunLength,
    TargetError,
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
    /// Returns the request for watching the application.
    ///
    /// # Errors
    /// See [`Subject::judged`].
    pub fn observation(&self, label: &str, host: &Host) -> Result<ObserveRequest, TargetError> {
        let budget = self.requirement.budget_ns;
        Ok(ObserveRequest {
            targets: self.subject.judged(host)?,
            jobs: Some(JobRequest {
                budget,
                release: self.release.clone(),
                detail: self.detail,
            }),
            explain: ExplainRequest::above(budget),
            no_bpf: false,
            no_counters: true,
            reader: self.reader.clone(),
            length: RunLength::For(self.duration),
            requirement: Some(self.requirement.clone()),
            recording: RecordingRequest {
                label: Some(self.label.clone().unwrap_or_else(|| label.to_owned())),
                command_line: self.command_line.clone(),
            },
        })
    }
}
