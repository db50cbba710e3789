//! Brings the machine into the conditions of an experiment, and restores it.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use punctual_host::Host;
use punctual_model::{Arm, ArmAction, CpuSet, Nanos, WashOut};
use punctual_tune::{Journal, Plan, Request, TuneError, Wish};

use crate::command::{DEADLINE, Running};
use crate::error::TrialError;
use crate::plots::parts;

/// Returns the name of a condition in the environment of a command.
pub(crate) fn side_name(arm: u32) -> String {
    match arm {
        0 => "a".to_owned(),
        1 => "b".to_owned(),
        more => format!("b{more}"),
    }
}

/// The conditions of an experiment. At most one is in force at a time.
pub(crate) struct Sides<'a> {
    host: &'a Host,
    arms: &'a [Arm],
    cpus: Option<CpuSet>,
    /// The journal of settings, if any arm has settings. It is kept open so that no other program
    /// can change settings in the meantime. Dropping it undoes the settings in force.
    journal: Option<Journal>,
    /// The slow settings in force, and the number of changes that they made. These are the first
    /// changes in the journal.
    slow: (Vec<String>, usize),
    command: Option<Running>,
    /// Longest run of a command.
    deadline: Nanos,
}

impl<'a> Sides<'a> {
    /// Checks all arms, without changing anything.
    ///
    /// # Errors
    /// Returns an error if a setting does not exist, if a value is already in force or is given
    /// twice, or if the journal cannot be used.
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
            slow: (Vec::new(), 0),
            command: None,
            deadline: DEADLINE,
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

    /// Limits the run of each command; `None` for the default.
    pub(crate) fn with_deadline(mut self, deadline: Option<Nanos>) -> Self {
        self.deadline = deadline.unwrap_or(DEADLINE);
        self
    }

    /// Returns whether this process uses the journal of settings.
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

    /// Returns the changes that the settings of an arm would make to the current state.
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

    /// Applies the settings of each arm once and undoes them. In this way, settings that the kernel
    /// rejects are found before anything is measured.
    pub(crate) fn rehearse(&mut self) -> Result<(), TrialError> {
        if self.journal.is_some() {
            for arm in self.arms {
                self.apply(arm)?;
            }
            self.undo()?;
        }
        Ok(())
    }

    /// Brings the machine into the condition of an arm. The command of the arm gets the block in
    /// its environment.
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
            let side = side_name(arm);
            self.command = Some(Running::start(
                command,
                (&side, block),
                self.deadline,
                stop,
            )?);
        }
        Ok(())
    }

    /// Ends a block: checks that the settings of its arm are still in force, ends the processes
    /// that its command left running, and returns the output of the command.
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

    /// Restores the machine by undoing the settings and running the baseline's command once more.
    pub(crate) fn finish(mut self, stop: &AtomicBool) -> Result<(), TrialError> {
        self.command = None;
        self.undo()?;
        if let Some(Arm {
            action: ArmAction::Command { command },
            ..
        }) = self.arms.first()
        {
            drop(Running::start(command, ("a", "end"), self.deadline, stop)?);
        }
        Ok(())
    }

    /// Applies the settings of an arm. Slow settings stay in force if the arm has the same ones.
    fn apply(&mut self, arm: &Arm) -> Result<(), TrialError> {
        let [slow, quick] = parts(arm);
        if slow == self.slow.0 {
            if let Some(journal) = &mut self.journal {
                journal.revert_after(self.slow.1)?;
            }
        } else {
            self.undo()?;
            self.change(&slow)?;
            let changes = self.journal.as_ref().map_or(0, Journal::pending);
            self.slow = (slow, changes);
        }
        self.change(&quick)
    }

    fn change(&mut self, assignments: &[String]) -> Result<(), TrialError> {
        if assignments.is_empty() {
            return Ok(());
        }
        let plan = self.plan(assignments)?;
        if let Some(journal) = &mut self.journal {
            for step in plan.changes() {
                journal.apply_to(step.setting, &step.instance, &step.target)?;
            }
        }
        Ok(())
    }

    fn undo(&mut self) -> Result<(), TrialError> {
        self.slow = (Vec::new(), 0);
        if let Some(journal) = &mut self.journal {
            journal.revert_all()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "proc/sys/vm/swappiness";

    fn arm(assignments: &[&str]) -> Arm {
        Arm {
            name: assignments.join(" "),
            action: ArmAction::Settings {
                assignments: assignments.iter().map(|one| (*one).to_owned()).collect(),
            },
        }
    }

    /// A tree of files with two slow settings and a quick one.
    fn tree() -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            (FILE, "60\n"),
            ("proc/sys/vm/compaction_proactiveness", "20\n"),
            ("proc/sys/kernel/timer_migration", "1\n"),
            ("proc/sys/kernel/random/boot_id", "first\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
        ] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        // The journal identifies the process.
        let own = folder.path().join(format!("proc/{}", std::process::id()));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::copy("/proc/self/stat", own.join("stat")).unwrap();
        let host = Host::new(folder.path());
        (folder, host)
    }

    fn sides<'a>(host: &'a Host, arms: &'a [Arm], folder: &std::path::Path) -> Sides<'a> {
        Sides::new(host, arms, None, Some(folder.join("journal"))).unwrap()
    }

    #[test]
    fn absent_or_unwritable_setting_is_refused() {
        let (folder, host) = tree();
        let journal = || Some(folder.path().join("journal"));
        let refused = |assignment: &str| {
            let arms = [arm(&[assignment])];
            let sides = Sides::new(&host, &arms, None, journal());
            sides
                .and_then(|mut sides| sides.rehearse())
                .unwrap_err()
                .to_string()
        };
        let missing = refused("autogroup=off");
        assert!(missing.contains("sched_autogroup_enabled"), "{missing}");
        let equal = refused("swappiness=60");
        assert!(equal.contains("already in effect"), "{equal}");
        // The kernel refuses to open this file for writing, even for root.
        let path = folder.path().join(FILE);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/ngroups_max", &path).unwrap();
        let locked = refused("swappiness=10");
        assert!(locked.contains("swappiness"), "{locked}");
    }

    /// Within a whole plot, a slow setting is not written again, which the modification time of its
    /// file shows.
    #[test]
    fn slow_setting_is_kept_within_plot() {
        let (folder, host) = tree();
        let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap();
        let arms = [
            arm(&["swappiness=10"]),
            arm(&["timer-migration=off", "swappiness=10"]),
            arm(&["timer-migration=off"]),
        ];
        let mut sides = sides(&host, &arms, folder.path());
        let stop = AtomicBool::new(false);
        sides.switch(0, "0", &stop).unwrap();
        assert_eq!(read(FILE).trim(), "10");
        // If the setting were undone in between, the file would be overwritten.
        let path = folder.path().join(FILE);
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        sides.switch(1, "1", &stop).unwrap();
        sides.leave(1).unwrap();
        sides.switch(0, "2", &stop).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().modified().unwrap(),
            before
        );
        assert_eq!(read("proc/sys/kernel/timer_migration").trim(), "1");
        sides.switch(2, "3", &stop).unwrap();
        assert_eq!(read(FILE).trim(), "60");
        assert_eq!(read("proc/sys/kernel/timer_migration").trim(), "0");
        sides.finish(&stop).unwrap();
        assert_eq!(read("proc/sys/kernel/timer_migration").trim(), "1");
    }
}
