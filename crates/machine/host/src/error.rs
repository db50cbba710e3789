//! Errors for required facts that cannot be read.

use std::io;

use punctual_model::CpuSetError;

/// The reason why a required fact could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}; is {} mounted?", mount_of(path))]
    Read {
        /// Path of the file, without the root path.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file does not contain a CPU list.
    #[error("{path} does not contain a CPU list: {source}")]
    CpuList {
        /// Path of the file, without the root path.
        path: String,
        /// The reason why the text is not a CPU list.
        source: CpuSetError,
    },
    /// The file is not a table.
    #[error("{path} {reason}")]
    Unexpected {
        /// Path of the file, without the root path.
        path: String,
        /// The reason why the text is not a table.
        reason: NoHeader,
    },
    /// The file has no such field.
    #[error("{path} has no line '{field}'")]
    NoField {
        /// Path of the file, without the root path.
        path: String,
        /// The missing field.
        field: &'static str,
    },
}

/// The header of a table of counters names no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has no header of CPUs")]
pub struct NoHeader;

/// Returns `/proc` for `/proc/self/status`.
fn mount_of(path: &str) -> &str {
    match path.get(1..).and_then(|rest| rest.find('/')) {
        Some(end) => &path[..=end],
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_said() {
        let error = |path: &str| {
            HostError::Read {
                path: path.to_owned(),
                source: io::Error::from(io::ErrorKind::NotFound),
            }
            .to_string()
        };
        assert!(error("/proc/self/status").ends_with("is /proc mounted?"));
        assert!(error("/sys/devices/system/cpu/online").ends_with("is /sys mounted?"));
        assert!(error("x").ends_with("is x mounted?"));
        assert!(error("").contains("cannot read"));
        let unexpected = HostError::Unexpected {
            path: "/proc/interrupts".to_owned(),
            reason: NoHeader,
        };
        assert_eq!(
            unexpected.to_string(),
            "/proc/interrupts has no header of CPUs"
        );
    }
}
