//! Settings of the machine, changed on a probe's behalf and put back.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_host::Host;
use punctual_probes::Settings;
use punctual_tune::{How, Journal, Knob, Phase, Places, Restored, Status, TuneError};

/// What a probe may change: the settings that it named, journalled.
///
/// The journal is opened by the first change, so that a run that changes nothing
/// needs no place for it and excludes nobody. Dropped, it puts everything back.
#[derive(Debug)]
pub(crate) struct MachineSettings {
    host: Host,
    path: Option<PathBuf>,
    knobs: &'static [&'static str],
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Nothing has been changed.
    Untouched,
    /// Changes may be in force.
    Open(Journal),
    /// The run is over.
    Closed,
}

impl MachineSettings {
    /// The settings `knobs` of `host`, journalled at `path`; `None`: nothing may
    /// be changed.
    pub(crate) fn new(host: Host, path: Option<PathBuf>, knobs: &'static [&'static str]) -> Self {
        Self {
            host,
            path,
            knobs,
            state: Mutex::new(State::Untouched),
        }
    }

    /// Puts everything back, and lets nothing be changed from here on. Returns
    /// what the reader must know.
    pub(crate) fn revert(&self) -> Vec<String> {
        let mut state = self.lock();
        let State::Open(mut journal) = std::mem::replace(&mut *state, State::Closed) else {
            return Vec::new();
        };
        match journal.revert_all() {
            Ok(restored) => restored.iter().filter_map(by_someone_else).collect(),
            Err(error) => vec![format!(
                "{error}; the next command of punctual tries again (journal: {})",
                journal.path().display()
            )],
        }
    }

    fn knob(&self, name: &str) -> Result<&'static Knob, String> {
        if !self.knobs.contains(&name) {
            return Err(format!(
                "the probe has not said that it changes {name}: a defect of ours"
            ));
        }
        punctual_tune::knob(name).map_err(text)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A journal holds what is on disk, also after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Settings for MachineSettings {
    fn value(&self, knob: &str) -> Result<String, String> {
        self.knob(knob)?.value(&self.host).map_err(text)
    }

    fn offered(&self, knob: &str) -> Result<Vec<String>, String> {
        let offered = self.knob(knob)?.offered(&self.host).map_err(text)?;
        offered.ok_or_else(|| format!("the kernel does not list the values of {knob}"))
    }

    fn may_change(&self, knob: &str) -> Result<(), String> {
        if self.path.is_none() {
            return Err("there is no place for the journal of settings: set HOME".to_owned());
        }
        self.knob(knob)?.may_change(&self.host).map_err(text)
    }

    fn set(&self, knob: &str, value: &str) -> Result<(), String> {
        let knob = self.knob(knob)?;
        let mut state = self.lock();
        if let State::Untouched = *state {
            let path = self.path.as_ref();
            let path = path.ok_or_else(|| "there is no place for its journal".to_owned())?;
            *state = State::Open(Journal::open(path, &self.host).map_err(text)?);
        }
        match &mut *state {
            State::Open(journal) => journal.apply(knob, value).map(drop).map_err(text),
            State::Untouched | State::Closed => Err("the run is over".to_owned()),
        }
    }
}

/// A sentence about what a user has applied with `tune`, which the figures
/// depend on; nothing where nothing is known to be.
pub(crate) fn applied(journal: Option<&Path>, host: &Host) -> Option<String> {
    let places = Places::beside(journal?.to_owned());
    let status = Status::read(&places.applied, host).ok()??;
    let cpus = status.cpus.as_ref();
    let cpus = cpus.map_or_else(String::new, |cpus| format!(" for CPU {cpus}"));
    (status.phase == Phase::Applied).then(|| {
        format!(
            "measured with a tune in force: {}{cpus}{}",
            status.label,
            if status.holds() {
                ""
            } else {
                ", parts of which someone has changed since"
            }
        )
    })
}

fn text(error: TuneError) -> String {
    error.to_string()
}

/// A sentence about a setting that was not as this run had left it.
fn by_someone_else(restored: &Restored) -> Option<String> {
    match &restored.how {
        How::Written { found, ours: false } => Some(format!(
            "{} was changed to '{found}' by another program during the run, and is '{}' again",
            restored.knob, restored.value
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const KNOBS: &[&str] = &["clocksource"];
    const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

    /// A false /sys beside the real /proc.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let clock = folder.path().join(CLOCK);
        fs::create_dir_all(&clock).unwrap();
        fs::write(clock.join("current_clocksource"), "tsc\n").unwrap();
        fs::write(clock.join("available_clocksource"), "tsc hpet \n").unwrap();
        std::os::unix::fs::symlink("/proc", folder.path().join("proc")).unwrap();
        folder
    }

    fn settings(root: &Path) -> MachineSettings {
        let journal = Some(root.join("state/tune.journal"));
        MachineSettings::new(Host::new(root), journal, KNOBS)
    }

    #[test]
    fn what_was_changed_is_put_back_and_then_nothing_more_is_changed() {
        let folder = machine();
        let settings = settings(folder.path());
        assert_eq!(settings.offered("clocksource").unwrap(), ["tsc", "hpet"]);
        assert_eq!(settings.may_change("clocksource"), Ok(()));
        assert!(
            !folder.path().join("state").exists(),
            "nothing is changed yet"
        );
        settings.set("clocksource", "hpet").unwrap();
        assert_eq!(settings.value("clocksource").unwrap(), "hpet");
        assert_eq!(settings.revert(), [""; 0]);
        assert_eq!(settings.value("clocksource").unwrap(), "tsc");
        assert_eq!(
            settings.set("clocksource", "hpet").unwrap_err(),
            "the run is over"
        );
        assert_eq!(settings.revert(), [""; 0]);
    }

    #[test]
    fn dropped_it_puts_back() {
        let folder = machine();
        let settings = settings(folder.path());
        settings.set("clocksource", "hpet").unwrap();
        drop(settings);
        let file = folder.path().join(CLOCK).join("current_clocksource");
        assert_eq!(fs::read_to_string(file).unwrap(), "tsc\n");
    }

    #[test]
    fn what_was_not_named_is_not_changed() {
        let folder = machine();
        let journal = Some(folder.path().join("tune.journal"));
        let none = MachineSettings::new(Host::new(folder.path()), journal, &[]);
        assert!(
            none.set("clocksource", "hpet")
                .unwrap_err()
                .contains("has not said")
        );
        let nowhere = MachineSettings::new(Host::new(folder.path()), None, KNOBS);
        assert!(nowhere.may_change("clocksource").is_err());
        assert!(nowhere.set("clocksource", "hpet").is_err());
        assert_eq!(nowhere.value("clocksource").unwrap(), "tsc");
    }

    #[test]
    fn what_cannot_be_put_back_is_told() {
        let folder = machine();
        let settings = settings(folder.path());
        settings.set("clocksource", "hpet").unwrap();
        let file = folder.path().join(CLOCK).join("current_clocksource");
        fs::write(&file, "acpi_pm\n").unwrap();
        let told = settings.revert();
        assert!(
            told[0].contains("was changed to 'acpi_pm' by another program"),
            "{told:?}"
        );
        let second = self::settings(folder.path());
        second.set("clocksource", "hpet").unwrap();
        fs::remove_file(&file).unwrap();
        let told = second.revert();
        assert!(
            told[0].contains("could not put back clocksource to 'tsc'"),
            "{told:?}"
        );
    }
}
