//! Applies settings at every boot. Units apply them, and verify them after resume and hotplug. If a
//! boot with the settings did not reach its target, the units do not apply them at the next boot.

mod attempt;
#[cfg(test)]
mod tests;
mod units;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use punctual_files::{Budget, FileError, Output, trusted};
use punctual_host::Host;
use serde::{Deserialize, Serialize};

pub use attempt::{
    AtBoot, Attempt, Verified, apply_at_boot, boot_reached, verify_at_boot, verify_enabled,
};

use crate::apply::Locations;
use crate::{CmdlineError, Plan, Profile, Request, TuneError, Wish};

/// Path of the configuration for every boot, below the root folder.
pub const BOOT_CONFIG: &str = "/etc/punctual/boot.toml";
/// Path of the profile's copy, which exists if the profile was given as a file.
const BOOT_PROFILE: &str = "/etc/punctual/boot-profile.toml";

/// Maximum number of bytes to read from a file.
const LIMIT: u64 = 1 << 18;

/// The settings to apply at every boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootTune {
    /// Program that the units start.
    pub program: String,
    /// A built-in profile or a TOML file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// CPUs to measure or to run the application on, such as `2-3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Single settings, `SETTING=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
}

/// The state of a file that `enable` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitState {
    /// The file is as it was written.
    Ok,
    /// The file does not exist.
    Missing,
    /// The file was edited after `enable` wrote it.
    Edited,
}

/// The settings that are applied at every boot, and their state.
#[derive(Clone, Debug, Serialize)]
pub struct BootStatus {
    /// Settings to apply; `null` if nothing is enabled.
    pub enabled: Option<BootTune>,
    /// Files that have been changed or removed since they were written.
    pub damaged: Vec<(String, UnitState)>,
    /// Last boot that applied the settings; `null` if there was none.
    pub last: Option<Attempt>,
    /// Whether the settings are not applied because that boot did not reach its target; `null` if
    /// the identifier of the current boot is unknown.
    pub left_off: Option<bool>,
}

punctual_model::to_json!(BootStatus);

/// A reason why settings are not applied at every boot.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The system has no systemd.
    #[error(
        "no systemd was found in {}: let another init call `punctual tune apply` at boot",
        root.display()
    )]
    NoSystemd {
        /// The root folder.
        root: PathBuf,
    },
    /// Nothing is enabled.
    #[error("nothing is enabled: {} is missing; see `punctual tune enable`", path.display())]
    NotEnabled {
        /// The configuration file.
        path: PathBuf,
    },
    /// A file was edited after it was written.
    #[error("{} was edited since it was written: remove it, then try again", path.display())]
    Edited {
        /// The file.
        path: PathBuf,
    },
    /// A file is damaged.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// Another user could replace the program.
    #[error(
        "root's units do not start {}: {why}; install the program in /usr/local/bin, or pass \
         --program",
        path.display()
    )]
    Program {
        /// The program.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// systemctl failed.
    #[error(transparent)]
    Systemctl(#[from] CmdlineError),
    /// A setting could not be changed or restored.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl BootTune {
    /// Reads the configuration of a system. Refuses a file that a user other than root may have
    /// written.
    ///
    /// # Errors
    /// Returns [`BootError::NotEnabled`] or [`BootError::Damaged`].
    pub fn read(root: &Path) -> Result<Self, BootError> {
        let path = below(root, BOOT_CONFIG);
        let text = match trusted::text(&path, LIMIT) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(BootError::NotEnabled { path });
            }
            Err(error) => return Err(error.into()),
        };
        toml::from_str(&text).map_err(|error| BootError::Damaged {
            path,
            why: error.message().to_owned(),
        })
    }

    /// Creates the request for a plan.
    ///
    /// # Errors
    /// Returns an error if the profile, the CPU list or a setting is invalid.
    pub fn request(&self) -> Result<Request, BootError> {
        let cpus = self.cpus.as_deref().map(str::parse).transpose();
        let sets = self.set.iter().map(|text| Wish::parse(text));
        Ok(Request {
            profile: self.profile.as_deref().map(Profile::find).transpose()?,
            sets: sets.collect::<Result<_, _>>()?,
            cpus: cpus.map_err(|error| TuneError::Cpus(format!("cpus: {error}")))?,
        })
    }

    /// Makes the plan for the current state of a machine.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::make`] and [`BootTune::request`].
    pub fn plan(&self, host: &Host, places: &Locations) -> Result<Plan, BootError> {
        Ok(Plan::make(&self.request()?, host, &places.applied)?)
    }

    fn text(&self) -> Result<String, BootError> {
        let body = toml::to_string(self).map_err(|error| BootError::Damaged {
            path: BOOT_CONFIG.into(),
            why: error.to_string(),
        })?;
        Ok(format!("# Written by `punctual tune enable`.\n{body}"))
    }
}

