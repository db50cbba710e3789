//! Errors that can occur during tracing.

use std::io;
use std::path::PathBuf;

use crate::mount::shown;

/// Reason why tracing failed, or why its settings could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// tracefs is not mounted.
    #[error(
        "tracefs is not mounted: no available_tracers in {looked}{mount}. As root: \
         mount -t tracefs tracefs /sys/kernel/tracing"
    )]
    NotMounted {
        /// The folders that were searched.
        looked: String,
        /// Clause that explains why tracefs could not be mounted for this process only; empty if
        /// this was not tried.
        mount: String,
    },
    /// The kernel is locked down and denies tracing to all users.
    #[error(
        "the kernel is locked down (confidentiality, in {}), which forbids tracing: see \
         kernel_lockdown(7)",
        shown(path)
    )]
    LockedDown {
        /// The file with the lockdown state.
        path: PathBuf,
    },
    /// The kernel was built without the tracer.
    #[error(
        "this kernel has no tracer '{tracer}' (CONFIG_{}_TRACER): {} lists {available}",
        tracer.to_uppercase(), shown(path)
    )]
    NoTracer {
        /// Name of the missing tracer.
        tracer: &'static str,
        /// The file that lists the available tracers.
        path: PathBuf,
        /// The content of this file.
        available: String,
    },
    /// Another program is using timerlat or osnoise.
    #[error(
        "the tracers timerlat and osnoise share one set of threads and settings in the kernel, \
         and {} already uses them",
        shown(path)
    )]
    NoiseBusy {
        /// The instance that uses them, or the mount point of tracefs if the instance is unknown.
        path: PathBuf,
    },
    /// The kernel's timerlat does not support user-space threads.
    #[error(
        "timerlat of this kernel cannot wake user-space threads: {} does not exist (since Linux \
         6.5)",
        shown(path)
    )]
    NoUserTimerlat {
        /// The missing file.
        path: PathBuf,
    },
    /// The kernel's osnoise cannot spin with interrupts disabled.
    #[error(
        "osnoise of this kernel cannot spin with interrupts disabled: osnoise/options has no \
         OSNOISE_IRQ_DISABLE (since Linux 6.2)"
    )]
    NoIrqDisable,
    /// The list in osnoise/cpus is too long for the name of an instance.
    #[error(
        "the list in osnoise/cpus is too long to restore: {cpus}. Write the list of all CPUs to \
         osnoise/cpus, which is its value after a boot"
    )]
    TooLong {
        /// The list of CPUs.
        cpus: String,
    },
    /// A file does not contain a list of CPUs.
    #[error("{} contains '{found}', not a list of CPUs", shown(path))]
    NotCpus {
        /// The file.
        path: PathBuf,
        /// The content of the file.
        found: String,
    },
    /// Another program is using the tracer.
    #[error(
        "the tracer hwlat is in use by another program, and the kernel supports only one user. \
         Look for hwlat in current_tracer of {} and of its instances",
        shown(path)
    )]
    Busy {
        /// The mount point of tracefs.
        path: PathBuf,
    },
    /// The kernel does not have the events of the requested activity.
    #[error(
        "this kernel has no trace event {}. The kernel may be too old, or built without this \
         activity",
        events.join(" and no ")
    )]
    NoActivity {
        /// The names of the missing events.
        events: Vec<&'static str>,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}{}", shown(path), advice(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file could not be opened.
    #[error("cannot open {}: {source}{}", shown(path), advice(source))]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file could not be written.
    #[error(
        "cannot write '{value}' to {}: {source}{}",
        shown(path),
        advice(source)
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The value that could not be written.
        value: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The instance could not be created or removed.
    #[error(
        "cannot {what} the trace instance {}: {source}{}",
        shown(path),
        advice(source)
    )]
    Instance {
        /// The action that failed: `make`, `remove` or `list`.
        what: &'static str,
        /// The folder of the instance.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel accepted a write, but the file contained a different value afterwards.
    #[error(
        "{} was set to '{value}' without an error, but contains '{found}'",
        shown(path)
    )]
    NotVerified {
        /// The file.
        path: PathBuf,
        /// The written value.
        value: String,
        /// The content of the file after the write.
        found: String,
    },
    /// The kernel's pages have an unknown layout.
    #[error(
        "the ring buffer's pages cannot be read: events/header_page does not contain {what}, but \
         '{text}'. Please report it with the kernel's version"
    )]
    HeaderPage {
        /// The missing part of the description.
        what: &'static str,
        /// The content of the file.
        text: String,
    },
    /// Stored pages are invalid.
    #[error("the stored trace pages are invalid: {what}")]
    Pages {
        /// The reason, with the value.
        what: String,
    },
    /// Trace times cannot be converted to the clock that the probe uses.
    #[error(
        "the trace clock cannot be compared with CLOCK_MONOTONIC: the trace has no clock 'mono', \
         and no mark written to trace_marker appeared in the trace"
    )]
    NoClock,
    /// The records of an event have an unknown layout.
    #[error(
        "{}: the records have no field {field} with the known layout",
        shown(path)
    )]
    NoField {
        /// The `format` file of the event.
        path: PathBuf,
        /// The missing field.
        field: &'static str,
    },
    /// The kernel does not have an event that the user requested.
    #[error(
        "this kernel has no event '{name}'{}; for all events, see available_events in tracefs",
        offered(near)
    )]
    NoEvent {
        /// Name of the event, as `system:event`.
        name: String,
        /// Names of similar events.
        near: Vec<String>,
    },
    /// The user requested an event that only tracers can write.
    #[error("'{0}' cannot be enabled, because only the kernel's tracers write this event")]
    NotAnEvent(String),
    /// The kernel rejected a filter.
    #[error("the kernel refuses the filter '{filter}' of {name}: {why}")]
    Filter {
        /// Name of the event, as `system:event`.
        name: String,
        /// The filter.
        filter: String,
        /// The kernel's reason.
        why: String,
    },
    /// A file does not contain a number.
    #[error("{} contains '{found}', not a number of microseconds", shown(path))]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// The content of the file.
        found: String,
    },
    /// A requested length is 0, or the width leaves no pause in the window.
    #[error(
        "hwlat needs a width of at least 1 us, a window longer than the width, and a threshold of \
         at least 1 us, but the request has a width of {width_us} us, a window of {window_us} us \
         and a threshold of {threshold_us} us"
    )]
    Ask {
        /// The requested width in microseconds.
        width_us: u64,
        /// The requested window in microseconds.
        window_us: u64,
        /// The requested threshold in microseconds.
        threshold_us: u64,
    },
    /// Some settings could not be restored. The instance, whose name contains the old values, is
    /// kept, but its tracer is stopped. The next command tries to restore them again.
    #[error(
        "some settings of the tracer could not be restored; the name of {} contains their values: \
         {}",
        shown(path),
        list(errors)
    )]
    NotRestored {
        /// The instance.
        path: PathBuf,
        /// The errors of the individual settings.
        errors: Vec<TraceError>,
    },
}

