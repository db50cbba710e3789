//! `experiment --numbers`: compares the numbers that a command prints.

use anyhow::{Result, ensure};
use clap::Args;
use punctual_experiment::{DEADLINE, Meter, NumbersBench, NumbersRequest, Progress, run_numbers};
use punctual_host::Host;
use punctual_model::{Arm, ArmAction, LoopRequirement, Nanos, NumberEffect, NumbersExperiment};
use punctual_report::{document, text};
use punctual_session::{ApplicationRequest, JobDetail, Release};

use super::report::{self, OutputOptions};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::live;
use crate::options::measuring;
use crate::options::subject::JudgedSubject;
use crate::output;
use crate::processes::serve_guard::{Guard, Guarded, SILENCE};
use crate::running::experiment::{Progressing, failed};
use crate::running::stop_flag;
use crate::verb::{Invalid, command_line};

/// What is measured in place of a probe: the numbers of a command, or an application.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Numbers")]
pub(in crate::verbs) struct OfNumbers {
    /// Command that prints one number, or 'name value unit' on each line
    ///
    /// It runs once in each condition of a round, in random order. Lower is better.
    #[arg(long, value_name = "CMD", conflicts_with_all = OF_PROBE)]
    numbers: Option<String>,
    /// Higher numbers are better
    #[arg(long, requires = "numbers")]
    higher: bool,
    /// With numbers or jobs: largest difference that counts as none [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = margin)]
    margin: Option<f64>,
    /// Longest run of a command of --numbers, --a or --b [default: 10m]
    ///
    /// A command that runs longer is ended with its process group, and the experiment fails.
    #[arg(long, value_name = "TIME", value_parser = measuring::length)]
    pub(super) deadline: Option<Nanos>,
    #[command(flatten)]
    subject: JudgedSubject,
    /// Longest job of the application; the share of longer ones is compared
    #[arg(long, value_name = "TIME", value_parser = measuring::length, requires = "subject")]
    #[arg(help_heading = "A running application")]
    budget: Option<Nanos>,
}

/// Default length of the observation of an application in a block.
const BLOCK: Nanos = Nanos::from_secs(20);

/// Options that only an experiment with a probe uses.
const OF_PROBE: [&str; 12] = [
    "boot",
    "write",
    "reboot",
    "threshold",
    "no_early_end",
    "probe",
    "parameter",
    "cpus",
    "policy",
    "priority",
    "load",
    "share_cpus",
];

/// The part of an experiment on numbers that other options give.
pub(super) struct Conditions {
    pub(super) arms: Vec<Arm>,
    pub(super) wash_out: Nanos,
    pub(super) block: Option<Nanos>,
    pub(super) pairs: Option<u32>,
    pub(super) time: Nanos,
    pub(super) seed: u64,
    pub(super) label: String,
}

/// Parses a share such as `2%` or `2`.
fn margin(text: &str) -> Result<f64, Invalid> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("write a percentage above 0% and up to 100%, for example 2%".into()),
    }
}

impl OfNumbers {
    /// Returns whether a command prints the numbers.
    pub(super) const fn has_command(&self) -> bool {
        self.numbers.is_some()
    }

    pub(super) fn is_given(&self) -> bool {
        self.numbers.is_some() || self.subject.subject().is_some()
    }

    /// Returns the source of the numbers.
    fn meter(&self, Conditions { arms, block, .. }: &Conditions) -> Result<Meter> {
        let block = *block;
        let by_command = |arm: &Arm| matches!(arm.action, ArmAction::Command { .. });
        let judged = if arms.iter().any(by_command) {
            // The command can start the application.
            self.subject.with_budget(self.budget)?
        } else {
            self.subject.judged(&Host::live(), self.budget)?
        };
        if let Some((subject, budget)) = judged {
            return Ok(Meter::Jobs(Box::new(ApplicationRequest {
                requirement: LoopRequirement::of_jobs(budget),
                subject,
                release: Release::default(),
                detail: JobDetail::Windows(None),
                duration: block.unwrap_or(BLOCK),
                reader: None,
                label: None,
                command_line: command_line(),
            })));
        }
        let command = self.numbers.clone().unwrap_or_default();
        if command.trim().is_empty() {
            return Err(
                UsageError("--numbers needs a command that prints numbers".to_owned()).into(),
            );
        }
        if block.is_some() {
            let text = "--block does not apply to --numbers: a block lasts as long as its command";
            return Err(UsageError(text.to_owned()).into());
        }
        Ok(Meter::Command {
            command,
            deadline: self.deadline.unwrap_or(DEADLINE),
        })
    }

    /// Measures and shows the result.
    pub(super) fn run(
        &self,
        conditions: Conditions,
        output: &OutputOptions,
        context: &Context,
    ) -> Result<Exit> {
        let meter = self.meter(&conditions)?;
        let file = report::opened(output)?;
        let store = context.store_to_record()?;
        let by_settings = |arm: &Arm| matches!(arm.action, ArmAction::Settings { .. });
        let has_settings = conditions.arms.iter().any(by_settings);
        let request = NumbersRequest {
            meter,
            higher_is_better: self.higher,
            margin: self.margin.unwrap_or(0.01),
            arms: conditions.arms,
            wash_out: conditions.wash_out,
            deadline: self.deadline,
            rounds: conditions.pairs,
            time: conditions.time,
            seed: conditions.seed,
            label: Some(conditions.label),
            command_line: command_line(),
        };
        let stop = stop_flag()?;
        // Restores the settings even if this process hangs or is killed.
        let guard = has_settings.then(|| Guard::start(SILENCE)).transpose()?;
        let mut view = Guarded {
            inner: live::view(true),
            guard: guard.as_ref(),
        };
        let mut progress = Progressing::new(output.quiet);
        let found = run_numbers(
            &request,
            NumbersBench {
                host: &Host::live(),
                store: store.as_ref(),
                journal: crate::context::journal(),
                stop: &stop,
                view: &mut view,
                say: &mut |text| {
                    progress.say(&Progress {
                        text: text.to_owned(),
                        important: false,
                    });
                },
                alive: &|| guard.iter().for_each(|guard| guard.borrow_mut().beat()),
            },
        )
        .map_err(failed)?
        .experiment;
        let exit = exit(&found, output.fail_on_worse);
        context.stored(exit, store.is_some());
        let shown = document::numbers(&found);
        if output.json {
            output::print(&output::json(&found))?;
        } else if !file.as_ref().is_some_and(|(_, file)| file.is_stdout()) {
            output::print(&text::render(&shown, &context.style()))?;
        }
        if let Some((form, file)) = file {
            file.put(report::rendered(form, [&shown, &shown], context).as_bytes())?;
        }
        ensure!(
            !found.results.is_empty() || found.stopped,
            "no pair of runs is complete"
        );
        Ok(exit)
    }
}

fn exit(found: &NumbersExperiment, fail_on_worse: bool) -> Exit {
    let any = |effect: NumberEffect| found.results.iter().any(|one| one.effect == effect);
    match () {
        () if found.stopped => Exit::Interrupted,
        () if fail_on_worse && any(NumberEffect::Worse) => Exit::Broken,
        () if any(NumberEffect::NotProven) => Exit::NotProven,
        () => Exit::Done,
    }
}

/// Makes an option that only an experiment with a probe uses exclude an application.
pub(super) fn exclude(option: clap::Arg) -> clap::Arg {
    if OF_PROBE.contains(&option.get_id().as_str()) || option.get_id() == "numbers" {
        option.conflicts_with("subject")
    } else {
        option
    }
}
