//! Describes why the scheduler may not have run a thread.

use std::fmt;

use crate::Text;
use crate::cause::Hold;

/// Describes the possible reasons, and the event that would decide.
pub(super) fn held_by(possible: &[Hold], decided_by: Option<&Text>) -> String {
    let reasons: Vec<String> = possible.iter().map(ToString::to_string).collect();
    let text = match possible {
        [] | [Hold::Scheduler] => "no known limit explains this".into(),
        _ => format!("possible: {}", reasons.join(", ")),
    };
    match decided_by {
        Some(event) => format!("{text} (the event {event} would decide)"),
        None => text,
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quota => "the CPU quota of a control group",
            Self::RealTimeThrottling => "real-time throttling",
            Self::FairServer => "the deadline server for ordinary threads",
            Self::PendingWakeup => "a pending wake-up from another CPU",
            Self::Theft => "hypervisor or SMI",
            Self::Scheduler => "an error of the scheduler",
        })
    }
}
