//! Waits for a Java virtual machine.

use punctual_model::Comm;
use punctual_model::cause::{Source, Wait};

use super::chain::Part;

/// The thread that executes operations such as garbage collections, most of them while all Java
/// threads are stopped (OpenJDK).
const VM_THREAD: &[u8] = b"VM Thread";

/// Beginnings of the names of threads that collect garbage: workers of the serial, parallel and G1
/// collectors, then threads of ZGC and Shenandoah.
const COLLECTORS: [&[u8]; 6] = [
    b"GC Thread#",
    b"G1 Main Marker",
    b"G1 Conc#",
    b"ZDriver",
    b"ZWorker",
    b"Shenandoah",
];

/// Returns whether a Java virtual machine gives this name to its VM thread or to a garbage
/// collector. Threads of other programs can have such a name as well.
pub fn is_name_of_jvm(comm: &Comm) -> bool {
    comm.bytes() == VM_THREAD || is_collector(comm)
}

fn is_collector(comm: &Comm) -> bool {
    COLLECTORS.iter().any(|name| comm.bytes().starts_with(name))
}

/// Returns the kind of a wait for a thread of the virtual machine. `parts`: activity of the threads
/// that the thread waited for. The virtual machine's own threads wait for each other all the time,
/// so their waits are of no such kind.
pub(super) fn wait(jvm: &[u32], (tid, waker): (u32, u32), parts: &[Part]) -> Option<Wait> {
    if !jvm.contains(&waker) || jvm.contains(&tid) {
        return None;
    }
    let mut chains = parts.iter().filter_map(|part| match &part.cause.source {
        Source::Awaited(awaited) => Some(&awaited.chain),
        _ => None,
    });
    let collects = chains.any(|chain| {
        chain
            .iter()
            .any(|name| is_collector(&name.comm) && name.pid.is_some_and(|pid| jvm.contains(&pid)))
    });
    Some(if collects {
        Wait::Collection
    } else {
        Wait::VmOperation
    })
}
