//! Judges a kernel's configuration, and generates a configuration fragment for building one.

mod option_state;
mod options;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use punctual_model::{
    AUDIT_SCHEMA, Audit, AuditedHost, CpuSet, Expectation, Fact, FactSet, Finding, FindingState,
    Reading, Setting, Severity, setting,
};

use crate::remedy::{self, For};
use crate::{Remedy, Role, Stance};
use option_state::{Configuration, built_as};
pub use option_state::{OptionState, is_whole, option_state};
pub use options::OPTIONS;
pub(crate) use options::WITHOUT_RT;
use punctual_model::SPINNING;

/// The desired state of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The option should be built in.
    On,
    /// The option should not be set.
    Off,
    /// The option should be off if the role's threads sleep between their activations, and on if
    /// they spin.
    OnToSpin,
}

/// An option of the kernel's configuration.
#[derive(Debug)]
pub struct KernelOption {
    /// Name, `CONFIG_…`.
    pub option: &'static str,
    /// Desired state.
    pub wanted: Wanted,
    /// Severity if the option is not in the desired state.
    pub severity: Severity,
    /// The reason why any other state costs latency.
    pub why: &'static str,
    /// Source of that reason.
    pub source: &'static str,
    /// Settings that switch the option off on a running kernel.
    pub switch: &'static [Remedy],
    /// Name in earlier kernels; empty if it did not change.
    pub formerly: &'static str,
    /// First version that has the option, if that version is less than ten years old; otherwise (0,
    /// 0).
    pub since: (u32, u32),
    /// Another option without which this one has no effect; empty if there is none.
    pub needs: &'static str,
    /// Options that must be on to make this one available. The fragment sets them as well.
    pub with: &'static [&'static str],
    /// Options that select this one regardless of the configuration.
    pub selected_by: &'static [&'static str],
    /// Check that examines the same property on a running machine; empty if there is none.
    pub seen_by: &'static str,
    /// Differences for some roles.
    pub stances: &'static [Stance],
}

/// Returns the files that switch options off on a running kernel.
pub(crate) fn switches() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().flat_map(|option| files_of(option.switch))
}

fn files_of(switch: &[Remedy]) -> impl Iterator<Item = &'static str> {
    switch.iter().flat_map(|remedy| match remedy {
        Remedy::Set(set) => setting(set.setting).map_or_else(Vec::new, Setting::paths),
        _ => Vec::new(),
    })
}

/// Returns whether a check of the running machine judges the same property better than this finding
/// about an option.
pub(crate) fn is_seen_otherwise(finding: &Finding) -> bool {
    OPTIONS
        .iter()
        .any(|option| !option.seen_by.is_empty() && id(option.option) == finding.id)
}

/// Judges a configuration, with one finding for each option. `running` contains the readings of the
/// machine that runs this kernel; it is `None` before the kernel is built.
pub fn findings(
    config: &Fact<String>,
    role: Role,
    running: Option<&BTreeMap<String, Reading>>,
) -> Vec<Finding> {
    let options = config.get().map(|text| Configuration::read(text));
    OPTIONS
        .iter()
        .map(|option| finding(option, config, options.as_ref(), role, running))
        .collect()
}

/// Judges only a configuration. The result is like the audit of a machine without CPUs. `machine`
/// is the machine that runs this kernel, if there is one. `name` is shown in place of the host's
/// name.
pub fn audit(config: &Fact<String>, role: Role, machine: Option<&FactSet>, name: &str) -> Audit {
    let mut findings = findings(config, role, machine.map(|facts| &facts.files));
    findings.sort_by_key(Finding::order);
    let host = machine.map(|facts| &facts.host);
    let version = config.get().and_then(|text| built_as(text));
    Audit {
        schema: AUDIT_SCHEMA,
        program: format!("punctual {}", env!("CARGO_PKG_VERSION")),
        role: role.name().to_owned(),
        role_meaning: role.meaning().to_owned(),
        host: AuditedHost {
            hostname: Some(name.to_owned()),
            kernel: version.map(str::to_owned),
            distribution: host.and_then(|host| host.distribution.name.value.clone()),
            processor: None,
            fingerprint: host.map_or_else(String::new, |host| host.fingerprint.clone()),
        },
        cpus: CpuSet::new(),
        cpus_because: String::new(),
        findings,
        expectation: Expectation::default(),
        sample: None,
    }
}

