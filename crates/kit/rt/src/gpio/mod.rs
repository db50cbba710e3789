//! Lines of a GPIO chip: edges of an input with the kernel's time stamps, and levels of an output
//! (kernel: Documentation/userspace-api/gpio/chardev.rst).
#![allow(unsafe_code)]

mod layout;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Duration;

use layout::{LineEvent, LineInfo, LineRequest, LineValues};

use crate::{Error, GpioError, Instant};

/// An open GPIO chip, such as `/dev/gpiochip0`.
#[derive(Debug)]
pub struct GpioChip {
    file: File,
    path: PathBuf,
    info: GpioChipInfo,
}

/// Name and size of a GPIO chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpioChipInfo {
    /// The kernel's name, such as `gpiochip0`.
    pub name: String,
    /// The name that its driver states.
    pub label: String,
    /// Number of lines.
    pub lines: u32,
}

/// Name and user of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpioLineInfo {
    /// The name of the line, from the device tree or the driver; empty if it has none.
    pub name: String,
    /// The user of the line. It can be empty although the line is used.
    pub consumer: String,
    /// Whether the kernel or a program uses the line.
    pub is_used: bool,
}

/// The edges that an input reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpioEdges {
    /// From low to high.
    Rising,
    /// From high to low.
    Falling,
    /// All.
    Both,
}

/// One edge of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpioEdge {
    /// The kernel's time stamp on CLOCK_MONOTONIC. The kernel takes it in the interrupt handler, or
    /// in a thread if the interrupts of the chip are handled in one.
    pub at: Instant,
    /// Number of this edge among those that the kernel saw since the line was requested, from 1. It
    /// wraps around. Edges that the kernel dropped leave a gap.
    pub number: u32,
}

/// A line that reports edges. The kernel releases it when the value is dropped.
#[derive(Debug)]
pub struct GpioInput(Line);

/// A line that is driven. The kernel releases it when the value is dropped. Most chips then keep its
/// level.
#[derive(Debug)]
pub struct GpioOutput(Line);

#[derive(Debug)]
struct Line {
    file: OwnedFd,
    path: PathBuf,
    offset: u32,
}

impl GpioChip {
    /// Number of edges that the kernel keeps for an input: the largest that it accepts (16 for each
    /// of GPIO_V2_LINES_MAX lines).
    pub const KEPT_EDGES: u32 = 16 * layout::MOST_LINES as u32;

