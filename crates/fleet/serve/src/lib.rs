//! Serves the recordings of many machines over HTTP.
//!
//! **For:** one process that accepts the deliveries of machines (`punctual-push` is the client side).
//! It shows them as pages that work without scripts, and provides them as JSON and as
//! metrics.
//!
//! **Knows:** HTTP, the store, the documents of `report`, statistics.
//!
//! **Must not know:** how anything is measured: neither probes nor the tracer, nor the machine that
//! it runs on.
//!
//! # Access control
//! On a loopback address, every user of this machine has full access, unless a login is required.
//! On any other address, each request needs a token, which is stored as its SHA-256. A request to
//! an address that requires no login must name a loopback host, so that a foreign page cannot reach
//! the server through a name that resolves to this machine (DNS rebinding).
//!
//! # Hostile input
//! Bodies are limited in size, both compressed and decompressed. Slow senders are disconnected.
//! Each renderer escapes all texts, and a strict Content-Security-Policy is a second barrier.
//!
//! # Durability
//! A delivery is acknowledged once it is on disk. If it cannot be stored as a recording, it is set
//! aside with the reason, and never dropped.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access;
pub mod alerts;
mod api;
mod assets;
mod cached;
mod config;
mod cursor;
mod error;
mod fleet;
mod follow;
mod gather;
mod headers;
pub mod incoming;
mod listing;
mod live;
mod log;
mod look;
mod metrics;
mod missed;
mod newest;
mod pages;
mod paths;
mod problem;
mod recent;
mod refusals;
mod route;
mod routes;
mod seats;
mod sender;
mod server;
mod state;
mod strangers;
mod tls;
mod token;
pub mod trends;
mod workers;
mod worse;

pub use access::PROXY_SECRET;
pub use config::{Config, Limits, PushTo, SignOn, TlsFiles};
pub use error::{NotTaken, ServeError, SourceError};
pub use server::{Running, run, start};
pub use token::{enrol, enrol_all, rename};
