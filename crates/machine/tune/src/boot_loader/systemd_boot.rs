//! systemd-boot. Each entry is a file (Boot Loader Specification, type 1), and `bootctl
//! set-oneshot` chooses an entry for one boot.

use punctual_host::Host;
use punctual_model::WrittenFile;

use super::{BootEntry, BootError, RunProgram, below, file, text, words};
use crate::boot_files::ENTRIES;

/// Folder that contains the variables of the Boot Loader Interface.
const VARIABLES: &str = "/sys/firmware/efi/efivars";
const VENDOR: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// The reason why systemd-boot cannot boot an entry once.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSystemdBoot {
    #[error("systemd-boot did not boot this machine")]
    NotBooted,
    #[error("{0} booted this machine")]
    OtherLoader(String),
    #[error("the booted entry is unknown")]
    NoSelection,
    #[error("'{0}' is not the name of an entry")]
    NotAName(String),
    #[error("there is no file for the entry {0}")]
    NoFile(String),
}

/// The systemd-boot installation that booted the running kernel.
#[derive(Clone, Debug)]
pub struct SystemdBoot {
    /// Folder of the entries.
    folder: &'static str,
    /// Text of the running kernel's entry.
    entry: String,
}

impl SystemdBoot {
    pub(super) fn detect(host: &Host) -> Result<Self, NoSystemdBoot> {
        let loader = variable(host, "LoaderInfo").ok_or(NoSystemdBoot::NotBooted)?;
        if !loader.starts_with("systemd-boot") {
            return Err(NoSystemdBoot::OtherLoader(loader));
        }
        let selected = variable(host, "LoaderEntrySelected").ok_or(NoSystemdBoot::NoSelection)?;
        if selected.contains('/') {
            return Err(NoSystemdBoot::NotAName(selected));
        }
        for folder in ENTRIES {
            let path = below(host, &format!("{folder}/{selected}"));
            if let Ok(Some(entry)) = text(&path) {
                return Ok(Self { folder, entry });
            }
        }
        Err(NoSystemdBoot::NoFile(selected))
    }

    pub(super) fn entries(
        &self,
        host: &Host,
        entries: &[BootEntry],
    ) -> Result<Vec<WrittenFile>, BootError> {
        let made = entries.iter().map(|entry| {
            let path = format!("{}/{}.conf", self.folder, entry.id);
            file(host, &path, |_| self.entry_of(entry))
        });
        made.collect()
    }

    /// Returns a copy of the running kernel's entry, with the name and words of this entry.
    fn entry_of(&self, entry: &BootEntry) -> String {
        let mut made = format!("title punctual: {}\n", entry.title);
        let mut options = Vec::new();
        for line in self.entry.lines() {
            let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            match key {
                "title" | "sort-key" => {}
                "options" => options.push(value.trim()),
                _ => made.push_str(&format!("{line}\n")),
            }
        }
        let options = words::with_words(&options.join(" "), &entry.words);
        made + &format!("options {options}\n")
    }
}

pub(super) fn choose(id: &str, run: RunProgram<'_>) -> Result<(), BootError> {
    let name = if id.is_empty() {
        String::new()
    } else {
        format!("{id}.conf")
    };
    run(&["bootctl", "set-oneshot", &name]).map_err(|error| BootError::Command {
        command: format!("bootctl set-oneshot '{name}'"),
        why: error.to_string(),
    })
}

pub(super) fn forget(host: &Host, prefix: &str, run: RunProgram<'_>) -> Result<bool, BootError> {
    let chosen = variable(host, "LoaderEntryOneShot");
    let ours = chosen.is_some_and(|chosen| chosen.starts_with(prefix));
    if ours {
        choose("", run)?;
    }
    Ok(ours)
}

/// Reads a variable, which consists of four bytes of attributes and a text in UTF-16 that ends with
/// a zero.
fn variable(host: &Host, name: &str) -> Option<String> {
    let path = below(host, &format!("{VARIABLES}/{name}-{VENDOR}"));
    let bytes = punctual_files::Budget::bytes(1 << 16).read(&path).ok()?;
    let units = bytes.get(4..)?.chunks_exact(2);
    let units: Vec<u16> = units
        .map(|two| u16::from_le_bytes([two[0], two[1]]))
        .take_while(|unit| *unit != 0)
        .collect();
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_boot_lacks_is_named() {
        use NoSystemdBoot::*;
        for (why, text) in [
            (NotBooted, "systemd-boot did not boot this machine"),
            (
                OtherLoader("rEFInd 0.14".to_owned()),
                "rEFInd 0.14 booted this machine",
            ),
            (NoSelection, "the booted entry is unknown"),
            (
                NotAName("a/b".to_owned()),
                "'a/b' is not the name of an entry",
            ),
            (
                NoFile("arch.conf".to_owned()),
                "there is no file for the entry arch.conf",
            ),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }
}
