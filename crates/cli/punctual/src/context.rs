//! The context that all verbs share, and the places where this machine keeps what a run has changed.

use std::io::ErrorKind::PermissionDenied;
use std::path::PathBuf;

use anyhow::Result;
use punctual_experiment::OwnExperiments;
use punctual_host::Host;
use punctual_tune::{How, Locations, Restored, TuneError};

use crate::output::note;

pub(crate) use punctual_command::{Context, terminal_width};

/// Returns the path of the journal of changed settings; `None` if no environment variable
/// determines its folder.
pub(crate) fn journal() -> Option<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    punctual_tune::default_path(root, &|name| std::env::var_os(name)).ok()
}

/// Returns the experiments that this user began on this machine.
pub(crate) fn own_experiments() -> Result<OwnExperiments> {
    Ok(OwnExperiments::next_to(&tune_places()?.runs))
}

/// Returns the folders for the lock files of measured CPUs. Users other than root get their own
/// folder in addition to the machine's folder, because they cannot create files in that one.
pub(crate) fn cpu_locks() -> Vec<PathBuf> {
    let given = std::env::var_os("PUNCTUAL_LOCKS").filter(|value| !value.is_empty());
    if let Some(folder) = given {
        return vec![PathBuf::from(folder)];
    }
    let mut folders = vec![PathBuf::from("/run/punctual")];
    if !rustix::process::geteuid().is_root() {
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let own = own.filter(|path| path.is_absolute());
        folders.extend(own.map(|path| path.join("punctual")));
    }
    folders
}

/// Returns the paths of the settings journals: one for measurements, and one for settings that
/// a user has applied.
pub(crate) fn tune_places() -> Result<Locations> {
    let root = rustix::process::geteuid().is_root();
    let runs = punctual_tune::default_path(root, &|name| std::env::var_os(name))?;
    Ok(Locations::next_to(runs))
}

/// Returns the path of the key with which this machine signs recordings: next to the journal.
pub(crate) fn signing_key() -> Result<PathBuf> {
    Ok(tune_places()?.runs.with_file_name("signing.key"))
}

/// Returns the path of the list of public keys that this machine has replaced.
pub(crate) fn earlier_keys() -> Result<PathBuf> {
    Ok(signing_key()?.with_extension("earlier"))
}

/// Returns the note about a list of processes that is incomplete.
pub(crate) fn hidden(option: &str) -> String {
    format!(
        "processes of other users are hidden ({option}), so it is unknown whether there are more; \
         run as root to see them"
    )
}

/// Restores the settings that a killed run, or a killed `tune apply`, left
/// changed. A failure is reported and does not stop the
/// verb.
pub(crate) fn recover_settings() {
    let Ok(places) = tune_places() else {
        return;
    };
    let root = rustix::process::geteuid().is_root();
    for (path, who) in [(&places.applied, "tune"), (&places.runs, "run")] {
        match punctual_tune::recover(path, &Host::live()) {
            Ok(restored) => restored
                .iter()
                .map(|one| put_back(one, who))
                .for_each(|text| note(&text)),
            // The journal belongs to another user, who must restore the settings. Root can read
            // any journal, so a message tells root that this one is ignored.
            Err(TuneError::Journal { source, .. }) if source.kind() == PermissionDenied => {
                if root {
                    note(&format!(
                        "the settings that a killed {who} changed are not restored: {source}; \
                         unset XDG_STATE_HOME if it names another user's folder"
                    ));
                }
            }
            Err(error) => note(&format!(
                "cannot restore the settings that a killed {who} \
                changed: {error}"
            )),
        }
    }
}

/// Stops tracers that a killed run left active: the hardware latency detector, timerlat or
/// osnoise, or a flight recorder.
pub(crate) fn recover_tracer() {
    match punctual_session::recover_tracer(&Host::live()) {
        Ok(removed) => removed.iter().for_each(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let tracers = ["hwlat", "osnoise"];
            note(
                &match tracers.iter().find(|tracer| name.contains(*tracer)) {
                    Some(tracer) => format!(
                        "the kernel's tracer {tracer} was stopped and its settings restored: a \
                     killed run had left it active in {}",
                        path.display()
                    ),
                    None => format!("the trace instance {name} of a killed run was removed"),
                },
            );
        }),
        Err(error) => note(&format!(
            "cannot remove the trace instances of a killed run: \
            {error}"
        )),
    }
}

/// Returns a message about a setting that was restored after a killed run.
fn put_back(restored: &Restored, who: &str) -> String {
    let Restored {
        setting,
        value,
        how,
    } = restored;
    match how {
        How::Written { found, .. } => {
            format!("{setting} restored to '{value}': a killed {who} had left it at '{found}'")
        }
        How::WasThere => format!(
            "{setting} is already '{value}', the value before a killed {who} \
            changed it"
        ),
        How::Reboot => {
            format!("{setting} was changed by a killed {who}, and reset by a reboot")
        }
        How::Gone => format!("{setting} was changed by a killed {who}, but no longer exists"),
        How::Forgotten => format!("{setting} was changed by a killed {who}, and was not restored"),
    }
}
