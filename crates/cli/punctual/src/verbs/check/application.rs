//! `check --comm`: judges the jobs of a running application.

use anyhow::Result;
use clap::Args;
use punctual_host::Host;
use punctual_model::{LoopRequirement, MissLimit, Nanos};
use punctual_session::{ApplicationRequest, JobDetail, Release};

use crate::options::subject::{DETAILS, JudgedSubject, When};
use crate::processes::serve_symbols;
use crate::verb::{command_line, named};

// The application to judge in place of a loop.
#[derive(Args)]
#[command(next_help_heading = "A running application")]
pub(super) struct OfApplication {
    #[command(flatten)]
    subject: JudgedSubject,
    /// Wait that releases a job: auto, timerfd, nanosleep, epoll, futex, SYSCALL [default: auto]
    ///
    /// A file descriptor can follow, as in epoll:4.
    #[arg(long, value_name = "WAIT[:FD]", requires = "subject")]
    release: Option<Release>,
    /// Record system calls and interrupts: windows, or full for all the time [default: windows]
    #[arg(long, value_name = "WHEN", value_parser = named(DETAILS.to_vec()), requires = "subject")]
    detail: Option<When>,
}

/// Options that only the measurement of a loop uses.
const OF_LOOP: [&str; 4] = ["cpus", "priority", "share_cpus", "load"];

/// Makes an option that only the measurement of a loop uses exclude an application.
pub(super) fn exclude(option: clap::Arg) -> clap::Arg {
    if OF_LOOP.contains(&option.get_id().as_str()) {
        option.conflicts_with("subject")
    } else {
        option
    }
}

impl OfApplication {
    /// Returns the request, if an application was selected.
    pub(super) fn request(
        &self,
        period: Option<Nanos>,
        (budget, misses): (Option<Nanos>, Option<MissLimit>),
        (allowed, duration): (f64, Nanos),
        label: Option<String>,
    ) -> Result<Option<ApplicationRequest>> {
        let Some((subject, budget)) = self.subject.judged(&Host::live(), budget)? else {
            return Ok(None);
        };
        Ok(Some(ApplicationRequest {
            requirement: LoopRequirement {
                period_ns: period.unwrap_or_default(),
                max_late_seconds_per_day: Some(allowed),
                misses,
                ..LoopRequirement::of_jobs(budget)
            },
            subject,
            release: self.release.clone().unwrap_or_default(),
            detail: match self.detail {
                Some(When::Always) => JobDetail::Full,
                Some(When::Windows) | None => JobDetail::Windows(None),
            },
            duration,
            reader: serve_symbols::program(),
            label,
            command_line: command_line(),
        }))
    }
}
