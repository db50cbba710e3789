//! Brings the machine into the conditions of an experiment, and back.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use punctual_host::Host;
use punctual_model::{Arm, ArmAction, CpuSet, WashOut};
use punctual_tune::{Journal, Plan, Request, TuneError, Wish};

use crate::command::Running;
use crate::error::TrialError;

/// The conditions of an experiment, of which one is in force.
pub(crate) struct Sides<'a> {
    host: &'a Host,
    arms: &'a [Arm],
    cpus: Option<CpuSet>,
    /// Open where any arm has settings, so that no other program changes settings
    /// meanwhile. Dropped, it undoes what is in force.
    journal: Option<Journal>,
    command: Option<Running>,
}

impl<'a> Sides<'a> {
    /// Checks all arms; changes nothing.
    ///
    /// # Errors
    /// A setting that is not there, a value that is in force already or comes twice;
    /// a journal that cannot be used.
    pub(crate) fn new(
        host: &'a Host,
        arms: &'a [Arm],
        cpus: Option<CpuSet>,
        journal: Option<PathBuf>,
    ) -> Result<Self, TrialError> {
        let mut sides = Self {
            host,
            arms,
            cpus,
            journal: None,
            command: None,
        };
        let with_settings = |arm: &Arm| matches!(arm.action, ArmAction::Settings { .. });
        if !arms.iter().any(with_settings) {
            return Ok(sides);
        }
        let path = journal.ok_or(TrialError::Tune(TuneError::NoPlace))?;
        sides.journal = Some(Journal::open(&path, host)?);
        for arm in arms {
            sides.check(arm)?;
        }
        Ok(sides)
    }

    /// Whether the journal of settings is in use here.
    pub(crate) fn holds_journal(&self) -> bool {
        self.journal.is_some()
    }

    fn check(&self, arm: &Arm) -> Result<(), TrialError> {
        let ArmAction::Settings { assignments } = &arm.action else {
            return Ok(());
        };
        let plan = self.plan(assignments)?;
        if let Some(step) = (plan.steps.iter()).find(|one| one.setting.wash_out == WashOut::Boot) {
            return Err(TrialError::NeedsBoot {
                setting: step.label.clone(),
            });
        }
        match plan.changes().next() {
            Some(_) => Ok(()),
            None => Err(TrialError::Equal {
                arm: arm.name.clone(),
            }),
        }
    }

    /// What the settings of an arm change as the machine is now.
    fn plan(&self, assignments: &[String]) -> Result<Plan, TrialError> {
        let sets = assignments.iter().map(|text| Wish::parse(text));
        let request = Request {
            profile: None,
            sets: sets.collect::<Result<_, _>>()?,
            cpus: self.cpus.clone(),
        };
        let path = self.journal.as_ref().map(|journal| journal.path().clone());
        Ok(Plan::make(&request, self.host, &path.unwrap_or_default())?)
    }

    /// Applies the settings of each arm once and undoes them: one that the kernel
    /// refuses is known before anything is measured.
    pub(crate) fn rehearse(&mut self) -> Result<(), TrialError> {
        if self.journal.is_some() {
            for arm in self.arms {
                self.apply(arm)?;
            }
            self.undo()?;
        }
        Ok(())
    }

    /// Brings the machine into an arm; its command reads the block from its environment.
    pub(crate) fn switch(
        &mut self,
        arm: u32,
        block: &str,
        stop: &AtomicBool,
    ) -> Result<(), TrialError> {
        self.command = None;
        let Some(asked) = self.arms.get(arm as usize) else {
            return Ok(());
        };
        self.apply(asked)?;
        if let ArmAction::Command { command } = &asked.action {
            let side = match arm {
                0 => "a".to_owned(),
                1 => "b".to_owned(),
                more => format!("b{more}"),
            };
            self.command = Some(Running::start(command, &side, block, stop)?);
        }
        Ok(())
    }

    /// After a block: whether its settings are still in force; what its command wrote.
    /// What the command left running is ended.
    pub(crate) fn leave(&mut self, arm: u32) -> Result<Option<String>, TrialError> {
        let output = self.command.take().and_then(Running::end);
        if let Some(Arm {
            action: ArmAction::Settings { assignments },
            ..
        }) = self.arms.get(arm as usize)
            && let Some(step) = self.plan(assignments)?.changes().next()
        {
            return Err(TrialError::ChangedMeanwhile {
                setting: step.label.clone(),
                found: step.current.clone(),
            });
        }
        Ok(output)
    }

    /// As the machine was: settings undone, and the baseline's command run once more.
    pub(crate) fn finish(mut self, stop: &AtomicBool) -> Result<(), TrialError> {
        self.command = None;
        self.undo()?;
        if let Some(Arm {
            action: ArmAction::Command { command },
            ..
        }) = self.arms.first()
        {
            drop(Running::start(command, "a", "end", stop)?);
        }
        Ok(())
    }

    fn apply(&mut self, arm: &Arm) -> Result<(), TrialError> {
        self.undo()?;
        if let ArmAction::Settings { assignments } = &arm.action {
            let plan = self.plan(assignments)?;
            if let Some(journal) = &mut self.journal {
                for step in plan.changes() {
                    journal.apply_to(step.setting, &step.instance, &step.target)?;
                }
            }
        }
        Ok(())
    }

    fn undo(&mut self) -> Result<(), TrialError> {
        if let Some(journal) = &mut self.journal {
            journal.revert_all()?;
        }
        Ok(())
    }
}
