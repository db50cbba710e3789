//! Explains the late reactions in the trace of a virtual machine with the trace of its host.

use punctual_culprit::{HostView, VirtualCpus};
use punctual_model::{HostTrace, Nanos};
use punctual_tracefile::{Item, JoinError, TraceFileError, TraceReader, join};

use super::{ExplainedTrace, TraceRequest, find, recording_of};

/// Reason why the traces of a guest and its host cannot be explained together.
#[derive(Debug, thiserror::Error)]
pub enum GuestTraceError {
    /// The trace of the guest cannot be read.
    #[error("{file}: {error}")]
    Guest {
        /// The file.
        file: String,
        /// The reason.
        error: TraceFileError,
    },
    /// The trace of the host cannot be read.
    #[error("{file}: {error}")]
    Host {
        /// The file.
        file: String,
        /// The reason.
        error: TraceFileError,
    },
    /// The two traces do not belong together, or their times cannot be compared.
    #[error("{host} and {guest} cannot be joined: {error}")]
    Join {
        /// File of the host.
        host: String,
        /// File of the guest.
        guest: String,
        /// The reason.
        error: JoinError,
    },
    /// The trace of the host does not show when virtual CPUs run.
    #[error(
        "{host} has no events of kvm:{missing}, so it does not show when the virtual CPUs ran. \
         Record the host with -e kvm:kvm_entry -e kvm:kvm_exit -e sched -e irq -e irq_vectors"
    )]
    NoKvm {
        /// File of the host.
        host: String,
        /// The missing event.
        missing: &'static str,
    },
    /// The times of the two traces do not overlap.
    #[error(
        "{host} and {guest} cannot be joined: the host's events end before those of the guest \
         begin, or the reverse. The time shift in {guest} is wrong, or one of the traces is \
         incomplete"
    )]
    Apart {
        /// File of the host.
        host: String,
        /// File of the guest.
        guest: String,
    },
    /// The events of the guest contradict those of the host.
    #[error(
        "{host} and {guest} cannot be joined: the guest has events in {contradicted} of {checked} \
         times in which the host was not running its virtual CPU, so the time shift in {guest} is \
         wrong"
    )]
    Contradiction {
        /// File of the host.
        host: String,
        /// File of the guest.
        guest: String,
        /// Number of contradicted times.
        contradicted: u64,
        /// Number of times.
        checked: u64,
    },
}

/// The traces of a virtual machine and its host.
pub struct GuestTraces<'a> {
    /// The host's file, as the user named it.
    pub host_file: String,
    /// The trace of the host.
    pub host: &'a mut dyn TraceReader,
    /// The trace of the guest.
    pub guest: &'a mut dyn TraceReader,
    /// The trace of the guest again: it is read twice.
    pub again: &'a mut dyn TraceReader,
}

/// Finds the late reactions in the trace of a virtual machine. The time while its CPUs did not run is
/// explained by the activity of its host. Times are on the clock of the host.
///
/// # Errors
/// Returns an error if a trace cannot be read, if the traces do not belong together, or if their
/// times cannot be compared.
pub fn explain_guest(
    traces: GuestTraces<'_>,
    request: TraceRequest,
) -> Result<ExplainedTrace, GuestTraceError> {
    let GuestTraces {
        host_file,
        host,
        guest,
        again,
    } = traces;
    let names = (host_file.clone(), request.file.clone());
    let joined = join(host.head(), guest.head()).map_err(|error| GuestTraceError::Join {
        host: names.0.clone(),
        guest: names.1.clone(),
        error,
    })?;
    let of_guest = |error| GuestTraceError::Guest {
        file: names.1.clone(),
        error,
    };
    let mut found = find(guest, &request).map_err(of_guest)?;
    let wanted = found.reactions.iter();
    let wanted = wanted.map(|one| (one.window.expected, one.window.actual));
    let clocks_differ = host.head().clocks_differ.unwrap_or(true);
    let vcpus = VirtualCpus::new(&joined.vcpus, wanted.collect(), clocks_differ);
    let view = follow(vcpus, host, again, &names)?;
    check(&view, host, found.span, &names)?;
    let summary = HostTrace {
        file: host_file,
        guest: joined.name,
        warnings: host.head().warnings.clone(),
        ..HostTrace::default()
    };
    for reaction in &mut found.reactions {
        view.add_to(&mut reaction.window);
    }
    Ok(recording_of(found, guest.head(), request, Some(summary)))
}

/// Reads the traces of host and guest in order of time.
fn follow(
    mut vcpus: VirtualCpus,
    host: &mut dyn TraceReader,
    guest: &mut dyn TraceReader,
    (host_file, guest_file): &(String, String),
) -> Result<HostView, GuestTraceError> {
    let next = |guest: &mut dyn TraceReader| -> Result<Option<(u32, Nanos)>, GuestTraceError> {
        loop {
            let item = guest.next_item().map_err(|error| GuestTraceError::Guest {
                file: guest_file.clone(),
                error,
            })?;
            return Ok(match item {
                Some(Item::Event(event)) => Some((event.cpu, event.time)),
                Some(Item::Mark(mark)) => Some((mark.cpu, mark.time)),
                Some(
                    Item::Lost { .. }
                    | Item::Statement { .. }
                    | Item::Function { .. }
                    | Item::RunTime { .. },
                ) => continue,
                None => None,
            });
        }
    };
    let mut known = usize::MAX;
    let mut of_guest = next(guest)?;
    loop {
        let item = host.next_item().map_err(|error| GuestTraceError::Host {
            file: host_file.clone(),
            error,
        })?;
        let Some(item) = item else {
            return Ok(vcpus.finish());
        };
        let time = item.time();
        while let Some((cpu, at)) = of_guest.filter(|(_, at)| *at < time) {
            vcpus.guest(cpu, at);
            of_guest = next(guest)?;
        }
        let recorded = &host.head().recorded;
        if recorded.len() != known {
            known = recorded.len();
            vcpus.learn(recorded);
        }
        match item {
            Item::Event(event) => vcpus.event(event),
            Item::Mark(_)
            | Item::Statement { .. }
            | Item::Function { .. }
            | Item::RunTime { .. } => {}
            Item::Lost { cpu, until, .. } => vcpus.lost(cpu, until),
        }
    }
}

/// Checks that the host's trace shows the virtual CPUs, and that the times of both traces match.
fn check(
    view: &HostView,
    host: &dyn TraceReader,
    guest: Option<(Nanos, Nanos)>,
    (host_file, guest_file): &(String, String),
) -> Result<(), GuestTraceError> {
    let (host_file, guest_file) = (host_file.clone(), guest_file.clone());
    let recorded = &host.head().recorded;
    for missing in ["kvm_entry", "kvm_exit"] {
        if !recorded.contains(&format!("kvm:{missing}")) {
            return Err(GuestTraceError::NoKvm {
                host: host_file,
                missing,
            });
        }
    }
    if let (Some(own), Some(guest)) = (view.span, guest)
        && (own.1 < guest.0 || guest.1 < own.0)
    {
        return Err(GuestTraceError::Apart {
            host: host_file,
            guest: guest_file,
        });
    }
    match view.mismatch() {
        Some((contradicted, checked)) => Err(GuestTraceError::Contradiction {
            host: host_file,
            guest: guest_file,
            contradicted,
            checked,
        }),
        None => Ok(()),
    }
}
