//! `compat`: runs as an older tool.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use clap::{ArgMatches, FromArgMatches, Parser};
use punctual_compat::{Behaviour, Installed, NOT_REPLACED, Signals, Tool, ToolContext, programs};
use punctual_host::Host;
use punctual_session::{LaterStore, RecordingSink};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, note};
use crate::processes::serve_partner;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Compat>("compat");

const USAGE: &str = "punctual compat [--install DIR [--force]] [--page]\n       \
                     punctual compat NAME [OPTION]...";

/// Run as cyclictest, another tool of rt-tests, or rtla
#[derive(Parser)]
#[command(override_usage = USAGE, after_help = after())]
struct Compat {
    /// Create DIR with a link to this program for each tool
    #[arg(long, value_name = "DIR")]
    install: Option<PathBuf>,
    /// Replace existing files that are not links to this program
    #[arg(long, requires = "install")]
    force: bool,
    /// Print the documentation page as Markdown
    #[arg(long, conflicts_with = "install")]
    page: bool,
    /// The tool and its options
    #[arg(value_name = "NAME", num_args = 0..)]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

fn after() -> String {
    format!(
        "NAME is one of {}.\n\
         All words after NAME are arguments of that tool; options of punctual go before NAME.\n\
         If punctual is called through a link with such a name, `compat` is not needed.",
        names()
    )
}

fn names() -> String {
    programs().join(", ")
}

impl Run for Compat {
    /// Prints the list of tools or installs the links. Calls of the tools themselves are handled by
    /// [`called`] and [`chosen`].
    fn run(self, context: &Context) -> Result<Exit> {
        if let Some(name) = self.words.first().map(readable) {
            let text = match not_replaced(&name) {
                Some(text) => text,
                None => format!(
                    "unknown compatible command '{name}': choose one of {}",
                    names()
                ),
            };
            return Err(UsageError(text).into());
        }
        if let Some(folder) = &self.install {
            return install(folder, self.force);
        }
        output::print(&if self.page {
            punctual_compat::page()
        } else {
            punctual_compat::list(context.style().width)
        })?;
        Ok(Exit::Done)
    }
}

fn install(folder: &Path, force: bool) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let links = punctual_compat::install(&programs(), &program, folder, force)?;
    let mut text = String::new();
    for link in links {
        let (path, what) = match link {
            Installed::Made(path) => (path, "made"),
            Installed::WasThere(path) => (path, "exists already"),
            Installed::Replaced(path) => (path, "made, replacing a file"),
        };
        text.push_str(&format!("{}: {what}\n", path.display()));
    }
    output::print(&text)?;
    Ok(Exit::Done)
}

/// Returns what to use instead of a tool that is not replaced.
fn not_replaced(name: &str) -> Option<String> {
    let known = NOT_REPLACED.iter().find(|tool| tool.name == name)?;
    Some(format!(
        "punctual does not replace {name}: {}",
        known.advice
    ))
}

/// Runs a tool if these words (including argv\[0\]) call one, either through the name of the
/// program or as `punctual compat NAME`.
pub(crate) fn called(words: &[OsString]) -> Option<ExitCode> {
    let words: Vec<String> = words.iter().map(readable).collect();
    let (tool, command_line) = match punctual_compat::called(&words) {
        Some(called) => called,
        None => {
            // A link of an older version can have the name of a tool that it replaced.
            let program = Path::new(words.first()?).file_name()?.to_str()?;
            if let Some(text) = not_replaced(program) {
                return Some(super::PROGRAM.report(&UsageError(text).into()));
            }
            match words.get(1)?.as_str() {
                "compat" => punctual_compat::called(words.get(2..)?)?,
                _ => return None,
            }
        }
    };
    Some(behave(tool, command_line, Context::of_environment()))
}

/// Runs a tool if its name follows options of punctual, as in `punctual --store FILE compat NAME`.
/// Other calls are handled by [`called`].
///
/// # Errors
/// Returns an error if an option is invalid.
pub(crate) fn chosen(matches: &ArgMatches) -> Result<Option<ExitCode>> {
    // Compare the name first, because the command line of another verb is parsed without the
    // options of this one.
    let Some(("compat", matches)) = matches.subcommand() else {
        return Ok(None);
    };
    let options = Compat::from_arg_matches(matches)?;
    let command_line: Vec<String> = options.words.iter().map(readable).collect();
    let called = punctual_compat::called(&command_line);
    // With --install or --page, the words are not the command line of a tool.
    match called.filter(|_| options.install.is_none() && !options.page) {
        Some((tool, command_line)) => Ok(Some(behave(tool, command_line, Context::new(matches)?))),
        None => Ok(None),
    }
}

fn readable(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

fn behave(tool: &'static Tool, command_line: Vec<String>, context: Context) -> ExitCode {
    // Use the name of the original tool, so that ps and killall find the process.
    let _ = rustix::thread::set_name(&std::ffi::CString::new(tool.program()).unwrap_or_default());
    punctual_rt::keep_inherited_policy();
    let started = jiff::Timestamp::now();
    crate::context::recover_settings();
    crate::context::recover_tracer();
    let signals = signals().unwrap_or_else(|error| {
        note(&format!("signals: {error}"));
        Signals::default()
    });
    let mut out = BufWriter::new(io::stdout().lock());
    let mut err = io::stderr();
    let mut tool_context = ToolContext {
        command_line,
        host: Host::live(),
        journal: crate::context::journal(),
        partner: serve_partner::program(),
        behaviour: Behaviour {
            strict: is_on("PUNCTUAL_STRICT"),
            sparse_histogram: is_on("PUNCTUAL_SPARSE_HISTOGRAM"),
            // This JSON key contains the ID of the stored recording, so it needs a store.
            extra_key: is_on("PUNCTUAL_JSON_KEY") && !context.wants_no_store(),
            posixly_correct: std::env::var_os("POSIXLY_CORRECT").is_some(),
        },
        store: store(context),
        signals,
        started,
        out: &mut out,
        err: &mut err,
    };
    let status = punctual_compat::run(tool, &mut tool_context);
    drop(tool_context);
    // If the reader has closed the pipe, the rest of the output is dropped.
    let _ = out.flush();
    ExitCode::from(status)
}

/// Returns whether an environment variable is set to 1.
fn is_on(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value == "1")
}

/// Returns the store, unless storing is disabled. The store is opened in parallel, so that the
/// measurement does not wait for the disk. If opening fails, a script that calls the tool still
/// continues.
fn store(context: Context) -> Option<Box<dyn RecordingSink>> {
    if context.wants_no_store() {
        return None;
    }
    Some(Box::new(LaterStore::new(move || context.open_to_write())))
}

/// Installs handlers for the same signals as the originals. A second Ctrl-C has no further effect,
/// because timeout(1) sends two signals.
fn signals() -> io::Result<Signals> {
    let signals = Signals::default();
    let register = |signal: i32, flag: &Arc<AtomicBool>| {
        signal_hook::flag::register(signal, Arc::clone(flag)).map(drop)
    };
    register(SIGINT, &signals.stop)?;
    register(SIGTERM, &signals.stop)?;
    register(SIGALRM, &signals.stop)?;
    register(SIGUSR1, &signals.show)?;
    register(SIGUSR2, &signals.snapshot)?;
    punctual_rt::demote_at_signals(&[SIGHUP]).map_err(io::Error::other)?;
    Ok(signals)
}
