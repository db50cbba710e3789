//! One table of the settings of a machine that affect its latency.
//!
//! The audit judges these settings, tune changes them, and experiments try them. All of them use
//! the names, paths, values, risks and recommendations of this table. The code that reads and
//! writes a setting with more than one file is in tune.

mod boot;
mod boots;
mod role;
mod table;
mod values;

pub use boots::{BootAttempt, BootLoader, BootOutcome, Boots, WrittenFile};
pub use role::{PERIODIC, ROLES, Role, RoleError, SPINNING};

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::CpuSet;

pub use boot::{
    BOOT_PARAMETERS, BootParameter, RepeatRule, boot_parameter, is_parameter, obeyed_words,
};
pub use table::SETTINGS;
pub use values::{Values, marked, mask, unmask};

/// Possible damage from changing a setting, for readers who do not know the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// The change costs at most some power or throughput.
    Low,
    /// The change can noticeably slow down other work, or disables a protection that is rarely
    /// needed.
    Medium,
    /// The change can hang or throttle the machine if the application misbehaves.
    High,
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// Relation of a setting's instances to CPUs. A list of CPUs selects instances by this relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The setting does not belong to any CPU, so `--cpus` selects nothing.
    Machine,
    /// The first number in the name of the instance is the CPU.
    Cpu,
    /// A frequency policy, for the CPUs listed in [`POLICY_CPUS`].
    Policy,
}

/// The CPUs of a frequency policy, separated by spaces.
pub const POLICY_CPUS: &str = "/sys/devices/system/cpu/cpufreq/policy#/related_cpus";

/// The files of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// One file.
    File(&'static str),
    /// A file for each device or CPU: `#` is a number, `*` is a name.
    Each(&'static str),
    /// Several files, each with a name.
    Parts(&'static [(&'static str, &'static str)]),
    /// The setting needs more than one write to a file, so tune has special code for it.
    Special {
        /// Its file, or a description if it has none.
        path: &'static str,
        /// Form of an instance's name. Empty if there is only one instance.
        instances: &'static str,
    },
}

/// Time until a change of a setting has its full effect. Experiments discard this time at the start
/// of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WashOut {
    /// 2 s, for interrupts, frequencies, idle states and scheduler limits.
    Short,
    /// 30 s, for settings with slow background effects on memory, and for settings that interrupt a
    /// network link.
    Long,
    /// No time, because the setting is read only when the machine or a service starts.
    Boot,
}

impl WashOut {
    /// Returns the time, or `None` if the change needs a restart of the machine or service.
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::Short => Some(Duration::from_secs(2)),
            Self::Long => Some(Duration::from_secs(30)),
            Self::Boot => None,
        }
    }
}

/// One setting of the machine.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Name of the setting. The journal stores only the name, so that it cannot refer to a file
    /// outside this table.
    pub name: &'static str,
    /// Description of the setting, as a short phrase.
    pub summary: &'static str,
    /// Possible cost or damage of a change.
    pub caution: &'static str,
    /// Severity of that risk.
    pub risk: Risk,
    /// Documentation: a page of the kernel's documentation, or its source file if no page describes
    /// it.
    pub source: &'static str,
    /// The files of the setting.
    pub location: Location,
    /// The values that the setting accepts.
    pub values: Values,
    /// Relation of the instances to CPUs.
    pub scope: Scope,
    /// Time until a change has its full effect.
    pub wash_out: WashOut,
    /// Recommended value for threads that spin, in the syntax of `--set`.
    spinning: Option<&'static str>,
    /// Recommended value for threads that sleep.
    periodic: Option<&'static str>,
    /// Reason, apart from its risk, why a program must not change the setting unless the user
    /// requests it. Empty if there is no reason.
    pub by_hand: &'static str,
    /// Reason why a kernel refuses the change to root (EPERM). Empty if unknown.
    pub refusal: &'static str,
    /// Whether the user must name an instance, because changing all instances is rarely intended.
    pub needs_selector: bool,
    /// Whether a change survives a reboot, because the setting is in a file on disk.
    pub outlives_reboot: bool,
    /// The kernel command-line argument that sets it permanently, with `{}` for the value. Empty if
    /// there is none.
    boot: &'static str,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Setting {}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Setting").field(&self.name).finish()
    }
}

/// Returns the setting with this name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Returns the setting with this name, for use in constants, where an unknown name fails to
/// compile.
///
/// # Panics
/// Panics if no setting has this name.
#[allow(clippy::panic)]
pub const fn row_of(name: &str) -> &'static Setting {
    let mut row = 0;
    while row < SETTINGS.len() {
        if same(SETTINGS[row].name, name) {
            return &SETTINGS[row];
        }
        row += 1;
    }
    panic!("no setting has this name")
}

/// Returns the path of a setting, for constants.
///
/// # Panics
/// Panics as [`row_of`] does.
pub const fn path_of(name: &str) -> &'static str {
    row_of(name).path()
}

/// `==` for constants.
const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