    /// Opens a chip.
    ///
    /// # Errors
    /// Returns [`Error::Gpio`] if there is no such file, if this process may not open it, or if it
    /// is not a GPIO chip.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let opened = OpenOptions::new()
            .read(true)
            // Driving a line counts as writing. libgpiod opens chips in the same way.
            .write(true)
            // Opening a FIFO would otherwise wait for a writer.
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let file = opened.map_err(|source| unopened(path, source))?;
        let mut info = layout::ChipInfo::default();
        // SAFETY: the request writes one structure of this type (chipinfo_get in
        // drivers/gpio/gpiolib-cdev.c), and the pointer is valid until the call returns.
        let asked =
            unsafe { libc::ioctl(file.as_raw_fd(), layout::GET_CHIP_INFO as _, &raw mut info) };
        if asked != 0 {
            let path = path.to_owned();
            let source = io::Error::last_os_error();
            return Err(GpioError::NoChip { path, source }.into());
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            info: GpioChipInfo {
                name: layout::text(&info.name),
                label: layout::text(&info.label),
                lines: info.lines,
            },
        })
    }

    /// Returns the name and size of the chip.
    pub fn info(&self) -> &GpioChipInfo {
        &self.info
    }

    /// Returns the name and user of a line.
    ///
    /// # Errors
    /// Returns [`Error::Gpio`] if the chip has no such line, or if the kernel is too old.
    pub fn line(&self, offset: u32) -> Result<GpioLineInfo, Error> {
        self.check(offset)?;
        let mut info = LineInfo::default();
        info.offset = offset;
        // SAFETY: the request reads and writes one structure of this type (lineinfo_get), and the
        // pointer is valid until the call returns.
        let asked = unsafe {
            libc::ioctl(
                self.file.as_raw_fd(),
                layout::GET_LINE_INFO as _,
                &raw mut info,
            )
        };
        if asked != 0 {
            return Err(self.failed("GPIO_V2_GET_LINEINFO_IOCTL", io::Error::last_os_error()));
        }
        Ok(GpioLineInfo {
            name: layout::text(&info.name),
            consumer: layout::text(&info.consumer),
            is_used: info.flags & layout::USED != 0,
        })
    }

    /// Requests a line as an input that reports these edges. The kernel shows `consumer` as the user
    /// of the line, and in the name of the thread that handles its interrupt.
    ///
    /// # Errors
    /// Returns [`Error::Gpio`] if the line is in use, or if it has no interrupt.
    pub fn input(&self, offset: u32, edges: GpioEdges, consumer: &str) -> Result<GpioInput, Error> {
        let mut request = LineRequest::new(offset, consumer);
        request.config.flags = layout::INPUT
            | match edges {
                GpioEdges::Rising => layout::EDGE_RISING,
                GpioEdges::Falling => layout::EDGE_FALLING,
                GpioEdges::Both => layout::EDGE_RISING | layout::EDGE_FALLING,
            };
        request.event_buffer_size = Self::KEPT_EDGES;
        let no_edges = |path, source| GpioError::NoEdges {
            path,
            offset,
            source,
        };
        self.request(request, no_edges).map(GpioInput)
    }

    /// Requests a line as an output with this level.
    ///
    /// # Errors
    /// Returns [`Error::Gpio`] if the line is in use, or if it cannot be an output.
    pub fn output(&self, offset: u32, level: bool, consumer: &str) -> Result<GpioOutput, Error> {
        let mut request = LineRequest::new(offset, consumer);
        request.config.flags = layout::OUTPUT;
        request.config.num_attrs = 1;
        let attribute = &mut request.config.attrs[0];
        attribute.attr.id = layout::OUTPUT_VALUES;
        attribute.attr.value = u64::from(level);
        attribute.mask = 1;
        let no_output = |path, source| GpioError::NoOutput {
            path,
            offset,
            source,
        };
        self.request(request, no_output).map(GpioOutput)
    }

    fn request(
        &self,
        mut request: LineRequest,
        unfit: impl FnOnce(PathBuf, io::Error) -> GpioError,
    ) -> Result<Line, Error> {
        let offset = request.offsets[0];
        // Fails for an offset or a kernel that the request does not support.
        self.line(offset)?;
        // SAFETY: the request reads and writes one structure of this type (linereq_create), and the
        // pointer is valid until the call returns.
        let asked = unsafe {
            libc::ioctl(
                self.file.as_raw_fd(),
                layout::GET_LINE as _,
                &raw mut request,
            )
        };
        let path = self.path.clone();
        if asked != 0 {
            let source = io::Error::last_os_error();
            return Err(match source.raw_os_error() {
                Some(libc::EBUSY) => GpioError::Busy {
                    path,
                    offset,
                    consumer: self.line(offset)?.consumer,
                },
                Some(libc::EACCES | libc::EPERM) => GpioError::Refused { path, source },
                _ => unfit(path, source),
            }
            .into());
        }
        // SAFETY: the kernel just created this descriptor for the request, and nothing else owns
        // it. It has the flag O_CLOEXEC.
        let file = unsafe { OwnedFd::from_raw_fd(request.fd) };
        Ok(Line { file, path, offset })
    }

    fn check(&self, offset: u32) -> Result<(), Error> {
        if offset < self.info.lines {
            return Ok(());
        }
        Err(GpioError::NoSuchLine {
            path: self.path.clone(),
            offset,
            lines: self.info.lines,
        }
        .into())
    }

    fn failed(&self, call: &'static str, source: io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL) => Error::NotSupported {
                what: "version 2 of the GPIO interface",
                why: "it needs Linux 5.10",
            },
            _ => Error::os(call, self.path.display().to_string(), source),
        }
    }
}

impl GpioInput {
    /// Waits for the next edge. Returns `None` if a signal interrupted the wait. Allocates nothing
    /// unless it fails.
    ///
    /// # Errors
    /// Returns [`Error::Os`], for example if the chip was removed.
    pub fn wait(&self) -> Result<Option<GpioEdge>, Error> {
        let mut event = LineEvent::default();
        // SAFETY: the call writes at most the size of the structure. All bits are valid values of
        // its integers.
        let read = unsafe {
            libc::read(
                self.0.file.as_raw_fd(),
                (&raw mut event).cast(),
                size_of::<LineEvent>(),
            )
        };
        if usize::try_from(read) == Ok(size_of::<LineEvent>()) {
            return Ok(Some(GpioEdge {
                at: Instant::from_nanos(event.timestamp_ns),
                number: event.line_seqno,
            }));
        }
        let source = match read {
            ..0 => io::Error::last_os_error(),
            // The kernel returns whole events only.
            0.. => io::ErrorKind::UnexpectedEof.into(),
        };
        if source.kind() == io::ErrorKind::Interrupted {
            return Ok(None);
        }
        Err(self.0.failed("read", source))
    }

