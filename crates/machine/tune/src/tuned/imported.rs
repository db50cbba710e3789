//! The result of an import, as a profile of punctual.

use std::fmt::Write;
use std::path::PathBuf;

use punctual_model::CpuSet;

/// An option of a profile of TuneD that is not part of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotImported {
    /// Section.
    pub section: String,
    /// Option; empty for a section without options.
    pub option: String,
    /// Value, as the file contains it.
    pub value: String,
    /// File and line.
    pub at: String,
    /// Reason.
    pub reason: String,
}

/// A setting, or a parameter of the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// `name` or `name@instance`, or the name of the parameter.
    pub(super) key: String,
    /// `None` for a parameter without a value.
    pub(super) value: Option<String>,
    /// The line of TuneD.
    pub(super) from: NotImported,
}

/// A profile of TuneD, converted to a profile of punctual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunedImport {
    /// The files that were read, included ones first.
    pub files: Vec<PathBuf>,
    /// The CPUs that the profile isolates, for `--cpus`. `None` if the profile isolates no CPUs, or
    /// if they are known only on the machine.
    pub cpus: Option<CpuSet>,
    /// Options that are not part of the result, in the order of the files.
    pub left_out: Vec<NotImported>,
    pub(super) summary: String,
    pub(super) settings: Vec<Taken>,
    pub(super) boot: Vec<Taken>,
}

impl TunedImport {
    /// Returns the number of settings.
    pub fn settings(&self) -> usize {
        self.settings.len()
    }

    /// Returns the number of parameters of the kernel's command line.
    pub fn boot_parameters(&self) -> usize {
        self.boot.len()
    }

    /// Returns whether the profile needs `--cpus`.
    pub fn needs_cpus(&self) -> bool {
        let words = ["measured", "housekeeping"];
        let mut values = self
            .settings
            .iter()
            .chain(&self.boot)
            .flat_map(|taken| &taken.value);
        values.any(|value| words.iter().any(|word| value.contains(word)))
    }

    /// Returns the profile as TOML, for `tune apply`. Comments name the file and line of each
    /// setting, and the options that are not part of the profile.
    pub fn toml(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut text = String::from("# Imported from a profile of TuneD:\n");
        for file in &self.files {
            let _ = writeln!(text, "#   {}", one_line(&file.display().to_string()));
        }
        if self.needs_cpus() {
            text.push_str("# The words measured and housekeeping stand for the isolated CPUs and all others.\n");
            let _ = match &self.cpus {
                Some(cpus) => writeln!(
                    text,
                    "# The profile isolates these CPUs: pass --cpus {cpus}"
                ),
                None => writeln!(
                    text,
                    "# The isolated CPUs are known only on the machine: pass --cpus"
                ),
            };
        }
        let _ = writeln!(text, "summary = {}", quoted(&self.summary));
        let tables = [("settings", &self.settings), ("boot", &self.boot)];
        for (name, taken) in tables.iter().filter(|(_, taken)| !taken.is_empty()) {
            let _ = writeln!(text, "\n[{name}]");
            for Taken { key, value, from } in *taken {
                let value = value.as_deref().map_or("true".to_owned(), quoted);
                let _ = writeln!(text, "# {}", one_line(&from.at));
                let _ = writeln!(text, "{} = {value}", quoted(key));
            }
        }
        if !self.left_out.is_empty() {
            text.push_str("\n# Not imported:\n");
        }
        for left_out in &self.left_out {
            let _ = writeln!(text, "# {}", one_line(&left_out.named()));
            let _ = writeln!(
                text,
                "#   {}: {}",
                one_line(&left_out.at),
                one_line(&left_out.reason)
            );
        }
        text
    }
}

impl NotImported {
    /// Returns section and option.
    pub fn option(&self) -> String {
        format!("[{}] {}", self.section, self.option)
            .trim_end()
            .to_owned()
    }

    /// Returns section, option and value.
    fn named(&self) -> String {
        match self.value.as_str() {
            "" => self.option(),
            value => format!("{} = {value}", self.option()),
        }
    }
}

/// A comment ends at a line break.
pub(super) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
