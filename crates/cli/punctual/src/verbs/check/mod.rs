//! `check`: tests whether this machine is fit for a periodic loop.

mod application;
mod hunting;
mod series;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_experiment::{
    Around, CheckError, CheckRequest, Checked, HuntRequest, check, check_application,
};
use punctual_host::Host;
use punctual_model::{CpuSet, LoopRequirement, MissLimit, Nanos};
use punctual_report::html::HtmlOptions;
use punctual_report::{document, html, text};
use punctual_session::{ApplicationRequest, RecordingSink, SessionError};
use punctual_store::Store;

use crate::audit;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::live;
use crate::options::share_cpus::Sharing;
use crate::options::{extension, measuring};
use crate::output::{self, Output};
use crate::processes::{serve_load, serve_partner};
use crate::recordings::timelines;
use crate::running::stop_flag;
use crate::verb::{Run, Verb, command_line};

pub(super) const VERB: Verb = Verb::new::<CheckUp>("check");

/// Maximum duration of the hardware probe. The probe also takes at most half of the duration under
/// load.
const HARDWARE: Nanos = Nanos::from_secs(5);

const LONG: &str = "Check whether this machine can hold a real-time loop.\n\n\
    Audits the settings, looks for time that firmware or a hypervisor takes, and measures the \
    loop's period without load and under load. A period that begins later than the budget is a \
    miss. The verdict (held, broken or not proven) is about the number of late seconds a day under \
    load, with 95% confidence. A late second contains at least one miss, so a loop that is always \
    late has 86,400 a day. The command changes no settings.\n\n\
    With --pid, --comm, --cgroup or --unit, it judges a running application instead. It follows the \
    jobs of its threads as explain does, and nothing else runs. A late second contains a job that \
    took longer than the budget. Only seconds with jobs are evidence. Jobs whose response time is \
    unknown count as late in the upper bound.";

/// Check whether this machine can hold a real-time loop
#[derive(Parser)]
#[command(long_about = LONG, after_help = crate::exit::OF_CHECK)]
#[command(mut_args(application::exclude))]
struct CheckUp {
    /// Period of the loop [default: 1ms; for an application: any]
    #[arg(long, visible_alias = "rate", value_name = "TIME|HZ", value_parser = measuring::period)]
    period: Option<Nanos>,
    /// Latest start of a period, or longest job of an application [default: 100us]
    ///
    /// A period that begins later is a miss. A job takes from the wake-up that releases it until
    /// its thread waits for the next one.
    #[arg(long, value_name = "TIME", value_parser = measuring::length)]
    budget: Option<Nanos>,
    /// Number of late seconds per day that the application tolerates [default: 10]
    ///
    /// A late second contains at least one miss. With --misses, it contains at least one violated
    /// window. With --series, the plan can give another default.
    #[arg(long, value_name = "N", value_parser = measuring::late_seconds)]
    #[arg(allow_negative_numbers = true)]
    max_late_seconds_per_day: Option<f64>,
    /// Tolerate at most M misses in any K consecutive periods or jobs: 2/100
    #[arg(long, value_name = "M/K", allow_negative_numbers = true)]
    misses: Option<MissLimit>,
    /// The CPUs to measure: 2-3 [default: isolated ones, else all permitted]
    #[arg(short = 'a', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Priority of the loop, 1 to 99 [default: 95, or the highest permitted]
    #[arg(short, long, value_name = "N")]
    priority: Option<u8>,
    #[command(flatten)]
    sharing: Sharing,
    /// Background load, as in measure; none for no load [default: farm]
    #[arg(
        long,
        value_name = "LOAD",
        default_value = "farm",
        hide_default_value = true
    )]
    load: Vec<String>,
    /// How long to measure under load; without load, a quarter of this time
    #[arg(short = 'D', long, value_name = "TIME", value_parser = measuring::length, default_value = "60s")]
    duration: Nanos,
    /// Measure until held or broken is proven, at most LONGEST [default LONGEST: 24h]
    ///
    /// Broken is tried after 1, 2, 4, 8, ... minutes, held first when a run without a miss proves
    /// it, and both at the end. The error probability of 5% is divided among these verdicts.
    #[arg(long, value_name = "LONGEST", value_parser = measuring::length, default_missing_value = "24h")]
    #[arg(num_args = 0..=1, require_equals = true)]
    until_proven: Option<Nanos>,
    /// Search the worst mix of loads this long, then check under it
    ///
    /// Tries random mixes of the loads (kind, intensity, CPU, period), measures the better half twice
    /// as long each time, confirms the worst on fresh data, and removes the loads that it does not
    /// need. Only the loopback interface is used. The search pauses if the machine is hot.
    #[arg(long, value_name = "TIME", value_parser = measuring::length)]
    #[arg(conflicts_with_all = ["load", "until_proven", "output", "subject"])]
    hunt: Option<Nanos>,
    #[command(flatten)]
    application: application::OfApplication,
    #[command(flatten)]
    series: series::OfSeries,
    /// Name of the recordings [default: check]
    #[arg(long, value_name = "TEXT", value_parser = crate::options::select::label)]
    label: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write an HTML page (.html) with the verdict, causes and plots
    ///
    /// With --series: a page with each run (.html), a certificate (.pdf), Markdown (.md), JUnit
    /// (.xml), TAP (.tap), LAVA (.lava), KCIDB (.kcidb.json) or JSON (.json).
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show no progress, only the result
    #[arg(short, long)]
    quiet: bool,
    /// Show more causes and findings, and not only a screenful
    #[arg(short, long)]
    verbose: bool,
}

