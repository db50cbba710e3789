//! Converts a profile of TuneD to a profile of punctual.

use std::path::Path;

use punctual_model::{CpuSet, Scope, Setting};

use super::conf::{Entry, Section};
use super::imported::{NotImported, Taken, TunedImport, one_line};
use super::load::{Loaded, MAIN, is_true, load};
use super::table::{Form, PLUGINS, ROWS, setting_of, to_setting};
use super::words::{ISOLATED, MEASURED, MEASURED_MASK, OTHERS, OTHERS_MASK, Variables};
use crate::validity::sound;
use crate::{Profile, TuneError, setting};

impl TunedImport {
    /// Reads the profile of this name, or from this file or folder. Changes nothing, and runs no
    /// script and no command of the profile. `root` is the root folder of the system that has the
    /// profiles.
    ///
    /// # Errors
    /// Returns an error with file and line if a file is missing or is not in the format, or if
    /// profiles include each other.
    pub fn read(root: &Path, name: &str) -> Result<Self, TuneError> {
        let Loaded {
            files,
            mut sections,
            variables,
            unknown,
        } = load(root, name)?;
        let mut import = Self {
            files,
            ..Self::default()
        };
        for (section, entry, why) in unknown {
            import.left_out.push(listed(section, &entry, why));
        }
        let mut reader = Reader {
            variables,
            moves_interrupts: true,
            import: &mut import,
        };
        reader.isolated(&sections);
        for section in &mut sections {
            reader.section(section);
        }
        import.cpus = reader.variables.isolated;
        // The result must be a profile that `apply` accepts.
        Profile::parse(name, &import.toml())?;
        Ok(import)
    }
}

fn listed(section: &str, entry: &Entry, reason: impl Into<String>) -> NotImported {
    NotImported {
        section: section.to_owned(),
        option: entry.name.clone(),
        value: entry.value.clone(),
        at: entry.at(),
        reason: reason.into(),
    }
}

struct Reader<'a> {
    variables: Variables,
    /// Whether TuneD moves interrupts away from the isolated CPUs: `irq_process` of `[scheduler]`.
    moves_interrupts: bool,
    import: &'a mut TunedImport,
}

/// The devices of a section of `[cpu]`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Devices {
    All,
    Isolated,
    Other,
}

