//! Applies a plan, either completely or not at all, except for optional settings that the kernel
//! refuses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use punctual_host::Host;
use serde::Serialize;

use crate::accessors::access;
use crate::frequency;
use crate::fs::{FileSystem, Files};
use crate::lock::Lock;
use crate::planned::LeftOut;
use crate::record::{Committed, JournalEntry};
use crate::recover::undo_since_boot;
use crate::target::Target;
use crate::undo::UndoJournal;
use crate::{Change, How, Journal, Plan, Restored, Step, TuneError};

/// Time to wait for another program that is changing settings.
const PATIENCE: Duration = Duration::from_secs(2);

/// Paths of the two journals. One records the changes that a measurement makes. If the measurement
/// was killed, the next command undoes them. The other records the changes that a user applied.
/// They stay in force until they are reverted.
#[derive(Clone, Debug)]
pub struct Locations {
    /// Journal of measurements ([`default_path`](crate::default_path)).
    pub runs: PathBuf,
    /// Journal of the user's changes.
    pub applied: PathBuf,
}

impl Locations {
    /// Places both journals in the same folder.
    pub fn next_to(runs: PathBuf) -> Self {
        Self {
            applied: runs.with_file_name("applied.journal"),
            runs,
        }
    }
}

/// How to handle a setting that the kernel refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusals {
    /// Leaves out a setting of a profile, because a profile is only a list of wishes. If the kernel
    /// refuses a setting that was named explicitly, all changes are undone.
    #[default]
    LeaveOutWishes,
    /// Leaves out any setting that the kernel refuses.
    LeaveOutAll,
    /// Undoes all changes if the kernel refuses any setting.
    UndoAll,
}

/// Options for applying a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How to handle a setting that the kernel refuses.
    pub refusals: Refusals,
}

impl Options {
    fn leaves_out(self, step: &Step) -> bool {
        match self.refusals {
            Refusals::LeaveOutWishes => step.wish,
            Refusals::LeaveOutAll => true,
            Refusals::UndoAll => false,
        }
    }
}

/// Result of applying a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// Name of the profile. If there is no profile, the list of settings.
    pub label: String,
    /// Changes that were made and verified by reading the setting back, in order.
    pub changes: Vec<Change>,
    /// Number of settings that already had their value.
    pub unchanged: usize,
    /// Settings that the kernel refused.
    pub refused: Vec<LeftOut>,
    /// Notes for the reader.
    pub remarks: Vec<String>,
    /// Path of the journal with the old values.
    pub journal: PathBuf,
}

punctual_model::to_json!(Applied);

/// Applies a plan. First checks everything that can be checked: permissions, other changes in
/// force, and other programs that are changing settings.
///
/// # Errors
/// Returns [`TuneError::Lacking`], [`TuneError::InForce`] or [`TuneError::Locked`] if nothing was
/// changed, and [`TuneError::RolledBack`] if all changes were undone. [`TuneError::NotRolledBack`]
/// means that settings that could not be restored stay in the journal, and the next command tries
/// again.
pub fn apply(
    plan: &Plan,
    host: &Host,
    places: &Locations,
    options: Options,
) -> Result<Applied, TuneError> {
    apply_on(Box::new(Files), plan, host, places, options)
}

pub(crate) fn apply_on(
    files: Box<dyn FileSystem>,
    plan: &Plan,
    host: &Host,
    places: &Locations,
    options: Options,
) -> Result<Applied, TuneError> {
    let mut applied = Applied {
        label: plan.label.clone(),
        changes: Vec::new(),
        unchanged: plan.steps.iter().filter(|step| !step.changes).count(),
        refused: Vec::new(),
        remarks: plan.remarks.clone(),
        journal: places.applied.clone(),
    };
    if plan.changes().next().is_none() {
        return Ok(applied);
    }
    let target = Target {
        files: files.as_ref(),
        host,
        journal: &places.applied,
    };
    may_apply(&target, plan, options)?;
    // While a measurement is changing settings, no other changes may be made, and vice versa.
    let _measurements = Lock::take(&places.runs, Duration::ZERO)?;
    let files = none_in_force(files, host, &places.applied)?;
    let mut journal = Journal::open_on(files, &places.applied, host)?;
    for step in plan.changes() {
        let before = journal.pending();
        if let Some(first) = frequency::before(&journal.target(), step)
            && applied.refused.iter().any(|one| one.setting == first)
        {
            applied.refused.push(LeftOut {
                setting: step.label.clone(),
                reason: format!("this setting also changes {first}, which was refused"),
            });
            continue;
        }
        match journal.apply_to(step.setting, &step.instance, &step.target) {
            Ok(change) if change.old == change.new => applied.unchanged += 1,
            Ok(change) => applied.changes.push(change),
            Err(error) => {
                let undone = journal.pending() == before;
                if undone && may_be_left_out(step, &error, options) {
                    applied.refused.push(LeftOut {
                        setting: step.label.clone(),
                        reason: error.to_string(),
                    });
                    continue;
                }
                return Err(roll_back(journal, error));
            }
        }
    }
    for change in &applied.changes {
        let setting = crate::setting(change.setting)?;
        let remark = access(setting).remark(&journal.target(), &change.instance, &change.new);
        applied.remarks.extend(remark);
    }
    if !applied.changes.is_empty() {
        journal.keep(Committed {
            label: plan.label.clone(),
            cpus: plan.cpus.as_ref().map(ToString::to_string),
            at: Timestamp::now(),
        })?;
    }
    Ok(applied)
}