/// State of an option that the partial configuration of a running kernel does not mention.
const PART: &str = "is not in this configuration, which is only a fragment";
/// State of an option that a partial configuration does not mention, if its kernel is not built
/// yet.
const DEFCONFIG: &str = "is not in this configuration, which is a defconfig or a fragment: run \
                         make olddefconfig first";

/// Returns whether a role wants an option to be on.
fn wants_on(wanted: Wanted, role: Role) -> bool {
    match wanted {
        Wanted::On => true,
        Wanted::Off => false,
        Wanted::OnToSpin => role.spins(),
    }
}

fn finding(
    option: &KernelOption,
    config: &Fact<String>,
    options: Option<&Configuration<'_>>,
    role: Role,
    running: Option<&BTreeMap<String, Reading>>,
) -> Finding {
    let on = wants_on(option.wanted, role);
    let state_now = options.map(|options| options.state_of(option));
    let source = format!("{} {}", config.source, option.option);
    let mut evidence = vec![match state_now {
        Some(state_now) => Fact::known(state_now.to_string(), source),
        None => Fact::unknown(source, config.unknown.as_deref().unwrap_or("not known")),
    }];
    let (mut state, mut found) = judge(state_now, on, &config.unknown);
    if state_now == Some(OptionState::Unmentioned)
        && let Some(text) = config.get()
        && let Some(instead) = unmentioned(option, text, running.is_some())
    {
        (state, found) = instead;
    }
    let needs = option.needs;
    if state == FindingState::Fail
        && !needs.is_empty()
        && options.is_some_and(|options| options.lacks(needs))
    {
        evidence.push(Fact::known(
            "not set".to_owned(),
            format!("{} {needs}", config.source),
        ));
        (state, found) = (
            FindingState::NotApplicable,
            format!("built without {needs}"),
        );
    }
    let selecting = option.selected_by.iter().find(|selecting| {
        options.is_some_and(|options| options.get(selecting) == OptionState::Set("y"))
    });
    if state == FindingState::Fail
        && !on
        && let Some(selecting) = selecting
    {
        evidence.push(Fact::known(
            "y".to_owned(),
            format!("{} {selecting}", config.source),
        ));
        (state, found) = (
            FindingState::NotApplicable,
            format!("{selecting} selects it"),
        );
    }
    let files: Vec<(&str, &str)> = files_of(option.switch)
        .filter_map(|file| match running?.get(file) {
            Some(Reading::Text(text)) => Some((file, text.as_str())),
            _ => None,
        })
        .collect();
    if state == FindingState::Fail && !files.is_empty() && files.iter().all(|file| file.1 == "0") {
        let names: Vec<&str> = files.iter().map(|file| file.0).collect();
        evidence.extend(names.iter().map(|file| Fact::known("0".to_owned(), *file)));
        let is = if names.len() == 1 { "is" } else { "are" };
        (state, found) = (
            FindingState::Ok,
            format!("is built in, but switched off: {} {is} 0", names.join(", ")),
        );
    }
    let stance = option.stances.iter().find(|s| s.roles.contains(&role));
    let word = if on { "y" } else { "n" };
    let problem = state == FindingState::Fail;
    let switch = if problem && running.is_some() {
        option.switch
    } else {
        &[]
    };
    let (none, nothing) = (CpuSet::new(), BTreeMap::new());
    // Switching an option off is not specific to any CPU.
    let audience = For {
        role,
        cpus: &none,
        others: &none,
        files: running.unwrap_or(&nothing),
        version: None,
        rt: None,
    };
    Finding {
        id: id(option.option),
        topic: "kernel".to_owned(),
        subject: option.option.to_owned(),
        title: Finding::title_of(option.option, state, &found),
        state,
        severity: stance.map_or(option.severity, |stance| stance.severity),
        found,
        expected: word.to_owned(),
        evidence,
        why: option.why.to_owned(),
        source: option.source.to_owned(),
        role_note: stance.map(|stance| format!("for {role}: {}", stance.note)),
        now: remedy::commands(switch, audience),
        remedies: remedy::settings(switch, audience),
        reboot: problem.then(|| format!("a kernel with {}={word}", option.option)),
    }
}

