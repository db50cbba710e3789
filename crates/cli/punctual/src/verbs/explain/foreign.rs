//! The late reactions in a trace that another tool recorded.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use punctual_culprit::Wanted;
use punctual_formats::{ImportError, Source, recognise};
use punctual_model::{Comm, Explanation, Nanos};
use punctual_report::document::{self, Document};
use punctual_session::{
    ExplainedTrace, GuestTraces, TraceRequest, explain_guest, explain_trace, explain_trace_jobs,
    trace_threads,
};
use punctual_tracefile::{Input, TraceFileError, TraceReader, open};

use super::threads::Selection;
use crate::exit::UsageError;
use crate::verb::{Invalid, command_line, named};

// A trace of another tool.
#[derive(Args)]
#[command(next_help_heading = "A trace of another tool")]
pub(super) struct Foreign {
    /// Find the late reactions in this trace, - for stdin
    #[arg(long, value_name = "FILE", group = "waits")]
    #[arg(conflicts_with_all = [
        "recording", "cgroup", "wait", "cost", "detail", "duration", "events", "event", "no_bpf",
        "label", "quiet", "tui", "verbose", "profile",
    ])]
    trace: Option<PathBuf>,
    /// Explain this guest's trace, with --trace of its KVM host
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with_all = ["budget", "release"])]
    guest: Option<PathBuf>,
    /// Show run time and waits of each thread; =perf counts like perf
    #[arg(long, value_name = "HOW", requires = "trace", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "own", value_parser = named(COUNTED.to_vec()))]
    #[arg(conflicts_with_all = ["guest", "cpu", "outlier", "all_events", "json", "output", "threshold", "budget", "release"])]
    thread_times: Option<Counted>,
    /// Only reactions that ended on this CPU
    #[arg(long, value_name = "CPU", requires = "trace")]
    cpu: Option<u32>,
    /// Only the reaction at this time, as shown in the trace: 1234.567890
    #[arg(long, value_name = "TIME", requires = "trace", value_parser = moment)]
    at: Option<Moment>,
    /// Only reactions in this span of time
    #[arg(long, value_names = ["FROM", "TO"], num_args = 2, requires = "trace", value_parser = moment)]
    #[arg(conflicts_with = "at")]
    between: Vec<Moment>,
}

/// How the table of threads counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Own,
    Perf,
}

const COUNTED: [(&str, Counted); 2] = [("own", Counted::Own), ("perf", Counted::Perf)];

/// A time in a trace. It stands for the range of all times that begin with the same digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    from: Nanos,
    to: Nanos,
}

/// Parses a time in seconds, such as `1234.567890`.
fn moment(text: &str) -> Result<Moment, Invalid> {
    let invalid = || -> Invalid { "write a time in seconds as in the trace: 1234.567890".into() };
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || decimals.len() > 9 || !digits(seconds) || !digits(decimals) {
        return Err(invalid());
    }
    let unit = 10_u64.pow(9 - decimals.len() as u32);
    let seconds: u64 = seconds.parse().map_err(|_| invalid())?;
    let decimals: u64 = match decimals {
        "" => 0,
        decimals => decimals.parse().map_err(|_| invalid())?,
    };
    let from = seconds.checked_mul(1_000_000_000);
    let from = from.and_then(|ns| ns.checked_add(decimals * unit));
    let from = Nanos(from.ok_or_else(invalid)?);
    Ok(Moment {
        from,
        to: from + Nanos(unit - 1),
    })
}

/// Returns what a file is that contains no trace, and what to do with it.
fn kind_of(path: &Path, error: &TraceFileError) -> Option<String> {
    let no_trace = match error {
        TraceFileError::NoEvent { .. } | TraceFileError::NothingUsed { .. } => true,
        TraceFileError::NotATrace { kind } => kind.starts_with("binary data"),
        _ => false,
    };
    if !no_trace || path == Path::new("-") {
        return None;
    }
    let mut source = Source::new(path.display().to_string(), File::open(path).ok()?);
    let head = source.head().ok()?;
    match recognise("", &head) {
        Ok(import) => Some(format!(
            "not a trace but {}: read it with punctual import",
            import.summary
        )),
        // The trace was decompressed, so this is not what is wrong with it.
        Err(ImportError::Foreign { what, .. }) if what.contains("compressed") => None,
        Err(ImportError::Foreign { what, .. }) => Some(format!("not a trace: it {what}")),
        Err(_) => None,
    }
}

/// Refuses stdin for a trace that is read twice.
fn check_is_file(path: &Path) -> Result<(), UsageError> {
    if path == Path::new("-") {
        return Err(UsageError(
            "--trace - with --budget or --release: the trace is read twice, so it must be a file"
                .to_owned(),
        ));
    }
    Ok(())
}