impl TraceError {
    /// Returns whether the user lacks the privilege to trace.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Read { source, .. }
            | Self::Open { source, .. }
            | Self::Write { source, .. }
            | Self::Instance { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }

    /// Returns whether an event requested by the user caused the error.
    pub const fn is_of_choice(&self) -> bool {
        matches!(
            self,
            Self::NoEvent { .. } | Self::NotAnEvent(_) | Self::Filter { .. }
        )
    }
}

/// Reason why threads cannot be watched with BPF programs or with trace events.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel has no BTF.
    #[error("this kernel has no BTF in /sys/kernel/btf (CONFIG_DEBUG_INFO_BTF): {0}")]
    NoBtf(#[source] aya::BtfError),
    /// The BPF programs do not support the processor.
    #[error(
        "the BPF programs need a 64-bit processor, and the programs that read system calls need \
         x86_64 or aarch64, but this processor is {0}"
    )]
    Processor(&'static str),
    /// The kernel rejected the BPF programs.
    #[error(
        "the kernel refused the BPF programs (they need root, or CAP_BPF and CAP_PERFMON): {0}"
    )]
    Refused(String),
    /// The kernel lacks a feature that the BPF programs need.
    #[error("this kernel is too old for the BPF programs: it lacks {0}")]
    Lacks(&'static str),
    /// The counts made by the BPF programs could not be read.
    #[error("the counters of the BPF programs could not be read: {0}")]
    Read(#[from] aya::maps::MapError),
    /// Neither BPF programs nor trace events are available.
    #[error("wake-ups cannot be watched: BPF: {programs}; trace events: {events}")]
    Neither {
        /// The error of the BPF programs.
        programs: String,
        /// The error of the trace events.
        #[source]
        events: TraceError,
    },
    /// Wake-ups could not be counted using trace events.
    #[error("wake-ups cannot be counted from trace events: {0}")]
    Events(#[from] TraceError),
}

impl WatchError {
    /// Formats an error with all its causes, which the loader's own messages omit.
    pub(crate) fn refused(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        // The verifier's log repeats the program. Its reason is the last line before the count.
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let is_count = |line: &&str| line.starts_with("processed ");
        let rest: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
        let count = rest.iter().position(is_count);
        let reason = rest[..count.unwrap_or(rest.len())].last();
        let last = reason.into_iter().chain(count.map(|at| &rest[at]));
        let last: String = last.map(|line| format!("; {}", line.trim())).collect();
        Self::Refused(first + &last)
    }
}

/// Returns advice for a missing privilege.
fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES) => "; tracefs belongs to root: use sudo",
        Some(libc::EPERM) => {
            "; the kernel's lockdown or a container forbids access: see \
             /sys/kernel/security/lockdown"
        }
        Some(libc::EROFS) => {
            "; tracefs is mounted read-only, as in most containers: run punctual on the host"
        }
        _ => "",
    }
}

/// Formats suggestions, such as ` (did you mean irq:a or irq:b?)`.
fn offered(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!(" (did you mean {}?)", near.join(" or ")),
    }
}

fn list(errors: &[TraceError]) -> String {
    let texts: Vec<String> = errors.iter().map(TraceError::to_string).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_contains_reason_of_verifier() {
        let refused = |text: &str| match WatchError::refused(&io::Error::other(text)) {
            WatchError::Refused(text) => text,
            other => panic!("{other}"),
        };
        let log = "the kernel refuses: log:\n0: (b7) r0 = 1\nR1 invalid mem access 'scalar'\n\
                   processed 7 insns (limit 1000000)\n";
        assert_eq!(
            refused(log),
            "the kernel refuses: log:; R1 invalid mem access 'scalar'; \
             processed 7 insns (limit 1000000)"
        );
        assert_eq!(refused("first\nreason\n\n"), "first; reason");
        assert_eq!(refused("no log"), "no log");
    }
}
