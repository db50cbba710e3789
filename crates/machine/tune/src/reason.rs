//! Explains why a setting was refused, depending on the caller's privileges.

use std::io;
use std::path::PathBuf;

use crate::TuneError;
use crate::target::Target;

/// Number of CAP_SYS_ADMIN in capabilities(7). Most settings require this capability in addition to
/// the user ID of root.
const CAP_SYS_ADMIN: u32 = 21;
/// Contents that the ID map has in the initial user namespace (user_namespaces(7)).
const ALL_IDS: [&str; 3] = ["0", "0", "4294967295"];

/// The privileges of the calling process.
#[derive(Debug, PartialEq, Eq)]
enum Caller {
    /// An ordinary user.
    User,
    /// Root only within a user namespace.
    Namespace,
    /// Root without the capability, as in most containers.
    Stripped,
    /// Root on a locked-down kernel, with the lockdown level.
    LockedDown(String),
    /// Root without a known restriction.
    Root,
}

impl Caller {
    /// Detects the privileges. Returns `None` if /proc does not contain the required fields.
    fn from_target(target: &Target<'_>) -> Option<Self> {
        let status = target.text("/proc/self/status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().to_owned())
        };
        // The fields are the real, effective, saved and file system user IDs: proc_pid_status(5).
        let uid = field("Uid:")?.split_whitespace().nth(1)?.to_owned();
        if uid != "0" {
            return Some(Self::User);
        }
        if let Some(map) = target.text("/proc/self/uid_map")
            && map.split_whitespace().collect::<Vec<_>>() != ALL_IDS
        {
            return Some(Self::Namespace);
        }
        let capabilities = field("CapEff:").and_then(|bits| u64::from_str_radix(&bits, 16).ok());
        if capabilities.is_some_and(|bits| bits & 1 << CAP_SYS_ADMIN == 0) {
            return Some(Self::Stripped);
        }
        let lockdown = target.text("/sys/kernel/security/lockdown");
        let marked = lockdown.as_deref().and_then(|text| {
            let (_, rest) = text.split_once('[')?;
            Some(rest.split_once(']')?.0)
        });
        Some(match marked {
            Some(level) if level != "none" => Self::LockedDown(level.to_owned()),
            _ => Self::Root,
        })
    }
}

/// Explains the kernel's error and how to proceed. The text begins with "; " or is empty. `known`
/// is the reason why this kernel refuses this setting to root; empty if unknown.
fn reason(target: &Target<'_>, source: &io::Error, known: &str) -> String {
    let text = match source.kind() {
        io::ErrorKind::PermissionDenied => match Caller::from_target(target) {
            Some(Caller::User) | None => "only root may change settings: use sudo".to_owned(),
            Some(Caller::Namespace) => "root in a user namespace (a container) is not root on the \
                                        machine: run this command on the machine itself"
                .to_owned(),
            Some(Caller::Stripped) => "this process lacks CAP_SYS_ADMIN, as in most containers: \
                                       run this command on the machine itself"
                .to_owned(),
            Some(Caller::LockedDown(level)) => {
                format!("the kernel is locked down ({level}), see kernel_lockdown(7)")
            }
            Some(Caller::Root) if !known.is_empty() => known.to_owned(),
            Some(Caller::Root) => "the kernel or the firmware refuses this even to root".to_owned(),
        },
        io::ErrorKind::ReadOnlyFilesystem => "the file system is mounted read-only, as in most \
                                              containers: run this command on the machine itself"
            .to_owned(),
        io::ErrorKind::InvalidInput => "the kernel does not accept this value now".to_owned(),
        io::ErrorKind::Unsupported => "the driver cannot do that".to_owned(),
        io::ErrorKind::ResourceBusy => "another setting in force excludes this value".to_owned(),
        io::ErrorKind::NotFound => "this kernel does not have the file, or the device has been \
                                    removed"
            .to_owned(),
        _ if source.raw_os_error() == Some(EIO) => "the device or its firmware refused".to_owned(),
        _ => return String::new(),
    };
    format!("; {text}")
}

/// `EIO` from errno(3), which has no `ErrorKind`.
const EIO: i32 = 5;

impl Target<'_> {
    /// Creates the error for a setting that could not be written, with the reason that applies to
    /// this caller.
    pub(crate) fn not_written(&self, path: PathBuf, source: io::Error) -> TuneError {
        self.refused(path, source, "")
    }

    /// Creates the error like [`not_written`](Self::not_written). `known` is the reason why this
    /// kernel refuses the setting to root.
    pub(crate) fn refused(&self, path: PathBuf, source: io::Error, known: &str) -> TuneError {
        TuneError::Write {
            reason: reason(self, &source, known),
            path,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Files;
    use crate::testing::Machine;

    #[test]
    fn the_reason_fits_the_caller() {
        let machine = Machine::new();
        let advice = |errno: i32, known: &str| {
            let target = Target::plain(&Files, machine.host());
            reason(&target, &io::Error::from_raw_os_error(errno), known)
        };
        let status = |uid: u32, bits: &str| {
            let text = format!("Name:\tx\nUid:\t1000\t{uid}\t{uid}\t{uid}\nCapEff:\t{bits}\n");
            machine.write("proc/self/status", &text);
        };
        assert!(advice(13, "").contains("use sudo"));
        status(1000, "0000000000000000");
        assert!(advice(13, "").contains("use sudo"));
        status(0, "00000000a80425fb");
        assert!(advice(1, "").contains("lacks CAP_SYS_ADMIN"));
        status(0, "000001ffffffffff");
        machine.write("proc/self/uid_map", "         0       1000          1\n");
        assert!(advice(1, "").contains("user namespace"));
        machine.write("proc/self/uid_map", "         0          0 4294967295\n");
        machine.write(
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        );
        assert!(advice(1, "").contains("locked down (integrity)"));
        machine.write(
            "sys/kernel/security/lockdown",
            "[none] integrity confidentiality\n",
        );
        assert_eq!(
            advice(1, ""),
            "; the kernel or the firmware refuses this even to root"
        );
        assert_eq!(advice(1, "the firmware"), "; the firmware");
        for (errno, part) in [
            (30, "read-only"),
            (22, "this value"),
            (16, "excludes"),
            (5, "firmware refused"),
            (95, "driver"),
        ] {
            assert!(advice(errno, "x").contains(part), "{errno}");
            assert!(!advice(errno, "x").contains("sudo"), "{errno}");
        }
        assert_eq!(advice(28, ""), "");
    }
}