impl Reader<'_> {
    /// Finds the isolated CPUs if they are in `[scheduler]` and not in a variable.
    fn isolated(&mut self, sections: &[Section]) {
        if self.variables.isolated.is_some() {
            return;
        }
        let options = sections.iter().filter_map(|section| section.get(ISOLATED));
        for entry in options {
            let value = self.variables.expand(&entry.value);
            let cpus = value.parse::<CpuSet>().ok().filter(|cpus| !cpus.is_empty());
            self.variables.isolated = cpus;
        }
    }

    fn leave_out(&mut self, section: &str, entry: &Entry, reason: impl Into<String>) {
        self.import.left_out.push(listed(section, entry, reason));
    }

    fn section(&mut self, section: &mut Section) {
        let name = section.name.clone();
        if name == MAIN {
            for entry in &section.entries {
                if entry.name == "summary" {
                    let value = self.variables.expand(&entry.value);
                    let known = self.variables.known(&value).unwrap_or(&entry.value);
                    self.import.summary = one_line(known).trim().to_owned();
                } else if entry.name != "description" {
                    self.leave_out(&name, entry, "this option concerns only TuneD");
                }
            }
            return;
        }
        let plugin = section
            .take("type")
            .map_or_else(|| name.clone(), |entry| entry.value);
        let enabled = section.take("enabled");
        let devices = section.take("devices");
        for option in ["priority", "devices_udev_regex"] {
            section.take(option);
        }
        let conditions = ["cpuinfo_regex", "uname_regex"];
        let condition = conditions.iter().find_map(|option| section.take(option));
        let reason = if !PLUGINS.contains(&plugin.as_str()) {
            Some(format!("TuneD has no plug-in '{plugin}'"))
        } else if enabled.is_some_and(|entry| !is_true(&entry.value)) {
            Some("the section is disabled".to_owned())
        } else {
            condition.map(|entry| {
                let Entry { name, value, .. } = entry;
                format!("the section applies only to some machines: {name} = {value}")
            })
        };
        if section.entries.is_empty() {
            self.import.left_out.push(NotImported {
                section: name.clone(),
                option: String::new(),
                value: String::new(),
                at: section.at.clone(),
                reason: reason.unwrap_or_else(|| "punctual has no counterpart".to_owned()),
            });
            return;
        }
        if let Some(reason) = reason {
            for entry in &section.entries {
                self.leave_out(&name, entry, reason.clone());
            }
            return;
        }
        if plugin == "bootloader" {
            self.bootloader(section);
            return;
        }
        if plugin == "scheduler"
            && let Some(entry) = section.take("irq_process")
        {
            self.moves_interrupts = self.is_on(&entry);
        }
        let devices = devices.map_or(Devices::All, |entry| self.devices(&entry.value));
        for entry in &section.entries {
            if let Err(reason) = self.option(&plugin, &name, devices, entry) {
                self.leave_out(&name, entry, reason);
            }
        }
    }

    /// Returns whether the scheduler plug-in takes a value as true. A value that is not known leaves
    /// the default, which is true, and is listed.
    fn is_on(&mut self, entry: &Entry) -> bool {
        let value = self.variables.expand(&entry.value);
        match self.variables.known(&value) {
            Ok(value) => {
                let value = value.to_lowercase();
                ["1", "y", "yes", "t", "true"].contains(&value.trim())
            }
            Err(reason) => {
                self.leave_out("scheduler", entry, reason);
                true
            }
        }
    }

    fn devices(&mut self, value: &str) -> Devices {
        let value = self.variables.expand(value);
        let numbers: Option<Vec<&str>> = value
            .split(',')
            .map(|name| name.trim().strip_prefix("cpu"))
            .collect();
        let cpus = numbers.and_then(|numbers| numbers.join(",").parse::<CpuSet>().ok());
        if value == "*" {
            Devices::All
        } else if value.chars().eq([MEASURED]) || cpus.is_some() && cpus == self.variables.isolated
        {
            Devices::Isolated
        } else {
            Devices::Other
        }
    }

    /// Converts an option.
    ///
    /// # Errors
    /// Returns the reason if it is not part of the result.
    fn option(
        &mut self,
        plugin: &str,
        section: &str,
        devices: Devices,
        entry: &Entry,
    ) -> Result<(), String> {
        if plugin == "script" || entry.name.starts_with("script_") {
            return Err("scripts are never run".to_owned());
        }
        let name = self.variables.expand(&entry.name);
        let name = self.variables.known(&name)?.to_owned();
        let value = self.variables.expand(&entry.value);
        let value = self.variables.known(&value)?.trim();
        let value = match plugin {
            "sysctl" => unquoted(value),
            _ => value,
        };
        if (plugin, name.as_str()) == ("scheduler", ISOLATED) {
            return self.isolate(section, entry, value);
        }
        if (plugin, name.as_str()) == ("scheduler", "default_irq_smp_affinity") {
            match value {
                // TuneD sets the default affinity only when it moves the interrupts.
                _ if !self.moves_interrupts => return Ok(()),
                // It is the default.
                "calc" => return Ok(()),
                "ignore" => {
                    self.import
                        .settings
                        .retain(|taken| taken.key != "default-irq-affinity");
                    return Ok(());
                }
                _ => {}
            }
        }
        let mut rows = ROWS.iter();
        if let Some(row) = rows.find(|row| (row.plugin, row.option) == (plugin, &*name)) {
            let setting = setting(row.setting).map_err(|error| error.to_string())?;
            let chosen = self.chosen(section, entry, row.form, value);
            let value = to_setting(setting, row.form, chosen)?;
            let key = match (setting.scope, devices) {
                (Scope::Machine, _) | (_, Devices::Isolated) => setting.name.to_owned(),
                (_, Devices::All) => setting.named("*"),
                (_, Devices::Other) => {
                    return Err(
                        "the devices of this section are not the isolated CPUs: use \
                                --set SETTING@INSTANCE=VALUE"
                            .to_owned(),
                    );
                }
            };
            return self.put(setting, key, value, section, entry);
        }
        let path = match plugin {
            "sysctl" => format!("/proc/sys/{}", name.replace('.', "/")),
            "sysfs" => name,
            "scheduler" if name.starts_with("group.") => {
                return Err(
                    "groups of processes are not changed: use punctual exec, or the \
                            setting thread-priority"
                        .to_owned(),
                );
            }
            _ => {
                return Err(format!(
                    "punctual has no counterpart in the plug-in {plugin}"
                ));
            }
        };
        let (setting, instance) =
            setting_of(&path).ok_or_else(|| format!("punctual has no setting for {path}"))?;
        let value = to_setting(setting, Form::Same, value)?;
        let key = match (instance.as_deref(), setting.scope) {
            (None, _) | (Some("*"), Scope::Machine) => setting.name.to_owned(),
            (Some(instance), _) => setting.named(instance),
        };
        self.put(setting, key, value, section, entry)
    }

    /// Returns the alternative of a value that is used. TuneD tries the alternatives in order.
    fn chosen<'v>(&mut self, section: &str, entry: &Entry, form: Form, value: &'v str) -> &'v str {
        let mut alternatives = value.split('|').map(str::trim);
        let first = alternatives.clone().next().unwrap_or(value);
        if !value.contains('|') {
            return value;
        }
        let number =
            |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let chosen = match form {
            // Which latency an idle state has is known only on the machine.
            Form::Latency => alternatives.find(number).unwrap_or(first),
            _ => first,
        };
        let reason = format!("of several values that TuneD tries in order, {chosen} is used");
        self.leave_out(section, entry, reason);
        chosen
    }

    /// Converts the isolated CPUs of the scheduler.
    fn isolate(&mut self, section: &str, entry: &Entry, value: &str) -> Result<(), String> {
        let cpus = value.parse::<CpuSet>().ok();
        let is_isolated = cpus.is_some() && cpus == self.variables.isolated;
        if !is_isolated && !value.chars().eq([MEASURED]) {
            return Err(
                "the value is not a list of CPUs, or not that of the variable \
                        isolated_cores"
                    .to_owned(),
            );
        }
        if !self.moves_interrupts {
            return Err(
                "irq_process=false leaves the interrupts where they are, and processes are not \
                 moved: use the setting cpuset-partition"
                    .to_owned(),
            );
        }
        for name in ["irq-affinity", "default-irq-affinity"] {
            let setting = setting(name).map_err(|error| error.to_string())?;
            let value = "housekeeping".to_owned();
            self.put(setting, name.to_owned(), value, section, entry)?;
        }
        Err(
            "interrupts are moved to other CPUs, but processes are not: use the setting \
             cpuset-partition"
                .to_owned(),
        )
    }

    /// Adds a setting. A later line replaces earlier ones, as in TuneD.
    fn put(
        &mut self,
        setting: &Setting,
        key: String,
        value: String,
        section: &str,
        entry: &Entry,
    ) -> Result<(), String> {
        sound(setting, &value).map_err(|error| error.to_string())?;
        let is_wide = key == setting.name || key.ends_with("@*");
        let replaces = |old: &Taken| {
            let same_setting = old.key.split('@').next() == Some(setting.name);
            old.key == key || is_wide && same_setting
        };
        let (old, kept) = std::mem::take(&mut self.import.settings)
            .into_iter()
            .partition::<Vec<Taken>, _>(replaces);
        self.import.settings = kept;
        for old in old
            .into_iter()
            .filter(|old| old.value.as_ref() != Some(&value))
        {
            self.import.left_out.push(NotImported {
                reason: format!("replaced by {}", entry.at()),
                ..old.from
            });
        }
        self.import.settings.push(Taken {
            key,
            value: Some(value),
            from: listed(section, entry, ""),
        });
        Ok(())
    }

    /// Converts the parameters of the kernel's command line.
    fn bootloader(&mut self, section: &Section) {
        for entry in &section.entries {
            if !entry.name.starts_with("cmdline") {
                self.leave_out(
                    &section.name,
                    entry,
                    "only the kernel's command line is imported",
                );
                continue;
            }
            let line = self.variables.expand(&entry.value);
            if let Some(removed) = line.strip_prefix('-') {
                // TuneD removes parameters that other lines have added.
                let words: Vec<&str> = removed.split_whitespace().collect();
                let text = |taken: &Taken| match &taken.value {
                    Some(value) => format!("{}={value}", taken.key),
                    None => taken.key.clone(),
                };
                self.import
                    .boot
                    .retain(|taken| !words.contains(&&*text(taken)));
                continue;
            }
            let line = line.strip_prefix(['+', '\\']).unwrap_or(&line);
            for word in line.split_whitespace() {
                if let Err(reason) = self.parameter(&section.name, entry, word) {
                    let name = word.split('=').next().unwrap_or_default();
                    let name: String = name.chars().filter(|c| !c.is_control()).collect();
                    self.leave_out(&section.name, entry, format!("{name}: {reason}"));
                }
            }
        }
    }

    fn parameter(&mut self, section: &str, entry: &Entry, word: &str) -> Result<(), String> {
        let word = self.variables.known(word)?;
        let is_odd = word.contains(['"', '{', '}']) || word.ends_with("=recommended");
        if is_odd || word.starts_with('=') {
            return Err("this is not a parameter of the kernel's command line".to_owned());
        }
        if word.contains([MEASURED_MASK, OTHERS_MASK]) {
            return Err("punctual writes CPUs only as a list".to_owned());
        }
        let word = word
            .replace(MEASURED, "{measured}")
            .replace(OTHERS, "{housekeeping}");
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        if key.contains('{') {
            return Err("this is not a parameter of the kernel's command line".to_owned());
        }
        let taken = Taken {
            key,
            value,
            from: listed(section, entry, ""),
        };
        match self.import.boot.iter_mut().find(|old| old.key == taken.key) {
            Some(old) if old.value == taken.value => {}
            Some(old) => {
                let reason = format!("{}: replaced by {}", old.key, entry.at());
                let from = std::mem::replace(old, taken).from;
                self.import.left_out.push(NotImported { reason, ..from });
            }
            None => self.import.boot.push(taken),
        }
        Ok(())
    }
}

fn unquoted(value: &str) -> &str {
    let inner = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}
