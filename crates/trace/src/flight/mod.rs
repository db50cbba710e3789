//! The flight recorder: an own trace instance that overwrites its oldest, read
//! only when something happened.

mod brake;
mod clock;
mod cut;
mod history;
mod instance;
mod name;
mod recorder;
mod scout;
mod stream;

pub use brake::Brake;
pub use clock::ClockMap;
pub(crate) use clock::monotonic;
pub use cut::{Cut, RawPage};
pub use instance::NotRecorded;
pub(crate) use instance::{instance_layout, remove};
pub(crate) use name::FlightName;
pub use name::Owner;
pub(crate) use recorder::{CpuPipe, pipes};
pub use recorder::{Flight, Plan};
pub use scout::{Scout, Told};
pub(crate) use stream::{Heard, Stream};

#[cfg(test)]
mod tests;
