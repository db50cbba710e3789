//! The late wake-ups of a running application.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use punctual_host::Host;
use punctual_model::{Completion, Nanos, Recording};
use punctual_report::{document, text};
use punctual_session::{
    EventChoice, ExplainRequest, JobDetail, JobRequest, Level, ObserveRequest, RecordingRequest,
    RecordingSink, Release, ReleaseKind, RunLength, SessionError, Targets, observe,
    observe_unprivileged,
};

use super::profile::ProfileFile;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::measuring;
use crate::options::subject::{DETAILS, OfSubject, When};
use crate::output::{self, note};
use crate::processes::serve_symbols;
use crate::recordings::timelines;
use crate::running::{become_command, stop_flag};
use crate::tui::{self, Trial};
use crate::verb::{Invalid, command_line, named};

/// The default budget of a job.
const BUDGET: Nanos = Nanos::from_millis(1);

/// The default duration.
const LENGTH: Nanos = Nanos::from_secs(60);

/// The default threshold.
const THRESHOLD: Nanos = Nanos::from_micros(100);

// Late wake-ups of a running application.
#[derive(Args)]
#[command(next_help_heading = "A running application")]
pub(super) struct Application {
    #[command(flatten)]
    subject: OfSubject,
    /// Explain each job that takes longer than this [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    budget: Option<Nanos>,
    /// Wait that releases a job: auto, timerfd, nanosleep, epoll, futex, SYSCALL [default: auto]
    ///
    /// A file descriptor can follow, as in epoll:4.
    #[arg(long, value_name = "WAIT[:FD]")]
    release: Option<Release>,
    /// CPU share for windows that record system calls and interrupts [default: 2%]
    #[arg(long, value_name = "PERCENT", value_parser = share, conflicts_with = "no_bpf")]
    cost: Option<f64>,
    /// Record system calls and interrupts: windows, or full for all the time [default: windows]
    #[arg(long, value_name = "WHEN", value_parser = named(DETAILS.to_vec()))]
    detail: Option<When>,
    /// Explain waits for a CPU instead of whole jobs
    #[arg(long, group = "waits", conflicts_with_all = ["budget", "release", "cost", "detail"])]
    wait: bool,
    /// With --wait or --trace: explain each wait longer than this [default with --wait: 100us]
    #[arg(long, value_name = "TIME", requires = "waits", conflicts_with_all = ["budget", "release"])]
    threshold: Option<Nanos>,
    /// Duration, or forever; ends with the application [default: 60s]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = measuring::run_length)]
    duration: Option<RunLength>,
    /// Trace events: usual, or full with more detail and overhead [default: usual]
    #[arg(long, value_name = "WHICH", value_parser = named(measuring::LEVELS.to_vec()))]
    events: Option<Level>,
    /// Also record this trace event, and show it with each outlier
    #[arg(long, value_name = "SYS:EVENT[/FILTER/]")]
    event: Vec<EventChoice>,
    /// Use trace events instead of BPF programs
    #[arg(long, conflicts_with = "wait")]
    no_bpf: bool,
    /// Do not read hardware counters (cycles, instructions, cache misses)
    #[arg(long, conflicts_with_all = ["wait", "no_bpf"])]
    no_counters: bool,
    /// Write where late jobs spend more time than others: .svg, .pb.gz (pprof), .json (Firefox)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wait", "no_bpf"])]
    profile: Option<PathBuf>,
    /// Label of the recording
    #[arg(long, value_name = "TEXT", value_parser = crate::options::select::label)]
    label: Option<String>,
    /// Show no progress, only the result
    #[arg(short, long)]
    quiet: bool,
    /// Show an interactive view: live histogram, late jobs with their causes, keys
    #[arg(long, conflicts_with = "quiet")]
    tui: bool,
    /// Show all figures and the longest outlier in detail
    #[arg(short, long)]
    verbose: bool,
}

