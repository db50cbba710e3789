//! All settings, in the order in which they are changed. Reverting uses the opposite order.
//!
//! The ranges are those that the kernel checks (`kernel/sysctl.c`, `mm/page-writeback.c`,
//! `kernel/sched/rt.c`), or those of the type if the kernel checks none. The kernel makes the final
//! decision: if it refuses a value, the change is rolled back.

mod memory;
mod network;
mod power;
mod watch;
mod work;

use super::{Location, Risk, Scope, Setting, Values, WashOut};

/// A setting with one file for the whole machine.
const fn machine(
    name: &'static str,
    summary: &'static str,
    path: &'static str,
    values: Values,
) -> Setting {
    Setting {
        name,
        summary,
        caution: "",
        risk: Risk::Low,
        source: "",
        location: Location::File(path),
        values,
        scope: Scope::Machine,
        wash_out: WashOut::Short,
        spinning: None,
        periodic: None,
        by_hand: "",
        refusal: "",
        needs_selector: false,
        outlives_reboot: false,
        boot: "",
    }
}

/// A setting with one file for each CPU or device.
const fn each(
    name: &'static str,
    summary: &'static str,
    pattern: &'static str,
    values: Values,
    scope: Scope,
) -> Setting {
    Setting {
        location: Location::Each(pattern),
        scope,
        ..machine(name, summary, "", values)
    }
}

/// A setting that needs special code. `instances` is empty if there is only one.
const fn special(
    name: &'static str,
    summary: &'static str,
    path: &'static str,
    instances: &'static str,
    values: Values,
) -> Setting {
    Setting {
        location: Location::Special { path, instances },
        ..machine(name, summary, "", values)
    }
}

impl Setting {
    const fn risk(self, risk: Risk, caution: &'static str) -> Self {
        Self {
            risk,
            caution,
            ..self
        }
    }

    const fn refused(self, refusal: &'static str) -> Self {
        Self { refusal, ..self }
    }

    const fn from(self, source: &'static str) -> Self {
        Self { source, ..self }
    }

    /// Sets the recommendation for all roles.
    const fn wanted(self, value: &'static str) -> Self {
        self.spinning(value).periodic(value)
    }

    /// Sets the recommendation for threads that spin.
    const fn spinning(self, value: &'static str) -> Self {
        Self {
            spinning: Some(value),
            ..self
        }
    }

    /// Sets the recommendation for threads that sleep.
    const fn periodic(self, value: &'static str) -> Self {
        Self {
            periodic: Some(value),
            ..self
        }
    }

    const fn boot(self, boot: &'static str) -> Self {
        Self { boot, ..self }
    }

    const fn by_hand(self, by_hand: &'static str) -> Self {
        Self { by_hand, ..self }
    }

    /// Marks a setting with slow background effects on memory, or one that interrupts a network
    /// link.
    const fn long(self) -> Self {
        Self {
            wash_out: WashOut::Long,
            ..self
        }
    }

    /// Marks a file on disk, which is read when its service starts.
    const fn on_disk(self) -> Self {
        Self {
            outlives_reboot: true,
            wash_out: WashOut::Boot,
            ..self
        }
    }

    /// Requires the name of an instance.
    const fn selected(self) -> Self {
        Self {
            needs_selector: true,
            ..self
        }
    }
}

const ON_OFF: Values = Values::Switch;
const BIG: i64 = i32::MAX as i64;
const ALARM: &str = "it silences an alarm";

const fn up_to(max: i64) -> Values {
    Values::Number { min: 0, max }
}

/// The parts of the table, in order. Add a new setting as a row in one of them.
const PARTS: [&[Setting]; 5] = [
    power::ROWS,
    work::ROWS,
    memory::ROWS,
    watch::ROWS,
    network::ROWS,
];

const COUNT: usize = {
    let (mut count, mut part) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

/// All settings, in the order in which they are changed.
pub const SETTINGS: &[Setting] = &joined();

const fn joined() -> [Setting; COUNT] {
    let mut settings = [PARTS[0][0]; COUNT];
    let (mut at, mut part) = (0, 0);
    while part < PARTS.len() {
        let mut row = 0;
        while row < PARTS[part].len() {
            settings[at] = PARTS[part][row];
            at += 1;
            row += 1;
        }
        part += 1;
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: impl Fn(&Setting) -> bool) -> Vec<&'static str> {
        let found = SETTINGS.iter().filter(|row| of(row));
        found.map(|row| row.name).collect()
    }

    #[test]
    fn slow_effects_wait_longer_and_files_of_services_wait_for_a_boot() {
        let long = names(|row| row.wash_out == WashOut::Long);
        for name in [
            "thp",
            "ksm",
            "swappiness",
            "dirty-limit",
            "zone-reclaim",
            "numa-balancing",
            "eee",
        ] {
            assert!(long.contains(&name), "{name}");
        }
        for name in ["governor", "freq-min", "watchdog", "aspm"] {
            assert!(!long.contains(&name), "{name}");
        }
        assert_eq!(
            names(|row| row.wash_out == WashOut::Boot),
            ["irqbalance-banned"]
        );
        assert_eq!(names(|row| row.outlives_reboot), ["irqbalance-banned"]);
        assert_eq!(names(|row| row.needs_selector), ["thread-priority"]);
    }

    /// Each part of the row must reach the setting.
    #[test]
    fn setting_has_all_parts_of_its_row() {
        let find = |name: &str| SETTINGS.iter().find(|row| row.name == name).unwrap();
        let aspm = find("aspm");
        assert_eq!(aspm.summary, "whether PCI Express links sleep");
        assert_eq!(
            aspm.location,
            Location::File("/sys/module/pcie_aspm/parameters/policy")
        );
        assert_eq!(
            (aspm.values, aspm.scope, aspm.risk),
            (Values::Marked, Scope::Machine, Risk::Low)
        );
        assert_eq!(aspm.caution, "Links that do not sleep use more power.");
        assert!(aspm.refusal.starts_with("the firmware controls ASPM"));
        assert!(aspm.source.contains("hardware.rst"));
        assert_eq!(
            (aspm.spinning, aspm.periodic),
            (Some("performance"), Some("performance"))
        );
        assert_eq!((aspm.boot, aspm.by_hand), ("pcie_aspm.policy={}", ""));
        let least = find("freq-min");
        let pattern = "/sys/devices/system/cpu/cpufreq/policy#/scaling_min_freq";
        assert_eq!(
            (least.location, least.scope),
            (Location::Each(pattern), Scope::Policy)
        );
        let idle = find("idle-limit-us");
        let (path, instances) = (
            "/sys/devices/system/cpu/cpu#/cpuidle/state#/disable",
            "cpu#/state#",
        );
        assert_eq!(idle.location, Location::Special { path, instances });
        assert_eq!(idle.risk, Risk::Medium);
        assert_eq!(
            find("min-perf-percent").values,
            Values::Number { min: 0, max: 100 }
        );
        assert!(!find("watchdog").by_hand.is_empty());
        // Some recommendations are for one kind of role.
        let timers = find("timer-migration");
        assert_ne!(timers.spinning, timers.periodic);
    }

    #[test]
    fn settings_are_changed_in_the_order_of_the_parts() {
        let parts = PARTS
            .iter()
            .flat_map(|part| part.iter().map(|row| row.name));
        assert!(SETTINGS.iter().map(|row| row.name).eq(parts));
        assert_eq!(SETTINGS.len(), COUNT);
    }
}
