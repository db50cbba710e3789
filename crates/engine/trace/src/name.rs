//! The name of a trace instance of hwlat, which contains its owner and the settings from before the
//! session.

use crate::TraceError;
use crate::tracefs::Tracefs;

const PREFIX: &str = "punctual-hwlat-";

/// The kernel-wide settings of hwlat, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HwlatSettings {
    pub(crate) window_us: u64,
    pub(crate) width_us: u64,
    /// The threshold. 0 selects the threshold of the tracer's previous run, or 10 for its first
    /// run.
    pub(crate) threshold_us: u64,
    /// The mode; `None` on a kernel that has only one mode (before Linux 5.14).
    pub(crate) mode: Option<String>,
}

impl HwlatSettings {
    pub(crate) fn read(tracefs: &Tracefs) -> Result<Self, TraceError> {
        let mode = tracefs.text_if_there(&tracefs.file("hwlat_detector/mode"))?;
        Ok(Self {
            window_us: tracefs.number(&tracefs.file("hwlat_detector/window"))?,
            width_us: tracefs.number(&tracefs.file("hwlat_detector/width"))?,
            threshold_us: tracefs.number(&tracefs.file("tracing_thresh"))?,
            mode: mode.as_deref().and_then(in_force),
        })
    }
}

/// Returns the value that is in brackets, such as `round-robin` for `none [round-robin] per-cpu`.
pub(crate) fn in_force(modes: &str) -> Option<String> {
    let (_, rest) = modes.split_once('[')?;
    let mode = rest.split_once(']')?.0;
    // The value becomes part of the name of a folder.
    let fits = |c: char| c.is_ascii_lowercase() || c == '-';
    (!mode.is_empty() && mode.chars().all(fits)).then(|| mode.to_owned())
}

/// The parsed name of an instance, which has the form
/// `punctual-hwlat-PID-START.WINDOW.WIDTH.THRESHOLD[.MODE]`. The first versions of punctual did not
/// write `-START`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) pid: u32,
    /// Start time of the process, in clock ticks since boot. It is needed because process IDs are
    /// reused.
    pub(crate) start: Option<u64>,
    pub(crate) before: HwlatSettings,
}

impl Name {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.split('.');
        let owner = parts.next()?;
        let (pid, start) = match owner.split_once('-') {
            Some((pid, start)) => (pid, Some(start.parse().ok()?)),
            None => (owner, None),
        };
        let pid = pid.parse().ok()?;
        let mut number = || parts.next()?.parse().ok();
        let (window_us, width_us, threshold_us) = (number()?, number()?, number()?);
        let mode = parts.next().map(str::to_owned);
        parts.next().is_none().then_some(Self {
            pid,
            start,
            before: HwlatSettings {
                window_us,
                width_us,
                threshold_us,
                mode,
            },
        })
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HwlatSettings {
            window_us,
            width_us,
            threshold_us,
            mode,
        } = &self.before;
        write!(f, "{PREFIX}{}", self.pid)?;
        if let Some(start) = self.start {
            write!(f, "-{start}")?;
        }
        write!(f, ".{window_us}.{width_us}.{threshold_us}")?;
        match mode {
            Some(mode) => write!(f, ".{mode}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bracketed_mode_is_in_force() {
        let mode = |text| in_force(text);
        assert_eq!(
            mode("none [round-robin] per-cpu").as_deref(),
            Some("round-robin")
        );
        for odd in ["none round-robin", "[", "[]", "[a/b]", "[..]"] {
            assert_eq!(mode(odd), None, "{odd}");
        }
    }

    #[test]
    fn others_names_are_not_ours() {
        for name in [
            "",
            "mine",
            "punctual-hwlat-",
            "punctual-hwlat-12",
            "punctual-hwlat-12.1.2",
            "punctual-hwlat-x.1.2.3",
            "punctual-hwlat-12.1.2.3.none.more",
            "punctual-hwlat-12-.1.2.3",
            "punctual-hwlat-12-x.1.2.3",
            "punctual-hwlat-12-7-7.1.2.3",
        ] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_says_what_was_in_force(
            pid: u32, start: Option<u64>, window_us: u64, width_us: u64, threshold_us: u64,
            mode in proptest::option::of("[a-z-]{1,12}"),
        ) {
            let name = Name { pid, start, before: HwlatSettings { window_us, width_us, threshold_us, mode } };
            prop_assert_eq!(Name::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn no_name_panics(text in "(punctual-hwlat-)?[0-9.a-z-]{0,40}") {
            let _ = Name::parse(&text);
        }
    }
}
