//! Chains of threads that wake each other, in a trace or on the running machine.

use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use punctual_culprit::ChainStart;
use punctual_host::Host;
use punctual_model::{Comm, TraceChains};
use punctual_report::document::Document;
use punctual_report::{document, html, text};
use punctual_session::{ChainSession, trace_chains};

use super::Explain;
use super::foreign::Foreign;
use crate::context::Context;
use crate::exit::Exit;
use crate::options::extension;
use crate::output::{self, Output};
use crate::running::{stop_flag, watching};
use crate::verb::Invalid;

/// The extension of a page.
const PAGE: &str = "html";

// Chains of threads that wake each other.
#[derive(Args)]
#[command(next_help_heading = "Chains of threads")]
pub(super) struct Chains {
    /// Follow chains from irq:NAME or comm:NAME to --to, live or in --trace
    #[arg(long, value_name = "KIND:NAME", requires = "to", value_parser = chain_start)]
    #[arg(conflicts_with_all = CONFLICTS)]
    from: Option<ChainEnd>,
    /// End the chains of --from when this thread sleeps: comm:NAME
    #[arg(long, value_name = "comm:NAME", requires = "from", value_parser = chain_end)]
    to: Option<ChainEnd>,
}

/// Options that make no sense with chains.
const CONFLICTS: [&str; 25] = [
    "recording",
    "thread_times",
    "guest",
    "cpu",
    "outlier",
    "all_events",
    "threshold",
    "budget",
    "release",
    "pid",
    "comm",
    "cgroup",
    "unit",
    "wait",
    "cost",
    "detail",
    "events",
    "event",
    "no_bpf",
    "no_counters",
    "profile",
    "label",
    "tui",
    "verbose",
    "without",
];

/// An end of a chain, with its text.
#[derive(Clone, Debug)]
struct ChainEnd {
    text: String,
    place: ChainStart,
}

/// Maximum length of the kernel's name of a thread, in bytes.
const LONGEST_COMM: usize = 15;

/// Parses the beginning of a chain: `irq:eth0` or `comm:NAME`.
fn chain_start(text: &str) -> Result<ChainEnd, Invalid> {
    let place = match text.split_once(':') {
        Some(("irq", name)) if !name.is_empty() => ChainStart::Interrupt(name.to_owned()),
        Some(("comm", name)) if !name.is_empty() => {
            if name.len() > LONGEST_COMM {
                return Err("the kernel's name of a thread has at most 15 bytes".into());
            }
            ChainStart::Thread(Comm::new(name.as_bytes()))
        }
        _ => return Err("write irq:NAME or comm:NAME, such as irq:eth0 or comm:motor".into()),
    };
    Ok(ChainEnd {
        text: text.to_owned(),
        place,
    })
}

/// Parses the end of a chain: `comm:NAME`.
fn chain_end(text: &str) -> Result<ChainEnd, Invalid> {
    match chain_start(text)? {
        end @ ChainEnd {
            place: ChainStart::Thread(_),
            ..
        } => Ok(end),
        _ => Err("a chain ends in a thread: write comm:NAME, such as comm:motor".into()),
    }
}

/// Prints or writes the chains, if they were asked for.
pub(super) fn run(options: &Explain, context: &Context) -> Result<Option<Exit>> {
    let (Some(from), Some(to)) = (&options.chains.from, &options.chains.to) else {
        return Ok(None);
    };
    let ChainStart::Thread(end) = to.place else {
        return Ok(None);
    };
    let path = options.output.as_deref();
    if let Some(path) = path.filter(|path| extension::extension_of(path) != PAGE) {
        return Err(extension::unknown(path, &[PAGE]).into());
    }
    let (mut found, exit) = match options.foreign.file() {
        Some(file) => {
            let mut reader = Foreign::open(file)?;
            let request = options
                .foreign
                .request(file, &options.application.selection()?)?;
            let found = trace_chains(reader.as_mut(), &request, from.place.clone(), end);
            (
                found.with_context(|| file.display().to_string())?,
                Exit::Done,
            )
        }
        None => live(options, from.place.clone(), end)?,
    };
    (found.from, found.to) = (from.text.clone(), to.text.clone());
    check_ends(&found)?;
    let is_unknown = found.latencies.recorded() == 0 && found.unknown > 0;
    let exit = match exit {
        Exit::Done if is_unknown => Exit::NotProven,
        exit => exit,
    };
    match path {
        Some(path) => {
            let title = format!("Chains from {} to {}", found.from, found.to);
            let shown = Document {
                title: title.clone(),
                ..document::trace_chains(&found)
            };
            Output::open(path)?.put(html::page(&title, &[shown]).as_bytes())?;
            output::note(&format!("chains written to {}", path.display()));
        }
        None if options.json => output::print(&output::json(&found))?,
        None => {
            let shown = document::trace_chains(&found);
            output::print(&text::render(&shown, &context.style()))?;
        }
    }
    Ok(Some(exit))
}

/// Follows the chains of this machine until the time is over or Ctrl-C.
fn live(options: &Explain, from: ChainStart, to: Comm) -> Result<(TraceChains, Exit)> {
    let stop = stop_flag()?;
    let mut session = ChainSession::start(from, to, &Host::live())?;
    let length = options.application.length();
    if !options.application.is_quiet() {
        output::note("following chains; Ctrl-C ends and shows them");
    }
    watching::wait(length, &stop, || Ok(session.keep_up()?))?;
    let exit = match length {
        Some(_) if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        _ => Exit::Done,
    };
    Ok((session.finish()?, exit))
}

/// Returns an error if an end of the chains does not exist.
fn check_ends(found: &TraceChains) -> Result<()> {
    let missing = match () {
        () if !found.start_seen => &found.from,
        () if !found.end_seen => &found.to,
        () => return Ok(()),
    };
    let interrupts: Vec<&str> = found.interrupts.iter().map(String::as_str).collect();
    let hint = match missing.strip_prefix("irq:") {
        Some(_) if !interrupts.is_empty() => {
            format!("; its interrupts: {}", interrupts.join(", "))
        }
        _ => String::new(),
    };
    Err(anyhow!(
        "{}: the events have no {missing}{hint}",
        found.file
    ))
}
