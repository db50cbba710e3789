//! The options of TuneD that have the same effect as a setting. Import and export use this table.
//!
//! Options of `[sysctl]` and `[sysfs]` are not in the table, because their files are those of
//! [`SETTINGS`].

use punctual_model::{CpuSet, Location, SETTINGS, Setting, Values, unmask};

use super::words::{MEASURED, MEASURED_MASK, OTHERS, OTHERS_MASK};
use crate::access::on_or_off;
use crate::pattern::Pattern;

/// How the values of an option and of its setting differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// They are the same, or those of the file of the setting.
    Same,
    /// TuneD names some numbers.
    Bias,
    /// 1 means off.
    Inverted,
    /// TuneD also accepts names of idle states.
    Latency,
    /// The setting adds `%`.
    Percent,
    /// A list of CPUs, even if the file of the setting has a mask.
    List,
    /// The words `on` and `off`.
    OnOff,
}

/// An option of a plug-in with its setting.
pub(super) struct Row {
    pub(super) plugin: &'static str,
    pub(super) option: &'static str,
    pub(super) setting: &'static str,
    pub(super) form: Form,
    /// Whether an exported profile uses the option: TuneD 2.20 has it, and it has no other effect.
    pub(super) exported: bool,
}

const fn both(plugin: &'static str, option: &'static str, setting: &'static str) -> Row {
    Row {
        plugin,
        option,
        setting,
        form: Form::Same,
        exported: true,
    }
}

impl Row {
    const fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// Marks an option that is only read.
    const fn read(self) -> Self {
        Self {
            exported: false,
            ..self
        }
    }
}

pub(super) const ROWS: &[Row] = &[
    both("cpu", "governor", "governor"),
    both("cpu", "energy_performance_preference", "energy-preference"),
    both("cpu", "energy_perf_bias", "energy-bias").form(Form::Bias),
    both("cpu", "min_perf_pct", "min-perf-percent"),
    both("cpu", "no_turbo", "turbo").form(Form::Inverted),
    both("cpu", "force_latency", "dma-latency-us").form(Form::Latency),
    both("cpu", "pm_qos_resume_latency_us", "resume-latency-us"),
    both("vm", "transparent_hugepages", "thp"),
    both("vm", "transparent_hugepage", "thp").read(),
    both("vm", "transparent_hugepage.defrag", "thp-defrag"),
    both("sysctl", "vm.dirty_ratio", "dirty-limit").form(Form::Percent),
    both("sysctl", "vm.dirty_bytes", "dirty-limit"),
    both(
        "sysctl",
        "vm.dirty_background_ratio",
        "dirty-background-limit",
    )
    .form(Form::Percent),
    both(
        "sysctl",
        "vm.dirty_background_bytes",
        "dirty-background-limit",
    ),
    both("scheduler", "sched_nr_migrate", "batch-migration"),
    both(
        "scheduler",
        "default_irq_smp_affinity",
        "default-irq-affinity",
    )
    .form(Form::List)
    .read(),
    both("irqbalance", "banned_cpus", "irqbalance-banned").form(Form::List),
    both("selinux", "avc_cache_threshold", "selinux-cache"),
    both("acpi", "platform_profile", "platform-profile").read(),
    both("sysfs", "/sys/devices/system/cpu/smt/control", "smt").form(Form::OnOff),
];

/// The plug-ins of TuneD 2.20 to 2.25.
pub(super) const PLUGINS: &[&str] = &[
    "acpi",
    "audio",
    "bootloader",
    "cpu",
    "disk",
    "eeepc_she",
    "irq",
    "irqbalance",
    "modules",
    "mounts",
    "net",
    "rtentsk",
    "scheduler",
    "script",
    "scsi_host",
    "selinux",
    "service",
    "sysctl",
    "sysfs",
    "systemd",
    "uncore",
    "usb",
    "video",
    "vm",
];

/// TuneD's names of some energy biases (`plugin_cpu.py`).
const BIASES: &[(&str, &str)] = &[
    ("performance", "0"),
    ("balance-performance", "4"),
    ("normal", "6"),
    ("balance-power", "8"),
    ("power", "15"),
    ("powersave", "15"),
];

/// Other paths of the same files.
const ALIASES: &[(&str, &str)] = &[
    (
        "/sys/bus/workqueue/devices/",
        "/sys/devices/virtual/workqueue/",
    ),
    // The link of a CPU leads to the policy of the CPU, which can have another number.
    (
        "/sys/devices/system/cpu/cpu*/cpufreq/",
        "/sys/devices/system/cpu/cpufreq/policy*/",
    ),
    (
        "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/",
        "/sys/devices/system/cpu/cpufreq/policy*/",
    ),
];

