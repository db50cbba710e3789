//! Remedies for the findings of checks.

use std::collections::BTreeMap;

use punctual_model::{CpuSet, Reading, Risk, Scope, Setting, setting};

use crate::Role;
use crate::offered::{self, can_be_booted, can_be_set};
use crate::placeholders::fill;

/// A change that would resolve a finding.
#[derive(Clone, Copy, Debug)]
pub enum Remedy {
    /// A change of a setting in the table of settings.
    Set(Set),
    /// A command for a change that is not a setting in the table.
    Run(&'static str),
    /// A decision or a value that the user must provide.
    Decide(&'static str),
}

/// A setting to change.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    /// Name.
    pub setting: &'static str,
    /// Name of the instance; empty if the CPUs select the instances.
    pub instance: &'static str,
    /// Value; empty for the value recommended for the role.
    pub value: &'static str,
    /// Decision that the user must make before the change; empty if there is none.
    pub decide: &'static str,
    /// The kind of kernel that the change is for: whether it has PREEMPT_RT. `None` for both kinds.
    pub rt: Option<bool>,
}

/// Changes the setting to its recommended value.
pub(crate) const fn set(setting: &'static str) -> Remedy {
    instance(setting, "")
}

/// Changes one instance of the setting to its recommended value.
pub(crate) const fn instance(setting: &'static str, instance: &'static str) -> Remedy {
    Remedy::Set(Set {
        setting,
        instance,
        value: "",
        decide: "",
        rt: None,
    })
}

/// Changes the setting to its recommended value after the user has agreed.
pub(crate) const fn consider(setting: &'static str, decide: &'static str) -> Remedy {
    Remedy::Set(Set {
        setting,
        instance: "",
        value: "",
        decide,
        rt: None,
    })
}

/// Changes the setting to a value that the check specifies for kernels with or without PREEMPT_RT,
/// after the user has agreed if `decide` is not empty.
pub(crate) const fn to(
    setting: &'static str,
    value: &'static str,
    rt: bool,
    decide: &'static str,
) -> Remedy {
    Remedy::Set(Set {
        setting,
        instance: "",
        value,
        decide,
        rt: Some(rt),
    })
}

/// The role, CPUs and machine that a remedy is for.
#[derive(Clone, Copy)]
pub(crate) struct For<'a> {
    pub(crate) role: Role,
    pub(crate) cpus: &'a CpuSet,
    pub(crate) others: &'a CpuSet,
    /// Readings of the machine, used to leave out remedies that the machine does not support.
    pub(crate) files: &'a BTreeMap<String, Reading>,
    /// Output of `uname -v`; `None` if not known.
    pub(crate) version: Option<&'a str>,
    /// Whether the kernel has PREEMPT_RT; `None` if not known.
    pub(crate) rt: Option<bool>,
}

impl Set {
    /// Returns the setting and the required change. Returns `None` if the role or the kernel needs
    /// no change, or if no CPUs are left for everything else.
    fn wanted(&self, audience: For<'_>) -> Option<(&'static Setting, punctual_model::Remedy)> {
        let row = setting(self.setting)?;
        let value = match self.value {
            "" => row.wanted_for(audience.role)?,
            value => value,
        };
        let other_kernel = self.rt.is_some() && self.rt != audience.rt;
        if other_kernel || audience.others.is_empty() && needs_cpus(value) {
            return None;
        }
        let decide = match self.decide {
            "" if row.risk == Risk::High => row.caution.trim_end_matches('.'),
            text => text,
        };
        let remedy = punctual_model::Remedy {
            setting: row.name.to_owned(),
            instance: (!self.instance.is_empty()).then(|| self.instance.to_owned()),
            value: value.to_owned(),
            decide: (!decide.is_empty()).then(|| decide.to_owned()),
        };
        Some((row, remedy))
    }
}

fn needs_cpus(value: &str) -> bool {
    ["housekeeping", "measured"].contains(&value)
}

impl For<'_> {
    /// Like [`Set::wanted`], but also returns `None` if this machine does not accept the change.
    fn now(&self, set: &Set) -> Option<(&'static Setting, punctual_model::Remedy)> {
        let (row, remedy) = set.wanted(*self)?;
        can_be_set(row, &remedy.value, self.files).then_some((row, remedy))
    }
}

/// Returns the files whose contents decide whether remedies can be applied.
pub(crate) fn deciding(remedies: &[Remedy]) -> Vec<&'static str> {
    let rows = remedies.iter().filter_map(|remedy| match remedy {
        Remedy::Set(set) => setting(set.setting),
        _ => None,
    });
    rows.flat_map(offered::deciding).collect()
}

