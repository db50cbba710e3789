//! Experiments that compare boots. Each boot is one block.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::time::Instant;

use jiff::Timestamp;
use punctual_files::Budget;
use punctual_host::Host;
use punctual_model::{
    Arm, ArmAction, BootAttempt, BootOutcome, Boots, Experiment, ExperimentState,
};
use punctual_store::Store;
use punctual_tune::boot_loader::{
    BootEntry, Loader, UnitRequest, check_words, differs, put_back, unit, write,
};

use crate::analysis::{answer, early_end, results};
use crate::error::TrialError;
use crate::lengths::least_rounds;
use crate::order::round_order;
use crate::own::OwnExperiments;
use crate::trial::{Bench, Trial, lease, refuse_shared};

/// The environment of an experiment that compares boots: the machine, the store, and whether to
/// write boot files.
#[derive(Clone, Debug)]
pub struct BootRequest {
    /// The machine whose boot loader and boot state are used.
    pub machine: Host,
    /// Whether to write boot entries and a unit. If not, only the steps that the user has to
    /// perform are shown.
    pub write: bool,
    /// This program, with the arguments that continue an experiment.
    pub program: Vec<String>,
    /// The folder of the store.
    pub folder: PathBuf,
    /// The experiments that this user started on this machine, with the boot files that each of
    /// them wrote.
    pub own: OwnExperiments,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootStep {
    /// The machine has to be rebooted.
    Boot {
        /// Description of the boot, such as `boot 3 of 12 (preempt=lazy)`.
        what: String,
        /// Whether the boot entry has already been selected for the next boot.
        chosen: bool,
        /// The steps that the user has to perform.
        steps: Vec<String>,
    },
    /// All blocks have been measured.
    Ended,
    /// The user stopped the experiment.
    Stopped,
}

/// Returns whether an experiment compares boots.
pub fn of_boots(experiment: &Experiment) -> bool {
    experiment.plan.arms.iter().any(|arm| words(arm).is_some())
}

fn words(arm: &Arm) -> Option<&str> {
    match &arm.action {
        ArmAction::Boot { parameters } => Some(parameters),
        _ => None,
    }
}

/// Starts an experiment that compares boots, or continues it after a boot. Its progress is always
/// saved in the store.
///
/// # Errors
/// See [`TrialError`]. If there is an error, the boot entries and the unit are removed.
pub fn run_boots<'a>(
    experiment: &mut Experiment,
    bench: Bench<'a>,
    request: &'a BootRequest,
) -> Result<BootStep, TrialError> {
    let store = bench.store.ok_or_else(|| {
        TrialError::Plan(
            "an experiment that compares boots needs a store that persists across boots".to_owned(),
        )
    })?;
    check(experiment, &request.machine)?;
    refuse_shared(experiment, &bench)?;
    let _lease = lease(experiment, bench.store, bench.host)?;
    let mut work = Work {
        host: &request.machine,
        store,
        request,
        loader: Loader::detect(&request.machine),
        boot: request.machine.boot_id().unwrap_or_default(),
        trial: Trial {
            begun: Instant::now(),
            bench,
            sides: None,
            plot: None,
        },
    };
    let done = work.go_on(experiment);
    match done {
        Ok(step) => Ok(step),
        Err(error) => {
            let stopped = matches!(error, TrialError::Stopped);
            experiment.state = if stopped {
                ExperimentState::Stopped
            } else {
                ExperimentState::Failed
            };
            experiment.results = results(experiment, false);
            experiment.sentence = answer(&experiment.results);
            let undone = undo_boots(experiment, &request.own, work.host);
            match experiment.pilot {
                None => store.delete_experiment(experiment.id)?,
                Some(_) => store.put_experiment(experiment)?,
            }
            match (stopped, undone) {
                (true, undone) => undone.map(|()| BootStep::Stopped),
                (false, Ok(())) => Err(error),
                (false, Err(left)) => Err(TrialError::NoBoot(format!("{error}; {left}"))),
            }
        }
    }
}

