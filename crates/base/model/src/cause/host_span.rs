//! Activity of a virtual CPU, as the trace of its host shows it.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::cause::Cause;

/// A span of time of a virtual CPU, according to a trace of its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSpan {
    /// The virtual CPU.
    pub cpu: u32,
    /// Start of the span, on the clock of the events.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// End of the span.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// Activity of the host while the virtual CPU did not run. Null if the virtual CPU ran.
    pub away: Option<Cause>,
}