/// Returns the setting of a file, and the instance: `None` if there is only one, `*` for all.
pub(super) fn setting_of(path: &str) -> Option<(&'static Setting, Option<String>)> {
    let alias = ALIASES.iter().find_map(|(from, to)| {
        let rest = path.strip_prefix(from)?;
        Some(format!("{to}{rest}"))
    });
    let path = alias.as_deref().unwrap_or(path);
    SETTINGS.iter().find_map(|setting| match setting.location {
        Location::File(file) => (file == path).then_some((setting, None)),
        Location::Each(pattern) => Some((setting, Some(instance(pattern, path)?))),
        Location::Parts(parts) => {
            let part = parts.iter().find(|(_, file)| *file == path);
            part.map(|(name, _)| (setting, Some((*name).to_owned())))
        }
        Location::Special { .. } => None,
    })
}

/// Returns the instance that a path of a pattern selects.
fn instance(pattern: &str, path: &str) -> Option<String> {
    let (own, given): (Vec<&str>, Vec<&str>) =
        (pattern.split('/').collect(), path.split('/').collect());
    if own.len() != given.len() {
        return None;
    }
    let mut names = Vec::new();
    let mut is_all = true;
    for (own, given) in own.iter().zip(given) {
        let Some(place) = own.find(['#', '*']) else {
            if *own == given {
                continue;
            }
            return None;
        };
        let (before, after) = (&own[..place], &own[place + 1..]);
        let inner = given.strip_prefix(before)?.strip_suffix(after)?;
        let is_number = own.as_bytes()[place] == b'#';
        let fits = |c: char| {
            c == '*'
                || if is_number {
                    c.is_ascii_digit()
                } else {
                    !"?[]{}".contains(c)
                }
        };
        if matches!(inner, "*" | "[0-9]*") {
            names.push(format!("{before}*{after}"));
        } else if !inner.is_empty() && inner.chars().all(fits) {
            is_all = false;
            names.push(given.to_owned());
        } else {
            return None;
        }
    }
    Some(if is_all {
        "*".to_owned()
    } else {
        names.join("/")
    })
}

/// Returns the paths of the files that a setting and a selector stand for, with `*` for all
/// instances. Returns `None` if a path cannot express the selector.
pub(super) fn paths_of(setting: &Setting, selector: Option<&str>) -> Option<Vec<String>> {
    match (setting.location, selector.filter(|name| *name != "*")) {
        (Location::File(file), None) => Some(vec![file.to_owned()]),
        (Location::Each(pattern), None) => Some(vec![pattern.replace('#', "*")]),
        (Location::Each(pattern), Some(name)) if name.contains('*') => {
            let mut given = name.split('/');
            let segments = pattern.split('/').map(|own| {
                let Some(place) = own.find(['#', '*']) else {
                    return Some(own.to_owned());
                };
                // A glob such as cpu1* is inside of the pattern cpu#.
                let name = given.next().filter(|name| !name.starts_with('.'))?;
                let fits = name
                    .strip_prefix(&own[..place])?
                    .ends_with(&own[place + 1..]);
                fits.then(|| name.to_owned())
            });
            let segments: Vec<String> = segments.collect::<Option<_>>()?;
            given.next().is_none().then(|| vec![segments.join("/")])
        }
        (Location::Each(pattern), Some(name)) => Pattern(pattern).path(name).map(|path| vec![path]),
        (Location::Parts(parts), selector) => {
            let chosen = parts
                .iter()
                .filter(|(name, _)| selector.is_none_or(|own| own == *name));
            let paths: Vec<String> = chosen.map(|(_, file)| (*file).to_owned()).collect();
            (!paths.is_empty()).then_some(paths)
        }
        _ => None,
    }
}

