//! Marks a break in the kernel's trace buffer, for other tools.

use std::io;
use std::sync::OnceLock;

use punctual_host::Host;
use punctual_model::Nanos;
use punctual_probes::Broke;
use punctual_trace::{Marker, TraceError, Tracefs};

use crate::request::Tracemark;

/// errno(3): write(2) to `trace_marker` fails with this error while tracing is off.
const EBADF: i32 = 9;

/// Marks the break in the trace and stops the trace, so that the events before it are not
/// overwritten. Configuring the trace is up to the user.
#[derive(Debug)]
pub(crate) struct TraceStop {
    marker: Marker,
    unit: Tracemark,
    limit: Nanos,
    failure: OnceLock<io::Error>,
}

impl TraceStop {
    /// Opens the files; does not write anything yet.
    pub(crate) fn open(
        host: &Host,
        unit: Tracemark,
        limit: Option<Nanos>,
    ) -> Result<Self, TraceError> {
        Ok(Self {
            marker: Tracefs::find(host.root())?.marker()?,
            unit,
            limit: limit.unwrap_or_default(),
            failure: OnceLock::new(),
        })
    }

    /// Returns a warning for the reader, if any.
    pub(crate) fn warning(&self) -> Option<String> {
        let error = self.failure.get()?;
        let why = if error.raw_os_error() == Some(EBADF) {
            "tracing_on was 0; write 1 to tracing_on before the run".to_owned()
        } else {
            error.to_string()
        };
        Some(format!("the break was not marked in the trace: {why}"))
    }

    fn text(&self, latency: Nanos) -> String {
        let number = |time: Nanos| match self.unit {
            Tracemark::Micros => time.whole_micros(),
            Tracemark::Nanos => time.0,
        };
        let (latency, limit) = (number(latency), number(self.limit));
        format!("hit latency threshold ({latency} > {limit})")
    }
}

impl TraceStop {
    /// Marks this break, and stops the trace.
    pub(crate) fn broke(&self, broke: Broke) {
        let latency = broke.latency.non_negative().unwrap_or_default();
        if let Err(error) = self.marker.mark_and_stop(&self.text(latency)) {
            let _ = self.failure.set(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::SignedNanos;

    #[test]
    fn break_marks_and_stops_the_trace() {
        let root = tempfile::tempdir().unwrap();
        let tracing = root.path().join("sys/kernel/tracing");
        std::fs::create_dir_all(&tracing).unwrap();
        for (name, text) in [
            ("available_tracers", "nop"),
            ("trace_marker", ""),
            ("tracing_on", "1"),
        ] {
            std::fs::write(tracing.join(name), text).unwrap();
        }
        let host = Host::new(root.path());
        let stop = TraceStop::open(&host, Tracemark::Micros, Some(Nanos(50_999))).unwrap();
        stop.broke(Broke {
            thread: punctual_rt::current_tid(),
            latency: SignedNanos(57_123),
        });
        let read = |name: &str| std::fs::read_to_string(tracing.join(name)).unwrap();
        assert_eq!(read("trace_marker"), "hit latency threshold (57 > 50)");
        assert_eq!(read("tracing_on"), "0");
        assert!(TraceStop::open(&Host::new("/nowhere"), Tracemark::Nanos, None).is_err());
        assert_eq!(stop.warning(), None);
        stop.failure
            .set(io::Error::from_raw_os_error(EBADF))
            .unwrap();
        let warning = stop.warning().unwrap();
        assert!(warning.contains("tracing_on was 0"), "{warning}");
    }
}
