//! Sources of the numbers of an experiment: the output of a command, or the jobs of an application.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{ApplicationChange, Completion, Condition, Nanos, RecordingId};
use punctual_session::{ApplicationRequest, RecordingSink, Watcher};

use super::printed::{self, Printed};
use crate::command::{Running, Wanted};
use crate::error::TrialError;

/// Name of the share of late jobs, in ppm, which is judged.
pub(crate) const LATE_JOBS: &str = "late jobs";

/// Name of the number of jobs a second, which is shown but not judged.
pub(super) const JOBS: &str = "jobs";

/// Name of the share of jobs of unknown response time, in ppm, which limits what may be claimed.
pub(super) const UNKNOWN: &str = "jobs of unknown time";

/// Maximum time to wait for the output of a command that has ended.
const CLOSES: Duration = Duration::from_secs(10);

/// The numbers of one run.
pub(super) struct Measured {
    /// The numbers to judge.
    pub(super) judged: Printed,
    /// Other numbers, by name.
    pub(super) others: BTreeMap<String, f64>,
    pub(super) took: Nanos,
    /// The stored recording.
    pub(super) recording: Option<RecordingId>,
    /// Changes of the application.
    pub(super) notes: Vec<ApplicationChange>,
}

/// The environment of a run.
pub(super) struct Bench<'a> {
    pub(super) host: &'a Host,
    pub(super) view: &'a mut dyn Watcher,
    /// Reports that this program is alive.
    pub(super) alive: &'a dyn Fn(),
    /// Stores the recording of an application.
    pub(super) sink: Option<&'a dyn RecordingSink>,
    /// Name of this recording.
    pub(super) label: String,
}

/// The source of the numbers.
#[derive(Clone, Debug)]
pub enum Meter {
    /// A command that prints them.
    Command {
        /// The command, for a shell.
        command: String,
        /// Maximum duration of a run.
        deadline: Nanos,
    },
    /// The jobs of a running application. The number is the share of jobs above the budget.
    Jobs(Box<ApplicationRequest>),
}

impl Meter {
    /// Returns the source as one line.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Command { command, .. } => command.clone(),
            Self::Jobs(request) => format!(
                "jobs of {} over {}",
                request.subject, request.requirement.budget_ns
            ),
        }
    }

    /// Measures once.
    pub(super) fn measure(
        &self,
        (side, block): (String, &str),
        bench: Bench<'_>,
        stop: &AtomicBool,
    ) -> Result<Measured, TrialError> {
        let begun = Instant::now();
        match self {
            Self::Command { command, deadline } => {
                let wanted = Wanted {
                    side,
                    block,
                    deadline: *deadline,
                    closes_within: CLOSES,
                    whole: true,
                    alive: bench.alive,
                };
                let (running, output) = Running::output_of(command, &wanted, stop)?;
                let took = Nanos::from(begun.elapsed());
                drop(running);
                let judged = printed::read(&output).map_err(|why| self.failed(why, &output))?;
                Ok(Measured {
                    judged,
                    others: BTreeMap::new(),
                    took,
                    recording: None,
                    notes: Vec::new(),
                })
            }
            Self::Jobs(request) => {
                let Bench {
                    host, view, sink, ..
                } = bench;
                let outcome = request.observe(&bench.label, host, sink, view, stop)?;
                if let Some(error) = outcome.store_error {
                    return Err(error.into());
                }
                let recording = outcome.recording;
                if recording.completion == Completion::Stopped {
                    return Err(TrialError::Stopped);
                }
                let length = recording.duration_ns;
                if length.0 < request.duration.0 / 10 * 9 {
                    return Err(TrialError::Block(format!(
                        "{} ended in a block, after {length} of {}",
                        request.subject, request.duration
                    )));
                }
                let found = Condition::of_jobs(&recording, &request.requirement);
                let lost = recording.explanation.as_ref();
                let lost = lost.map_or(0, |one| one.events_lost);
                Ok(Measured {
                    recording: sink.map(|_| recording.id),
                    notes: outcome.changes,
                    ..share(&found, lost, length)?
                })
            }
        }
    }

    pub(super) fn failed(&self, how: String, output: &str) -> TrialError {
        let output = output.trim();
        TrialError::Command {
            command: self.name(),
            how,
            output: if output.is_empty() {
                String::new()
            } else {
                format!(": {output}")
            },
        }
    }
}

/// Returns the share of late jobs, and the number of jobs a second. Each lost event may hide a job.
fn share(found: &Condition, events_lost: u64, length: Nanos) -> Result<Measured, TrialError> {
    let unknown = found.jobs.as_ref().map_or(0, |jobs| jobs.unknown) + events_lost;
    if found.periods == 0 {
        let why = found.lacking.join("; ");
        return Err(TrialError::Block(format!(
            "a block of {length} had no job to judge: {why}"
        )));
    }
    let all = found.periods + unknown;
    if unknown > found.periods / 10 {
        return Err(TrialError::Block(format!(
            "the response time is unknown for {unknown} of {all} jobs of a block, {events_lost} of \
             them because trace events were lost"
        )));
    }
    let per_million = |jobs: u64, of: u64| jobs as f64 / of as f64 * 1e6;
    let late = per_million(found.late, found.periods);
    let per_second = found.periods as f64 / length.as_secs_f64();
    Ok(Measured {
        judged: Printed::from([(LATE_JOBS.to_owned(), (late, "ppm".to_owned()))]),
        others: BTreeMap::from([
            (JOBS.to_owned(), per_second),
            (UNKNOWN.to_owned(), per_million(unknown, all)),
        ]),
        took: length,
        recording: None,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use punctual_model::JobEvidence;

    use super::*;

    fn found(jobs: u64, late: u64, unknown: u64) -> Condition {
        let recording = punctual_model::testing::recording(1, 2);
        let asked = punctual_model::LoopRequirement::of_jobs(Nanos::from_millis(1));
        Condition {
            periods: jobs,
            late,
            jobs: Some(JobEvidence {
                unknown,
                ..JobEvidence::default()
            }),
            ..Condition::of_jobs(&recording, &asked)
        }
    }

    #[test]
    fn share_of_late_jobs_is_the_number() {
        let ten = Nanos::from_secs(10);
        let one = share(&found(1_980, 3, 5), 15, ten).ok().unwrap();
        assert_eq!(one.judged[LATE_JOBS].0.round(), 1_515.0);
        assert_eq!((one.others[JOBS], one.others[UNKNOWN]), (198.0, 10_000.0));
        let error = |found: &Condition, lost| share(found, lost, ten).err().unwrap().to_string();
        assert!(error(&found(0, 0, 0), 0).contains("had no job to judge"));
        assert!(error(&found(100, 0, 11), 0).contains("unknown for 11 of 111 jobs"));
        assert!(error(&found(100, 0, 5), 6).contains("6 of them because trace events"));
    }
}
