//! Unchanged files of the machine for a support request.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use crate::facts::{NoConfig, find_config};
use crate::root::Root;
use crate::unread::Unread;

/// A file of the machine, for a support request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupportFile {
    /// Name in a bundle, such as `interrupts.txt`.
    pub name: &'static str,
    /// Path on the machine.
    pub source: String,
    /// Contents of the file, or the reason why they are unknown.
    pub content: Result<Vec<u8>, NoSupportFile>,
}

/// The reason why a file for a support request is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSupportFile {
    /// The file could not be read.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// The file is the kernel's configuration, and none was found.
    #[error(transparent)]
    NoConfig(#[from] NoConfig),
}

/// Name in the bundle and path on the machine of each file.
const FILES: [(&str, &str); 9] = [
    ("cmdline.txt", "/proc/cmdline"),
    ("version.txt", "/proc/version"),
    ("interrupts.txt", "/proc/interrupts"),
    ("softirqs.txt", "/proc/softirqs"),
    ("cpuinfo.txt", "/proc/cpuinfo"),
    ("meminfo.txt", "/proc/meminfo"),
    ("modules.txt", "/proc/modules"),
    ("iomem.txt", "/proc/iomem"),
    ("os-release.txt", "/etc/os-release"),
];

/// Maximum length of a record of the kernel's log in bytes (`PRINTKRB_RECORD_MAX`).
const RECORD: usize = 8_192;

/// Maximum size of the log in bytes.
const LOG_BYTES: usize = 16 << 20;

pub(crate) fn all(root: &Root) -> Vec<SupportFile> {
    let mut files: Vec<SupportFile> = FILES.map(|(name, file)| read(root, name, file)).into();
    let (source, config) = find_config(root);
    files.push(SupportFile {
        name: "kernel-config.txt",
        source,
        content: config.map(String::into_bytes).map_err(Into::into),
    });
    files.push(SupportFile {
        name: "lspci.txt",
        source: format!("{PCI}/*"),
        content: pci(root).map_err(Into::into),
    });
    files.push(SupportFile {
        name: "dmesg.txt",
        source: "/dev/kmsg".to_owned(),
        content: log(root).map_err(|error| root.reason(&error).into()),
    });
    files
}

fn read(root: &Root, name: &'static str, file: &str) -> SupportFile {
    SupportFile {
        name,
        source: file.to_owned(),
        content: (root.bytes(file)).map_err(|error| root.reason(&error).into()),
    }
}

/// Folder with the PCI devices.
const PCI: &str = "/sys/bus/pci/devices";

/// Files of a PCI device that lspci shows in addition to the configuration space.
const OF_DEVICE: [&str; 12] = [
    "vendor",
    "device",
    "class",
    "irq",
    "numa_node",
    "local_cpulist",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "power/control",
    "resource",
];

/// Returns the PCI devices in the form of `lspci -xxxx`, so that `lspci -F lspci.txt -vv` shows them.
/// Without privileges, the kernel shows only the first 64 bytes of each configuration space.
fn pci(root: &Root) -> Result<Vec<u8>, Unread> {
    use std::fmt::Write as _;
    let mut devices = root.names(PCI)?;
    devices.sort();
    let mut text = String::from("# Show it with: lspci -F lspci.txt -vv\n");
    for device in devices {
        let folder = format!("{PCI}/{device}");
        let driver = std::fs::read_link(root.path().join(format!("{}/driver", &folder[1..])));
        let driver = driver.ok().and_then(|link| {
            let name = link.file_name()?.to_string_lossy().into_owned();
            Some(name)
        });
        let _ = writeln!(
            text,
            "{device} driver: {}",
            driver.as_deref().unwrap_or("none")
        );
        for name in OF_DEVICE {
            let Ok(bytes) = root.bytes(&format!("{folder}/{name}")) else {
                continue;
            };
            for line in String::from_utf8_lossy(&bytes).lines() {
                let _ = writeln!(text, "\t{name}: {line}");
            }
        }
        let config = root.bytes(&format!("{folder}/config")).unwrap_or_default();
        for (row, bytes) in config.chunks(16).enumerate() {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(text, "{:02x}: {}", row * 16, hex.join(" "));
        }
        text.push('\n');
    }
    Ok(text.into_bytes())
}

/// Reads the kernel's log (`Documentation/ABI/testing/dev-kmsg`). Each read returns one record, or
/// an error if there are no more records.
fn log(root: &Root) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(root.path().join("dev/kmsg"))?;
    let mut log = Vec::new();
    let mut record = vec![0; RECORD];
    while log.len() < LOG_BYTES {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(count) => log.extend_from_slice(&record[..count]),
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock => break,
                // The record was overwritten before it was read, so continue with the next one.
                std::io::ErrorKind::BrokenPipe => {}
                _ => return Err(error),
            },
        }
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned());
        let files = all(&root);
        assert_eq!(files.len(), FILES.len() + 3);
        for file in files {
            let reason = match file.name {
                "kernel-config.txt" => "no kernel configuration found",
                _ => "not there",
            };
            assert_eq!(
                file.content.unwrap_err().to_string(),
                reason,
                "{}",
                file.name
            );
        }
    }

    #[test]
    fn existing_file_is_read_verbatim() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/cmdline"), b"quiet\xff\n").unwrap();
        let files = all(&Root::new(folder.path().to_owned()));
        assert_eq!(files[0].content.as_deref(), Ok(&b"quiet\xff\n"[..]));
    }

    #[test]
    fn pci_devices_have_the_form_of_lspci() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("sys/bus/pci/devices/0000:00:02.0");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("irq"), "11\n").unwrap();
        std::fs::write(device.join("config"), [0x86, 0x80].repeat(9)).unwrap();
        std::os::unix::fs::symlink("../../drivers/e1000e", device.join("driver")).unwrap();
        let text = pci(&Root::new(folder.path().to_owned())).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (_, text) = text.split_once('\n').unwrap();
        assert_eq!(
            text,
            format!(
                "0000:00:02.0 driver: e1000e\n\tirq: 11\n00: {}\n10: 86 80\n\n",
                ["86 80"; 8].join(" ")
            )
        );
    }

    #[test]
    fn each_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), FILES.len());
    }
}