/// Checks that all conditions are boots, that they differ from each other, and that the machine
/// supports them.
fn check(experiment: &Experiment, host: &Host) -> Result<(), TrialError> {
    if host.boot_id().is_none() {
        return Err(TrialError::Plan(
            "the current boot cannot be identified: /proc/sys/kernel/random/boot_id cannot be read"
                .to_owned(),
        ));
    }
    let arms = &experiment.plan.arms;
    for (place, arm) in arms.iter().enumerate() {
        let Some(own) = words(arm) else {
            return Err(TrialError::Plan(
                "boots cannot be compared with other conditions".to_owned(),
            ));
        };
        check_words(own).map_err(|error| TrialError::Plan(error.to_string()))?;
        let sorted = |arm| {
            let mut all: Vec<&str> = words(arm).unwrap_or_default().split_whitespace().collect();
            all.sort_unstable();
            all
        };
        if arms[..place]
            .iter()
            .any(|other| sorted(other) == sorted(arm))
        {
            return Err(TrialError::Plan(format!(
                "--boot '{own}' is given twice: the boots would be identical"
            )));
        }
    }
    let least = least_rounds(arms.len());
    match experiment.plan.rounds {
        Some(rounds) if rounds < least => Err(TrialError::Plan(format!(
            "{rounds} pairs of boots are too few to show a difference: give --pairs {least} or \
             more for {} conditions",
            arms.len()
        ))),
        _ => Ok(()),
    }
}

/// Restores the boot files that an experiment changed. Its state in the store is not changed.
///
/// # Errors
/// Returns [`TrialError::Boot`] and the errors of [`OwnExperiments::check`].
pub fn undo_boots(
    experiment: &Experiment,
    own: &OwnExperiments,
    host: &Host,
) -> Result<(), TrialError> {
    let mut files = own.files(experiment)?;
    if files.is_empty() {
        return Ok(());
    }
    Loader::detect(host).forget(host, &entry_id(experiment, None), &run_program)?;
    // Restore the newest file first. Each file is removed from the list once it has been restored.
    while let Some(file) = files.pop() {
        put_back(host, &file)?;
        own.set_files(experiment, &files)?;
    }
    Ok(())
}

/// Returns the ID of the boot entry for an arm. Without an arm, returns the prefix that the IDs of
/// all boot entries of the experiment share.
fn entry_id(experiment: &Experiment, arm: Option<u32>) -> String {
    let arm = arm.map_or_else(String::new, |arm| arm.to_string());
    format!("punctual-{}-{arm}", experiment.id.short())
}

