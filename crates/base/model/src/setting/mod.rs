//! The settings of a machine that matter for its latency: one description each.
//!
//! The audit judges them, tune changes them, experiments try them; all of them
//! take name, path, values, risk and recommendation from this table. How a
//! setting that is more than one file is read and written stands in tune.

mod boot;
mod table;
mod values;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::schema::JsonSchema;
use crate::{CpuSet, Role};

pub use boot::{BOOT_PARAMETERS, BootParameter, boot_parameter};
pub use table::SETTINGS;
pub use values::{Values, marked, mask, unmask};

/// What can go wrong with a setting, for somebody who does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Costs power or throughput at most.
    Low,
    /// Can slow other work down noticeably, or removes a safety net that is
    /// seldom needed.
    Medium,
    /// Can make the machine hang or throttle where the application misbehaves.
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

/// Which instances of a setting a list of CPUs selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The setting belongs to no CPU: `--cpus` does not select.
    Machine,
    /// The first number of the instance is the CPU.
    Cpu,
    /// A frequency policy, which serves the CPUs of [`POLICY_CPUS`].
    Policy,
}

/// The CPUs that a frequency policy serves, with spaces between them.
pub const POLICY_CPUS: &str = "/sys/devices/system/cpu/cpufreq/policy#/related_cpus";

