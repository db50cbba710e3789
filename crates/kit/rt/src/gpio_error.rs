//! Errors of GPIO chips and lines.

use std::io;
use std::path::PathBuf;

/// Why a GPIO chip or a line cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpioError {
    /// Opening the chip: ENOENT.
    #[error("{} does not exist: use a file such as /dev/gpiochip0", path.display())]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// Opening the chip or requesting a line: EACCES or EPERM.
    #[error(
        "{} may not be opened for reading and writing ({source}). Assign it to a group with a udev \
         rule (SUBSYSTEM==\"gpio\", KERNEL==\"gpiochip*\", GROUP=\"gpio\", MODE=\"0660\"), or run \
         as root",
        path.display()
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The file is not a GPIO chip.
    #[error("{} is not a GPIO chip ({source}): use a file such as /dev/gpiochip0", path.display())]
    NoChip {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The chip has fewer lines.
    #[error("{} has no line {offset}: it has {lines} lines, counted from 0", path.display())]
    NoSuchLine {
        /// The file of the chip.
        path: PathBuf,
        /// The requested line.
        offset: u32,
        /// Number of lines of the chip.
        lines: u32,
    },
    /// The kernel or a program uses the line: EBUSY.
    #[error(
        "line {offset} of {} is in use by {}: stop this user, or choose another line",
        path.display(),
        user(consumer)
    )]
    Busy {
        /// The file of the chip.
        path: PathBuf,
        /// The line.
        offset: u32,
        /// The user that the kernel names. It can be empty.
        consumer: String,
    },
    /// The line cannot report edges.
    #[error(
        "the kernel cannot report edges of line {offset} of {} ({source}): choose a line that is \
         an input and has an interrupt",
        path.display()
    )]
    NoEdges {
        /// The file of the chip.
        path: PathBuf,
        /// The line.
        offset: u32,
        /// The system error.
        source: io::Error,
    },
    /// The line cannot be driven.
    #[error(
        "line {offset} of {} cannot be an output ({source}): choose another line",
        path.display()
    )]
    NoOutput {
        /// The file of the chip.
        path: PathBuf,
        /// The line.
        offset: u32,
        /// The system error.
        source: io::Error,
    },
}

fn user(consumer: &str) -> String {
    if consumer.is_empty() {
        return "a user without a name".to_owned();
    }
    format!("'{consumer}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_chip_line_and_user() {
        let path = || PathBuf::from("/dev/gpiochip3");
        let busy = |consumer: &str| GpioError::Busy {
            path: path(),
            offset: 17,
            consumer: consumer.to_owned(),
        };
        let start = "line 17 of /dev/gpiochip3 is in use by";
        for (consumer, user) in [("led0", "'led0'"), ("", "a user without a name")] {
            let text = busy(consumer).to_string();
            assert!(text.starts_with(&format!("{start} {user}:")), "{text}");
        }
        let few = GpioError::NoSuchLine {
            path: path(),
            offset: 9,
            lines: 8,
        };
        assert_eq!(
            few.to_string(),
            "/dev/gpiochip3 has no line 9: it has 8 lines, counted from 0"
        );
    }
}
