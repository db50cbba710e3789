//! `app record`: stores the figures of an application as a recording.

use anyhow::Result;
use clap::Args;
use punctual_host::Host;
use punctual_model::{MissLimit, Nanos};
use punctual_report::{document, text};
use punctual_session::{
    ChannelLimits, InAppRequest, RecordingRequest, RunLength, applications, record_application,
};

use crate::context::Context;
use crate::exit::{self, Exit, UsageError};
use crate::options::limits::Limits;
use crate::options::measuring;
use crate::output;
use crate::running::stop_flag;
use crate::verb::command_line;

#[derive(Args)]
#[command(after_help = crate::exit::OF_MEASURE)]
pub(super) struct Record {
    /// Process number, or name of the application or its process
    #[arg(value_name = "PID|NAME")]
    application: String,
    /// Duration, or forever; ends with the application [default: 60s]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = measuring::run_length)]
    duration: Option<RunLength>,
    /// Record only the channel with this name: control, or 'control, latency'
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    #[command(flatten)]
    limits: Limits,
    /// Require at most M late jobs in any K consecutive periods: 2/100
    #[arg(long, value_name = "M/K", allow_negative_numbers = true)]
    misses: Option<MissLimit>,
    /// Judge the seconds per day with late or missed jobs
    #[arg(long, value_name = "N", value_parser = measuring::late_seconds)]
    #[arg(allow_negative_numbers = true)]
    max_late_seconds_per_day: Option<f64>,
    /// Explain samples above the budget of their channel; requires root
    #[arg(long)]
    explain: bool,
    /// Label of the recording
    #[arg(long, value_name = "TEXT", value_parser = crate::options::select::label)]
    label: Option<String>,
    /// Print the recording as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress, only the result
    #[arg(short, long)]
    quiet: bool,
}

impl Record {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let host = Host::live();
        let request = InAppRequest {
            pid: pid_of(&self.application, &host)?,
            channel: self.channel,
            limits: ChannelLimits {
                requirement: self.limits.requirement(None),
                misses: self.misses,
                max_late_seconds_per_day: self.max_late_seconds_per_day,
            },
            length: (self.duration).unwrap_or(RunLength::For(Nanos::from_secs(60))),
            explain: self.explain,
            recording: RecordingRequest {
                label: self.label,
                command_line: command_line(),
            },
        };
        let store = context.store_to_record()?;
        let stop = stop_flag()?;
        let mut view = crate::live::view(self.quiet);
        let outcome = record_application(&request, &host, store.as_ref(), view.as_mut(), &stop)?;
        let exit = exit::of_recording(&outcome.recording);
        context.stored(exit, outcome.store_error.is_none() && store.is_some());
        if self.json {
            output::print_json(&outcome.recording.in_words())?
        } else {
            let shown = document::recording(&outcome.recording);
            output::print(&text::render(&shown, &context.style()))?;
        }
        if let Some(error) = outcome.store_error {
            return Err(error.into());
        }
        Ok(exit)
    }
}

/// Returns the ID of the requested process. A number is always taken as a process ID, even if it is
/// also the name of a process.
fn pid_of(text: &str, host: &Host) -> Result<u32> {
    if let Ok(pid) = text.parse() {
        return Ok(pid);
    }
    let (all, refused, closed) = applications(host);
    let named: Vec<_> = all
        .iter()
        .filter(|application| application.name == text || application.comm == text)
        .collect();
    match named[..] {
        [one] => Ok(one.pid),
        [] => {
            // A reason why the requested application may not be found.
            let why = match refused.first() {
                Some(refusal) => format!("; {refusal}"),
                None if closed > 0 => format!(
                    "; the open files of {closed} processes cannot be read: run as root to see them"
                ),
                None => String::new(),
            };
            let why = format!("no application named '{text}' publishes figures{why}");
            Err(UsageError(why).into())
        }
        _ => {
            let pids: Vec<String> = named.iter().map(|one| one.pid.to_string()).collect();
            let why = format!(
                "{} applications are named '{text}': give one of the process numbers {}",
                pids.len(),
                pids.join(", ")
            );
            Err(UsageError(why).into())
        }
    }
}
