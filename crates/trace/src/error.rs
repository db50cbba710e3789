//! Why the kernel does not trace.

use std::io;
use std::path::PathBuf;

/// Why the kernel does not trace, or its settings are not as they were.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is no tracefs.
    #[error(
        "tracefs is not mounted: there is no available_tracers in {looked}{mount}. As root: \
         mount -t tracefs tracefs /sys/kernel/tracing"
    )]
    NotMounted {
        /// Where it was looked for.
        looked: String,
        /// Why it could not be mounted for this process alone, as a half
        /// sentence; empty: that was not tried.
        mount: String,
    },
    /// The kernel was built without the tracer.
    #[error(
        "this kernel has no tracer '{tracer}' (CONFIG_{}_TRACER): {} lists {available}",
        tracer.to_uppercase(), path.display()
    )]
    NoTracer {
        /// What is missing.
        tracer: &'static str,
        /// The list.
        path: PathBuf,
        /// What it holds.
        available: String,
    },
    /// Another program uses timerlat or osnoise, or is about to.
    #[error(
        "the tracers timerlat and osnoise have one set of threads and settings in the whole kernel, \
         and {} uses them", path.display()
    )]
    NoiseBusy {
        /// The instance; the tracefs itself where it is not known.
        path: PathBuf,
    },
    /// A kernel whose timerlat has threads of its own only.
    #[error(
        "timerlat of this kernel does not wake threads of user space: there is no {} (since Linux \
         6.5)", path.display()
    )]
    NoUserTimerlat {
        /// What is missing.
        path: PathBuf,
    },
    /// What stands in osnoise/cpus does not fit into the name of an instance.
    #[error(
        "osnoise/cpus holds too long a list to be put back: {cpus}. Write all CPUs into it, its \
         state after a boot"
    )]
    TooLong {
        /// The list.
        cpus: String,
    },
    /// A file holds no list of CPUs.
    #[error("{} reads '{found}', which is no list of CPUs", path.display())]
    NotCpus {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// Another program has the tracer.
    #[error(
        "the tracer hwlat is in use by another program: it runs once in the whole kernel. Look for \
         it in current_tracer of {} and of its instances",
        path.display()
    )]
    Busy {
        /// The tracefs.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}{}", path.display(), advice(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file could not be opened.
    #[error("cannot open {}: {source}{}", path.display(), advice(source))]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write '{value}' to {}: {source}{}", path.display(), advice(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The instance could not be made or removed.
    #[error("cannot {what} the trace instance {}: {source}{}", path.display(), advice(source))]
    Instance {
        /// make, remove, list
        what: &'static str,
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel took the value and did something else.
    #[error(
        "{} was set to '{value}', the kernel raised no objection, and it reads '{found}'",
        path.display()
    )]
    NotVerified {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// What it holds after that.
        found: String,
    },
    /// The kernel's pages are not as they are known here.
    #[error(
        "the ring buffer's pages cannot be read: events/header_page does not tell of {what}, but \
         '{text}'. Please report it with the kernel's version"
    )]
    HeaderPage {
        /// What is missing.
        what: &'static str,
        /// The file.
        text: String,
    },
    /// Kept pages that no kernel can have written.
    #[error("the kept trace pages are not usable: {what}")]
    Pages {
        /// What is wrong, with the value.
        what: String,
    },
    /// Times of the trace cannot be told on the probe's clock.
    #[error(
        "the trace clock cannot be compared with CLOCK_MONOTONIC: the kernel has no clock 'mono' \
         for it, and no mark written to trace_marker came back"
    )]
    NoClock,
    /// An event's records are not as they are known.
    #[error("{}: its records have no field {field} as it is known", path.display())]
    NoField {
        /// The description of its records.
        path: PathBuf,
        /// The field.
        field: &'static str,
    },
    /// A file holds no number.
    #[error("{} reads '{found}', which is not a number of microseconds", path.display())]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// A length of 0, or a width that leaves no pause.
    #[error(
        "hwlat spins for a width of 1 us or more in a window that is longer, above a threshold of \
         1 us or more: asked for were {width_us} us in {window_us} us above {threshold_us} us"
    )]
    Ask {
        /// Of these.
        width_us: u64,
        /// Of these.
        window_us: u64,
        /// Of these.
        threshold_us: u64,
    },
    /// Settings that could not be put back. The instance whose name holds the
    /// old values stays, its tracer stopped; the next command tries again.
    #[error("not all of the tracer's settings could be put back, the values are kept in the name of {}: {}", path.display(), list(errors))]
    NotRestored {
        /// The instance.
        path: PathBuf,
        /// What went wrong.
        errors: Vec<TraceError>,
    },
}

/// How to get the right that is lacking.
fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES) => "; tracefs belongs to root: use sudo",
        Some(libc::EPERM) => {
            "; the kernel's lockdown or a container forbids it: see /sys/kernel/security/lockdown"
        }
        Some(libc::EROFS) => {
            "; it is mounted read-only, as in most containers: run it on the machine itself"
        }
        _ => "",
    }
}

fn list(errors: &[TraceError]) -> String {
    let texts: Vec<String> = errors.iter().map(TraceError::to_string).collect();
    texts.join("; ")
}