/// Returns the settings that remedies change.
pub(crate) fn settings(remedies: &[Remedy], audience: For<'_>) -> Vec<punctual_model::Remedy> {
    let wanted = remedies.iter().filter_map(|remedy| match remedy {
        Remedy::Set(set) => audience.now(set).map(|(_, remedy)| remedy),
        _ => None,
    });
    wanted.collect()
}

/// Returns the commands of remedies. Decisions that the user must make are lines that begin with
/// `#`.
pub(crate) fn commands(remedies: &[Remedy], audience: For<'_>) -> Vec<String> {
    let filled = |text: &str| fill(text, audience.cpus, audience.others);
    let command = |remedy: &Remedy| match remedy {
        Remedy::Set(set) => {
            let (row, remedy) = audience.now(set)?;
            let of_cpus = row.scope != Scope::Machine || needs_cpus(&remedy.value);
            let cpus = if of_cpus && !audience.others.is_empty() {
                format!(" --cpus {}", audience.cpus)
            } else {
                String::new()
            };
            let apply = format!("punctual tune apply{cpus} --set {}", remedy.assignment());
            Some(match &remedy.decide {
                Some(decide) => format!("# {apply}: {decide}"),
                None => apply,
            })
        }
        Remedy::Run(command) => filled(command),
        Remedy::Decide(text) => filled(text).map(|text| format!("# {text}")),
    };
    remedies.iter().filter_map(command).collect()
}

