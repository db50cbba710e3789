//! The description of a tool.

use crate::{CompatError, OptionSpec, Parsed, ToolContext};

/// The description of a tool that punctual replaces.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name: that of the link to punctual, and then, for a tool of rtla, its command and mode.
    pub name: &'static str,
    /// A phrase that describes the measurement.
    pub summary: &'static str,
    /// The probe that does its work.
    pub probe: &'static str,
    /// The package that it belongs to.
    pub family: Family,
    /// Its options, in the order of its help.
    pub options: &'static [OptionSpec],
    /// Options of older versions. They are refused with advice on what to use instead.
    pub removed: &'static [Removed],
    /// Differences from the original that not all tools have. Those of all tools are in
    /// [`COMMON`](crate::COMMON).
    pub differences: &'static [Difference],
    /// Runs the tool and returns its exit status.
    pub run: fn(&Parsed, &mut ToolContext<'_>) -> Result<u8, CompatError>,
}

/// The package of an original, which determines its version, and its exit status after the usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// rt-tests: has a version; 0 after `--help`, 1 after a wrong command line.
    RtTests,
    /// rtla of the kernel: its version is the kernel's; 129 after its usage.
    Rtla,
}

impl Family {
    /// Returns the exit status after `--help`.
    pub(crate) fn help_status(self) -> u8 {
        match self {
            Self::RtTests => 0,
            Self::Rtla => Self::USAGE,
        }
    }

    /// Returns the exit status after a wrong command line.
    pub(crate) fn usage_status(self) -> u8 {
        match self {
            Self::RtTests => 1,
            Self::Rtla => Self::USAGE,
        }
    }

    /// The exit status of the kernel's option parser after it has printed the usage.
    const USAGE: u8 = 129;
}

impl Tool {
    /// Returns the name of its program. A tool of rtla is a mode of that program.
    pub fn program(&self) -> &'static str {
        self.name.split(' ').next().unwrap_or(self.name)
    }
}

/// A tool that punctual does not replace.
#[derive(Clone, Copy, Debug)]
pub struct NotReplaced {
    /// Its name.
    pub name: &'static str,
    /// The reason, or what to use instead.
    pub advice: &'static str,
}

/// Options of older versions.
#[derive(Clone, Copy, Debug)]
pub struct Removed {
    /// Their letters.
    pub letters: &'static [char],
    /// The version that removed them, and what to do instead.
    pub advice: &'static str,
}

/// An intended difference from the original.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The difference.
    pub what: &'static str,
    /// The reason.
    pub why: &'static str,
}