/// Converts a value of TuneD to one of a setting.
///
/// # Errors
/// Returns the reason if the setting does not accept it.
pub(super) fn to_setting(setting: &Setting, form: Form, value: &str) -> Result<String, String> {
    let name = setting.name;
    let wrong = || format!("{name} takes {}", setting.values.takes());
    if value.starts_with(['>', '<']) {
        return Err("a limit for the value that the machine has is not supported".to_owned());
    }
    match form {
        Form::Bias => {
            let bias = BIASES.iter().find(|(name, _)| *name == value);
            return plain(setting, bias.map_or(value, |(_, number)| number));
        }
        Form::Inverted => {
            return match value {
                "1" => Ok("off".to_owned()),
                "0" => Ok("on".to_owned()),
                _ => Err("the option takes 0 or 1".to_owned()),
            };
        }
        Form::OnOff => {
            let is_word = matches!(value, "on" | "off");
            return is_word.then(|| value.to_owned()).ok_or_else(wrong);
        }
        Form::Latency if is_number(value) => {
            let number = value
                .parse::<u32>()
                .ok()
                .filter(|number| *number <= 2_000_000_000);
            return number.map(|number| number.to_string()).ok_or_else(wrong);
        }
        Form::Latency if matches!(value, "none" | "None") => {
            return Err("the profile sets no limit".to_owned());
        }
        Form::Latency => return Err("the value is known only on the machine".to_owned()),
        Form::Percent => {
            let percent = value.parse::<u8>().ok().filter(|percent| *percent <= 100);
            return percent
                .map(|percent| format!("{percent}%"))
                .ok_or_else(wrong);
        }
        Form::Same | Form::List => {}
    }
    let is_list = form == Form::List || setting.values == Values::List;
    match setting.values {
        Values::Mask | Values::List => {
            let stands_for = |list: char, mask: char| {
                let own = if is_list { list } else { mask };
                value.chars().eq([own])
            };
            if stands_for(MEASURED, MEASURED_MASK) {
                return Ok("measured".to_owned());
            }
            if stands_for(OTHERS, OTHERS_MASK) {
                return Ok("housekeeping".to_owned());
            }
            let cpus = if is_list {
                value.parse::<CpuSet>().ok()
            } else {
                unmask(value.trim_start_matches("0x"))
            };
            let kind = if is_list { "a list" } else { "a mask" };
            cpus.filter(|cpus| !cpus.is_empty())
                .map(|cpus| cpus.to_string())
                .ok_or_else(|| format!("the value is not {kind} of CPUs"))
        }
        Values::Between { .. } => is_number(value).then(|| value.to_owned()).ok_or_else(wrong),
        Values::Own(_) if is_number(value) && value != "0" => Ok(value.to_owned()),
        Values::Own(_) => Err(wrong()),
        _ => plain(setting, value),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a value that does not depend on the machine, or a word that the kernel may list.
fn plain(setting: &Setting, value: &str) -> Result<String, String> {
    let wrong = || format!("{} takes {}", setting.name, setting.values.takes());
    match setting.values {
        Values::Offered(_) | Values::Marked => {
            // This word would stand for another value.
            let is_word = setting.values.holds(value) && value != "recommended";
            is_word.then(|| value.to_owned()).ok_or_else(wrong)
        }
        Values::Switch => {
            let value = match value {
                "Y" | "y" => "1",
                "N" | "n" => "0",
                other => other,
            };
            match setting.values.plain(value).as_deref() {
                Some("1") => Ok("on".to_owned()),
                Some("0") => Ok("off".to_owned()),
                _ => Err(wrong()),
            }
        }
        _ => setting.values.plain(value).ok_or_else(wrong),
    }
}

/// Converts a value of a setting to one of TuneD. Words for CPUs become the characters
/// of [`words`](super::words).
///
/// # Errors
/// Returns the reason if TuneD cannot express it.
pub(super) fn to_tuned(setting: &Setting, form: Form, value: &str) -> Result<String, String> {
    let wrong = || format!("{} takes {}", setting.name, setting.values.takes());
    match (form, setting.values) {
        (Form::Bias, _) => {
            let number = setting.values.plain(value).ok_or_else(wrong)?;
            let bias = BIASES.iter().find(|(_, own)| *own == number);
            Ok(bias.map_or(number, |(name, _)| (*name).to_owned()))
        }
        (Form::Inverted | Form::OnOff, _) => {
            let word = on_or_off(setting, value).map_err(|_| wrong())?;
            Ok(match (form, word.as_str()) {
                (Form::Inverted, "on") => "0".to_owned(),
                (Form::Inverted, _) => "1".to_owned(),
                _ => word,
            })
        }
        (Form::Percent, _) => value.strip_suffix('%').map(str::to_owned).ok_or_else(wrong),
        (form, Values::Mask | Values::List) => {
            let is_list = form == Form::List || setting.values == Values::List;
            match value {
                "measured" => Ok(if is_list { MEASURED } else { MEASURED_MASK }.to_string()),
                "housekeeping" => Ok(if is_list { OTHERS } else { OTHERS_MASK }.to_string()),
                "all" => Err("TuneD has no word for all CPUs".to_owned()),
                list => {
                    let cpus: CpuSet = list.parse().map_err(|_| wrong())?;
                    Ok(if is_list {
                        cpus.to_string()
                    } else {
                        punctual_model::mask(&cpus)
                    })
                }
            }
        }
        (_, Values::Offered(_) | Values::Marked) => {
            // TuneD would take these characters for a limit, an alternative or a variable.
            let is_plain =
                setting.values.holds(value) && !value.contains(['<', '>', '|', '$', '#', '\\']);
            is_plain.then(|| value.to_owned()).ok_or_else(wrong)
        }
        (_, Values::Own(_)) => is_number(value).then(|| value.to_owned()).ok_or_else(wrong),
        (_, Values::Between { .. }) => is_number(value)
            .then(|| value.to_owned())
            .ok_or_else(|| "the limits of the hardware are known only on the machine".to_owned()),
        _ => setting.values.plain(value).ok_or_else(wrong),
    }
}
