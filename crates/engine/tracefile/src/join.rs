//! Joins the traces of a host and of one of its virtual machines.

use crate::{Guest, TraceHead};

/// Reason why the traces of a host and a guest cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The host's file names no guest.
    #[error(
        "the first file names no guest (option GUEST), so it is not the trace of a host{}. {}",
        if *swapped { ". The second file is: swap the two" } else { "" },
        TOGETHER
    )]
    NoHost {
        /// Whether the other file names guests.
        swapped: bool,
    },
    /// The guest's file has no ID.
    #[error(
        "the second file has no trace ID (option TRACEID), so it is not the trace of a guest. {}",
        TOGETHER
    )]
    NoGuest,
    /// The two files belong to different recordings.
    #[error(
        "the two files were not recorded together: the guest's file has the trace ID {guest:#x}, \
         and the host's file names {known}. Use the files of the same trace-cmd record"
    )]
    OtherGuest {
        /// ID of the guest's trace.
        guest: u64,
        /// The guests of the host.
        known: String,
    },
    /// The guest's file was synchronized with another host.
    #[error(
        "the two files were not recorded together: the clock of the guest was compared with that \
         of the trace {expected:#x}, but the host's file has the trace ID {host:#x}. Use the files \
         of the same trace-cmd record"
    )]
    OtherHost {
        /// ID of the host's trace in the guest's file.
        expected: u64,
        /// ID of the host's file.
        host: u64,
    },
    /// The guest's file does not contain the difference of the clocks.
    #[error(
        "the guest's file has no time shift (option TIME_SHIFT){}, so its times cannot be compared \
         with those of the host. Record again with trace-cmd record --tsync-interval 1000 -A GUEST",
        of(.0)
    )]
    NoShift(
        /// The CPUs without a time shift. Empty if no CPU has one.
        Vec<u32>,
    ),
    /// The clocks of the two files are different.
    #[error(
        "the host's file has the clock {host} and the guest's file {guest}, so their times cannot \
         be compared. Record both with trace-cmd record -C tsc2nsec"
    )]
    Clocks {
        /// Clock of the host's file.
        host: String,
        /// Clock of the guest's file.
        guest: String,
    },
    /// Different numbers are added to the times of the two files.
    #[error(
        "{host} ns are added to the times of the host's file, and {guest} ns to those of the \
         guest's file (options DATE and OFFSET), so their times cannot be compared. Record both \
         without --date and --ts-offset"
    )]
    Offsets {
        /// Number added to the times of the host, in ns.
        host: i64,
        /// Number added to the times of the guest, in ns.
        guest: i64,
    },
}

/// How to record traces that can be joined.
const TOGETHER: &str = "Record both together: trace-cmd record -e kvm:kvm_entry -e kvm:kvm_exit -e \
    sched -e irq -e irq_vectors -A GUEST -e sched -e irq -e irq_vectors";

/// Formats as ` for CPU 3` or ` for CPUs 1, 3`.
fn of(cpus: &[u32]) -> String {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    match cpus {
        [] => String::new(),
        [_] => format!(" for CPU {}", list.concat()),
        _ => format!(" for CPUs {}", list.join(", ")),
    }
}

/// Returns the guest that the trace `guest` was recorded in, if its times can be compared with
/// those of the trace `host`.
///
/// # Errors
/// Returns an error if the files are not those of a host and of its guest, or if their times
/// cannot be compared.
pub fn join(host: &TraceHead, guest: &TraceHead) -> Result<Guest, JoinError> {
    let (of_host, of_guest) = (&host.session, &guest.session);
    if of_host.guests.is_empty() {
        let swapped = !of_guest.guests.is_empty();
        return Err(JoinError::NoHost { swapped });
    }
    let id = of_guest.id.ok_or(JoinError::NoGuest)?;
    let found = of_host.guests.iter().find(|one| one.id == id);
    let Some(found) = found else {
        let known = of_host.guests.iter();
        let known = known.map(|one| format!("{} ({:#x})", one.name, one.id));
        let known: Vec<String> = known.collect();
        return Err(JoinError::OtherGuest {
            guest: id,
            known: known.join(", "),
        });
    };
    let Some(expected) = of_guest.host else {
        return Err(JoinError::NoShift(Vec::new()));
    };
    if let Some(host) = of_host.id.filter(|host| *host != expected) {
        return Err(JoinError::OtherHost { expected, host });
    }
    let cpus = found.vcpus.keys().copied();
    let without: Vec<u32> = cpus.filter(|cpu| !of_guest.shifted.contains(cpu)).collect();
    if !without.is_empty() || of_guest.shifted.is_empty() {
        let all = of_guest.shifted.is_empty();
        return Err(JoinError::NoShift(if all { Vec::new() } else { without }));
    }
    same_clock(host, guest)?;
    Ok(found.clone())
}

fn same_clock(host: &TraceHead, guest: &TraceHead) -> Result<(), JoinError> {
    let (of_host, of_guest) = (&host.session, &guest.session);
    let name = |head: &TraceHead| {
        let clock = head.clock.clone().unwrap_or_else(|| "unknown".to_owned());
        match head.session.calibration {
            Some((multiplier, shift)) => format!("{clock} (x {multiplier} >> {shift})"),
            None => clock,
        }
    };
    // trace-cmd names a calibrated counter either x86-tsc or tsc2nsec.
    let counters = of_host.calibration.is_some() && of_host.calibration == of_guest.calibration;
    let named = host.clock == guest.clock && of_host.calibration == of_guest.calibration;
    if !counters && !named {
        return Err(JoinError::Clocks {
            host: name(host),
            guest: name(guest),
        });
    }
    if of_host.offset_ns != of_guest.offset_ns {
        return Err(JoinError::Offsets {
            host: of_host.offset_ns,
            guest: of_guest.offset_ns,
        });
    }
    Ok(())
}
