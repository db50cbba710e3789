//! Writes a profile of punctual as a profile of TuneD.

use std::fmt::Write;

use punctual_model::{CpuSet, Location, Scope, Setting};

use super::load::{MAIN, VARIABLES};
use super::table::{Form, ROWS, paths_of, to_tuned};
use super::words::{ISOLATED, MEASURED, MEASURED_MASK, OTHERS, OTHERS_MASK};
use crate::planned::LeftOut;
use crate::profile::{BootWish, Wish};
use crate::validity::sound;
use crate::{Request, TuneError};

/// The sections of the file, in this order.
const SECTIONS: [&str; 10] = [
    MAIN,
    VARIABLES,
    "cpu",
    "vm",
    "scheduler",
    "irqbalance",
    "selinux",
    "sysctl",
    "sysfs",
    "bootloader",
];

/// A profile for TuneD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedExport {
    /// The content of `tuned.conf`.
    pub text: String,
    /// Settings and parameters that TuneD cannot express.
    pub left_out: Vec<LeftOut>,
}

impl TunedExport {
    /// Converts a request to a profile of TuneD 2.20 or later. Does not read the machine.
    ///
    /// # Errors
    /// Returns an error if a value is not one line of text, with line and column if it is from a
    /// profile.
    pub fn new(request: &Request) -> Result<Self, TuneError> {
        let mut writer = Writer {
            cpus: request.cpus.as_ref().filter(|cpus| !cpus.is_empty()),
            sections: SECTIONS.map(|name| (name, Vec::new())),
            left_out: Vec::new(),
            uses_cpus: false,
        };
        let (summary, boot) = match &request.profile {
            Some(profile) => (profile.summary.as_str(), &profile.boot[..]),
            None => ("", &[][..]),
        };
        let summary = summary
            .replace(['#', '\\'], "")
            .replace(char::is_control, " ");
        if !summary.trim().is_empty() {
            writer.put(MAIN, "summary", summary.trim().to_owned());
        }
        for wish in effective(request) {
            sound(wish.setting, &wish.value).map_err(|error| wish.placed(error))?;
            if let Err(reason) = writer.setting(wish) {
                let setting = wish.setting.named(wish.selector.as_deref().unwrap_or(""));
                writer.left_out.push(LeftOut { setting, reason });
            }
        }
        writer.boot(boot);
        let cpus = writer.cpus.filter(|_| writer.uses_cpus);
        if let Some(cpus) = cpus.map(CpuSet::to_string) {
            writer.put(VARIABLES, ISOLATED, cpus);
        }
        Ok(Self {
            text: writer.text(&crate::plan::label(request)),
            left_out: writer.left_out,
        })
    }
}

/// Returns the wishes that are in force, those for single instances last, because they override
/// the others.
fn effective(request: &Request) -> Vec<&Wish> {
    let profile = request.profile.as_ref();
    let wishes = profile.map_or(&[][..], |profile| &profile.settings);
    let mut wishes: Vec<&Wish> = wishes.iter().chain(&request.sets).collect();
    wishes.sort_by_key(|wish| wish.selector.is_some());
    let mut effective: Vec<&Wish> = Vec::new();
    for wish in wishes {
        let is_all = wish.selector.as_deref() == Some("*");
        // A wish that is left out overrides nothing.
        let lacks_cpus =
            request.cpus.is_none() && matches!(&*wish.value, "measured" | "housekeeping");
        effective.retain(|old| {
            let replaced = is_all || old.selector == wish.selector;
            lacks_cpus || old.setting != wish.setting || !replaced
        });
        effective.push(wish);
    }
    effective
}

