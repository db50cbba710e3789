//! Identifies this process as the writer of a recording.

use punctual_host::Host;
use punctual_model::ProcessId;
use punctual_store::Lease;

/// Returns the lease of this process.
pub fn lease(host: &Host) -> Lease {
    let ProcessId { pid, start } = host.own_process();
    Lease {
        pid,
        process_start: start,
        boot_id: host.boot_id().unwrap_or_default(),
        namespaces: host.namespaces(),
    }
}

/// Returns whether the process of a lease may be alive, according to its PID. In other namespaces
/// the PID is meaningless; unknown counts as alive.
pub fn may_live(host: &Host, lease: &Lease) -> bool {
    if host.boot_id().unwrap_or_default() != lease.boot_id {
        return false;
    }
    let elsewhere = lease.namespaces.is_some() && lease.namespaces != host.namespaces();
    let writer = ProcessId {
        pid: lease.pid,
        start: lease.process_start,
    };
    elsewhere || host.has_process(writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_another_namespace_says_nothing() {
        let host = Host::live();
        let own = lease(&host);
        assert!(may_live(&host, &own));
        let gone = Lease {
            process_start: own.process_start + 1,
            ..own.clone()
        };
        assert!(!may_live(&host, &gone));
        let elsewhere = Lease {
            namespaces: Some("pid:[1]".to_owned()),
            ..gone.clone()
        };
        assert!(may_live(&host, &elsewhere));
        // Stores of earlier versions do not contain the namespaces of the PID.
        let unsaid = Lease {
            namespaces: None,
            ..gone
        };
        assert!(!may_live(&host, &unsaid));
        let before = Lease {
            boot_id: "an earlier boot".to_owned(),
            ..elsewhere
        };
        assert!(!may_live(&host, &before));
    }
}