/// Returns instructions for making the changes of remedies at each boot.
pub(crate) fn permanently(remedies: &[Remedy], audience: For<'_>) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    for remedy in remedies {
        if let Remedy::Set(set) = remedy
            // The instructions of a setting apply to all its instances.
            && set.instance.is_empty()
            && let Some((row, remedy)) = set.wanted(audience)
            && can_be_booted(row, &remedy.value, audience.files, audience.version)
            && let Some(line) = row.permanently(&remedy.value, audience.cpus, audience.others)
            && !lines.contains(&line)
        {
            lines.push(line);
        }
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Returns the commands of remedies for documentation, with placeholders for the CPUs.
pub(crate) fn described(remedies: &[Remedy]) -> Vec<String> {
    let one = |remedy: &Remedy| match remedy {
        Remedy::Set(set) => {
            let row = setting(set.setting);
            let wanted = |role| row.and_then(|row: &Setting| row.wanted_for(role));
            let values = match (set.value, wanted(Role::Control), wanted(Role::Trading)) {
                ("", Some(sleep), Some(spin)) if sleep == spin => sleep.to_owned(),
                ("", Some(sleep), Some(spin)) => {
                    format!("{sleep} if threads sleep, {spin} if they spin")
                }
                ("", sleep, spin) => sleep.or(spin).unwrap_or_default().to_owned(),
                (value, ..) => value.to_owned(),
            };
            let name = row.map_or_else(String::new, |row| row.named(set.instance));
            let kernel = match set.rt {
                None => "",
                Some(true) => " with PREEMPT_RT",
                Some(false) => " without PREEMPT_RT",
            };
            let decide = match set.decide {
                "" => String::new(),
                text => format!(": {text}"),
            };
            format!("`{name}` = {values}{kernel}{decide}")
        }
        Remedy::Run(command) => format!("`{command}`"),
        Remedy::Decide(text) => format!("if appropriate: {text}"),
    };
    remedies.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// The audience of a machine about which nothing else is known.
    fn audience<'a>(
        role: Role,
        (cpus, others): (&'a CpuSet, &'a CpuSet),
        files: &'a BTreeMap<String, Reading>,
    ) -> For<'a> {
        For {
            role,
            cpus,
            others,
            files,
            version: None,
            rt: None,
        }
    }

    #[test]
    fn command_contains_setting_and_value() {
        let (measured, others, files) = (cpus("2-3"), cpus("0-1"), BTreeMap::new());
        let audience = audience(Role::Control, (&measured, &others), &files);
        let remedies = [
            set("swappiness"),
            set("irq-affinity"),
            set("governor"),
            instance("watchdog", "nmi"),
            consider("turbo", "slower"),
            Remedy::Decide("taskset -c {cpus} COMMAND"),
        ];
        assert_eq!(
            commands(&remedies, audience),
            [
                "punctual tune apply --set swappiness=10",
                "punctual tune apply --cpus 2-3 --set irq-affinity=housekeeping",
                "punctual tune apply --cpus 2-3 --set governor=performance",
                "punctual tune apply --set watchdog@nmi=off",
                "# punctual tune apply --set turbo=off: slower",
                "# taskset -c 2-3 COMMAND",
            ]
        );
        assert_eq!(settings(&remedies, audience).len(), 5);
        assert_eq!(
            permanently(&remedies[..2], audience).unwrap(),
            "vm.swappiness = 10 in a file of /etc/sysctl.d; irqaffinity=0-1 on the kernel's \
             command line"
        );
    }

    #[test]
    fn remedies_for_absent_other_cpus_are_omitted() {
        let (measured, others, files) = (cpus("0-3"), cpus(""), BTreeMap::new());
        let audience = audience(Role::Control, (&measured, &others), &files);
        assert!(settings(&[set("irq-affinity")], audience).is_empty());
        assert_eq!(
            commands(&[set("governor")], audience),
            ["punctual tune apply --set governor=performance"]
        );
    }

    #[test]
    fn remedy_can_be_for_one_kind_of_kernel() {
        let (measured, others, files) = (cpus("2-3"), cpus("0-1"), BTreeMap::new());
        let remedies = [
            to("busy-read-us", "50", false, "costs time"),
            to("busy-read-us", "0", true, ""),
        ];
        for (rt, expected) in [
            (
                Some(false),
                Some("# punctual tune apply --set busy-read-us=50: costs time"),
            ),
            (Some(true), Some("punctual tune apply --set busy-read-us=0")),
            // It is unknown which of them is right.
            (None, None),
        ] {
            let audience = For {
                rt,
                ..audience(Role::Network, (&measured, &others), &files)
            };
            let all = commands(&remedies, audience);
            assert_eq!(
                all.iter().map(String::as_str).collect::<Vec<_>>(),
                expected.into_iter().collect::<Vec<_>>()
            );
            assert_eq!(settings(&remedies, audience).len(), all.len());
            assert_eq!(permanently(&remedies, audience).is_some(), rt.is_some());
        }
    }

    #[test]
    fn files_that_decide_are_those_of_settings() {
        let remedies = [
            set("governor"),
            Remedy::Run("x"),
            Remedy::Decide("y"),
            set("swappiness"),
        ];
        let files = deciding(&remedies);
        assert!(
            files
                .iter()
                .any(|file| file.ends_with("scaling_available_governors")),
            "{files:?}"
        );
        assert_eq!(files.last(), Some(&"/proc/sys/vm/swappiness"));
    }

    #[test]
    fn same_permanent_line_appears_once() {
        let (measured, others, files) = (cpus("2-3"), cpus("0-1"), BTreeMap::new());
        let audience = audience(Role::Control, (&measured, &others), &files);
        // Both settings have the same boot parameter, and the instructions of a setting are those
        // of all its instances.
        let remedies = [
            set("irq-affinity"),
            set("default-irq-affinity"),
            instance("watchdog", "nmi"),
        ];
        let line = "irqaffinity=0-1 on the kernel's command line";
        assert_eq!(permanently(&remedies, audience).as_deref(), Some(line));
        assert_eq!(permanently(&remedies[2..], audience), None);
        assert_eq!(permanently(&[], audience), None);
    }

    #[test]
    fn high_risk_always_needs_a_person() {
        let (measured, others, files) = (cpus("2-3"), cpus("0-1"), BTreeMap::new());
        let audience = audience(Role::Telco, (&measured, &others), &files);
        let remedies = settings(&[set("fair-server-runtime-ns")], audience);
        assert!(remedies[0].decide.as_deref().unwrap().contains("starves"));
        let sleeping = For {
            role: Role::Control,
            ..audience
        };
        assert!(settings(&[set("fair-server-runtime-ns")], sleeping).is_empty());
    }

    #[test]
    fn each_remedy_names_setting_and_value() {
        for topic in crate::TOPICS {
            for check in topic.checks {
                for name in check.boot {
                    assert!(punctual_model::boot_parameter(name).is_some(), "{name}");
                }
                for remedy in check.all_remedies() {
                    let Remedy::Set(set) = remedy else { continue };
                    let row = setting(set.setting).unwrap_or_else(|| panic!("{}", set.setting));
                    let roles = crate::ROLES.iter().map(|(role, ..)| *role);
                    let known = roles.into_iter().any(|role| row.wanted_for(role).is_some());
                    assert!(known || !set.value.is_empty(), "{}", set.setting);
                    assert!(set.instance.is_empty() || row.instance_form().is_some());
                }
            }
        }
    }
}