/// The reactions of a trace that the options select.
pub(super) struct Selection<'a> {
    pub(super) pids: &'a [u32],
    pub(super) comm: Option<&'a str>,
    pub(super) threshold: Option<Nanos>,
    /// Explains the jobs of the threads in place of their waits.
    pub(super) jobs: Option<JobRequest>,
}

/// Parses a budget. Zero is rejected, because every job takes time.
fn positive(text: &str) -> Result<Nanos, Invalid> {
    match text.parse::<Nanos>()? {
        Nanos::ZERO => Err("a budget must be above 0".into()),
        time => Ok(time),
    }
}

/// Parses a share of a CPU, such as `2%` or `2`.
fn share(text: &str) -> Result<f64, Invalid> {
    let percent = text.strip_suffix('%').unwrap_or(text);
    match percent.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("write a share of a CPU above 0% and up to 100%, for example 2%".into()),
    }
}

impl Application {
    /// Returns which late reactions of a trace are selected.
    pub(super) fn selection(&self) -> Result<Selection<'_>, UsageError> {
        let release = self.release.clone();
        if release
            .as_ref()
            .is_some_and(|one| one.kind == ReleaseKind::Timerfd)
        {
            return Err(UsageError(
                "--release timerfd with --trace: a trace does not contain which descriptors are \
                 timers: pass the descriptor, as in --release read:4"
                    .to_owned(),
            ));
        }
        let has_jobs = self.budget.is_some() || release.is_some();
        Ok(Selection {
            jobs: has_jobs.then(|| JobRequest {
                budget: self.budget.unwrap_or(BUDGET),
                release: release.unwrap_or_default(),
                detail: JobDetail::Full,
            }),
            pids: &self.subject.pid,
            comm: self.subject.comm.as_deref(),
            threshold: self.threshold,
        })
    }

    /// Returns how long a running machine is observed. `None`: until it is stopped.
    pub(super) fn length(&self) -> Option<Nanos> {
        match self.duration {
            Some(RunLength::UntilStopped) => None,
            Some(RunLength::For(time)) => Some(time),
            Some(RunLength::Usual) | None => Some(LENGTH),
        }
    }

    pub(super) const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns the threads to watch, or `None` to explain a recording.
    pub(super) fn targets(&self) -> Result<Option<Targets>> {
        if let Some(subject) = self.subject.subject() {
            let (targets, _) = subject.targets(&Host::live()).map_err(SessionError::from)?;
            return Ok(Some(targets));
        }
        let only = [
            ("budget", self.budget.is_some()),
            ("release", self.release.is_some()),
            ("cost", self.cost.is_some()),
            ("detail", self.detail.is_some()),
            ("wait", self.wait),
            ("threshold", self.threshold.is_some()),
            ("duration", self.duration.is_some()),
            ("events", self.events.is_some()),
            ("event", !self.event.is_empty()),
            ("no-bpf", self.no_bpf),
            ("no-counters", self.no_counters),
            ("profile", self.profile.is_some()),
            ("label", self.label.is_some()),
            ("tui", self.tui),
        ];
        match only.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(UsageError(format!(
                "--{name} applies only to a running application: pass --pid, --comm, --cgroup or --unit"
            ))
            .into()),
            None => Ok(None),
        }
    }

    /// Returns how the remedy of a late job can be tried: by an experiment with the same application.
    /// `None` for an ordinary user, who may change nothing, and for waits.
    fn trial(&self, budget: Nanos) -> Option<Trial> {
        if self.wait || !rustix::process::geteuid().is_root() {
            return None;
        }
        let (option, value) = self.subject.subject()?.option()?;
        let budget = format!("{}ns", budget.0);
        let options = [format!("--{option}"), value, "--budget".to_owned(), budget];
        Some(Trial::new(options.to_vec(), crate::audit::settings_against))
    }

    /// Returns whether the jobs can be explained without tracing. Some options need it.
    fn is_possible_unprivileged(&self) -> bool {
        let traced = [
            self.wait,
            self.release.is_some(),
            self.cost.is_some(),
            self.detail.is_some(),
            self.events.is_some(),
            !self.event.is_empty(),
            self.no_bpf,
            self.profile.is_some(),
        ];
        !traced.contains(&true)
    }

    pub(super) fn run(self, targets: Targets, json: bool, context: &Context) -> Result<Exit> {
        if let (Some(When::Always), true) = (self.detail, self.cost.is_some()) {
            return Err(UsageError(
                "--cost limits windows, but --detail full records all the time: remove one of them"
                    .to_owned(),
            )
            .into());
        }
        let is_unprivileged = self.is_possible_unprivileged();
        let trial = self.trial(self.budget.unwrap_or(BUDGET));
        let file = self.profile.as_deref().map(ProfileFile::open).transpose()?;
        let request = ObserveRequest {
            targets,
            explain: ExplainRequest {
                threshold: self.threshold.unwrap_or(THRESHOLD),
                level: self.events.unwrap_or(Level::Default),
                events: self.event,
            },
            jobs: (!self.wait).then(|| JobRequest {
                budget: self.budget.unwrap_or(BUDGET),
                release: self.release.unwrap_or_default(),
                detail: match self.detail {
                    Some(When::Always) => JobDetail::Full,
                    Some(When::Windows) | None => JobDetail::Windows(self.cost),
                },
            }),
            no_bpf: self.no_bpf,
            no_counters: self.no_counters,
            profile: file.is_some(),
            reader: serve_symbols::program(),
            requirement: None,
            length: (self.duration).unwrap_or(RunLength::For(LENGTH)),
            recording: RecordingRequest {
                label: self.label,
                command_line: command_line(),
            },
        };
        if self.tui {
            tui::need_terminal()?;
        }
        let store = context.store_to_record()?;
        let stop = stop_flag()?;
        let mut view = if self.tui {
            tui::view(&stop, trial.clone(), store.as_ref())
        } else {
            crate::live::view(self.quiet)
        };
        let (host, sink) = (Host::live(), store.as_ref());
        let sink = sink.map(|store| store as &dyn RecordingSink);
        let mut outcome = match observe(&request, &host, sink, view.as_mut(), &stop) {
            Err(error) if error.is_refused() && is_unprivileged => {
                observe_unprivileged(&request, &host, sink, view.as_mut(), &stop)
                    .with_context(|| error.to_string())?
            }
            observed => observed?,
        };
        let exit = match outcome.recording.completion {
            Completion::Stopped => Exit::Interrupted,
            _ => Exit::Done,
        };
        context.stored(exit, outcome.store_error.is_none() && store.is_some());
        if json {
            outcome.recording.put_into_words();
            output::print_json(&outcome.recording)?;
        } else if self.verbose {
            show(&outcome.recording, context, store.as_ref())?;
        } else {
            let short = document::summary(&outcome.recording);
            output::print(&text::render(&short, &context.style()))?;
        }
        if let Some(file) = file {
            file.write(&outcome)?;
        }
        if let Some(words) = trial.as_ref().and_then(Trial::chosen) {
            return Err(become_command(&words).into());
        }
        if let Some(error) = outcome.store_error {
            return Err(error.into());
        }
        Ok(exit)
    }
}

/// Prints all figures, and the longest outlier in detail.
fn show(
    recording: &Recording,
    context: &Context,
    store: Option<&punctual_store::Store>,
) -> Result<()> {
    let style = context.style();
    if let Some(answer) = document::jobs_answer(recording) {
        output::print(&format!("{}\n", text::render(&answer, &style)))?;
    }
    output::print(&text::render(&document::recording(recording), &style))?;
    let Some(store) = store else {
        return Ok(());
    };
    if let Some(largest) = timelines::largest(store, recording)? {
        output::print(&format!(
            "\n{}",
            text::render(&document::outlier(&largest, false), &style)
        ))?;
    }
    if std::io::stdout().is_terminal() {
        let id = recording.id.short();
        note(&format!(
            "to see the other outliers: punctual explain {id} --outlier N"
        ));
    }
    Ok(())
}