/// Where a setting is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// One file.
    File(&'static str),
    /// A file for each device or CPU: `#` stands for a number, `*` for a name.
    Each(&'static str),
    /// Files with a name each.
    Parts(&'static [(&'static str, &'static str)]),
    /// More than the writing of a file: tune has code of its own for it.
    Special {
        /// Its file, or what stands for it.
        path: &'static str,
        /// How one of several is named; empty where there is one only.
        instances: &'static str,
    },
}

/// How long after a change a setting has its full effect: what an experiment
/// leaves out of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WashOut {
    /// Interrupts, frequencies, idle states, limits of the scheduler: 2 s.
    Short,
    /// What works through memory in the background: 30 s.
    Long,
    /// What is read when the machine or a service starts.
    Boot,
}

impl WashOut {
    /// The time; `None` where only a start of the machine or service applies it.
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
    /// Its name: what the journal keeps, so that a journal can name no other
    /// file than those of this table.
    pub name: &'static str,
    /// What it sets, in half a sentence.
    pub summary: &'static str,
    /// What changing it can cost or break.
    pub caution: &'static str,
    /// How bad that is.
    pub risk: Risk,
    /// Where this is documented: a page of the kernel's documentation, or its
    /// source file where there is none.
    pub source: &'static str,
    /// Where it is found.
    pub location: Location,
    /// What it takes.
    pub values: Values,
    /// Which instances a list of CPUs selects.
    pub scope: Scope,
    /// How long a change takes to have its effect.
    pub wash_out: WashOut,
    /// What is recommended where threads spin, as `--set` takes it.
    spinning: Option<&'static str>,
    /// What is recommended where threads sleep.
    periodic: Option<&'static str>,
    /// Why no program may try it unasked, beside its risk; else empty.
    pub by_hand: &'static str,
    /// Why a kernel refuses it to root (EPERM), where that is known; else empty.
    pub refusal: &'static str,
    /// Whether a user must name one of several: all of them is hardly ever meant.
    pub needs_selector: bool,
    /// Whether a reboot leaves it as it was set: a file on disk.
    pub outlives_reboot: bool,
    /// The argument of the kernel's command line that sets it permanently, with
    /// `{}` for the value; else empty.
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

/// The setting of that name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The setting of that name, for constants: a name that is not in the table does
/// not compile there.
///
/// # Panics
/// Where there is no setting of that name.
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

/// The path of a setting, for constants.
///
/// # Panics
/// As [`row_of`].
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
    /// The file that holds it; `#` stands for a number and `*` for a name where
    /// there are several. The first of several files, and not a path for a
    /// setting that is no file.
    pub const fn path(&self) -> &'static str {
        match self.location {
            Location::File(path) | Location::Each(path) | Location::Special { path, .. } => path,
            Location::Parts(parts) => match parts {
                [(_, path), ..] => path,
                [] => "",
            },
        }
    }

    /// All its files, for documentation.
    pub fn paths(&self) -> Vec<&'static str> {
        match self.location {
            Location::Parts(parts) => parts.iter().map(|(_, path)| *path).collect(),
            _ => vec![self.path()],
        }
    }

    /// How one of several is named: `cpu#`, `number or name`, …; `None` where
    /// there is one only.
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

    /// `name`, or `name@instance`.
    pub fn named(&self, instance: &str) -> String {
        match instance {
            "" => self.name.to_owned(),
            _ => format!("{}@{instance}", self.name),
        }
    }

    /// The recommended value for a role, as `--set` takes it.
    pub fn wanted_for(&self, role: Role) -> Option<&'static str> {
        match role.spins() {
            true => self.spinning,
            false => self.periodic,
        }
    }

    /// Why only a person may decide to change it: a program must not try it
    /// unasked.
    pub fn only_by_hand(&self) -> Option<&'static str> {
        match (self.by_hand, self.risk) {
            ("", Risk::High) => Some("high risk"),
            ("", _) => None,
            (reason, _) => Some(reason),
        }
    }

    /// What sets it to `asked` at each boot: an argument of the kernel's command
    /// line, a line of sysctl.d(5) or of tmpfiles.d(5). `None` where there is no
    /// such line, or the CPUs that it would name are not known.
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
        // debugfs is mounted by hand on many machines; a limit is a number of the
        // machine's own.
        (path.starts_with("/sys/") && !path.starts_with("/sys/kernel/debug/") && !limits)
            .then(|| format!("w {path} - - - - {value} in a file of /etc/tmpfiles.d"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> &'static Setting {
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
    fn no_file_is_the_setting_of_two_rows() {
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
                    Values::Number { .. } | Values::NumberOr { .. } | Values::Switch => {
                        row.values.plain(wanted).is_some()
                    }
                    _ => true,
                };
                assert!(good, "{} {}", row.name, wanted);
            }
        }
    }

    #[test]
    fn what_silences_an_alarm_or_can_hang_is_for_a_person() {
        for name in [
            "rt-runtime-us",
            "fair-server-runtime-ns",
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
        ] {
            assert!(of(name).only_by_hand().is_some(), "{name}");
        }
        assert_eq!(of("swappiness").only_by_hand(), None);
        assert_eq!(of("governor").only_by_hand(), None);
    }

    #[test]
    fn a_recommendation_follows_the_role() {
        assert_eq!(of("timer-migration").wanted_for(Role::Telco), Some("on"));
        assert_eq!(of("timer-migration").wanted_for(Role::Control), Some("off"));
        assert_eq!(of("swappiness").wanted_for(Role::Audio), Some("10"));
        assert_eq!(of("freq-max").wanted_for(Role::Control), None);
    }

    #[test]
    fn the_permanent_form_follows_from_the_path() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let form =
            |name: &str, value: &str| of(name).permanently(value, &cpus("2-3"), &cpus("0-1"));
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
        let none = of("workqueue-cpus").permanently("housekeeping", &cpus("0-1"), &cpus(""));
        assert_eq!(none, None);
    }

    #[test]
    fn one_of_several_is_named_by_what_its_path_leaves_open() {
        let form = |name: &str| of(name).instance_form();
        assert_eq!(form("swappiness"), None);
        assert_eq!(form("rps-cpus").unwrap(), "*/rx-#");
        assert_eq!(form("watchdog").unwrap(), "nmi or soft");
        assert_eq!(form("idle-limit-us").unwrap(), "cpu#/state#");
        assert_eq!(of("watchdog").named("nmi"), "watchdog@nmi");
    }

    #[test]
    fn wash_out_is_a_time_or_a_start() {
        assert_eq!(
            of("governor").wash_out.duration(),
            Some(Duration::from_secs(2))
        );
        assert_eq!(of("thp").wash_out.duration(), Some(Duration::from_secs(30)));
        assert_eq!(of("irqbalance-banned").wash_out.duration(), None);
    }

    #[test]
    fn a_path_is_found_by_its_name_in_constants() {
        const PATH: &str = path_of("swappiness");
        assert_eq!(PATH, "/proc/sys/vm/swappiness");
        assert_eq!(path_of("watchdog"), "/proc/sys/kernel/nmi_watchdog");
        for row in SETTINGS {
            assert_eq!(path_of(row.name), row.path());
        }
    }
}