/// Default period and budget of a loop.
const PERIOD: Nanos = Nanos::from_millis(1);
const BUDGET: Nanos = Nanos::from_micros(100);

impl Run for CheckUp {
    fn run(self, context: &Context) -> Result<Exit> {
        let allowed = self.max_late_seconds_per_day;
        let forms = (self.json, self.output.as_deref());
        if let Some(exit) = self.series.run(allowed, forms, context)? {
            return Ok(exit);
        }
        let asked = self.asked()?;
        let (json, quiet) = (self.json, self.quiet);
        if let Some(path) = &self.output {
            extension::check(path, &["html"])?;
        }
        // Open the file now, so that an unwritable file is reported before the measurement.
        let page = self.output.as_deref().map(Output::open).transpose()?;
        let page_on_stdout = page.as_ref().is_some_and(Output::is_stdout);
        if json && page_on_stdout {
            return Err(one_format().into());
        }
        let audit = audit::of_loop(asked.cpus().cloned())?;
        let store = context.store_to_record()?;
        let stop = stop_flag()?;
        let mut view = live::view(quiet);
        let shown = live::is_shown(quiet);
        let say = |text: &str| {
            // The live view shows nothing during a search.
            if !quiet && (!shown || self.hunt.is_some()) {
                output::note(text);
            }
        };
        let _cpus = match &asked {
            Asked::Loop(_) | Asked::Hunt(_) => Some((self.sharing).hold(asked.cpus(), "check")?),
            // An application is only watched, and shares its CPUs with everything else.
            Asked::Application(_) => None,
        };
        let around = Around {
            host: &Host::live(),
            audit,
            store: store.as_ref().map(|store| store as &dyn RecordingSink),
            view: view.as_mut(),
            stop: &stop,
            say: &say,
        };
        let checked = match &asked {
            Asked::Loop(request) => check(request, around),
            Asked::Application(request) => {
                check_application(request, self.until_proven.is_some(), around)
            }
            Asked::Hunt(request) => {
                let shown = (store.as_ref(), json, self.verbose);
                return hunting::run(request, around, shown, context);
            }
        }
        .map_err(told)?;
        if let Some(store) = &store {
            keep_verdict(store, &checked)?;
        }
        let exit = exit(&checked);
        context.stored(exit, checked.store_error.is_none() && store.is_some());
        if json {
            output::print(&output::json(&checked.checkup))?;
        } else if !page_on_stdout {
            output::print(&text::render(
                &document::checkup(&checked.checkup, self.verbose),
                &context.style(),
            ))?;
        }
        if let Some(page) = page {
            let outliers = match &store {
                Some(store) => (checked.recordings.iter())
                    .filter_map(|recording| timelines::largest(store, recording).transpose())
                    .collect::<Result<_>>()?,
                None => Vec::new(),
            };
            let options = HtmlOptions {
                title: Some("Check-up".to_owned()),
                outliers,
                first: vec![document::checkup(&checked.checkup, true)],
                ..HtmlOptions::default()
            };
            page.put(html::render(&checked.recordings, &options)?.as_bytes())?;
        }
        if let Some(error) = checked.store_error {
            return Err(error).context("a recording could not be stored completely");
        }
        Ok(exit)
    }
}

/// What is checked.
enum Asked {
    /// A loop of punctual.
    Loop(Box<CheckRequest>),
    /// A running application.
    Application(Box<ApplicationRequest>),
    /// A loop of punctual under the worst load.
    Hunt(Box<HuntRequest>),
}

impl Asked {
    fn cpus(&self) -> Option<&CpuSet> {
        match self {
            Self::Loop(request) => request.cpus.as_ref(),
            Self::Application(_) => None,
            Self::Hunt(request) => request.check.cpus.as_ref(),
        }
    }
}

fn one_format() -> UsageError {
    UsageError("only one format can go to stdout: pass a file for the page".to_owned())
}