fn run_program(program: &[&str]) -> std::io::Result<()> {
    let Some((name, arguments)) = program.split_first() else {
        return Ok(());
    };
    let mut command = Command::new(OsStr::new(name));
    let command = command.args(arguments).stdin(Stdio::null());
    let output = Budget::bytes(1 << 16)
        .within(Duration::from_secs(60))
        .output(command)?;
    if output.status.success() {
        Ok(())
    } else {
        Err(std::io::Error::other(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
}

struct Work<'a, 'b> {
    host: &'a Host,
    store: &'a Store,
    request: &'a BootRequest,
    loader: Loader,
    /// The ID of the current boot.
    boot: String,
    trial: Trial<'a, 'b>,
}

impl Work<'_, '_> {
    fn go_on(&mut self, experiment: &mut Experiment) -> Result<BootStep, TrialError> {
        experiment.state = ExperimentState::Running;
        if experiment.boots.is_none() {
            experiment.boots = Some(Boots {
                loader: self.loader.kind(),
                by_hand: self.loader.by_hand().map(str::to_owned),
                usual: self.host.command_line().map_err(unknown)?,
                attempts: Vec::new(),
            });
        }
        if experiment.pilot.is_none() {
            self.trial.begin(experiment)?;
        }
        let last = (experiment.boots.as_ref()).and_then(|boots| boots.attempts.last().cloned());
        let here = last
            .as_ref()
            .is_some_and(|last| last.boot.as_ref() == Some(&self.boot));
        match last.as_ref().map(|last| (last.outcome, last)) {
            Some((BootOutcome::Requested, last)) if last.requested_in == self.boot => {
                self.request(experiment, last.round, last.arm)
            }
            Some((BootOutcome::Requested, last)) => {
                self.verify(experiment, last)?;
                self.measure(experiment, last)
            }
            // The program already ended once during this boot, so the block is measured again.
            Some((BootOutcome::Measuring, last)) if here => self.measure(experiment, last),
            Some((BootOutcome::Measuring, last)) => {
                let what = what(experiment, last.round, last.arm);
                self.note(experiment, |attempt| attempt.outcome = BootOutcome::Lost)?;
                Err(TrialError::NoBoot(format!(
                    "{what} ended before its block was complete"
                )))
            }
            _ => self.next(experiment),
        }
    }

    /// Checks that the machine was booted as requested.
    fn verify(
        &mut self,
        experiment: &mut Experiment,
        last: &BootAttempt,
    ) -> Result<(), TrialError> {
        let line = self.host.command_line().map_err(unknown)?;
        // Without this, the machine might boot this entry every time.
        let kept = self
            .loader
            .forget(self.host, &entry_id(experiment, None), &run_program)?;
        let arms = &experiment.plan.arms;
        let asked = arms
            .get(last.arm as usize)
            .and_then(words)
            .unwrap_or_default();
        let others: Vec<&str> = arms
            .iter()
            .filter_map(words)
            .filter(|one| *one != asked)
            .collect();
        let boots = experiment.boots.as_ref();
        let usual = boots.map_or("", |boots| boots.usual.as_str());
        let difference = if kept {
            Some(format!(
                "selected for more than one start, because {} did not clear the selection",
                self.loader.kind().name()
            ))
        } else {
            differs(&line, asked, &others, usual)
        };
        let boot = self.boot.clone();
        let what = what(experiment, last.round, last.arm);
        self.note(experiment, |attempt| {
            attempt.boot = Some(boot);
            attempt.command_line = Some(line);
            attempt.outcome = match difference {
                Some(_) => BootOutcome::OtherParameters,
                None => BootOutcome::Measuring,
            };
        })?;
        match difference {
            Some(difference) => Err(TrialError::NoBoot(format!(
                "{what} did not come up: this boot is {difference}"
            ))),
            None => Ok(()),
        }
    }

    /// Measures this boot's block.
    fn measure(
        &mut self,
        experiment: &mut Experiment,
        last: &BootAttempt,
    ) -> Result<BootStep, TrialError> {
        let Some(pilot) = experiment.pilot.clone() else {
            return Ok(BootStep::Ended);
        };
        let text = format!("measuring {}", what(experiment, last.round, last.arm));
        self.trial.say(text, true);
        let block = self.trial.block(experiment, &pilot, last.round, last.arm)?;
        experiment.blocks.push(block);
        self.note(experiment, |attempt| {
            attempt.outcome = BootOutcome::Measured
        })?;
        self.next(experiment)
    }

    /// Requests the next boot, or ends the experiment.
    fn next(&mut self, experiment: &mut Experiment) -> Result<BootStep, TrialError> {
        let arms = experiment.plan.arms.len();
        let done = experiment.blocks.len();
        let rounds = experiment.pilot.as_ref().map_or(0, |pilot| pilot.rounds);
        let (round, place) = ((done / arms) as u32, done % arms);
        if round > 0 {
            experiment.results = results(experiment, false);
        }
        experiment.sentence = answer(&experiment.results);
        let decided = (place == 0 && experiment.plan.ends_early)
            .then(|| early_end(experiment, &experiment.results, rounds))
            .flatten();
        if round >= rounds || decided.is_some() {
            if let Some(why) = &decided {
                let text = format!("ended after {round} of {rounds} rounds: {why}");
                self.trial.say(text, true);
            }
            undo_boots(experiment, &self.request.own, self.host)?;
            experiment.state = ExperimentState::Finished;
            experiment.results = results(experiment, decided.is_none());
            experiment.sentence = answer(&experiment.results);
            self.store.put_experiment(experiment)?;
            return Ok(BootStep::Ended);
        }
        let arm = round_order(experiment.plan.seed, round, arms)[place];
        if let Some(boots) = &mut experiment.boots {
            boots.attempts.push(BootAttempt {
                round,
                arm,
                requested: Timestamp::now(),
                requested_in: self.boot.clone(),
                boot: None,
                command_line: None,
                outcome: BootOutcome::Requested,
            });
        }
        self.request(experiment, round, arm)
    }

    /// Makes the machine boot the next arm, to the extent that the program is allowed to write boot
    /// files.
    fn request(
        &mut self,
        experiment: &mut Experiment,
        round: u32,
        arm: u32,
    ) -> Result<BootStep, TrialError> {
        let written = !self.request.own.files(experiment)?.is_empty();
        if self.request.write && !written {
            self.write(experiment)?;
        }
        let chosen = (self.request.write || written) && self.loader.by_hand().is_none();
        if chosen {
            let id = entry_id(experiment, Some(arm));
            self.loader.choose(self.host, &id, &run_program)?;
        }
        experiment.state = ExperimentState::AwaitsBoot;
        self.store.put_experiment(experiment)?;
        let mut steps = if chosen {
            vec!["reboot".to_owned()]
        } else {
            self.loader.steps(&entry(experiment, arm))
        };
        if !written && !self.request.write {
            let id = experiment.id.short();
            steps.push(format!("then run: punctual experiment resume {id}"));
        }
        Ok(BootStep::Boot {
            what: what(experiment, round, arm),
            chosen,
            steps,
        })
    }

    /// Writes the boot entries and the unit.
    fn write(&self, experiment: &Experiment) -> Result<(), TrialError> {
        let arms = 0..experiment.plan.arms.len() as u32;
        let entries: Vec<BootEntry> = arms.map(|arm| entry(experiment, arm)).collect();
        let mut files = self.loader.entries(self.host, &entries)?;
        let id = experiment.id.short();
        let mut command = self.request.program.clone();
        command.extend(["experiment", "resume", id.as_str()].map(str::to_owned));
        if self.loader.by_hand().is_none() {
            command.push("--reboot".to_owned());
        }
        files.extend(unit(
            self.host,
            &UnitRequest {
                name: &format!("punctual-experiment-{id}"),
                description: &format!("Next boot of punctual experiment {id}"),
                command: &command,
                needs: &self.request.folder,
            },
        )?);
        // Store the list before writing the first file, so that no unknown files are left behind if
        // the process is killed.
        self.request.own.set_files(experiment, &files)?;
        for file in &files {
            write(self.host, file)?;
        }
        Ok(())
    }

    /// Changes the record of the last boot attempt, in memory and in the store.
    fn note(
        &self,
        experiment: &mut Experiment,
        change: impl FnOnce(&mut BootAttempt),
    ) -> Result<(), TrialError> {
        let boots = experiment.boots.as_mut();
        if let Some(last) = boots.and_then(|boots| boots.attempts.last_mut()) {
            change(last);
        }
        Ok(self.store.put_experiment(experiment)?)
    }
}

fn unknown(error: punctual_host::HostError) -> TrialError {
    TrialError::NoBoot(error.to_string())
}

fn entry(experiment: &Experiment, arm: u32) -> BootEntry {
    let own = experiment.plan.arms.get(arm as usize);
    BootEntry {
        id: entry_id(experiment, Some(arm)),
        title: experiment.arm_name(arm).to_owned(),
        words: own.and_then(words).unwrap_or_default().to_owned(),
    }
}

/// Formats a boot, such as `boot 3 of 12 (preempt=lazy)`.
fn what(experiment: &Experiment, round: u32, arm: u32) -> String {
    let arms = experiment.plan.arms.len() as u32;
    let rounds = experiment.pilot.as_ref().map_or(0, |pilot| pilot.rounds);
    let order = round_order(experiment.plan.seed, round, arms as usize);
    let place = order.iter().position(|one| *one == arm).unwrap_or(0) as u32;
    format!(
        "boot {} of {} ({})",
        round * arms + place + 1,
        rounds * arms,
        experiment.arm_name(arm)
    )
}
