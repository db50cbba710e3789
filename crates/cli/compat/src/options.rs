//! Options that several tools share, with the same meaning in each of them.

use crate::option_row::OptionRow;

/// The settings of these options, which are part of the settings of each tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Common {
    /// Latency above which to stop, in the tool's unit; 0 to disable.
    pub(crate) break_value: u64,
    /// Duration in seconds; 0 to run until stopped.
    pub(crate) duration_s: u64,
    /// File for the histogram; `None` for stdout.
    pub(crate) histogram_file: Option<String>,
    /// File for the results as JSON; `-` for stdout.
    pub(crate) json: Option<String>,
    /// Whether it is an error if memory cannot be locked.
    pub(crate) lock_memory: bool,
    /// Whether to print nothing before the end of the run.
    pub(crate) quiet: bool,
    /// Whether to write a marker to the kernel's trace at a break and then stop the trace.
    pub(crate) tracemark: bool,
}

impl<S: AsMut<Common>> OptionRow<S> {
    pub(crate) const DURATION: Self = Self::new(
        "-D --duration=TIME",
        "run time in seconds, or with another unit: 90, 90s, 5m, 1h30m, 2d",
        |settings, given, _| {
            settings.as_mut().duration_s = given.duration()?;
            Ok(())
        },
    );

    pub(crate) const JSON: Self = Self::new(
        "--json=FILENAME",
        "write the results as JSON to FILENAME, or to stdout for -",
        |settings, given, _| {
            settings.as_mut().json = Some(given.text().to_owned());
            Ok(())
        },
    );

    pub(crate) const QUIET: Self = Self::flag(
        "-q --quiet",
        "print only when the run has ended",
        |settings| settings.as_mut().quiet = true,
    );

    pub(crate) const MLOCKALL: Self = Self::flag(
        "-m --mlockall",
        "lock memory; fail if that is refused",
        |settings| settings.as_mut().lock_memory = true,
    );

    pub(crate) const BREAKTRACE: Self = Self::breaktrace("stop when a latency is above USEC");

    /// Creates `-b` with the help text of this tool.
    pub(crate) const fn breaktrace(help: &'static str) -> Self {
        Self::new("-b --breaktrace=USEC", help, |settings, given, _| {
            settings.as_mut().break_value = given.micros_from(0)?;
            Ok(())
        })
    }

    pub(crate) const HISTFILE: Self = Self::new(
        "--histfile=PATH",
        "write the histogram to PATH instead of stdout",
        |settings, given, _| {
            settings.as_mut().histogram_file = Some(given.text().to_owned());
            Ok(())
        },
    );

    pub(crate) const TRACEMARK: Self = Self::flag(
        "--tracemark",
        "at a break, mark and stop the kernel's trace",
        |settings| settings.as_mut().tracemark = true,
    );
}
