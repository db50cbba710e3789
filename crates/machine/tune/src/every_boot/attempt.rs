//! Tracks whether the last boot with the settings reached its target. This state is written to a
//! file before the settings are applied, and the file is marked when the target is reached.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use punctual_files::{Output, folder, trusted};
use punctual_host::Host;
use punctual_model::{FromJson, ToJson, from_json, to_json};
use serde::{Deserialize, Serialize};

use super::{BootError, BootTune};
use crate::apply::Locations;
use crate::{Applied, Hold, Options, Phase, Plan, Status, TuneError, apply, revert};

/// Maximum number of bytes to read from the file.
const LIMIT: u64 = 1 << 16;

/// A boot that applied the settings or began to apply them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Identifier of the boot (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Time when the settings were applied.
    pub time: Timestamp,
    /// Whether that boot reached its target.
    pub reached: bool,
    /// Number of settings that were changed.
    pub changed: usize,
    /// Settings that the kernel refused. They are not expected to be in force.
    pub refused: Vec<String>,
}

to_json!(Attempt);
from_json!(Attempt);

impl Attempt {
    /// Adds the result of applying the settings to the record of the boot.
    fn with_applied(self, applied: &Applied) -> Self {
        let refused = applied.refused.iter().map(|one| one.setting.clone());
        Self {
            changed: applied.changes.len(),
            refused: refused.collect(),
            ..self
        }
    }
}

/// The action taken at a boot.
#[derive(Debug)]
pub enum AtBoot {
    /// The settings were applied and read back.
    Applied(Box<Plan>, Box<Applied>),
    /// The settings were not applied, because the last boot with them did not reach its target.
    LeftOff(Attempt),
}

/// The result of verifying the settings.
#[derive(Debug)]
pub enum Verified {
    /// Nothing was applied in this boot.
    NotApplied,
    /// All settings are in force.
    Holds,
    /// Some settings were no longer in force, so all settings were applied again. The fields are
    /// the settings that were lost, the new plan, and the result of applying it.
    Again(Vec<String>, Box<Plan>, Box<Applied>),
}

/// Path of the file that records the attempt, next to the journals.
pub(super) fn file(places: &Locations) -> PathBuf {
    places.runs.with_file_name("boot-attempt.json")
}

/// Reads the record of the last boot that applied the settings.
pub(super) fn last(path: &Path) -> Result<Option<Attempt>, BootError> {
    let text = match trusted::text(path, LIMIT) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let attempt = Attempt::from_json(text.as_bytes()).map_err(|error| BootError::Damaged {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    Ok(Some(attempt))
}

fn save(path: &Path, attempt: &Attempt) -> Result<(), BootError> {
    if let Some(parent) = path.parent() {
        folder::make(parent, 0o700)?;
    }
    Ok(Output::private(path)?.put(attempt.to_json().as_bytes())?)
}

fn this_boot(host: &Host) -> Result<String, BootError> {
    let unknown = TuneError::Unidentified { what: "this boot" };
    host.boot_id().ok_or(BootError::Tune(unknown))
}

/// Applies the settings, unless the last boot with them did not reach its target. Before making the
/// plan, clears the changes of the last boot from the journal.
///
/// # Errors
/// Returns the errors of [`apply()`], and errors of reading or writing the attempt's file.
pub fn apply_at_boot(
    host: &Host,
    places: &Locations,
    plan: impl Fn() -> Result<Plan, BootError>,
) -> Result<AtBoot, BootError> {
    let boot_id = this_boot(host)?;
    let path = file(places);
    if let Some(attempt) = last(&path)?
        && attempt.boot_id != boot_id
        && !attempt.reached
    {
        return Ok(AtBoot::LeftOff(attempt));
    }
    let status = Status::read(&places.applied, host)?;
    if status.is_some_and(|status| status.phase == Phase::BeforeBoot) {
        revert(host, places, false)?;
    }
    let plan = plan()?;
    let attempt = Attempt {
        boot_id,
        time: Timestamp::now(),
        reached: false,
        changed: 0,
        refused: Vec::new(),
    };
    save(&path, &attempt)?;
    let applied = apply(&plan, host, places, Options::default())?;
    save(&path, &attempt.with_applied(&applied))?;
    Ok(AtBoot::Applied(Box::new(plan), Box::new(applied)))
}

/// Records that this boot reached its target. Returns whether this boot had applied the settings.
///
/// # Errors
/// Returns errors of reading or writing the attempt's file.
pub fn boot_reached(host: &Host, places: &Locations) -> Result<bool, BootError> {
    let boot_id = this_boot(host)?;
    let path = file(places);
    match last(&path)? {
        Some(attempt) if attempt.boot_id == boot_id => {
            let reached = Attempt {
                reached: true,
                ..attempt
            };
            save(&path, &reached)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Verifies the settings that this boot applied. If one of them is not in force, restores all of
/// them and applies them again.
///
/// # Errors
/// Returns the errors of [`revert()`] and [`apply()`].
pub fn verify_at_boot(
    host: &Host,
    places: &Locations,
    plan: impl Fn() -> Result<Plan, BootError>,
) -> Result<Verified, BootError> {
    let path = file(places);
    let boot_id = this_boot(host)?;
    let attempt = last(&path)?.filter(|attempt| attempt.boot_id == boot_id);
    let Some(attempt) = attempt else {
        return Ok(Verified::NotApplied);
    };
    let status = Status::read(&places.applied, host)?;
    let expected = match &status {
        Some(status) => status.phase == Phase::Applied,
        // If there is no status, either nothing had to be changed, or a user has reverted the
        // changes.
        None => attempt.changed == 0,
    };
    if !expected {
        return Ok(Verified::NotApplied);
    }
    let settings = status.iter().flat_map(|status| &status.settings);
    let mut lost: Vec<String> = settings
        .filter(|one| one.state != Hold::InForce)
        .map(|one| one.label.clone())
        .collect();
    // A new device has settings that are missing from the journal.
    for step in plan()?.changes() {
        if !lost.contains(&step.label) && !attempt.refused.contains(&step.label) {
            lost.push(step.label.clone());
        }
    }
    if lost.is_empty() {
        return Ok(Verified::Holds);
    }
    revert(host, places, false)?;
    let fresh = plan()?;
    let applied = apply(&fresh, host, places, Options::default())?;
    save(&path, &attempt.with_applied(&applied))?;
    Ok(Verified::Again(lost, Box::new(fresh), Box::new(applied)))
}

/// Verifies the settings that are enabled at every boot, and applies them again if one was lost.
/// The unit calls this function, and a series of measurements calls it before each measurement.
/// Returns [`Verified::NotApplied`] if nothing is enabled.
///
/// # Errors
/// Returns the errors of [`verify_at_boot`], and an error if the configuration cannot be read.
pub fn verify_enabled(host: &Host, places: &Locations) -> Result<Verified, BootError> {
    match BootTune::read(host.root()) {
        Ok(tune) => verify_at_boot(host, places, || tune.plan(host, places)),
        Err(BootError::NotEnabled { .. }) => Ok(Verified::NotApplied),
        Err(error) => Err(error),
    }
}
