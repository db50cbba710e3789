//! Runs `punctual-server` as a user would, together with `punctual` on machines that push.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the report")]

mod bundle;
mod collector;
mod fleet;
mod live_page;
mod place;
mod stores;
