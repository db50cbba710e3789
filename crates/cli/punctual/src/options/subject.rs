//! Selects the running application that a verb watches.

use anyhow::Result;
use clap::{Args, value_parser};
use punctual_host::Host;
use punctual_model::Nanos;
use punctual_session::{SessionError, Subject};

use crate::exit::UsageError;

/// When the full stage records jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// In windows of time.
    Windows,
    /// All the time.
    Always,
}

/// Values of the option.
pub(crate) const DETAILS: [(&str, When); 2] = [("windows", When::Windows), ("full", When::Always)];

/// A running application. At most one of these options can be given.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "A running application")]
#[group(id = "subject", multiple = false)]
pub(crate) struct OfSubject {
    /// Watch these processes with all threads, or single threads
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = value_parser!(u32).range(1..))]
    pub(crate) pid: Vec<u32>,
    /// Watch threads with this name, and processes with all threads
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Option<String>,
    /// Watch all processes of this control group, such as a container
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Watch all processes of this unit of systemd
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Option<String>,
}

impl OfSubject {
    /// Returns the application to watch, or `None` if none was selected.
    pub(crate) fn subject(&self) -> Option<Subject> {
        let group = self.cgroup.clone().map(Subject::Group);
        let comm = self.comm.clone().map(Subject::Comm);
        let unit = self.unit.clone().map(Subject::Unit);
        let pids = (!self.pid.is_empty()).then(|| Subject::Pids(self.pid.clone()));
        pids.or(comm).or(group).or(unit)
    }
}

/// An application whose jobs are judged together: one that runs, or a program to start.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct JudgedSubject {
    #[command(flatten)]
    subject: OfSubject,
    /// Start this program, watch its threads, and end it afterwards
    ///
    /// Its output goes to stderr. The processes that it starts are not watched.
    #[arg(last = true, value_name = "COMMAND", group = "subject")]
    #[arg(help_heading = "A running application")]
    command: Vec<String>,
}

impl JudgedSubject {
    /// Returns the application, or `None` if none was selected.
    pub(crate) fn subject(&self) -> Option<Subject> {
        let program = (!self.command.is_empty()).then(|| Subject::Program(self.command.clone()));
        program.or_else(|| self.subject.subject())
    }

    /// Returns the application whose jobs are judged together, with their budget; `None` if none was
    /// selected. It may not run yet.
    ///
    /// # Errors
    /// Returns an error without a budget.
    pub(crate) fn with_budget(
        &self,
        budget: Option<Nanos>,
    ) -> Result<Option<(Subject, Nanos)>, UsageError> {
        let Some(subject) = self.subject() else {
            return Ok(None);
        };
        let text = "pass --budget, the longest time that a job of the application may take";
        let budget = budget.ok_or_else(|| UsageError(text.to_owned()))?;
        Ok(Some((subject, budget)))
    }

    /// As [`with_budget`](Self::with_budget), for an application that runs.
    ///
    /// # Errors
    /// Returns an error without a budget, or as [`Subject::check`].
    pub(crate) fn judged(
        &self,
        host: &Host,
        budget: Option<Nanos>,
    ) -> Result<Option<(Subject, Nanos)>> {
        let judged = self.with_budget(budget)?;
        if let Some((subject, _)) = &judged {
            subject.check(host).map_err(SessionError::from)?;
        }
        Ok(judged)
    }
}
