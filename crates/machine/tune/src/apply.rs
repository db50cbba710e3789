//! A plan carried out: all of it or none, but for wishes that the kernel refuses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use punctual_host::Host;
use serde::Serialize;

use crate::JsonSchema;
use crate::accessors::access;
use crate::frequency;
use crate::fs::{FileSystem, Files};
use crate::lock::Lock;
use crate::planned::LeftOut;
use crate::record::{Kept, Record};
use crate::recover::undo_since_boot;
use crate::target::Target;
use crate::undo::Book;
use crate::{Change, How, Journal, Plan, Restored, Step, TuneError};

/// How long another program that changes settings is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the two journals are: one of what a measurement changes, which the
/// next command undoes where that was killed; and one of what a user applied,
/// which stays until it is reverted.
#[derive(Clone, Debug)]
pub struct Places {
    /// The measurements' journal ([`default_path`](crate::default_path)).
    pub runs: PathBuf,
    /// The user's.
    pub applied: PathBuf,
}

impl Places {
    /// Both, beside each other.
    pub fn beside(runs: PathBuf) -> Self {
        Self {
            applied: runs.with_file_name("applied.journal"),
            runs,
        }
    }
}

/// What is done about a setting that the kernel refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusals {
    /// One of a profile is left out, for a profile is a list of wishes; one that
    /// was named by itself undoes all.
    #[default]
    LeaveOutWishes,
    /// Each is left out.
    LeaveOutAll,
    /// Each undoes all.
    UndoAll,
}

/// How a plan is carried out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What is done about a setting that the kernel refuses.
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

/// What was done.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Applied {
    /// The profile's name, or the settings.
    pub label: String,
    /// What was changed and read back, in order.
    pub changes: Vec<Change>,
    /// What was so already.
    pub unchanged: usize,
    /// What the kernel refused.
    pub refused: Vec<LeftOut>,
    /// What the reader must know.
    pub remarks: Vec<String>,
    /// Where the old values are.
    pub journal: PathBuf,
}

/// Carries a plan out. Everything that can be known before is looked at first:
/// rights, another tune in force, another program at work.
///
/// # Errors
/// [`TuneError::Lacking`], [`TuneError::InForce`], [`TuneError::Locked`]: then
/// nothing was changed. [`TuneError::RolledBack`]: then it is as it was.
/// [`TuneError::NotRolledBack`]: what is not as it was stays in the journal,
/// and the next command tries again.
pub fn apply(
    plan: &Plan,
    host: &Host,
    places: &Places,
    options: Options,
) -> Result<Applied, TuneError> {
    apply_on(Box::new(Files), plan, host, places, options)
}

pub(crate) fn apply_on(
    files: Box<dyn FileSystem>,
    plan: &Plan,
    host: &Host,
    places: &Places,
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
    // A measurement that changes settings is over before others are, and the
    // other way round.
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
                reason: format!("it changes {first} as well, which was refused"),
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
        journal.keep(Kept {
            label: plan.label.clone(),
            cpus: plan.cpus.as_ref().map(ToString::to_string),
            at: Timestamp::now(),
        })?;
    }
    Ok(applied)
}

/// Whether one that failed speaks against the others: an interrupt that the
/// kernel manages does not, where all were meant.
fn may_be_left_out(step: &Step, error: &TuneError, options: Options) -> bool {
    let managed = step.broad && matches!(error, TuneError::Refused { .. });
    // A journal that cannot be written is no fault of the setting.
    let ours = matches!(
        error,
        TuneError::Journal { .. } | TuneError::Unidentified { .. }
    );
    managed || (options.leaves_out(step) && !ours)
}

/// Whether this process has the rights that a plan takes.
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
    // What is left out is refused once more in its turn, and reported there.
    if lacking.is_empty() || (left_out && lacking.len() < steps.len()) {
        return Ok(());
    }
    Err(TuneError::Lacking {
        lacking,
        of: steps.len(),
    })
}

/// Refuses while an earlier tune is in force. A half of one that was killed is
/// not: that is undone by the next command, before this.
fn none_in_force(
    files: Box<dyn FileSystem>,
    host: &Host,
    path: &Path,
) -> Result<Box<dyn FileSystem>, TuneError> {
    let book = Book::read(files, path, host)?;
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
    match stands {
        true => Err(TuneError::InForce {
            label: kept.label.clone(),
            path: path.to_owned(),
        }),
        false => Ok(book.files),
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

/// Undoes what was applied, the last change first. Nothing where nothing is
/// applied. With `forget`, what cannot be undone is given up and reported as
/// [`How::Forgotten`].
///
/// # Errors
/// [`TuneError::NotRestored`] with what was undone and what was not: that stays
/// in the journal. [`TuneError::NotRecorded`] where all is undone and the journal
/// could not be written. [`TuneError::Locked`] while another program changes
/// settings; [`TuneError::Damaged`].
pub fn revert(host: &Host, places: &Places, forget: bool) -> Result<Vec<Restored>, TuneError> {
    revert_on(Box::new(Files), host, places, forget)
}

pub(crate) fn revert_on(
    files: Box<dyn FileSystem>,
    host: &Host,
    places: &Places,
    forget: bool,
) -> Result<Vec<Restored>, TuneError> {
    let path = &places.applied;
    let mut book = Book::read(files, path, host)?;
    if book.state.is_settled() {
        return Ok(Vec::new());
    }
    let _measurements = Lock::take(&places.runs, PATIENCE)?;
    let _lock = Lock::take(path, PATIENCE)?;
    book.read_again()?;
    if book.state.is_settled() {
        return Ok(Vec::new());
    }
    if book.is_of_this_boot()? && book.state.damaged_line.is_none() {
        book.note(Record::Reverting);
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
            // A full disk lets a file be cut.
            emptied: book.start_anew().is_ok(),
            restored,
            path,
            source,
        }),
        Err(error) => Err(error),
    }
}
