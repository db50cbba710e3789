//! `compat`: called by the name of an older tool.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use punctual_compat::{Behaviour, Installed, Signals, Stage, TOOLS, Tool};
use punctual_host::Host;
use punctual_session::{Keep, LaterStore};
use signal_hook::consts::{SIGALRM, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use super::{Verb, serve_partner};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, note};

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    Command::new("compat")
        .about("Behave as a tool of rt-tests, or list them and what differs")
        .override_usage(
            "punctual compat [--install DIR [--force]] [--page]\n       \
             punctual compat NAME [OPTION]...",
        )
        .after_help(format!(
            "After NAME all words are the tool's own: {}. Options of punctual go before it.\nCalled by such a name, through a link, \
             punctual behaves so without `compat`.",
            names.join(", ")
        ))
        .arg(
            Arg::new("install")
                .long("install")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Make DIR and in it a link to this program for each tool"),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .requires("install")
                .help("Replace what has such a name and is not ours"),
        )
        .arg(
            Arg::new("page")
                .long("page")
                .action(ArgAction::SetTrue)
                .conflicts_with("install")
                .help("Print the page of documentation, as Markdown"),
        )
        .arg(
            Arg::new("words")
                .value_name("NAME")
                .num_args(0..)
                .value_parser(value_parser!(OsString))
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .help("The tool and its options"),
        )
}

/// What comes here is not a call of a tool: [`called`] and [`chosen`] have taken
/// those.
fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    if let Some(name) = words(matches).first() {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        let known = names.join(", ");
        let text = format!("there is no compatible command '{name}': one of {known}");
        return Err(UsageError(text).into());
    }
    if let Some(folder) = matches.get_one::<PathBuf>("install") {
        return install(folder, matches.get_flag("force"));
    }
    output::print(&match matches.get_flag("page") {
        true => punctual_compat::page(),
        false => punctual_compat::list(),
    })?;
    Ok(Exit::Done)
}

fn install(folder: &Path, force: bool) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let links = punctual_compat::install(TOOLS, &program, folder, force)?;
    let mut text = String::new();
    for link in links {
        let (path, what) = match link {
            Installed::Made(path) => (path, "made"),
            Installed::WasThere(path) => (path, "was there"),
            Installed::Replaced(path) => (path, "made, in place of what was there"),
        };
        text.push_str(&format!("{}: {what}\n", path.display()));
    }
    output::print(&text)?;
    Ok(Exit::Done)
}

/// Behaves as a tool, if these words (with argv\[0\]) call one: by the name of
/// the program, or as `punctual compat NAME`.
pub(crate) fn called(words: &[OsString]) -> Option<ExitCode> {
    let words: Vec<String> = words.iter().map(readable).collect();
    let name = Path::new(words.first()?).file_name()?.to_str()?;
    let (tool, command_line) = match punctual_compat::tool(name) {
        Some(tool) => (tool, words),
        None if words.get(1)? == "compat" => {
            (punctual_compat::tool(words.get(2)?)?, words[2..].to_vec())
        }
        None => return None,
    };
    Some(behave(tool, command_line, Context::of_environment()))
}

/// Behaves as a tool, if the command line calls one after options of punctual:
/// `punctual --store FILE compat NAME`. Else [`called`] has seen it.
pub(crate) fn chosen(matches: &ArgMatches) -> Option<ExitCode> {
    let matches = matches.subcommand_matches("compat")?;
    // What --install would do with the words is not theirs.
    if matches.contains_id("install") || matches.get_flag("page") {
        return None;
    }
    let command_line = words(matches);
    let tool = punctual_compat::tool(command_line.first()?)?;
    Some(behave(tool, command_line, Context::new(matches)))
}

/// The name of a tool and its own words.
fn words(matches: &ArgMatches) -> Vec<String> {
    let words = matches.get_many::<OsString>("words").unwrap_or_default();
    words.map(readable).collect()
}

fn readable(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

fn behave(tool: &'static Tool, command_line: Vec<String>, context: Context) -> ExitCode {
    // As ps and killall know the original; it is only a name.
    let _ = rustix::thread::set_name(&std::ffi::CString::new(tool.name).unwrap_or_default());
    let started = jiff::Timestamp::now();
    context.recover_settings();
    context.recover_tracer();
    let signals = signals().unwrap_or_else(|error| {
        note(&format!("signals: {error}"));
        Signals::default()
    });
    let mut out = BufWriter::new(io::stdout().lock());
    let mut err = io::stderr();
    let mut stage = Stage {
        command_line,
        host: Host::live(),
        journal: context.journal(),
        partner: serve_partner::program(),
        behaviour: Behaviour {
            strict: is_on("PUNCTUAL_STRICT"),
            sparse_histogram: is_on("PUNCTUAL_SPARSE_HISTOGRAM"),
            // Without a recording there is none to name.
            extra_key: is_on("PUNCTUAL_JSON_KEY") && !context.wants_no_store(),
            posixly_correct: std::env::var_os("POSIXLY_CORRECT").is_some(),
        },
        store: store(context),
        signals,
        started,
        out: &mut out,
        err: &mut err,
    };
    let status = punctual_compat::run(tool, &mut stage);
    drop(stage);
    // What is left of a closed pipe's output is not tried again.
    let _ = out.flush();
    ExitCode::from(status)
}

/// Whether a variable of the environment says 1.
fn is_on(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value == "1")
}

/// The store, unless none is wanted. It is opened beside the measurement, which
/// does not wait for a disk; a script that ran without one runs on.
fn store(context: Context) -> Option<Box<dyn Keep>> {
    if context.wants_no_store() {
        return None;
    }
    Some(Box::new(LaterStore::new(move || context.store())))
}

/// Handlers as the originals have them: a second Ctrl-C does no more than the
/// first, for timeout(1) sends two.
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
    Ok(signals)
}
