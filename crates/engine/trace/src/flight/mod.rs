//! The flight recorder: a separate trace instance that overwrites its oldest events, and is read
//! only after an outlier.

mod history;
mod instance;
mod interruptions;
mod name;
mod ordered;
mod recorder;
mod requested;
mod scout;
mod stop_handle;
mod stream;
mod trace_slice;

pub use instance::NotRecorded;
pub(crate) use instance::{Instance, instance_layout, remove};
pub use interruptions::InterruptionRecorder;
pub(crate) use name::FlightName;
pub use name::Owner;
pub use ordered::HELD_BACK;
pub(crate) use ordered::Ordered;
pub(crate) use recorder::{CpuPipe, pipes};
pub use recorder::{Flight, Plan};
pub(crate) use requested::is_name;
pub use requested::{EventChoice, NotAChoice};
pub use scout::{Followed, ListedJob, ReleaseCall, Scout, ScoutEvent};
pub use stop_handle::StopHandle;
pub(crate) use stream::Stream;
pub use stream::Streamed;
pub use trace_slice::{Drained, RawPage, StackPart, TraceSlice, WaitRecord};

#[cfg(test)]
mod tests;
