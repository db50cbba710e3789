//! Plans changes. A plan contains each setting with its current and its new value. Planning writes
//! nothing and requires no permissions.

use std::io;
use std::path::Path;

use punctual_host::Host;
use punctual_model::{CpuSet, POLICY_CPUS, SETTINGS, Scope, Setting};

use crate::access::Ask;
use crate::accessors::access;
use crate::boot;
use crate::context::Context;
use crate::frequency;
use crate::fs::{FileSystem, Files};
use crate::pattern::{Pattern, by_number, matches};
use crate::planned::{LeftOut, Plan, Step};
use crate::profile::Wish;
use crate::setting::shown;
use crate::target::Target;
use crate::throttle;
use crate::validity::sound;
use crate::{Profile, TuneError};

/// A request for a plan.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A profile.
    pub profile: Option<Profile>,
    /// Single settings, which override those of the profile.
    pub sets: Vec<Wish>,
    /// CPUs to measure or to run the application on.
    pub cpus: Option<CpuSet>,
}

impl Plan {
    /// Creates a plan for a machine. `journal` is the path of the journal that would record its
    /// changes.
    ///
    /// # Errors
    /// Returns an error if a CPU does not exist, if a value is out of range (with line and column
    /// if it is from a profile), or if this machine does not have one of the settings in `sets`.
    pub fn make(request: &Request, host: &Host, journal: &Path) -> Result<Self, TuneError> {
        Self::make_on(&Files, request, host, journal)
    }

    pub(crate) fn make_on(
        files: &dyn FileSystem,
        request: &Request,
        host: &Host,
        journal: &Path,
    ) -> Result<Self, TuneError> {
        let target = Target {
            files,
            host,
            journal,
        };
        let profile = request.profile.as_ref();
        let wishes: Vec<&Wish> = profile
            .map_or(&[][..], |profile| &profile.settings)
            .iter()
            .chain(&request.sets)
            .collect();
        let context = context(&target, request, &wishes)?;
        let mut plan = Self {
            label: label(request),
            cpus: request.cpus.clone(),
            steps: Vec::new(),
            left_out: Vec::new(),
            boot: Vec::new(),
            boot_instructions: Vec::new(),
            remarks: Vec::new(),
        };
        // Wishes for a single instance are processed after wishes for all instances, so they
        // override them.
        for narrow in [false, true] {
            for wish in &wishes {
                if wish.selector.is_some() == narrow {
                    plan.add(&target, wish, &context)?;
                }
            }
        }
        frequency::add_coupled(&target, &mut plan.steps)?;
        frequency::check(&target, &plan.steps)?;
        plan.order();
        if let Some(profile) = profile.filter(|profile| !profile.boot.is_empty()) {
            let (known, unknown) = boot::arguments(&target, &profile.boot, &context);
            plan.boot = known;
            plan.boot_instructions = boot::instructions(&target);
            plan.left_out
                .extend(unknown.into_iter().map(|(key, reason)| LeftOut {
                    setting: format!("boot argument {key}"),
                    reason,
                }));
        }
        plan.remark(&target);
        plan.remarks.extend(stand_in(&target, request, &wishes));
        throttle::decide(&target, &mut plan);
        Ok(plan)
    }

    fn add(
        &mut self,
        target: &Target<'_>,
        wish: &Wish,
        context: &Context,
    ) -> Result<(), TuneError> {
        let explicit = !wish.lenient;
        let instances = match selected(target, wish, context) {
            Ok(instances) => instances,
            Err(error @ (TuneError::Absent { .. } | TuneError::NoInstance { .. })) if !explicit => {
                self.leave_out(
                    wish.setting.named(wish.selector.as_deref().unwrap_or("")),
                    &error,
                );
                return Ok(());
            }
            Err(error) if wish.is_loose() => {
                self.leave_out(wish.setting.name.to_owned(), &error);
                return Ok(());
            }
            Err(error) => return Err(wish.placed(error)),
        };
        let broad = instances.len() > 1 || (!explicit && wish.selector.is_none());
        let (mut refused, mut first) = (0, None);
        let count = instances.len();
        for instance in instances {
            let label = shown(wish.setting, &instance);
            match step(target, wish, &instance, context) {
                Ok(Some(mut step)) => {
                    step.broad = broad;
                    step.wish = !explicit;
                    self.steps.retain(|other| {
                        (other.setting, &other.instance) != (step.setting, &step.instance)
                    });
                    self.steps.push(step);
                }
                Ok(None) => {}
                Err(error @ TuneError::NeedsCpus { .. }) if !explicit => {
                    self.leave_out(wish.setting.name.to_owned(), &error);
                    break;
                }
                Err(
                    error @ (TuneError::Refused { .. }
                    | TuneError::Read { .. }
                    | TuneError::NotOffered { .. }),
                ) if broad => {
                    self.leave_out(label, &error);
                    refused += 1;
                    first.get_or_insert(error);
                }
                Err(error) if wish.is_loose() => self.leave_out(label, &error),
                Err(error) => return Err(wish.placed(error)),
            }
        }
        match first {
            // If a setting was named explicitly, it is an error if none of its instances can be
            // changed.
            Some(error) if explicit && refused == count => Err(error),
            _ => Ok(()),
        }
    }