/// Returns the state and its description for an option that a configuration does not mention.
/// Returns `None` if the configuration is complete and the kernel is new enough to have the option.
/// In that case the option is simply not set.
fn unmentioned(option: &KernelOption, text: &str, runs: bool) -> Option<(FindingState, String)> {
    // The option has its default, which may be on or off.
    if !is_whole(text) {
        let found = if runs { PART } else { DEFCONFIG };
        return Some((FindingState::Unknown, found.to_owned()));
    }
    let (major, minor) = option.since;
    let found = format!("does not exist before Linux {major}.{minor}");
    let before = version(text).is_some_and(|version| version < option.since);
    before.then_some((FindingState::NotApplicable, found))
}

/// Returns the kernel version in the heading of a configuration.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = built_as(text)?.split(' ').nth(1)?.split('.');
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

fn judge(
    state_now: Option<OptionState>,
    on: bool,
    unknown: &Option<String>,
) -> (FindingState, String) {
    let Some(state_now) = state_now else {
        let why = unknown.as_deref().unwrap_or("no kernel configuration");
        return (FindingState::Unknown, why.to_owned());
    };
    let state = match (state_now, on) {
        (OptionState::Set("y"), true) => FindingState::Ok,
        (_, true) => FindingState::Fail,
        (OptionState::Off, false) => FindingState::Ok,
        // The kernel does not have the option, so the check does not apply.
        (OptionState::Unmentioned, false) => FindingState::NotApplicable,
        (OptionState::Set(_), false) => FindingState::Fail,
    };
    (state, format!("is {state_now}"))
}

/// Returns the name of a finding, such as `kernel-config-prove-locking` for `CONFIG_PROVE_LOCKING`.
fn id(option: &str) -> String {
    let name = option.trim_start_matches("CONFIG_");
    format!("kernel-config-{}", name.to_lowercase().replace('_', "-"))
}

/// Returns the options as a fragment for the kernel's `scripts/kconfig/merge_config.sh`. The
/// fragment omits options that are only informative, except for the tracers that explain a latency.
pub fn fragment(role: Role) -> String {
    let mut text = format!(
        "# Kernel options for low latency, for the role {role}: {}.\n\
         # To use it in the kernel's source tree:\n\
         #   scripts/kconfig/merge_config.sh -m .config THIS_FILE && make olddefconfig\n\
         # Then check the result: punctual machine kernel check --config .config --role {role}\n\
         # CONFIG_PREEMPT_RT is only available if CONFIG_EXPERT is y and, before Linux 6.12,\n\
         # if the PREEMPT_RT patches are applied.\n\n\
         CONFIG_EXPERT=y\n",
        role.meaning()
    );
    for option in OPTIONS {
        let on = wants_on(option.wanted, role);
        // The fragment does not switch off an option that is only informative, because that option
        // may be useful.
        if !on && option.severity == Severity::Info {
            continue;
        }
        let first = option.why.split(". ").next().unwrap_or(option.why);
        text.push_str(&format!("\n# {}\n", first.trim_end_matches('.')));
        if !option.selected_by.is_empty() {
            let selecting = option.selected_by.join(", ");
            text.push_str(&format!(
                "# (it stays on if one of these is on: {selecting})\n"
            ));
        }
        for with in option.with.iter().filter(|_| on) {
            text.push_str(&format!("{with}=y\n"));
        }
        if on {
            text.push_str(&format!("{}=y\n", option.option))
        } else {
            text.push_str(&format!("# {} is not set\n", option.option))
        }
    }
    if SPINNING.contains(&role) {
        text.push_str(
            "\n# Only one tick mode can be on, and NO_HZ_FULL above excludes NO_HZ_IDLE.\n",
        );
        text.push_str("# CONFIG_NO_HZ_IDLE is not set\n");
    }
    text
}
