//! The description of a tool.

use crate::{CompatError, OptionSpec, Parsed, ToolContext};

/// The description of a tool that punctual replaces.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name, which is also the name of the link to punctual.
    pub name: &'static str,
    /// A phrase that describes the measurement.
    pub summary: &'static str,
    /// The probe that measures.
    pub probe: &'static str,
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
