//! Delivers the recordings of a machine to a collector.
//!
//! **For:** `punctual push` and the service of `punctual monitor`. The collector uses the
//! [`protocol`].
//!
//! **Knows:** HTTP and TLS as a client, the store, the requests of a collector.
//!
//! **Must not know:** how anything is measured, terminals, servers.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod deliverer;
mod dictionary;
mod error;
mod membership;
pub mod protocol;
mod sidecar;
mod target;

pub use deliverer::{Deliverer, Target};
pub use error::DeliverError;
