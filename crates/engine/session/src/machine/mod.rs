//! The machine around a run: its state before the run, the rights of this process, and what the run
//! changes and restores.

mod audit;
mod guards;
mod membership;
pub(crate) mod memory;
mod quota;
mod resources;
pub(crate) mod rights;
pub(crate) mod settings;
mod tracers;

pub(crate) use audit::CapturedFacts;
pub(crate) use guards::{Elsewhere, Guards};
pub use membership::Membership;
pub(crate) use quota::quota_warnings;
pub(crate) use resources::{Machine, Used};
pub use rights::real_time_refused;
pub(crate) use tracers::TimerlatStacks;
pub use tracers::recover_tracer;