    fn leave_out(&mut self, setting: String, error: &TuneError) {
        let reason = match error {
            TuneError::Absent { reason, .. } | TuneError::Refused { reason, .. } => reason.clone(),
            TuneError::NoInstance { there, .. } => there.clone(),
            TuneError::Read { source, .. } => {
                format!("it cannot be read: {source}{}", why_unread(source))
            }
            TuneError::NeedsCpus { word, .. } => {
                format!("'{word}' needs --cpus with the CPUs to measure")
            }
            other => other.to_string(),
        };
        self.left_out.push(LeftOut { setting, reason });
    }

    /// Sorts the steps in the order of the table, except for those that depend on each other.
    fn order(&mut self) {
        let place = |step: &Step| SETTINGS.iter().position(|setting| setting == step.setting);
        self.steps.sort_by(|a, b| {
            place(a)
                .cmp(&place(b))
                .then_with(|| by_number(&a.instance, &b.instance))
        });
        frequency::order(&mut self.steps);
    }

    fn remark(&mut self, target: &Target<'_>) {
        let mut remarks: Vec<String> = Vec::new();
        let changed = |name: &str| self.changes().any(|step| step.setting.name == name);
        if changed("irq-affinity")
            && let Some(pid) = target.running("irqbalance")
        {
            remarks.push(format!(
                "irqbalance is running (process {pid}) and moves interrupts: stop it, or ban these \
                 CPUs with the setting irqbalance-banned"
            ));
        }
        // The kernel truncates process names to 15 characters.
        for manager in ["tuned", "power-profiles-", "thermald"] {
            if let Some(pid) = target.running(manager) {
                remarks.push(format!(
                    "{manager} is running (process {pid}) and may change the same settings"
                ));
            }
        }
        if let Some(cpus) = &self.cpus {
            for step in self
                .changes()
                .filter(|step| step.setting.scope == Scope::Policy)
            {
                let others = related(target, &step.instance).difference(cpus);
                let text = format!("{} also applies to CPU {others}", step.instance);
                if !others.is_empty() && !remarks.contains(&text) {
                    remarks.push(text);
                }
            }
        }
        self.remarks = remarks;
    }
}

/// Explains an error that occurs even for root.
fn why_unread(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        // The error is EPERM, as with lockdown (kernel_lockdown(7)). If the file's mode were the
        // cause, the error would be EACCES.
        Some(1) => ", which is the error of a locked-down kernel",
        _ => "",
    }
}

/// Returns the name of the profile and the single settings.
pub(crate) fn label(request: &Request) -> String {
    let sets = request.sets.iter().map(|wish| match &wish.selector {
        Some(selector) => format!("{}@{selector}={}", wish.setting.name, wish.value),
        None => format!("{}={}", wish.setting.name, wish.value),
    });
    let profile = request.profile.as_ref().map(|profile| profile.name.clone());
    let parts: Vec<String> = profile.into_iter().chain(sets).collect();
    parts.join(" ")
}

fn context(target: &Target<'_>, request: &Request, wishes: &[&Wish]) -> Result<Context, TuneError> {
    let online = target
        .host
        .online()
        .map_err(|error| TuneError::Cpus(format!("the online CPUs are unknown: {error}")))?;
    if let Some(cpus) = &request.cpus {
        let absent = cpus.difference(&online);
        if cpus.is_empty() || !absent.is_empty() {
            return Err(TuneError::Cpus(if absent.is_empty() {
                "--cpus names no CPU".to_owned()
            } else {
                format!("CPU {absent} of --cpus is not online (online CPUs: {online})")
            }));
        }
    }
    let goes_off = wishes.iter().any(|wish| {
        wish.setting.name == "smt" && matches!(wish.value.as_str(), "off" | "false" | "no" | "0")
    });
    let leaving = if goes_off {
        online
            .iter()
            .filter(|cpu| is_second(target, *cpu))
            .collect()
    } else {
        CpuSet::new()
    };
    Ok(Context {
        online,
        measured: request.cpus.clone(),
        reserved: target.host.reserved().map(|reserved| reserved.cpus),
        leaving,
    })
}