impl Foreign {
    /// Returns the trace file, if one was given.
    pub(super) fn file(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// Returns a table of the threads if it was asked for.
    pub(super) fn thread_times(&self, path: &Path, of: &Selection<'_>) -> Result<Option<Document>> {
        let Some(counted) = self.thread_times else {
            return Ok(None);
        };
        let mut reader = Self::open(path)?;
        let as_perf = counted == Counted::Perf;
        let found = trace_threads(reader.as_mut(), &self.request(path, of)?, as_perf);
        let found = found.with_context(|| path.display().to_string())?;
        Ok(Some(document::trace_threads(&found)))
    }

    /// Reads the trace, and explains its late reactions.
    pub(super) fn explain(&self, path: &Path, of: &Selection<'_>) -> Result<ExplainedTrace> {
        let file = self.explained(path)?;
        if of.jobs.is_some() {
            check_is_file(file)?;
        }
        let mut reader = Self::open(file)?;
        self.explain_with(reader.as_mut(), path, of)
    }

    /// Returns the file whose late reactions are explained: that of the guest, if there is one.
    pub(super) fn explained<'a>(&'a self, path: &'a Path) -> Result<&'a Path, UsageError> {
        match self.guest.as_deref() {
            Some(guest) if guest == Path::new("-") => Err(UsageError(
                "--guest -: the trace of the guest is read twice, so it must be a file. The trace \
                 of the host can come from stdin: --trace -"
                    .to_owned(),
            )),
            Some(guest) => Ok(guest),
            None => Ok(path),
        }
    }

    /// Reads the trace that `reader` opened, and explains its late reactions. `path`: the value of
    /// `--trace`.
    pub(super) fn explain_with(
        &self,
        reader: &mut dyn TraceReader,
        path: &Path,
        of: &Selection<'_>,
    ) -> Result<ExplainedTrace> {
        let file = self.explained(path)?;
        let request = self.request(file, of)?;
        if self.guest.is_none() {
            let explained = match &of.jobs {
                None => explain_trace(reader, request),
                Some(jobs) => {
                    let mut again = Self::open_again(file)?;
                    explain_trace_jobs(reader, again.as_mut(), request, jobs)
                }
            };
            return explained.map_err(|error| match kind_of(path, &error) {
                Some(kind) => anyhow!("{}: {kind}", path.display()),
                None => anyhow::Error::new(error).context(path.display().to_string()),
            });
        }
        let (mut host, mut again) = (Self::open(path)?, Self::open(file)?);
        let traces = GuestTraces {
            host_file: path.display().to_string(),
            host: host.as_mut(),
            guest: reader,
            again: again.as_mut(),
        };
        Ok(explain_guest(traces, request)?)
    }

    /// Opens a trace that is already open.
    fn open_again(path: &Path) -> Result<Box<dyn TraceReader>> {
        check_is_file(path)?;
        Self::open(path)
    }

    /// Opens a trace.
    pub(super) fn open(path: &Path) -> Result<Box<dyn TraceReader>> {
        let input = if path == Path::new("-") {
            Ok(Input::stdin())
        } else {
            Input::path(path)
        };
        match input.and_then(open) {
            Ok(reader) => Ok(reader),
            Err(error) => match kind_of(path, &error) {
                Some(kind) => Err(anyhow!("{}: {kind}", path.display())),
                None => Err(error).with_context(|| path.display().to_string()),
            },
        }
    }

    /// Returns the request to explain the trace at `path`.
    pub(super) fn request(&self, path: &Path, of: &Selection<'_>) -> Result<TraceRequest> {
        Ok(TraceRequest {
            file: path.display().to_string(),
            wanted: self.wanted(of)?,
            command_line: command_line(),
        })
    }

    /// Returns the reactions to explain.
    fn wanted(&self, of: &Selection<'_>) -> Result<Wanted, UsageError> {
        let at = self.at.map(|at| (at.from, at.to));
        let between = match self.between.as_slice() {
            [from, to] if from.from > to.to => {
                return Err(UsageError(
                    "--between FROM TO: TO is before FROM".to_owned(),
                ));
            }
            [from, to] => Some((from.from, to.to)),
            _ => None,
        };
        Ok(Wanted {
            threshold: of.threshold,
            most: match of.threshold {
                Some(_) => Explanation::KEPT,
                None => Wanted::LONGEST,
            },
            pids: of.pids.to_vec(),
            comm: of.comm.map(|name| Comm::new(name.as_bytes())),
            cpu: self.cpu,
            between: at.or(between),
            jobs: None,
        })
    }
}
