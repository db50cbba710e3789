//! Keeps the CPUs out of deep idle states.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// A PM QoS request that keeps all CPUs out of idle states with a longer exit latency than this. It
/// applies to the whole machine until this value is dropped
/// (`Documentation/power/pm_qos_interface.rst`, `kernel/power/qos.c`). The kernel drops the request
/// when the process ends for any reason.
#[derive(Debug)]
pub struct DmaLatency {
    // The request is valid while the file is open.
    file: File,
    path: PathBuf,
    micros: i32,
}

impl DmaLatency {
    /// The file that accepts the request.
    pub const DEFAULT_PATH: &'static str = "/dev/cpu_dma_latency";

    /// Requests an idle exit latency of at most `micros` microseconds. With 0, the CPUs poll or use
    /// only the shallowest state. `path` is [`Self::DEFAULT_PATH`] except in tests.
    ///
    /// # Errors
    /// Returns [`Error::DmaLatencyNegative`], [`Error::DmaLatencyAbsent`], or
    /// [`Error::DmaLatencyRefused`] if this process may not write the file.
    pub fn hold(path: &Path, micros: i32) -> Result<Self, Error> {
        if micros < 0 {
            return Err(Error::DmaLatencyNegative { micros });
        }
        let mut file = OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(|source| explain(path, "open", source))?;
        // A binary 32-bit number in native byte order. The kernel also accepts ten hexadecimal
        // digits as text.
        file.write_all(&micros.to_ne_bytes())
            .map_err(|source| explain(path, "write", source))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            micros,
        })
    }

    /// Returns the requested limit in microseconds.
    pub fn micros(&self) -> i32 {
        self.micros
    }

    /// Keeps the request in force for the command that this process executes with execve(2), and
    /// for its child processes.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn keep_for_command(&self) -> Result<(), Error> {
        rustix::io::fcntl_setfd(&self.file, rustix::io::FdFlags::empty())
            .map_err(|source| Error::os("fcntl", self.path.display().to_string(), source.into()))
    }

    /// Returns the path of the open file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn explain(path: &Path, call: &'static str, source: io::Error) -> Error {
    let path_owned = || path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => Error::DmaLatencyAbsent { path: path_owned() },
        io::ErrorKind::PermissionDenied => Error::DmaLatencyRefused {
            path: path_owned(),
            source,
        },
        _ => Error::os(call, path.display().to_string(), source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("punctual-rt-{name}-{}", std::process::id()))
    }

    #[test]
    fn the_number_is_written_in_binary() {
        let path = scratch("dma");
        std::fs::write(&path, b"").unwrap();
        let held = DmaLatency::hold(&path, 0x0102_0304).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), 0x0102_0304_i32.to_ne_bytes());
        assert_eq!((held.micros(), held.path()), (0x0102_0304, path.as_path()));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn absent_and_negative_are_named() {
        let path = scratch("absent");
        let error = DmaLatency::hold(&path, 0).unwrap_err();
        assert!(matches!(error, Error::DmaLatencyAbsent { .. }), "{error}");
        assert!(!path.exists(), "it must not be created");
        let error = DmaLatency::hold(&path, -1).unwrap_err();
        assert!(matches!(error, Error::DmaLatencyNegative { micros: -1 }));
    }

    #[test]
    fn kernel_shows_held_request() {
        let path = Path::new(DmaLatency::DEFAULT_PATH);
        let read = || {
            let bytes = std::fs::read(path).ok()?;
            Some(i32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let Some(before) = read() else {
            punctual_testing::skip!(Right, "{} is not readable here", path.display());
            return;
        };
        // Weaker than any real request, so that this test disturbs no other. The kernel reports the
        // strictest request, so this one is visible only if it is the strictest.
        let wish = 1_999_999_999;
        if before <= wish {
            punctual_testing::skip!(
                Quiet,
                "another request of {before} us is stricter than this test's"
            );
            return;
        }
        match DmaLatency::hold(path, wish) {
            Ok(held) => {
                assert_eq!(read(), Some(wish));
                drop(held);
                assert_eq!(read(), Some(before));
            }
            Err(error) => {
                assert!(error.is_privilege(), "{error}");
                punctual_testing::skip!(Right, "{error}");
            }
        }
    }
}
