//! Machine settings that are changed for a probe and restored.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_host::Host;
use punctual_model::{CpuSet, Recording};
use punctual_probes::{Settings, SettingsError};
use punctual_tune::{
    How, Journal, Locations, Phase, Restored, Status, TuneError, deeper_idle_states,
};

/// Settings that a probe may change: those that it named, recorded in a journal.
///
/// The first change opens the journal, so a run without changes does not need one, and does not
/// lock out other processes. Everything is restored when this is dropped.
#[derive(Debug)]
pub(crate) struct MachineSettings {
    host: Host,
    path: Option<PathBuf>,
    named: &'static [&'static str],
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
    /// Creates the settings `named` of `host`, with a journal at `path`; `None` if nothing may be
    /// changed.
    pub(crate) fn new(host: Host, path: Option<PathBuf>, named: &'static [&'static str]) -> Self {
        Self {
            host,
            path,
            named,
            state: Mutex::new(State::Untouched),
        }
    }

    /// Restores everything, and prevents further changes. Returns warnings for the reader.
    pub(crate) fn revert(&self) -> Vec<String> {
        let mut state = self.lock();
        let State::Open(mut journal) = std::mem::replace(&mut *state, State::Closed) else {
            return Vec::new();
        };
        match journal.revert_all() {
            Ok(restored) => restored.iter().filter_map(by_someone_else).collect(),
            Err(error) => vec![format!(
                "{error}; the next punctual command tries again (journal: {})",
                journal.path().display()
            )],
        }
    }

    /// Disables the idle states of `cpus` that are deeper than state `deepest`; -1 for all. Returns
    /// a warning for the reader of the recording, if any.
    ///
    /// # Errors
    /// Returns an error if a state could not be changed; [`revert`](Self::revert) restores the ones
    /// before it.
    pub(crate) fn limit_idle(
        &self,
        cpus: &CpuSet,
        deepest: i64,
    ) -> Result<Option<String>, SettingsError> {
        let (setting, states, all) = deeper_idle_states(&self.host, cpus, deepest);
        if all == 0 {
            return Ok(Some(format!(
                "no idle state was disabled, because CPUs {cpus} have no idle states (no cpuidle \
                 below /sys/devices/system/cpu)"
            )));
        }
        for state in states {
            self.change(|journal| journal.apply_to(setting, &state, "1").map(drop))?;
        }
        Ok(None)
    }

    /// Makes a change, recorded in the journal.
    fn change(
        &self,
        what: impl FnOnce(&mut Journal) -> Result<(), TuneError>,
    ) -> Result<(), SettingsError> {
        let mut state = self.lock();
        if let State::Untouched = *state {
            let path = self.path.as_ref().ok_or(SettingsError::NoJournal)?;
            let journal = Journal::open(path, &self.host).map_err(SettingsError::refused)?;
            *state = State::Open(journal);
        }
        match &mut *state {
            State::Open(journal) => what(journal).map_err(SettingsError::refused),
            State::Untouched | State::Closed => Err(SettingsError::RunOver),
        }
    }

    fn setting(&self, name: &str) -> Result<&'static punctual_model::Setting, SettingsError> {
        if !self.named.contains(&name) {
            return Err(SettingsError::NotNamed(name.to_owned()));
        }
        punctual_tune::setting(name).map_err(SettingsError::refused)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The journal matches what is on disk, even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Settings for MachineSettings {
    fn offered(&self, setting: &str) -> Result<Vec<String>, SettingsError> {
        let offered = punctual_tune::offered(self.setting(setting)?, &self.host);
        let offered = offered.map_err(SettingsError::refused)?;
        offered.ok_or_else(|| SettingsError::NotListed(setting.to_owned()))
    }

    fn may_change(&self, setting: &str) -> Result<(), SettingsError> {
        if self.path.is_none() {
            return Err(SettingsError::NoJournal);
        }
        punctual_tune::may_change(self.setting(setting)?, &self.host)
            .map_err(SettingsError::refused)
    }

    fn set(&self, setting: &str, value: &str) -> Result<(), SettingsError> {
        let setting = self.setting(setting)?;
        self.change(|journal| journal.apply(setting, value).map(drop))
    }
}

/// Returns the profile that the user has applied with `tune`, because the results depend on it: a
/// text for the recording, `None` if unknown; and a warning if settings are in force.
pub(crate) fn applied(journal: Option<&Path>, host: &Host) -> (Option<String>, Option<String>) {
    let read = journal.map(|journal| {
        let places = Locations::next_to(journal.to_owned());
        Status::read(&places.applied, host)
    });
    let status = match read {
        Some(Ok(None)) => return (Some(Recording::NO_TUNE.to_owned()), None),
        Some(Ok(Some(status))) if status.phase == Phase::Applied => status,
        // The profile is only partially applied, was applied in an earlier boot, or is unreadable,
        // so it is unknown which settings are in force.
        _ => return (None, None),
    };
    let cpus = status.cpus.as_ref();
    let cpus = cpus.map_or_else(String::new, |cpus| format!(" for CPU {cpus}"));
    let changed = if status.holds() {
        ""
    } else {
        ", partly changed since"
    };
    let tune = format!("{}{cpus}{changed}", status.label);
    let warning = format!("measured with a tune in force: {tune}");
    (Some(tune), Some(warning))
}

