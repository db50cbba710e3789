//! The C interface of the kit: what `punctual-rt` and `punctual-app` offer, for C and C++.
//!
//! **For:** programs in other languages. `include/punctual.h` is made from this crate by
//! cbindgen and kept beside it; `include/punctual.hpp` wraps it for C++17.
//!
//! **Knows:** `rt`, `app`, and what C can express.
//!
//! **Must not know:** anything that decides: each function is one call of those crates.
//!
//! Rules: names begin with `punctual_`. A function that can fail returns 0 or a negative
//! errno, and [`punctual_last_error`] says why. Times are nanoseconds as `int64_t`, of
//! CLOCK_MONOTONIC where they are instants. Structures of numbers begin with their size. An object is made in
//! storage of the caller's (`_t`) or, where that is NULL, in memory of the heap; the
//! owning handle (`_h`) is passed to `_drop` once, borrowed ones (`_h_ref`) to all
//! others. No panic leaves the library.

#![allow(unsafe_code, non_camel_case_types)]
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod allocation;
mod deadline;
mod error;
mod figures;
mod guard;
mod handle;
mod monitor;
mod periodic;
mod sized;
mod tcp;
mod thread;

pub use allocation::*;
pub use deadline::*;
pub use error::punctual_last_error;
pub use figures::*;
pub use guard::*;
pub use monitor::*;
pub use periodic::*;
pub use tcp::*;
pub use thread::*;

/// The version of this interface. A program that was compiled against another header
/// compares it with this at its start.
pub const PUNCTUAL_ABI_VERSION: u32 = 1;

/// The version of the interface that the library has: PUNCTUAL_ABI_VERSION of its header.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_abi_version() -> u32 {
    PUNCTUAL_ABI_VERSION
}
