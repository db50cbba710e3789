//! Reads a PTP hardware clock together with the system clock (`include/uapi/linux/ptp_clock.h`).
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The system call that reads both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtpMethod {
    /// `PTP_SYS_OFFSET_EXTENDED`: the driver reads the system clock immediately before and after it
    /// reads the lowest bits of the hardware clock.
    Extended,
    /// `PTP_SYS_OFFSET`: the kernel reads the system clock before and after it calls the driver.
    Basic,
}

impl PtpMethod {
    /// Returns the name of the request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Extended => "PTP_SYS_OFFSET_EXTENDED",
            Self::Basic => "PTP_SYS_OFFSET",
        }
    }
}

/// One reading of a hardware clock between two readings of CLOCK_REALTIME. All times are
/// nanoseconds since the epoch of their clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtpReading {
    /// The system time before.
    pub before: i64,
    /// The time of the hardware clock.
    pub device: i64,
    /// The system time after.
    pub after: i64,
}

impl PtpReading {
    /// Returns the time between the two readings of the system clock. The hardware clock was read
    /// at an unknown point within it. `None` if the system clock was set back in the meantime.
    pub fn window(&self) -> Option<u64> {
        u64::try_from(self.after.checked_sub(self.before)?).ok()
    }

    /// Returns the time of the hardware clock minus the system time in the middle of the window.
    /// The true offset differs from it by at most half of the window.
    pub fn offset(&self) -> i64 {
        let half = self.after.saturating_sub(self.before) / 2;
        self.device.saturating_sub(self.before.saturating_add(half))
    }
}

/// An open PTP hardware clock, such as `/dev/ptp0`.
#[derive(Debug)]
pub struct PtpClock {
    file: File,
    path: PathBuf,
    method: PtpMethod,
}

impl PtpClock {
    /// The largest number of readings of one call (`PTP_MAX_SAMPLES`).
    pub const MOST: usize = libc::PTP_MAX_SAMPLES as usize;

    /// Opens a clock for reading, and chooses the best method that its driver supports.
    ///
    /// # Errors
    /// Returns [`Error::PtpAbsent`], [`Error::PtpRefused`] or [`Error::PtpNoClock`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let opened = OpenOptions::new()
            .read(true)
            // Opening a FIFO would otherwise wait for a writer.
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let file = opened.map_err(|source| unopened(path, source))?;
        // SAFETY: the structure consists of integers, and zero is a valid integer.
        let mut abilities: libc::ptp_clock_caps = unsafe { std::mem::zeroed() };
        // SAFETY: the request writes one structure of this type (ptp_ioctl in
        // drivers/ptp/ptp_chardev.c), and the pointer is valid until the call returns.
        let asked = unsafe {
            libc::ioctl(
                file.as_raw_fd(),
                libc::PTP_CLOCK_GETCAPS,
                &raw mut abilities,
            )
        };
        if asked != 0 {
            return Err(Error::PtpNoClock {
                path: path.to_owned(),
                source: io::Error::last_os_error(),
            });
        }
        let mut clock = Self {
            file,
            path: path.to_owned(),
            method: PtpMethod::Extended,
        };
        let mut one = [PtpReading::default(); Self::MOST];
        if let Err(source) = clock.extended(1, &mut one) {
            if !is_unknown(&source) {
                return Err(clock.unread(source));
            }
            clock.method = PtpMethod::Basic;
            clock
                .basic(1, &mut one)
                .map_err(|source| clock.unread(source))?;
        }
        Ok(clock)
    }

    /// Returns the system call that reads the clock.
    pub fn method(&self) -> PtpMethod {
        self.method
    }

    /// Reads the clock `count` times, at most [`MOST`](Self::MOST) times. Returns the number of
    /// readings at the start of `into`. Allocates nothing unless it fails.
    ///
    /// # Errors
    /// Returns [`Error::Os`], for example if the device was removed.
    pub fn read(
        &mut self,
        count: usize,
        into: &mut [PtpReading; Self::MOST],
    ) -> Result<usize, Error> {
        let count = count.clamp(1, Self::MOST);
        let read = match self.method {
            PtpMethod::Extended => self.extended(count, into),
            PtpMethod::Basic => self.basic(count, into),
        };
        match read {
            Ok(()) => Ok(count),
            Err(source) => Err(self.unread(source)),
        }
    }

    fn unread(&self, source: io::Error) -> Error {
        Error::os("ioctl", self.path.display().to_string(), source)
    }

    fn extended(&self, count: usize, into: &mut [PtpReading; Self::MOST]) -> io::Result<()> {
        // SAFETY: the structure consists of integers, and zero is a valid integer.
        let mut data: libc::ptp_sys_offset_extended = unsafe { std::mem::zeroed() };
        data.n_samples = count as libc::c_uint;
        // SAFETY: the request reads and writes one structure of this type, and `n_samples` is at
        // most PTP_MAX_SAMPLES. The pointer is valid until the call returns.
        let done = unsafe {
            libc::ioctl(
                self.file.as_raw_fd(),
                libc::PTP_SYS_OFFSET_EXTENDED,
                &raw mut data,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        for (reading, [before, device, after]) in into.iter_mut().zip(&data.ts).take(count) {
            *reading = PtpReading {
                before: nanos(before),
                device: nanos(device),
                after: nanos(after),
            };
        }
        Ok(())
    }

    fn basic(&self, count: usize, into: &mut [PtpReading; Self::MOST]) -> io::Result<()> {
        // SAFETY: the structure consists of integers, and zero is a valid integer.
        let mut data: libc::ptp_sys_offset = unsafe { std::mem::zeroed() };
        data.n_samples = count as libc::c_uint;
        // SAFETY: as for `extended`.
        let done =
            unsafe { libc::ioctl(self.file.as_raw_fd(), libc::PTP_SYS_OFFSET, &raw mut data) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        // The times alternate: system, device, system, device, …, system.
        for (place, reading) in into.iter_mut().enumerate().take(count) {
            let at = |time: usize| data.ts.get(2 * place + time).map_or(0, nanos);
            *reading = PtpReading {
                before: at(0),
                device: at(1),
                after: at(2),
            };
        }
        Ok(())
    }
}

/// Returns a time as nanoseconds.
fn nanos(time: &libc::ptp_clock_time) -> i64 {
    let seconds = time.sec.saturating_mul(1_000_000_000);
    seconds.saturating_add(i64::from(time.nsec))
}

/// Returns whether the driver or the kernel does not know a request. Kernels before 5.0 return
/// ENOTTY, drivers without the function EOPNOTSUPP.
fn is_unknown(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL)
    )
}