/// Writes the units that apply settings at every boot of a system. Also forgets a boot that did not
/// reach its target, and copies the profile if it is a file. Returns the written files.
///
/// # Errors
/// Returns an error if the system has no systemd, if a file was edited after it was written, or if
/// the profile is invalid.
pub fn enable(host: &Host, places: &Locations, tune: &BootTune) -> Result<Vec<String>, BootError> {
    let root = host.root();
    let folders = ["/usr/lib/systemd", "/lib/systemd"];
    if !folders.iter().any(|folder| below(root, folder).is_dir()) {
        return Err(BootError::NoSystemd {
            root: root.to_owned(),
        });
    }
    tune.request()?;
    if let Ok(old) = BootTune::read(root) {
        disable_units(root, &old, true)?;
    }
    let mut tune = tune.clone();
    let mut files = units::files(root, &tune.program);
    if let Some(file) = tune.profile.clone().filter(|name| name.contains('/')) {
        let text = Budget::bytes(LIMIT).read_text(Path::new(&file))?;
        files.push((BOOT_PROFILE.to_owned(), text));
        tune.profile = Some(BOOT_PROFILE.to_owned());
    }
    // The units do nothing without the configuration, so it is written last.
    files.push((BOOT_CONFIG.to_owned(), tune.text()?));
    for (path, text) in &files {
        let place = below(root, path);
        make_parent(&place)?;
        Output::file(&place)?.put(text.as_bytes())?;
    }
    for (link, to) in units::links() {
        let place = below(root, &link);
        make_parent(&place)?;
        match std::os::unix::fs::symlink(&to, &place) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                return Err(failed(&place, source));
            }
            _ => {}
        }
    }
    remove(&attempt::file(places))?;
    reload(root)?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// Removes the units. Applied settings stay in force until they are reverted. Returns the removed
/// files, or none if nothing was enabled.
///
/// # Errors
/// Returns an error if a unit was edited after it was written. In that case nothing is removed.
pub fn disable(host: &Host, places: &Locations) -> Result<Vec<String>, BootError> {
    let root = host.root();
    let tune = match BootTune::read(root) {
        Ok(tune) => tune,
        Err(BootError::NotEnabled { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut removed = disable_units(root, &tune, false)?;
    for path in [BOOT_CONFIG, BOOT_PROFILE] {
        if remove(&below(root, path))? {
            removed.push(path.to_owned());
        }
    }
    // This fails if the folder contains other files.
    let _ = fs::remove_dir(below(root, "/etc/punctual"));
    remove(&attempt::file(places))?;
    reload(root)?;
    Ok(removed)
}

/// Returns the settings that are applied at every boot, and their state.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub fn boot_status(host: &Host, places: &Locations) -> Result<BootStatus, BootError> {
    let root = host.root();
    let enabled = match BootTune::read(root) {
        Ok(tune) => Some(tune),
        Err(BootError::NotEnabled { .. }) => None,
        Err(error) => return Err(error),
    };
    let mut damaged = Vec::new();
    if let Some(tune) = &enabled {
        for (path, text) in units::files(root, &tune.program) {
            match state_of(root, &path, &text)? {
                UnitState::Ok => {}
                state => damaged.push((path, state)),
            }
        }
        let missing = |(link, _): &(String, String)| below(root, link).symlink_metadata().is_err();
        let links = units::links().into_iter().filter(missing);
        damaged.extend(links.map(|(link, _)| (link, UnitState::Missing)));
    }
    let last = attempt::last(&attempt::file(places))?;
    let left_off = match (&last, host.boot_id()) {
        (Some(last), Some(boot)) => Some(!last.reached && last.boot_id != boot),
        (None, _) => Some(false),
        (_, None) => None,
    };
    Ok(BootStatus {
        enabled,
        damaged,
        last,
        left_off,
    })
}

fn state_of(root: &Path, path: &str, text: &str) -> Result<UnitState, BootError> {
    match Budget::bytes(LIMIT).read_text(&below(root, path)) {
        Ok(found) if found == text => Ok(UnitState::Ok),
        Ok(_) => Ok(UnitState::Edited),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(UnitState::Missing),
        Err(error) => Err(error.into()),
    }
}

/// Removes units and links that have not changed since they were written. With `links_stay`,
/// removes only the files, so that they can be written again.
fn disable_units(root: &Path, tune: &BootTune, links_stay: bool) -> Result<Vec<String>, BootError> {
    let files = units::files(root, &tune.program);
    for (path, text) in &files {
        if state_of(root, path, text)? == UnitState::Edited {
            return Err(BootError::Edited {
                path: below(root, path),
            });
        }
    }
    let links = if links_stay {
        Vec::new()
    } else {
        units::links()
    };
    let mut removed = Vec::new();
    for (path, _) in links.into_iter().chain(files) {
        if remove(&below(root, &path))? {
            removed.push(path);
        }
    }
    Ok(removed)
}

/// Makes systemd reload its units if this is the running system.
fn reload(root: &Path) -> Result<(), BootError> {
    if root != Path::new("/") || !Path::new("/run/systemd/system").is_dir() {
        return Ok(());
    }
    let words = ["systemctl", "daemon-reload"].map(str::to_owned);
    Ok(crate::cmdline::run(&words)?)
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn failed(path: &Path, source: io::Error) -> BootError {
    BootError::File(FileError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Creates the folder of a file, readable for all users, like the folders in /etc.
fn make_parent(path: &Path) -> Result<(), BootError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(|source| failed(parent, source))
}

/// Removes a file, and returns whether it existed.
fn remove(path: &Path) -> Result<bool, BootError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(failed(path, source)),
    }
}
