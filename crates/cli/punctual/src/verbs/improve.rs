//! `improve`: finds out which settings help on this machine.

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use jiff::Timestamp;
use punctual_experiment::{
    ApplicationSearch, Bench, NumbersBench, Progress, candidates, improve, improve_application,
    intended, plan_stages, profile, rehearse, unfinished,
};
use punctual_host::Host;
use punctual_model::{Audit, CpuSet, ExperimentPlan, Improvement, LoopRequirement, Nanos};
use punctual_report::{document, text};
use punctual_session::{ApplicationRequest, JobDetail, Release, Subject};
use punctual_store::Store;

use crate::audit;
use crate::context::Context;
use crate::exit::Exit;
use crate::live;
use crate::options::blocks::Measuring;
use crate::options::extension;
use crate::options::measuring::{length, period};
use crate::options::share_cpus::Sharing;
use crate::options::subject::JudgedSubject;
use crate::output::{self, Output};
use crate::processes::serve_guard::{Guard, Guarded, SILENCE};
use crate::processes::{serve_load, serve_partner};
use crate::running::experiment::{Progressing, failed};
use crate::running::stop_flag;
use crate::verb::{Run, Verb, command_line};

pub(super) const VERB: Verb = Verb::new::<Options>("improve");

/// Exit codes of `improve`, for its help.
const EXITS: &str = "\
Exit codes:
  0    a setting is proven to help, or nothing is left to try
  1    failed; settings are as before
  2    wrong usage
  4    no setting is proven to help
  130  interrupted; settings are as before";

/// Find by experiment which settings help on this machine
///
/// Tries the low-risk settings that the audit recommends: first all together in a screening, then
/// the best ones again on fresh data. The settings that help are then tested as a group, and with
/// each one left out. Before that, equal conditions are compared: if these seem to differ, no
/// setting is tried. Settings that are proven to help are written to a profile for `punctual tune`.
/// At the end, all settings are as before, even after Ctrl-C or a kill. If the program hangs,
/// another process ends it and restores them. Settings of high risk, alarms, mitigations, files in
/// /etc and interrupts of devices are never changed.
///
/// With --pid, --comm, --cgroup or --unit, it looks for settings that help a running application.
/// It watches the application first. The settings against the causes that made most of its jobs
/// late are tried first. The share of jobs above --budget is compared, and the settings that seem
/// to help are proven together on fresh data.
#[derive(Parser, Clone, Debug)]
#[command(after_help = EXITS, mut_args(exclude))]
struct Options {
    /// CPUs to measure: 2-3 [default: all that this process may use]
    #[arg(short = 'a', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Period of the loop
    #[arg(long, visible_alias = "rate", value_name = "TIME|HZ", value_parser = period)]
    #[arg(default_value = "1ms")]
    period: Nanos,
    /// Latency above which a wake-up is late, or longest job [default: from the pilot run]
    #[arg(long, value_name = "TIME", value_parser = length)]
    budget: Option<Nanos>,
    /// Priority of the loop, 1 to 99 [default: 95, or the highest permitted]
    #[arg(short, long, value_name = "N")]
    priority: Option<u8>,
    #[command(flatten)]
    sharing: Sharing,
    /// Background load during each block, as in measure
    #[arg(long, value_name = "LOAD")]
    load: Vec<String>,
    /// How long the search may take
    #[arg(short = 'D', long, value_name = "TIME", value_parser = length, default_value = "2h")]
    duration: Nanos,
    /// Length of a block [default: from the pilot run, 10s or more]
    #[arg(long, value_name = "TIME", value_parser = length)]
    block: Option<Nanos>,
    /// Time to discard at the start of each block
    #[arg(long, value_name = "TIME", value_parser = length, default_value = "2s")]
    wash_out: Nanos,
    /// Seed of the random order [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    subject: JudgedSubject,
    /// Continue a search that was stopped or killed
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", conflicts_with_all = ["cpus", "period", "budget", "priority", "load", "duration", "block", "wash_out", "seed", "only", "dry_run"])]
    resume: Option<String>,
    /// Settings to try, of those that the audit recommends [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Show which settings would be tried, and which effects --duration can detect
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Profile for `punctual tune` with the settings that help: .toml [default: improve.toml]
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "improve.toml",
        hide_default_value = true
    )]
    output: PathBuf,
    /// Show no progress, only the result
    #[arg(short, long)]
    quiet: bool,
}