fn unopened(path: &Path, source: io::Error) -> Error {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => Error::PtpAbsent { path },
        io::ErrorKind::PermissionDenied => Error::PtpRefused { path, source },
        _ => Error::os("open", path.display().to_string(), source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_from_the_middle_of_the_window() {
        let reading = PtpReading {
            before: 1_000,
            device: 5_000,
            after: 1_100,
        };
        assert_eq!((reading.window(), reading.offset()), (Some(100), 3_950));
        let behind = PtpReading {
            device: 0,
            ..reading
        };
        assert_eq!(behind.offset(), -1_050);
        let set_back = PtpReading {
            after: 999,
            ..reading
        };
        assert_eq!(set_back.window(), None);
        let extreme = PtpReading {
            before: i64::MIN,
            device: i64::MAX,
            after: i64::MAX,
        };
        assert_eq!(extreme.window(), None);
        let _ = extreme.offset();
    }

    #[test]
    fn a_time_never_overflows() {
        let time = |sec, nsec| {
            nanos(&libc::ptp_clock_time {
                sec,
                nsec,
                reserved: 0,
            })
        };
        assert_eq!(time(2, 5), 2_000_000_005);
        assert_eq!(time(i64::MAX, 5), i64::MAX);
        assert_eq!(time(-1, 999_999_999), -1);
    }

    #[test]
    fn other_files_are_not_clocks() {
        let error = PtpClock::open(Path::new("/dev/null")).unwrap_err();
        assert!(matches!(error, Error::PtpNoClock { .. }), "{error}");
        assert!(error.to_string().contains("is not a PTP clock"), "{error}");
        let error = PtpClock::open(Path::new("/dev/no-such-clock")).unwrap_err();
        assert!(matches!(error, Error::PtpAbsent { .. }), "{error}");
        assert!(!error.is_privilege());
        let refused = unopened(
            Path::new("/dev/ptp0"),
            io::ErrorKind::PermissionDenied.into(),
        );
        assert!(refused.is_privilege(), "{refused}");
    }

    #[test]
    fn real_clock_is_read_between_two_system_times() {
        let path = Path::new("/dev/ptp0");
        let mut clock = match PtpClock::open(path) {
            Ok(clock) => clock,
            Err(error @ Error::PtpAbsent { .. }) => {
                punctual_testing::skip!(Hardware, "no PTP clock to read: {error}");
                return;
            }
            Err(error) if error.is_privilege() => {
                punctual_testing::skip!(Right, "{error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let mut readings = [PtpReading::default(); PtpClock::MOST];
        assert_eq!(clock.read(3, &mut readings).unwrap(), 3);
        for reading in &readings[..3] {
            assert!(reading.before > 0 && reading.device != 0, "{reading:?}");
        }
        assert_eq!(clock.read(99, &mut readings).unwrap(), PtpClock::MOST);
    }
}