struct Writer<'a> {
    cpus: Option<&'a CpuSet>,
    sections: [(&'static str, Vec<(String, String)>); SECTIONS.len()],
    left_out: Vec<LeftOut>,
    /// Whether a value needs the variable with the isolated CPUs.
    uses_cpus: bool,
}

impl Writer<'_> {
    fn put(&mut self, section: &str, option: &str, value: String) {
        let found = self.sections.iter_mut().find(|(name, _)| *name == section);
        if let Some((_, options)) = found {
            options.retain(|(name, _)| name != option);
            options.push((option.to_owned(), value));
        }
    }

    /// Replaces the words for CPUs by variables and functions of TuneD.
    fn with_cpus(&mut self, value: &str) -> Result<String, String> {
        let words = [
            (MEASURED, "${isolated_cores}"),
            (OTHERS, "${f:cpulist_invert:${isolated_cores}}"),
            (MEASURED_MASK, "${f:cpulist2hex:${isolated_cores}}"),
            (OTHERS_MASK, "${f:cpulist2hex_invert:${isolated_cores}}"),
        ];
        let mut text = value.to_owned();
        for (word, _) in words.iter().filter(|(word, _)| value.contains(*word)) {
            if self.cpus.is_none() {
                let name = if matches!(*word, MEASURED | MEASURED_MASK) {
                    "measured"
                } else {
                    "housekeeping"
                };
                return Err(format!("'{name}' needs --cpus with the CPUs to isolate"));
            }
            self.uses_cpus = true;
        }
        for (word, replacement) in words {
            text = text.replace(word, replacement);
        }
        Ok(text)
    }

    fn setting(&mut self, wish: &Wish) -> Result<(), String> {
        let setting = wish.setting;
        let selector = wish.selector.as_deref();
        // Without a selector, --cpus selects the instances.
        let selects = selector.is_none() && setting.scope != Scope::Machine;
        let cpus = self.cpus.filter(|_| selects);
        let is_percent = wish.value.ends_with('%');
        let row = ROWS.iter().find(|row| {
            let fits = (row.form == Form::Percent) == is_percent;
            row.exported && row.setting == setting.name && fits
        });
        // All options of [cpu] apply to the same devices.
        let devices = cpus.map(|_| "${f:cpulist2devs:${isolated_cores}}");
        let is_of_devices =
            |row: &super::table::Row| row.plugin == "cpu" && setting.scope != Scope::Machine;
        let is_whole = matches!(selector, None | Some("*"));
        let mixed = |row: &super::table::Row| {
            let others = self.sections.iter().find(|(name, _)| *name == row.plugin);
            let options = others.map_or(&[][..], |(_, options)| options);
            let own = options.iter().find(|(name, _)| name == "devices");
            let is_first = !options.iter().any(|(name, _)| is_per_cpu(name));
            !is_first && own.map(|(_, value)| value.as_str()) != devices
        };
        if let Some(row) = row.filter(|row| is_whole && !(is_of_devices(row) && mixed(row))) {
            let value = to_tuned(setting, row.form, &wish.value)?;
            let value = self.with_cpus(&value)?;
            self.put(row.plugin, row.option, value);
            if let Some(devices) = devices.filter(|_| is_of_devices(row)) {
                self.uses_cpus = true;
                self.put(row.plugin, "devices", devices.to_owned());
            }
            return Ok(());
        }
        if matches!(setting.location, Location::Special { .. }) {
            return Err(without_option(setting));
        }
        let form = row.map_or(Form::Same, |row| row.form);
        let form = if form == Form::Bias { Form::Same } else { form };
        let value = to_tuned(setting, form, &wish.value)?;
        let paths = match (setting.location, setting.scope, cpus) {
            (Location::Each(pattern), Scope::Cpu, Some(cpus)) => {
                let path = |cpu: u32| pattern.replacen('#', &cpu.to_string(), 1);
                cpus.iter().map(path).collect()
            }
            (Location::Each(_), Scope::Policy, Some(_)) => {
                return Err(
                    "the frequency policies of the CPUs are known only on the machine: \
                            name one, as in SETTING@policy2"
                        .to_owned(),
                );
            }
            _ => paths_of(setting, selector).ok_or_else(|| without_option(setting))?,
        };
        if paths
            .iter()
            .any(|path| !path.starts_with("/proc/sys/") && !path.starts_with("/sys/"))
        {
            return Err("TuneD writes only files in /proc/sys and /sys".to_owned());
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "=#[]?$\\".contains(c);
        if paths.iter().any(|path| path.contains(is_odd)) {
            return Err("TuneD cannot express a path with this character".to_owned());
        }
        let value = self.with_cpus(&value)?;
        for path in paths {
            match path.strip_prefix("/proc/sys/") {
                Some(key) => self.put("sysctl", &key.replace('/', "."), value.clone()),
                None => self.put("sysfs", &path, value.clone()),
            }
        }
        Ok(())
    }

    fn boot(&mut self, wishes: &[BootWish]) {
        let mut words = Vec::new();
        for BootWish { key, value } in wishes {
            let value = value.as_ref().map(|value| {
                let value = value.replace("{measured}", &MEASURED.to_string());
                value.replace("{housekeeping}", &OTHERS.to_string())
            });
            let word = match value {
                Some(value) => format!("{key}={value}"),
                None => key.clone(),
            };
            let word = if word.contains(['$', '\\']) || word.starts_with('#') {
                Err("TuneD would change the characters $, \\ and #".to_owned())
            } else {
                self.with_cpus(&word)
            };
            match word {
                Ok(word) => words.push(word),
                Err(reason) => self.left_out.push(LeftOut {
                    setting: format!("boot argument {key}"),
                    reason,
                }),
            }
        }
        if !words.is_empty() {
            self.put(
                "bootloader",
                "cmdline_punctual",
                format!("+{}", words.join(" ")),
            );
        }
    }

    fn text(&self, label: &str) -> String {
        let comment = |text: &str| text.replace(char::is_control, " ");
        let mut text = format!("# Exported by punctual tune export {}\n", comment(label));
        for LeftOut { setting, reason } in &self.left_out {
            let _ = writeln!(
                text,
                "# not exported: {}: {}",
                comment(setting),
                comment(reason)
            );
        }
        for (name, options) in self
            .sections
            .iter()
            .filter(|(_, options)| !options.is_empty())
        {
            let _ = writeln!(text, "\n[{name}]");
            for (option, value) in options {
                let _ = writeln!(text, "{option}={value}");
            }
        }
        text
    }
}

/// Returns whether an option of `[cpu]` applies to the devices of its section.
fn is_per_cpu(option: &str) -> bool {
    let row = ROWS
        .iter()
        .find(|row| (row.plugin, row.option) == ("cpu", option));
    let setting = row.and_then(|row| punctual_model::setting(row.setting));
    setting.is_some_and(|setting| setting.scope != Scope::Machine)
}

/// Returns the reason why a setting cannot be exported.
fn without_option(setting: &Setting) -> String {
    match setting.name {
        "irq-affinity" => {
            "TuneD moves interrupts only together with processes: add \
                           isolated_cores to [scheduler] if you want both"
        }
        "thread-priority" => {
            "TuneD selects threads by a regular expression: add group.NAME to \
                              [scheduler]"
        }
        _ => "TuneD has no option for it",
    }
    .to_owned()
}