/// Returns a remark if reserved CPUs stand for the measured ones, because none were requested.
fn stand_in(target: &Target<'_>, request: &Request, wishes: &[&Wish]) -> Option<String> {
    let boot = request.profile.iter().flat_map(|profile| &profile.boot);
    let boot = boot.filter_map(|wish| wish.value.as_deref());
    let values = wishes.iter().map(|wish| wish.value.as_str()).chain(boot);
    let named = |value: &str| value.contains("measured") || value.contains("housekeeping");
    if request.cpus.is_some() || !values.into_iter().any(named) {
        return None;
    }
    let reserved = target.host.reserved()?;
    Some(format!(
        "the measured CPUs are CPU {}, because {}; --cpus selects others",
        reserved.cpus, reserved.because
    ))
}

/// Returns whether a CPU is not the first thread of its core.
fn is_second(target: &Target<'_>, cpu: u32) -> bool {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let siblings: Option<CpuSet> = target.text(&file).and_then(|text| text.parse().ok());
    siblings.is_some_and(|siblings| siblings.first() != Some(cpu))
}

/// Returns the instances to which a wish applies.
fn selected(target: &Target<'_>, wish: &Wish, context: &Context) -> Result<Vec<String>, TuneError> {
    let setting = wish.setting;
    let access = access(setting);
    let there = access.instances(target)?;
    let absent = || TuneError::Absent {
        setting: setting.name.to_owned(),
        reason: access.absence(setting, target),
    };
    if there.is_empty() {
        return Err(absent());
    }
    let Some(selector) = &wish.selector else {
        if setting.needs_selector {
            return Err(TuneError::Invalid {
                setting: setting.name.to_owned(),
                value: wish.value.clone(),
                expected: format!(
                    "name an instance: {}@{}",
                    setting.name,
                    setting.instance_form().unwrap_or_default()
                ),
            });
        }
        return Ok(there
            .into_iter()
            .filter(|instance| concerns(target, setting, instance, context))
            .collect());
    };
    let fits = |instance: &String| {
        matches(selector, instance)
            || access
                .aliases(target, instance)
                .iter()
                .any(|alias| matches(selector, alias))
    };
    let found: Vec<String> = there.iter().filter(|one| fits(one)).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    const SHOWN: usize = 12;
    let mut names: Vec<String> = there
        .iter()
        .take(SHOWN)
        .map(|instance| access.shown(instance))
        .collect();
    if there.len() > SHOWN {
        names.push("…".to_owned());
    }
    Err(TuneError::NoInstance {
        setting: setting.named(selector),
        there: format!("there are {}", names.join(", ")),
    })
}

/// Returns whether the plan's CPUs select an instance.
fn concerns(target: &Target<'_>, setting: &Setting, instance: &str, context: &Context) -> bool {
    let cpus = match setting.scope {
        Scope::Machine => return true,
        Scope::Policy => related(target, instance),
        Scope::Cpu => first_number(instance).into_iter().collect(),
    };
    let stays = !cpus.is_subset(&context.leaving) || cpus.is_empty();
    let measured = context.measured.as_ref();
    stays && measured.is_none_or(|measured| !cpus.intersection(measured).is_empty())
}

/// Returns the CPUs of a frequency policy.
fn related(target: &Target<'_>, policy: &str) -> CpuSet {
    let text = Pattern(POLICY_CPUS)
        .path(policy)
        .and_then(|file| target.text(&file));
    text.unwrap_or_default()
        .split_whitespace()
        .filter_map(|cpu| cpu.parse::<u32>().ok())
        .collect()
}

fn first_number(text: &str) -> Option<u32> {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn step(
    target: &Target<'_>,
    wish: &Wish,
    instance: &str,
    context: &Context,
) -> Result<Option<Step>, TuneError> {
    let setting = wish.setting;
    let access = access(setting);
    let current = match access.read(target, instance) {
        Err(TuneError::Read { path, source })
            if source.kind() == io::ErrorKind::NotFound && instance.is_empty() =>
        {
            return Err(TuneError::Absent {
                setting: setting.name.to_owned(),
                reason: format!("{} does not exist", path.display()),
            });
        }
        other => other?,
    };
    sound(setting, &wish.value)?;
    let ask = Ask {
        setting,
        target,
        instance,
        asked: &wish.value,
        context,
    };
    let Some(wanted) = access.resolve(ask)? else {
        return Ok(None);
    };
    let changes = !access.same(&current, &wanted);
    if changes && let Some(reason) = access.refusal(target, instance) {
        return Err(TuneError::Refused {
            setting: shown(setting, instance),
            reason,
        });
    }
    Ok(Some(Step {
        label: shown(setting, instance),
        setting,
        instance: instance.to_owned(),
        current,
        target: wanted,
        changes,
        risk: setting.risk,
        caution: setting.caution,
        broad: false,
        wish: false,
    }))
}