/// Returns whether a failed step may be left out. If the request is for all interrupts, an
/// interrupt that the kernel manages itself may be left out.
fn may_be_left_out(step: &Step, error: &TuneError, options: Options) -> bool {
    let managed = step.broad && matches!(error, TuneError::Refused { .. });
    // If the journal cannot be written, that is not the fault of the setting.
    let ours = matches!(
        error,
        TuneError::Journal { .. } | TuneError::Unidentified { .. }
    );
    managed || (options.leaves_out(step) && !ours)
}

/// Checks that this process has the permissions that a plan requires.
fn may_apply(target: &Target<'_>, plan: &Plan, options: Options) -> Result<(), TuneError> {
    let steps: Vec<&Step> = plan.changes().collect();
    let mut lacking = Vec::new();
    let mut left_out = true;
    for step in &steps {
        if let Err(error) = access(step.setting).may_write(target, &step.instance) {
            lacking.push(format!("{}: {error}", step.label));
            left_out &= options.leaves_out(step);
        }
    }
    // Steps that may be left out need no permission here: they will be refused again when they run,
    // and will be reported then.
    if lacking.is_empty() || (left_out && lacking.len() < steps.len()) {
        return Ok(());
    }
    Err(TuneError::Lacking {
        lacking,
        of: steps.len(),
    })
}

/// Refuses to apply while earlier changes are in force. Incomplete changes by a program that was
/// killed do not count, because the next command undoes them first.
fn none_in_force(
    files: Box<dyn FileSystem>,
    host: &Host,
    path: &Path,
) -> Result<Box<dyn FileSystem>, TuneError> {
    let book = UndoJournal::read(files, path, host)?;
    let Some(kept) = &book.state.kept else {
        return Ok(book.files);
    };
    let this_boot = book.is_of_this_boot()?;
    let lasting = |name: &str| crate::setting(name).is_ok_and(|row| row.outlives_reboot);
    let stands = book
        .state
        .pending
        .iter()
        .any(|change| this_boot || lasting(&change.setting));
    if stands {
        Err(TuneError::InForce {
            label: kept.label.clone(),
            path: path.to_owned(),
        })
    } else {
        Ok(book.files)
    }
}

fn roll_back(mut journal: Journal, cause: TuneError) -> TuneError {
    let undone = journal.pending();
    match journal.revert_all() {
        Ok(_) => TuneError::RolledBack {
            cause: Box::new(cause),
            undone,
        },
        Err(undoing) => TuneError::NotRolledBack {
            cause: Box::new(cause),
            undoing: Box::new(undoing),
        },
    }
}

/// Undoes the applied changes, the last one first. Does nothing if no changes are applied. With
/// `forget`, settings that cannot be restored are removed from the journal and reported as
/// [`How::Forgotten`].
///
/// # Errors
/// Returns [`TuneError::NotRestored`] with the settings that were restored and those that were not,
/// which stay in the journal. Returns [`TuneError::NotRecorded`] if everything was restored but the
/// journal could not be written, [`TuneError::Locked`] while another program is changing settings,
/// and [`TuneError::Damaged`].
pub fn revert(host: &Host, places: &Locations, forget: bool) -> Result<Vec<Restored>, TuneError> {
    revert_on(Box::new(Files), host, places, forget)
}

pub(crate) fn revert_on(
    files: Box<dyn FileSystem>,
    host: &Host,
    places: &Locations,
    forget: bool,
) -> Result<Vec<Restored>, TuneError> {
    let path = &places.applied;
    let mut book = UndoJournal::read(files, path, host)?;
    if book.state.is_settled() {
        return Ok(Vec::new());
    }
    let _measurements = Lock::take(&places.runs, PATIENCE)?;
    let _lock = Lock::take(path, PATIENCE)?;
    book.reread()?;
    if book.state.is_settled() {
        return Ok(Vec::new());
    }
    if book.is_of_this_boot()? && book.state.damaged_line.is_none() {
        book.note(JournalEntry::Reverting);
    }
    let result = match undo_since_boot(&mut book) {
        Err(TuneError::NotRestored {
            mut restored,
            failures,
        }) if forget => {
            restored.extend(failures.into_iter().map(|failure| Restored {
                setting: failure.setting,
                value: failure.value,
                how: How::Forgotten,
            }));
            Ok(restored)
        }
        other => other,
    };
    match result {
        Ok(restored) => book.start_anew().map(|()| restored),
        Err(TuneError::NotRecorded {
            restored,
            path,
            source,
            ..
        }) => Err(TuneError::NotRecorded {
            // A file can be truncated even on a full disk.
            emptied: book.start_anew().is_ok(),
            restored,
            path,
            source,
        }),
        Err(error) => Err(error),
    }
}