/// Describes a setting whose value another program changed during the run.
fn by_someone_else(restored: &Restored) -> Option<String> {
    match &restored.how {
        How::Written { found, ours: false } => Some(format!(
            "another program changed {} to '{found}' during the run; the value was set back to \
             '{}'",
            restored.setting, restored.value
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NAMED: &[&str] = &["clocksource"];
    const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

    /// A fake /sys with the real /proc.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let clock = folder.path().join(CLOCK);
        fs::create_dir_all(&clock).unwrap();
        fs::write(clock.join("current_clocksource"), "tsc\n").unwrap();
        fs::write(clock.join("available_clocksource"), "tsc hpet \n").unwrap();
        std::os::unix::fs::symlink("/proc", folder.path().join("proc")).unwrap();
        folder
    }

    fn in_force(root: &Path) -> String {
        let file = root.join(CLOCK).join("current_clocksource");
        fs::read_to_string(file).unwrap().trim_end().to_owned()
    }

    fn settings(root: &Path) -> MachineSettings {
        let journal = Some(root.join("state/tune.journal"));
        MachineSettings::new(Host::new(root), journal, NAMED)
    }

    #[test]
    fn restored_settings_are_not_changed_afterwards() {
        let folder = machine();
        let settings = settings(folder.path());
        assert_eq!(settings.offered("clocksource").unwrap(), ["tsc", "hpet"]);
        settings.may_change("clocksource").unwrap();
        assert!(
            !folder.path().join("state").exists(),
            "nothing is changed yet"
        );
        settings.set("clocksource", "hpet").unwrap();
        assert_eq!(in_force(folder.path()), "hpet");
        assert_eq!(settings.revert(), [""; 0]);
        assert_eq!(in_force(folder.path()), "tsc");
        let late = settings.set("clocksource", "hpet");
        assert!(matches!(late, Err(SettingsError::RunOver)));
        assert_eq!(settings.revert(), [""; 0]);
    }

    #[test]
    fn run_disables_deep_idle_states() {
        let folder = machine();
        let file = |cpu: u32, state: u32| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable");
            folder.path().join(path)
        };
        for (cpu, state) in (0..3).flat_map(|cpu| (0..4).map(move |state| (cpu, state))) {
            fs::create_dir_all(file(cpu, state).parent().unwrap()).unwrap();
            // One state is already disabled.
            let disabled = u32::from((cpu, state) == (1, 3));
            fs::write(file(cpu, state), format!("{disabled}\n")).unwrap();
        }
        let all = || {
            let each = (0..3).map(|cpu| {
                let states = (0..4).map(|state| fs::read_to_string(file(cpu, state)).unwrap());
                states.collect::<String>().replace('\n', "")
            });
            each.collect::<Vec<_>>().join(" ")
        };
        let cpus = "0-1".parse().unwrap();
        for (deepest, during) in [
            (1, "0011 0011 0000"),
            (-1, "1111 1111 0000"),
            (9, "0000 0001 0000"),
        ] {
            let settings = settings(folder.path());
            assert_eq!(settings.limit_idle(&cpus, deepest).unwrap(), None);
            assert_eq!(all(), during);
            assert_eq!(settings.revert(), [""; 0]);
            assert_eq!(all(), "0000 0001 0000");
        }
        let dropped = settings(folder.path());
        dropped.limit_idle(&cpus, 0).unwrap();
        assert_eq!(all(), "0111 0111 0000");
        drop(dropped);
        assert_eq!(all(), "0000 0001 0000");
        // Without cpuidle, there is a message.
        let none = settings(folder.path());
        let told = none.limit_idle(&"7".parse().unwrap(), 0).unwrap().unwrap();
        assert!(told.contains("CPUs 7 have no idle states"), "{told}");
    }

    #[test]
    fn dropped_it_puts_back() {
        let folder = machine();
        let settings = settings(folder.path());
        settings.set("clocksource", "hpet").unwrap();
        drop(settings);
        assert_eq!(in_force(folder.path()), "tsc");
    }

    #[test]
    fn what_was_not_named_is_not_changed() {
        let folder = machine();
        let journal = Some(folder.path().join("tune.journal"));
        let none = MachineSettings::new(Host::new(folder.path()), journal, &[]);
        let not_named = none.set("clocksource", "hpet");
        assert!(matches!(not_named, Err(SettingsError::NotNamed(_))));
        let nowhere = MachineSettings::new(Host::new(folder.path()), None, NAMED);
        let idle = folder
            .path()
            .join("sys/devices/system/cpu/cpu0/cpuidle/state1");
        fs::create_dir_all(&idle).unwrap();
        fs::write(idle.join("disable"), "0\n").unwrap();
        for refused in [
            nowhere.may_change("clocksource"),
            nowhere.set("clocksource", "hpet"),
            nowhere.limit_idle(&"0".parse().unwrap(), 0).map(drop),
        ] {
            assert!(matches!(refused, Err(SettingsError::NoJournal)));
        }
        assert_eq!(in_force(folder.path()), "tsc");
    }

    #[test]
    fn unlisted_values_are_not_guessed() {
        let folder = machine();
        let journal = Some(folder.path().join("tune.journal"));
        let settings = MachineSettings::new(Host::new(folder.path()), journal, &["swappiness"]);
        let offered = settings.offered("swappiness");
        assert!(
            matches!(&offered, Err(SettingsError::NotListed(setting)) if setting == "swappiness"),
            "{offered:?}"
        );
    }

    #[test]
    fn what_cannot_be_put_back_is_told() {
        let folder = machine();
        let settings = settings(folder.path());
        settings.set("clocksource", "hpet").unwrap();
        let file = folder.path().join(CLOCK).join("current_clocksource");
        fs::write(&file, "acpi_pm\n").unwrap();
        let told = settings.revert();
        assert!(told[0].contains("to 'acpi_pm' during the run"), "{told:?}");
        let second = self::settings(folder.path());
        second.set("clocksource", "hpet").unwrap();
        fs::remove_file(&file).unwrap();
        let told = second.revert();
        assert!(
            told[0].contains("could not restore clocksource to 'tsc'"),
            "{told:?}"
        );
    }
}