impl Run for Options {
    fn run(self, context: &Context) -> Result<Exit> {
        find(&self, context)
    }
}

/// Options that only a search with the loop of punctual uses.
const OF_LOOP: [&str; 6] = ["cpus", "period", "priority", "share_cpus", "load", "resume"];

/// Makes an option that only a search with a loop uses exclude an application.
fn exclude(option: clap::Arg) -> clap::Arg {
    if OF_LOOP.contains(&option.get_id().as_str()) {
        option.conflicts_with("subject")
    } else {
        option
    }
}

fn find(options: &Options, context: &Context) -> Result<Exit> {
    let host = Host::live();
    if let Some((subject, budget)) = options.subject.judged(&host, options.budget)? {
        return of_application(options, subject, budget, context);
    }
    if let Some(which) = &options.resume {
        let store = context.store_to_change()?;
        let own = crate::context::own_experiments()?;
        let state = unfinished(&store, &own, which).map_err(failed)?;
        let cpus = state.plan.cpus.as_ref();
        let _cpus = (options.sharing).hold(cpus, "improve")?;
        let guard = Guard::start(SILENCE)?;
        let around = (Some(&store), Some(&guard));
        return search(state.improvement, &state.plan, around, options, context);
    }
    extension::check(&options.output, &["toml"])?;
    let plan = plan(options)?;
    let audit = audit::of_loop(options.cpus.clone())?;
    let mut improvement = to_try(options, &audit, &host)?;
    // Start the guard before the first setting is changed.
    let (guard, _cpus) = if options.dry_run {
        (None, None)
    } else {
        let cpus = (options.sharing).hold(options.cpus.as_ref(), "improve")?;
        (Some(Guard::start(SILENCE)?), cpus)
    };
    if !options.dry_run {
        let journal = crate::context::journal();
        rehearse(
            &mut improvement,
            &host,
            options.cpus.as_ref(),
            journal.as_deref(),
        )
        .map_err(failed)?;
    }
    let nothing = improvement.tried.is_empty();
    if nothing {
        improvement.sentence = NOTHING.to_owned();
    } else {
        plan_stages(&mut improvement, &plan).map_err(failed)?;
    }
    if nothing || options.dry_run {
        show(&improvement, None, options, context)?;
        return Ok(Exit::Done);
    }
    let store = context.store_to_record()?;
    let around = (store.as_ref(), guard.as_ref());
    search(improvement, &plan, around, options, context)
}

/// Result of a search without a setting to try.
const NOTHING: &str = "the audit recommends no setting that can be tried";

/// Returns the settings to try.
fn to_try(options: &Options, audit: &Audit, host: &Host) -> Result<Improvement> {
    for name in &options.only {
        let setting = name.split('@').next().unwrap_or_default();
        punctual_tune::setting(setting)?;
    }
    let (tried, left_out) = candidates(audit, host, options.cpus.as_ref(), &options.only);
    Ok(intended(tried, left_out))
}

/// Default length of a block of watching an application.
const BLOCK: Nanos = Nanos::from_secs(20);

/// Searches for settings that help an application.
fn of_application(
    options: &Options,
    subject: Subject,
    budget: Nanos,
    context: &Context,
) -> Result<Exit> {
    extension::check(&options.output, &["toml"])?;
    let host = Host::live();
    let audit = audit::of_loop(None)?;
    let mut improvement = to_try(options, &audit, &host)?;
    improvement.application = Some(subject.to_string());
    improvement.threshold_ns = Some(budget);
    let search = ApplicationSearch {
        request: ApplicationRequest {
            requirement: LoopRequirement::of_jobs(budget),
            subject,
            release: Release::default(),
            detail: JobDetail::Windows(None),
            duration: options.block.unwrap_or(BLOCK),
            reader: None,
            label: None,
            command_line: command_line(),
        },
        time: options.duration,
        wash_out: options.wash_out,
        seed: plan(options)?.seed,
    };
    if improvement.tried.is_empty() {
        improvement.sentence = NOTHING.to_owned();
    }
    if improvement.tried.is_empty() || options.dry_run {
        show(&improvement, None, options, context)?;
        return Ok(Exit::Done);
    }
    let store = context.store_to_record()?;
    let stop = stop_flag()?;
    // Start the guard before the first setting is changed.
    let guard = Guard::start(SILENCE)?;
    let journal = crate::context::journal();
    rehearse(&mut improvement, &host, None, journal.as_deref()).map_err(failed)?;
    let mut view = Guarded {
        inner: live::view(true),
        guard: Some(&guard),
    };
    let mut progress = Progressing::new(options.quiet);
    let bench = NumbersBench {
        store: store.as_ref(),
        host: &host,
        journal,
        stop: &stop,
        view: &mut view,
        say: &mut |text| {
            progress.say(&Progress {
                text: text.to_owned(),
                important: false,
            });
        },
        alive: &|| guard.borrow_mut().beat(),
    };
    improve_application(&mut improvement, &search, &audit, bench).map_err(failed)?;
    let next = kept(&improvement, None, options)?;
    let exit = exit(&improvement, next.is_some());
    context.stored(exit, store.is_some());
    show(&improvement, next.as_deref(), options, context)?;
    Ok(exit)
}

