//! `app lint`: finds operations that real-time threads should avoid in a running program.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Result;
use clap::{Parser, value_parser};
use punctual_host::Host;
use punctual_model::{LintReport, Nanos, RuleState};
use punctual_report::{document, text};
use punctual_session::{LintRequest, Targets, lint};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, note};
use crate::processes::serve_symbols;
use crate::running::stop_flag;
use crate::verb::Run;

const LONG: &str = "Check a running program for actions that its real-time threads should avoid, \
    with call sites, without recompiling it.\n\n\
    Threads of SCHED_FIFO, SCHED_RR and SCHED_DEADLINE are watched by BPF programs, which require \
    root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF. A rule that cannot be checked is \
    reported as unknown, with the reason. The program is not stopped or changed. Call sites are \
    found through frame pointers: build with -fno-omit-frame-pointer to get complete ones. System \
    calls are traced only at the end, because tracing slows down each system call of the machine. \
    The first 5 waits of each thread are not judged.";

/// Find actions of a program's real-time threads that cost latency
#[derive(Parser)]
#[command(long_about = LONG, after_help = crate::exit::OF_AUDIT)]
pub(super) struct Lint {
    /// Processes, or single threads
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = value_parser!(u32).range(1..))]
    #[arg(required_unless_present_any = ["comm", "list"], conflicts_with = "comm")]
    pid: Vec<u32>,
    /// Processes and threads with this name
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
    /// Time to watch
    #[arg(short = 'D', long, value_name = "TIME", default_value = "10s")]
    duration: Nanos,
    /// Time to trace system calls; 0 for none [default: 2s, half of -D]
    #[arg(long, value_name = "TIME")]
    calls: Option<Nanos>,
    /// Show every call site in full
    #[arg(long)]
    all: bool,
    /// Use trace events instead of BPF programs
    #[arg(long)]
    no_bpf: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write SARIF 2.1.0 for code scanning; - for stdout
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Exit with 0, regardless of the findings
    #[arg(long)]
    report_only: bool,
    /// Print all rules as Markdown
    #[arg(long)]
    list: bool,
}

/// Default of the maximum time to trace system calls.
const CALLS: Nanos = Nanos::from_secs(2);

impl Run for Lint {
    fn run(self, context: &Context) -> Result<Exit> {
        if self.list {
            output::print(&punctual_culprit::lint::page())?;
            return Ok(Exit::Done);
        }
        let targets = match self.comm.clone() {
            Some(comm) => Targets::Comm(comm),
            None => Targets::Pids(self.pid.clone()),
        };
        if self.duration == Nanos::ZERO {
            return Err(UsageError("the time to watch is 0".to_owned()).into());
        }
        let half = Nanos(self.duration.0 / 2);
        let request = LintRequest {
            targets,
            duration: self.duration,
            calls: self.calls.unwrap_or(CALLS.min(half)).min(self.duration),
            no_bpf: self.no_bpf,
            reader: serve_symbols::program(),
        };
        let on_stdout = self
            .sarif
            .as_ref()
            .is_some_and(|path| path.as_os_str() == "-");
        if self.json && on_stdout {
            let wrong = "only one format can go to stdout: pass a file for the others".to_owned();
            return Err(UsageError(wrong).into());
        }
        let stop = stop_flag()?;
        let facts = lint(&request, &Host::live(), &stop, &mut |text| note(text))?;
        let program = concat!("punctual ", env!("CARGO_PKG_VERSION"));
        let report = punctual_culprit::lint::judge(&facts, program);
        let exit = match (stop.load(Ordering::Relaxed), self.report_only) {
            (true, _) => Exit::Interrupted,
            (false, true) => Exit::Done,
            (false, false) => exit(&report),
        };
        context.ends_with(exit);
        self.show(&report, context)?;
        Ok(exit)
    }
}

impl Lint {
    fn show(&self, report: &LintReport, context: &Context) -> Result<()> {
        if let Some(path) = &self.sarif {
            let text = output::json(&punctual_report::lint_sarif(report));
            output::Output::open(path)?.put(text.as_bytes())?;
            if path.as_os_str() == "-" {
                return Ok(());
            }
        }
        if self.json {
            return output::print(&output::json(report));
        }
        let shown = document::lint(report, self.all);
        output::print(&text::render(&shown, &context.style()))
    }
}

/// If the result of an important rule is unknown, a run without violations proves nothing.
fn exit(report: &LintReport) -> Exit {
    match (
        report.has_grave(RuleState::Violated),
        report.has_grave(RuleState::Unknown),
    ) {
        (true, _) => Exit::Broken,
        (false, true) => Exit::NotProven,
        (false, false) => Exit::Done,
    }
}