impl Setting {
    /// Returns the file of the setting, with `#` for a number and `*` for a name if there are
    /// several instances. For a setting of several files, returns the first file. For a setting
    /// without a file, returns a description.
    pub const fn path(&self) -> &'static str {
        match self.location {
            Location::File(path) | Location::Each(path) | Location::Special { path, .. } => path,
            Location::Parts(parts) => match parts {
                [(_, path), ..] => path,
                [] => "",
            },
        }
    }

    /// Returns all files, for documentation.
    pub fn paths(&self) -> Vec<&'static str> {
        match self.location {
            Location::Parts(parts) => parts.iter().map(|(_, path)| *path).collect(),
            _ => vec![self.path()],
        }
    }

    /// Returns the form of an instance's name: `cpu#`, `number or name`, …. `None` if there is only
    /// one instance.
    pub fn instance_form(&self) -> Option<String> {
        match self.location {
            Location::File(_) | Location::Special { instances: "", .. } => None,
            Location::Each(pattern) => {
                let segments = pattern.split('/');
                let wild: Vec<&str> = segments.filter(|s| s.contains(['#', '*'])).collect();
                Some(wild.join("/"))
            }
            Location::Parts(parts) => {
                let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
                Some(names.join(" or "))
            }
            Location::Special { instances, .. } => Some(instances.to_owned()),
        }
    }

    /// Returns `name`, or `name@instance`.
    pub fn named(&self, instance: &str) -> String {
        match instance {
            "" => self.name.to_owned(),
            _ => format!("{}@{instance}", self.name),
        }
    }

    /// Returns the recommended value for a role, in the syntax of `--set`.
    pub fn wanted_for(&self, role: Role) -> Option<&'static str> {
        if role.spins() {
            self.spinning
        } else {
            self.periodic
        }
    }

    /// Returns the reason why only the user may decide to change the setting. A program must not
    /// change it on its own.
    pub fn only_by_hand(&self) -> Option<&'static str> {
        match (self.by_hand, self.risk) {
            ("", Risk::High) => Some("high risk"),
            ("", _) => None,
            (reason, _) => Some(reason),
        }
    }

    /// Returns the line that sets the value `asked` at each boot: a kernel command-line argument,
    /// or a line for sysctl.d(5) or tmpfiles.d(5). Returns `None` if there is no such line, or if
    /// the line needs CPUs that are unknown.
    pub fn permanently(&self, asked: &str, measured: &CpuSet, others: &CpuSet) -> Option<String> {
        let cpus = match asked {
            "measured" => Some(measured),
            "housekeeping" => Some(others),
            _ => None,
        };
        if cpus.is_some_and(CpuSet::is_empty) {
            return None;
        }
        let list = cpus.map_or_else(|| asked.to_owned(), CpuSet::to_string);
        if !self.boot.is_empty() {
            let argument = self.boot.replace("{}", &list);
            return Some(format!("{argument} on the kernel's command line"));
        }
        let value = match (self.values, cpus) {
            (Values::Mask, Some(cpus)) => mask(cpus),
            (values, None) => values.plain(asked).unwrap_or(list),
            _ => list,
        };
        let (Location::File(path) | Location::Each(path)) = self.location else {
            return None;
        };
        if let Some(key) = path.strip_prefix("/proc/sys/") {
            return Some(format!(
                "{} = {value} in a file of /etc/sysctl.d",
                key.replace('/', ".")
            ));
        }
        let limits = matches!(self.values, Values::Between { .. });
        let path = path.replace('#', "*");
        // On many machines debugfs is mounted by hand, and limits are specific to one machine.
        (path.starts_with("/sys/") && !path.starts_with("/sys/kernel/debug/") && !limits)
            .then(|| format!("w {path} - - - - {value} in a file of /etc/tmpfiles.d"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_name(name: &str) -> &'static Setting {
        setting(name).unwrap()
    }

    #[test]
    fn rows_are_sound() {
        let mut names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        for row in SETTINGS {
            for path in row.paths() {
                let known = ["/proc/", "/sys/", "/dev/", "/etc/"];
                assert!(known.iter().any(|start| path.starts_with(start)), "{path}");
                assert!(!path.contains(".."));
            }
            assert!(!row.summary.ends_with('.') && !row.caution.is_empty());
            assert!(row.caution.ends_with('.'), "{}", row.name);
            assert!(!row.source.is_empty() && !row.values.takes().is_empty());
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(row.name.chars().all(plain), "{}", row.name);
            assert!(row.boot.is_empty() || row.boot.starts_with(char::is_alphanumeric));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len(), "two of one name");
    }

    #[test]
    fn no_file_belongs_to_two_settings() {
        let mut paths: Vec<&str> = SETTINGS.iter().flat_map(Setting::paths).collect();
        let all = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), all);
    }

    #[test]
    fn recommended_values_are_values() {
        for row in SETTINGS {
            for wanted in row.spinning.into_iter().chain(row.periodic) {
                let cpus = ["housekeeping", "measured"].contains(&wanted);
                let good = match row.values {
                    Values::Mask | Values::List => cpus,
                    Values::Between { .. } => ["min", "max"].contains(&wanted),
                    Values::Number { .. }
                    | Values::NumberOr { .. }
                    | Values::Switch
                    | Values::Words(_) => row.values.plain(wanted).is_some(),
                    _ => true,
                };
                assert!(good, "{} {}", row.name, wanted);
            }
        }
    }

    #[test]
    fn alarm_silencing_or_hanging_settings_need_person() {
        for name in [
            "rt-runtime-us",
            "fair-server-runtime-ns",
            "ext-server-runtime-ns",
            "thread-priority",
            "cpuset-partition",
            "smt",
            "clocksource",
            "watchdog",
            "watchdog-cpus",
            "watchdog-threshold-s",
            "hung-task-timeout-s",
            "mce-ignore-corrected",
            "rcu-stall-timeout-s",
            "rcu-stall-suppress",
            "irqbalance-banned",
            "eee",
        ] {
            assert!(by_name(name).only_by_hand().is_some(), "{name}");
        }
        assert_eq!(by_name("swappiness").only_by_hand(), None);
        assert_eq!(by_name("governor").only_by_hand(), None);
    }

    #[test]
    fn a_recommendation_follows_the_role() {
        assert_eq!(
            by_name("timer-migration").wanted_for(Role::Telco),
            Some("on")
        );
        assert_eq!(
            by_name("timer-migration").wanted_for(Role::Control),
            Some("off")
        );
        assert_eq!(by_name("swappiness").wanted_for(Role::Audio), Some("10"));
        assert_eq!(by_name("freq-max").wanted_for(Role::Control), None);
    }

    #[test]
    fn the_permanent_form_follows_from_the_path() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let form =
            |name: &str, value: &str| by_name(name).permanently(value, &cpus("2-3"), &cpus("0-1"));
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(
            form("swappiness", "10"),
            found("vm.swappiness = 10 in a file of /etc/sysctl.d")
        );
        assert_eq!(
            form("thp", "madvise"),
            found("transparent_hugepage=madvise on the kernel's command line")
        );
        assert_eq!(
            form("default-irq-affinity", "housekeeping"),
            found("irqaffinity=0-1 on the kernel's command line")
        );
        assert_eq!(
            form("khugepaged-defrag", "off"),
            found(
                "w /sys/kernel/mm/transparent_hugepage/khugepaged/defrag - - - - 0 in a file of \
                 /etc/tmpfiles.d"
            )
        );
        assert_eq!(form("idle-limit-us", "10"), None);
        assert_eq!(
            form("pci-runtime-power", "on"),
            found("w /sys/bus/pci/devices/*/power/control - - - - on in a file of /etc/tmpfiles.d")
        );
        let none = by_name("workqueue-cpus").permanently("housekeeping", &cpus("0-1"), &cpus(""));
        assert_eq!(none, None);
    }

    #[test]
    fn instance_is_named_by_path_placeholders() {
        let form = |name: &str| by_name(name).instance_form();
        assert_eq!(form("swappiness"), None);
        assert_eq!(form("rps-cpus").unwrap(), "*/rx-#");
        assert_eq!(form("watchdog").unwrap(), "nmi or soft");
        assert_eq!(form("idle-limit-us").unwrap(), "cpu#/state#");
        assert_eq!(by_name("watchdog").named("nmi"), "watchdog@nmi");
    }

    #[test]
    fn wash_out_is_duration_or_restart() {
        assert_eq!(
            by_name("governor").wash_out.duration(),
            Some(Duration::from_secs(2))
        );
        assert_eq!(
            by_name("thp").wash_out.duration(),
            Some(Duration::from_secs(30))
        );
        assert_eq!(by_name("irqbalance-banned").wash_out.duration(), None);
    }

    #[test]
    fn constants_find_path_by_setting_name() {
        const PATH: &str = path_of("swappiness");
        assert_eq!(PATH, "/proc/sys/vm/swappiness");
        assert_eq!(path_of("watchdog"), "/proc/sys/kernel/nmi_watchdog");
        for row in SETTINGS {
            assert_eq!(path_of(row.name), row.path());
        }
    }

    #[test]
    fn name_in_a_constant_must_be_the_whole_name() {
        for row in SETTINGS {
            assert!(same(row.name, row.name));
            assert!(row_of(row.name) == row);
            assert_eq!(format!("{row:?}"), format!("Setting({:?})", row.name));
        }
        for (a, b) in [
            ("", "a"),
            ("a", "ab"),
            ("ab", "a"),
            ("ab", "ac"),
            ("xb", "ab"),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
        assert!(same("", ""));
        let others = SETTINGS.iter().filter(|row| *row == &SETTINGS[0]);
        assert_eq!(others.count(), 1);
        assert!(std::panic::catch_unwind(|| row_of("no-such-setting")).is_err());
    }

    #[test]
    fn risks_are_ordered_and_named() {
        let risks = [Risk::Low, Risk::Medium, Risk::High];
        assert!(risks.is_sorted());
        assert_eq!(
            risks.map(|risk| risk.to_string()),
            ["low", "medium", "high"]
        );
        let waits = [WashOut::Short, WashOut::Long, WashOut::Boot].map(WashOut::duration);
        assert_eq!(
            waits,
            [
                Some(Duration::from_secs(2)),
                Some(Duration::from_secs(30)),
                None
            ]
        );
    }
}