/// Writes the profile with the settings that help. Returns the command that applies it.
fn kept(
    improvement: &Improvement,
    cpus: Option<&CpuSet>,
    options: &Options,
) -> Result<Option<String>> {
    let date = Timestamp::now().strftime("%F").to_string();
    let Some(text) = profile(improvement, &date) else {
        return Ok(None);
    };
    Output::open(&options.output)?.put(text.as_bytes())?;
    let cpus = cpus.map_or_else(String::new, |cpus| format!(" --cpus {cpus}"));
    Ok(Some(format!(
        "sudo punctual tune apply {}{cpus}",
        options.output.display()
    )))
}

fn exit(improvement: &Improvement, found: bool) -> Exit {
    match (improvement.stopped, found) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::NotProven,
    }
}

/// Runs the rest of a search, and shows which settings help.
fn search(
    mut improvement: Improvement,
    plan: &ExperimentPlan,
    (store, guard): (Option<&Store>, Option<&RefCell<Guard>>),
    options: &Options,
    context: &Context,
) -> Result<Exit> {
    let host = Host::live();
    let stop = stop_flag()?;
    let mut view = Guarded {
        inner: live::view(true),
        guard,
    };
    let mut progress = Progressing::new(options.quiet);
    let mut bench = Bench {
        host: &host,
        store,
        journal: crate::context::journal(),
        partner: serve_partner::program(),
        isolate: &serve_load::in_subprocess,
        view: &mut view,
        stop: &stop,
        shared: options.sharing.share_cpus,
        say: &mut |said| progress.say(said),
    };
    // If there is no folder for their state, the stages can be measured but not resumed.
    let own = crate::context::own_experiments().ok();
    improve(&mut improvement, plan, own.as_ref(), &mut bench).map_err(failed)?;
    let found = kept(&improvement, plan.cpus.as_ref(), options)?;
    let resume = || {
        let resumable = improvement.stopped && store.is_some();
        resumable.then(|| "punctual improve --resume".to_owned())
    };
    let exit = exit(&improvement, found.is_some());
    let next = found.or_else(resume);
    context.stored(exit, store.is_some());
    show(&improvement, next.as_deref(), options, context)?;
    Ok(exit)
}

fn show(
    improvement: &Improvement,
    next: Option<&str>,
    options: &Options,
    context: &Context,
) -> Result<()> {
    output::print(&if options.json {
        output::json(improvement)
    } else {
        text::render(&document::improvement(improvement, next), &context.style())
    })
}

/// Returns the plan of the blocks. They are measured by the timer probe, with the period of the
/// loop.
fn plan(options: &Options) -> Result<ExperimentPlan> {
    let measuring = Measuring {
        probe: "timer".to_owned(),
        parameter: vec![format!("interval={}ns", options.period.0)],
        cpus: options.cpus.clone(),
        policy: None,
        priority: options.priority,
        load: options.load.clone(),
    };
    let plan = measuring.plan(Vec::new())?;
    Ok(ExperimentPlan {
        threshold_ns: options.budget,
        time_ns: options.duration,
        block_ns: options.block,
        wash_out_ns: options.wash_out,
        seed: options.seed.unwrap_or(plan.seed),
        ..plan
    })
}
