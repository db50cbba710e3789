//! `punctual` without arguments on a terminal: the first screen.

use std::io::IsTerminal;
use std::sync::mpsc::channel;
use std::thread;

use anyhow::Result;
use clap::Parser;
use punctual_host::Host;
use punctual_model::{Audit, FindingState, RecordingId};
use punctual_report::document::{self, AuditDetail};
use punctual_report::text::{self, TextStyle};
use punctual_store::{Filter, Summary};

use crate::context::Context;
use crate::exit::Exit;
use crate::running::become_command;
use crate::tui::{self, Checked, Chosen, Home, Listed};
use crate::verb::{Run, Verb};
use crate::{audit, live};

pub(super) const VERB: Verb = Verb::new::<FirstScreen>(NAME);

/// The hidden verb that runs without arguments.
pub(crate) const NAME: &str = "home";

/// Maximum number of recordings in the list.
const LISTED: usize = 500;

/// Command line of the measurement that the first screen starts.
const MEASURE: [&str; 5] = ["measure", "timer", "--tui", "-D", "forever"];
/// Its further options for root, who may see the causes.
const EXPLAINED: [&str; 3] = ["--explain", "--threshold", "100us"];

/// Show the first screen; started by punctual without arguments
#[derive(Parser)]
#[command(hide = true)]
struct FirstScreen {}

/// Returns whether there is a terminal for the first screen.
pub(crate) fn is_possible() -> bool {
    std::io::stdout().is_terminal() && tui::need_terminal().is_ok()
}

impl Run for FirstScreen {
    fn run(self, context: &Context) -> Result<Exit> {
        tui::need_terminal()?;
        let (sender, audit) = channel();
        let style = TextStyle {
            width: live::terminal_width(),
            colour: false,
        };
        // The audit counts interrupts for a second.
        let checking = thread::Builder::new().name("audit".to_owned());
        let checking = checking.spawn(move || {
            if let Ok(audit) = audit::of_loop(None) {
                // Nobody receives it after the end of the screen.
                let _ = sender.send(checked(&audit, &style));
            }
        });
        drop(checking);
        let chosen = tui::home(Home {
            title: title(),
            audit,
            recordings: recordings(context),
            figures: &|id| figures(context, id, &style),
        })?;
        match chosen {
            Chosen::End => Ok(Exit::Done),
            Chosen::Measure => Err(measure().into()),
        }
    }
}

/// Replaces this program by a measurement. Returns only if this fails.
fn measure() -> std::io::Error {
    let mut words = MEASURE.map(str::to_owned).to_vec();
    if rustix::process::geteuid().is_root() {
        words.extend(EXPLAINED.map(str::to_owned));
    }
    become_command(&words)
}

fn title() -> String {
    let host = Host::live().facts();
    let name = host.hostname.get().cloned().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    format!("punctual {version}  {name}")
}

fn checked(audit: &Audit, style: &TextStyle) -> Checked {
    let problems = audit.findings.iter().filter(|finding| finding.is_problem());
    let count = |state| audit.count(state);
    let (fail, warn) = (count(FindingState::Fail), count(FindingState::Warn));
    let first = match fail + warn {
        0 => "no problem is known".to_owned(),
        _ => format!("{fail} fail, {warn} to look at; the worst first (d: all, with remedies)"),
    };
    let worst = problems.map(|finding| {
        format!(
            "{:<5}{:<7} {}",
            finding.state, finding.severity, finding.title
        )
    });
    let text = text::render(&document::audit(audit, AuditDetail { all: false }), style);
    Checked {
        brief: std::iter::once(first).chain(worst).collect(),
        text,
    }
}

fn recordings(context: &Context) -> Result<Vec<Listed>, String> {
    let filter = Filter {
        limit: Some(LISTED),
        without_blocks: true,
        ..Filter::default()
    };
    let store = context
        .store_to_read()
        .map_err(|error| format!("{error:#}"))?;
    let all = store.list_by(&filter).map_err(|error| error.to_string())?;
    if all.is_empty() {
        return Err("no recordings yet: press m".to_owned());
    }
    Ok(all.iter().map(listed).collect())
}

fn listed(summary: &Summary) -> Listed {
    let max = summary.max_ns.map_or("-".to_owned(), |max| max.to_string());
    let line = format!(
        "{}  {}  {max:>8}  {}",
        summary.id.short(),
        summary.started.strftime("%m-%d %H:%M"),
        summary.headline
    );
    Listed {
        id: summary.id,
        line,
    }
}

/// Returns all figures of a recording.
fn figures(context: &Context, id: RecordingId, style: &TextStyle) -> String {
    let recording = (context.store_to_read()).and_then(|store| Ok(store.load(id)?));
    match recording {
        Ok(recording) => text::render(&document::recording(&recording), style),
        Err(error) => format!("{error:#}"),
    }
}