/// Stores the verdict in each completely stored recording.
fn keep_verdict(store: &Store, checked: &Checked) -> Result<()> {
    for recording in &checked.recordings {
        match (&recording.judgement, &checked.store_error) {
            (Some(judgement), None) => store.put_judgement(recording.id, judgement)?,
            _ => continue,
        }
    }
    Ok(())
}

/// Converts an error to one with the matching exit code: that of a wrong command line, or that of
/// the session.
fn told(error: CheckError) -> anyhow::Error {
    match error {
        CheckError::Parameter(text) => UsageError(format!("--period: {text}")).into(),
        CheckError::Nothing => UsageError(error.to_string()).into(),
        CheckError::Session(error) => error.into(),
        CheckError::Probe(error) => SessionError::from(error).into(),
    }
}

/// Returns the exit code for the verdict. A check-up that was stopped counts as interrupted, unless
/// the requirement is already broken.
fn exit(checked: &Checked) -> Exit {
    match checked.checkup.outcome {
        outcome if outcome.is_bad() => Exit::Broken,
        _ if checked.stopped => Exit::Interrupted,
        outcome if outcome.is_good() => Exit::Done,
        _ => Exit::NotProven,
    }
}

impl CheckUp {
    fn asked(&self) -> Result<Asked> {
        let allowed = self
            .max_late_seconds_per_day
            .unwrap_or(LoopRequirement::USUAL_LATE_SECONDS);
        let application = self.application.request(
            self.period,
            (self.budget, self.misses),
            (allowed, self.until_proven.unwrap_or(self.duration)),
            self.label.clone(),
        )?;
        Ok(match (application, self.hunt) {
            (Some(request), _) => {
                self.provable(request.requirement.period_ns)?;
                Asked::Application(Box::new(request))
            }
            (None, Some(length)) => {
                let request = hunting::request(self.request(allowed)?, length, self)?;
                Asked::Hunt(Box::new(request))
            }
            (None, None) => Asked::Loop(Box::new(self.request(allowed)?)),
        })
    }

    fn request(&self, allowed: f64) -> Result<CheckRequest> {
        let loads = measuring::loads(&self.load)?;
        let requirement = LoopRequirement {
            period_ns: self.period.unwrap_or(PERIOD),
            budget_ns: self.budget.unwrap_or(BUDGET),
            jobs: false,
            max_late_seconds_per_day: Some(allowed),
            misses: self.misses,
            max_misses_per_day: None,
            sample: None,
        };
        if requirement.budget_ns > requirement.period_ns {
            return Err(UsageError(format!(
                "--budget {} is longer than the period of {}: pass a budget of at most one period",
                requirement.budget_ns, requirement.period_ns
            ))
            .into());
        }
        self.provable(requirement.period_ns)?;
        let loaded = self.duration;
        Ok(CheckRequest {
            in_phase: false,
            requirement,
            cpus: self.cpus.clone().or_else(reserved),
            priority: self.priority,
            // Without a load, the idle condition is the only one, so it gets the whole measuring
            // time.
            idle: if loads.is_empty() {
                loaded
            } else {
                Nanos(loaded.0 / 4)
            },
            loaded,
            loads: loads.into_iter().map(serve_load::in_subprocess).collect(),
            hardware: HARDWARE.min(Nanos(loaded.0 / 2)),
            until_proven: self.until_proven,
            journal: crate::context::journal(),
            partner: serve_partner::program(),
            label: self.label.clone(),
            command_line: command_line(),
        })
    }
}

impl CheckUp {
    /// Returns an error if no run of this length can answer. `period` is 0 if there is none.
    fn provable(&self, period: Nanos) -> Result<(), UsageError> {
        if self.until_proven.is_some() && self.max_late_seconds_per_day == Some(0.0) {
            let text = "--until-proven needs --max-late-seconds-per-day above 0: no run is long \
                        enough to prove that no second is ever late";
            return Err(UsageError(text.to_owned()));
        }
        match self.misses {
            Some(misses) if period.0.saturating_mul(misses.periods().into()) > self.duration.0 => {
                Err(UsageError(format!(
                    "--misses {misses}: {} periods of {period} are longer than the measurement of \
                     {}: pass a longer --duration",
                    misses.periods(),
                    self.duration
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the CPUs that the machine keeps free of other work, if this process may use all of them.
/// A process outside of an isolated cpuset partition may not use its CPUs.
fn reserved() -> Option<CpuSet> {
    let cpus = Host::live().reserved()?.cpus;
    let all: Vec<u32> = cpus.iter().collect();
    let go_everywhere = move || {
        let tid = punctual_rt::current_tid();
        (all.iter()).all(|cpu| punctual_rt::affinity::set(tid, &[*cpu]).is_ok())
    };
    let permitted = std::thread::spawn(go_everywhere).join();
    permitted.unwrap_or(false).then_some(cpus)
}
