//! Sources of the numbers of an experiment: the output of a command, or the jobs of an application.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_model::{Completion, Condition, Nanos};
use punctual_session::{Watcher, observe};

use super::printed::{self, Printed};
use crate::ApplicationRequest;
use crate::command::{Running, Wanted};
use crate::error::TrialError;

/// Name of the number of jobs a second, which is shown but not judged.
pub(super) const JOBS: &str = "jobs";

/// Maximum time to wait for the output of a command that has ended.
const CLOSES: Duration = Duration::from_secs(10);

/// The numbers of one run.
pub(super) struct Measured {
    /// The numbers to judge.
    pub(super) judged: Printed,
    /// Other numbers, by name.
    pub(super) others: BTreeMap<String, f64>,
    pub(super) took: Nanos,
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
                request.targets, request.requirement.budget_ns
            ),
        }
    }

    /// Measures once.
    pub(super) fn measure(
        &self,
        (side, block): (String, &str),
        (host, view, alive): (&Host, &mut dyn Watcher, &dyn Fn()),
        stop: &AtomicBool,
    ) -> Result<Measured, TrialError> {
        let begun = Instant::now();
        match self {
            Self::Command { command, deadline } => {
                let wanted = Wanted {
                    side,
                    block,
                    deadline: Some(Duration::from(*deadline)),
                    closes_within: CLOSES,
                    alive,
                };
                let (running, output) = Running::output_of(command, &wanted, stop)?;
                let took = Nanos::from(begun.elapsed());
                drop(running);
                let judged = printed::read(&output).map_err(|why| self.failed(why, &output))?;
                Ok(Measured {
                    judged,
                    others: BTreeMap::new(),
                    took,
                })
            }
            Self::Jobs(request) => {
                let outcome = observe(&request.observation("experiment"), host, None, view, stop)?;
                let recording = outcome.recording;
                if recording.completion == Completion::Stopped {
                    return Err(TrialError::Stopped);
                }
                let length = recording.duration_ns;
                if length.0 < request.duration.0 / 10 * 9 {
                    return Err(TrialError::Block(format!(
                        "{} ended in a block, after {length} of {}",
                        request.targets, request.duration
                    )));
                }
                let found = Condition::of_jobs(&recording, &request.requirement);
                share(&found, length)
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

/// Returns the share of late jobs, and the number of jobs a second.
fn share(found: &Condition, length: Nanos) -> Result<Measured, TrialError> {
    let unknown = found.jobs.as_ref().map_or(0, |jobs| jobs.unknown);
    if found.periods == 0 {
        let why = found.lacking.join("; ");
        return Err(TrialError::Block(format!(
            "a block of {length} had no job to judge: {why}"
        )));
    }
    if unknown > found.periods / 10 {
        return Err(TrialError::Block(format!(
            "the response time is unknown for {unknown} of {} jobs of a block",
            found.periods + unknown
        )));
    }
    let per_million = found.late as f64 / found.periods as f64 * 1e6;
    let per_second = found.periods as f64 / length.as_secs_f64();
    let late = ("late jobs".to_owned(), (per_million, "ppm".to_owned()));
    Ok(Measured {
        judged: Printed::from([late]),
        others: BTreeMap::from([(JOBS.to_owned(), per_second)]),
        took: length,
    })
}

#[cfg(test)]
mod tests {
    use punctual_model::JobEvidence;

    use super::*;

    fn found(jobs: u64, late: u64, unknown: u64) -> Condition {
        let recording = punctual_model::testing::recording(1, 2);
        let asked = punctual_model::LoopRequirement {
            period_ns: Nanos::ZERO,
            budget_ns: Nanos::from_millis(1),
            jobs: true,
            max_late_seconds_per_day: None,
            misses: None,
            max_misses_per_day: None,
            sample: None,
        };
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
        let one = share(&found(2_000, 3, 5), ten).ok().unwrap();
        assert_eq!(one.judged["late jobs"], (1_500.0, "ppm".to_owned()));
        assert_eq!(one.others[JOBS], 200.0);
        let error = |found: &Condition| share(found, ten).err().unwrap().to_string();
        assert!(error(&found(0, 0, 0)).contains("had no job to judge"));
        assert!(error(&found(100, 0, 11)).contains("unknown for 11 of 111 jobs"));
    }
}
