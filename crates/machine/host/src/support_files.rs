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
        assert_eq!(files.len(), FILES.len() + 2);
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
    fn each_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), FILES.len());
    }
}