    /// Waits for an edge, at most for this time. Returns whether there is one, so that
    /// [`wait`](Self::wait) returns at once. A signal ends the wait.
    ///
    /// # Errors
    /// Returns [`Error::Os`].
    pub fn has_edge(&self, within: Duration) -> Result<bool, Error> {
        let within = libc::timespec {
            // The type has 32 bits on some processors.
            tv_sec: within.as_secs().min(i32::MAX as u64) as _,
            tv_nsec: within.subsec_nanos() as _,
        };
        let mut poll = libc::pollfd {
            fd: self.0.file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the pointers are valid for one structure each during the call. Without a mask,
        // the call changes no signal mask.
        match unsafe { libc::ppoll(&raw mut poll, 1, &raw const within, ptr::null()) } {
            0 => Ok(false),
            1.. => Ok(true),
            ..0 => {
                let source = io::Error::last_os_error();
                if source.kind() == io::ErrorKind::Interrupted {
                    return Ok(false);
                }
                Err(self.0.failed("ppoll", source))
            }
        }
    }
}

impl GpioOutput {
    /// Sets the level. Allocates nothing unless it fails.
    ///
    /// # Errors
    /// Returns [`Error::Os`], for example if the chip was removed.
    pub fn set(&self, level: bool) -> Result<(), Error> {
        let mut values = LineValues {
            bits: u64::from(level),
            mask: 1,
        };
        // SAFETY: the request reads one structure of this type (linereq_set_values), and the
        // pointer is valid until the call returns.
        let asked = unsafe {
            libc::ioctl(
                self.0.file.as_raw_fd(),
                layout::SET_VALUES as _,
                &raw mut values,
            )
        };
        if asked == 0 {
            return Ok(());
        }
        let call = "GPIO_V2_LINE_SET_VALUES_IOCTL";
        Err(self.0.failed(call, io::Error::last_os_error()))
    }
}

impl Line {
    #[cold]
    fn failed(&self, call: &'static str, source: io::Error) -> Error {
        let what = format!("line {} of {}", self.offset, self.path.display());
        Error::os(call, what, source)
    }
}

fn unopened(path: &Path, source: io::Error) -> Error {
    let owned = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => GpioError::Absent { path: owned }.into(),
        io::ErrorKind::PermissionDenied => GpioError::Refused {
            path: owned,
            source,
        }
        .into(),
        _ => Error::os("open", path.display().to_string(), source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_not_chips() {
        let gpio = |path: &str| match GpioChip::open(Path::new(path)).unwrap_err() {
            Error::Gpio(error) => *error,
            other => panic!("{other}"),
        };
        let error = gpio("/dev/null");
        assert!(matches!(error, GpioError::NoChip { .. }), "{error}");
        assert!(error.to_string().contains("is not a GPIO chip"), "{error}");
        let error = gpio("/dev/no-such-chip");
        assert!(matches!(error, GpioError::Absent { .. }), "{error}");
        assert!(!Error::from(error).is_privilege());
        let path = Path::new("/dev/gpiochip3");
        let refused = unopened(path, io::ErrorKind::PermissionDenied.into());
        assert!(refused.is_privilege());
        let text = refused.to_string();
        assert!(text.starts_with("/dev/gpiochip3 may not"), "{text}");
    }

    /// A pipe takes the place of the kernel, which writes edges in the same form.
    #[test]
    fn edges_are_read_whole() {
        use std::io::Write as _;

        let (reader, mut writer) = io::pipe().unwrap();
        let input = GpioInput(Line {
            file: reader.into(),
            path: PathBuf::from("/dev/gpiochip0"),
            offset: 3,
        });
        assert!(!input.has_edge(Duration::ZERO).unwrap());
        let mut bytes = [0; size_of::<LineEvent>()];
        bytes[..8].copy_from_slice(&7_000_000_123_u64.to_ne_bytes());
        // After the stamp: the kind of edge, the offset, the number among all lines, the number.
        for (place, value) in [1_u32, 3, 99, 41].into_iter().enumerate() {
            let from = 8 + 4 * place;
            bytes[from..from + 4].copy_from_slice(&value.to_ne_bytes());
        }
        writer.write_all(&bytes).unwrap();
        assert!(input.has_edge(Duration::ZERO).unwrap());
        let edge = GpioEdge {
            at: Instant::from_nanos(7_000_000_123),
            number: 41,
        };
        assert_eq!(input.wait().unwrap(), Some(edge));
        writer.write_all(&bytes[..20]).unwrap();
        let error = input.wait().unwrap_err().to_string();
        assert!(
            error.contains("read failed for line 3 of /dev/gpiochip0"),
            "{error}"
        );
    }

    #[test]
    fn a_file_without_levels_is_an_error() {
        let file = File::open("/dev/null").unwrap();
        let output = GpioOutput(Line {
            file: file.into(),
            path: PathBuf::from("/dev/gpiochip0"),
            offset: 4,
        });
        let error = output.set(true).unwrap_err().to_string();
        assert!(error.contains("line 4 of /dev/gpiochip0"), "{error}");
    }
}
