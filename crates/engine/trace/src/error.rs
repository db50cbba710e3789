//! Errors of tracing.

use std::io;
use std::path::PathBuf;

use crate::mount::shown;

/// Why tracing failed, or its settings could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// tracefs is not mounted.
    #[error(
        "tracefs is not mounted: no available_tracers in {looked}{mount}. As root: \
         mount -t tracefs tracefs /sys/kernel/tracing"
    )]
    NotMounted {
        /// The searched folders.
        looked: String,
        /// Why it could not be mounted for this process only, as a clause; empty if not tried.
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
        /// The missing part.
        tracer: &'static str,
        /// The list.
        path: PathBuf,
        /// Its content.
        available: String,
    },
    /// Another program uses timerlat or osnoise.
    #[error(
        "the tracers timerlat and osnoise have one set of threads and settings in the whole kernel, \
         and {} uses them",
        shown(path)
    )]
    NoiseBusy {
        /// The instance; the tracefs itself if unknown.
        path: PathBuf,
    },
    /// The kernel's timerlat does not support user-space threads.
    #[error(
        "timerlat of this kernel does not wake threads of user space: there is no {} (since Linux \
         6.5)",
        shown(path)
    )]
    NoUserTimerlat {
        /// The missing part.
        path: PathBuf,
    },
    /// The list in osnoise/cpus is too long for the name of an instance.
    #[error(
        "osnoise/cpus has a list too long to restore: {cpus}. Write all CPUs into it, its \
         state after a boot"
    )]
    TooLong {
        /// The list.
        cpus: String,
    },
    /// A file does not contain a list of CPUs.
    #[error("{} contains '{found}', not a list of CPUs", shown(path))]
    NotCpus {
        /// The file.
        path: PathBuf,
        /// Its content.
        found: String,
    },
    /// Another program uses the tracer.
    #[error(
        "the tracer hwlat is in use by another program: it runs once in the whole kernel. Look for \
         it in current_tracer of {} and of its instances",
        shown(path)
    )]
    Busy {
        /// The tracefs.
        path: PathBuf,
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
        /// The written value.
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
        /// `make`, `remove` or `list`.
        what: &'static str,
        /// The folder.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel accepted the write but set a different value.
    #[error(
        "{} was set to '{value}' without an error, but contains '{found}'",
        shown(path)
    )]
    NotVerified {
        /// The file.
        path: PathBuf,
        /// The written value.
        value: String,
        /// Its content after the write.
        found: String,
    },
    /// The kernel's pages have an unknown layout.
    #[error(
        "the ring buffer's pages cannot be read: events/header_page does not contain {what}, but \
         '{text}'. Please report it with the kernel's version"
    )]
    HeaderPage {
        /// The missing part.
        what: &'static str,
        /// The content of the file.
        text: String,
    },
    /// Stored pages that are invalid.
    #[error("the kept trace pages are invalid: {what}")]
    Pages {
        /// The reason, with the value.
        what: String,
    },
    /// Times of the trace cannot be converted to the probe's clock.
    #[error(
        "the trace clock cannot be compared with CLOCK_MONOTONIC: the kernel has no clock 'mono' \
         for it, and no mark written to trace_marker came back"
    )]
    NoClock,
    /// An event's records have an unknown layout.
    #[error(
        "{}: its records have no field {field} of the known layout",
        shown(path)
    )]
    NoField {
        /// The description of its records.
        path: PathBuf,
        /// The field.
        field: &'static str,
    },
    /// The kernel does not have an event that the user requested.
    #[error(
        "this kernel has no event '{name}'{}; all: available_events of tracefs",
        offered(near)
    )]
    NoEvent {
        /// `system:event`.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// An event that only tracers write.
    #[error("'{0}' cannot be enabled: the kernel's tracers write it themselves")]
    NotAnEvent(String),
    /// The kernel rejects a filter.
    #[error("the kernel refuses the filter '{filter}' of {name}: {why}")]
    Filter {
        /// `system:event`.
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
        /// Its content.
        found: String,
    },
    /// A length of 0, or a width without a pause.
    #[error(
        "hwlat needs a width of 1 us or more, a longer window, and a threshold of 1 us or more: \
         requested were a width of {width_us} us, a window of {window_us} us and a threshold of \
         {threshold_us} us"
    )]
    Ask {
        /// The requested width in microseconds.
        width_us: u64,
        /// The requested window in microseconds.
        window_us: u64,
        /// The requested threshold in microseconds.
        threshold_us: u64,
    },
    /// Settings that could not be restored. The instance with the old values in its name stays,
    /// with its tracer stopped; the next command tries again.
    #[error(
        "not all of the tracer's settings could be restored; the name of {} has their values: {}",
        shown(path),
        list(errors)
    )]
    NotRestored {
        /// The instance.
        path: PathBuf,
        /// The errors.
        errors: Vec<TraceError>,
    },
}

impl TraceError {
    /// Returns whether an event requested by the user caused the error.
    pub const fn is_of_choice(&self) -> bool {
        matches!(
            self,
            Self::NoEvent { .. } | Self::NotAnEvent(_) | Self::Filter { .. }
        )
    }
}

/// Why threads cannot be watched, neither by BPF programs nor with trace events.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel has no BTF.
    #[error("this kernel has no BTF in /sys/kernel/btf (CONFIG_DEBUG_INFO_BTF): {0}")]
    NoBtf(#[source] aya::BtfError),
    /// The programs do not support the processor.
    #[error(
        "the BPF programs are for 64-bit processors, and those that read system calls for x86_64 \
         and aarch64: this one is {0}"
    )]
    Processor(&'static str),
    /// The kernel rejected the programs.
    #[error("the kernel refused the BPF programs (root, or CAP_BPF and CAP_PERFMON?): {0}")]
    Refused(String),
    /// Their counts could not be read.
    #[error("the counts of the BPF programs could not be read: {0}")]
    Read(#[from] aya::maps::MapError),
    /// Neither programs nor events can count them.
    #[error("wake-ups cannot be watched: BPF: {programs}; trace events: {events}")]
    Neither {
        /// The error of the programs.
        programs: String,
        /// The error of the events.
        #[source]
        events: TraceError,
    },
    /// A trace error.
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
        // Only the first line and the final count of the verifier's log: the rest is for authors of
        // programs.
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let count = lines.find(|line| line.starts_with("processed "));
        Self::Refused(match count {
            Some(count) => format!("{first}; {count}"),
            None => first,
        })
    }
}

/// Returns advice on a missing privilege.
fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES) => "; tracefs belongs to root: use sudo",
        Some(libc::EPERM) => {
            "; the kernel's lockdown or a container forbids it: see /sys/kernel/security/lockdown"
        }
        Some(libc::EROFS) => {
            "; it is mounted read-only, as in most containers: run on the host itself"
        }
        _ => "",
    }
}

/// Formats suggestions: ` (did you mean irq:a or irq:b?)`
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
