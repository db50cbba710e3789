//! The C interface of the kit: the functions of `punctual-rt` and `punctual-app` for C and C++.
//!
//! **For:** programs in other languages. cbindgen generates `include/punctual.h` from this crate,
//! and the result is checked in. `include/punctual.hpp` wraps it for C++17.
//!
//! **Knows:** `rt`, `app`, and what C can express.
//!
//! **Must not know:** any decisions: each function only calls one function of those crates.
//!
//! Rules: names begin with `punctual_`. A function that can fail returns 0 or a negative errno, and
//! [`punctual_last_error`] returns the reason. Times are nanoseconds as `int64_t`; instants are on
//! CLOCK_MONOTONIC. Structures of numbers begin with their size. An object is made in storage that
//! the caller provides (`_t`), or on the heap if the storage is NULL. Pass the owning handle (`_h`)
//! to `_drop` once, and borrowed ones (`_h_ref`) to all other functions. No panic leaves the
//! library.

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

/// The version of this interface. Programs compare it with punctual_abi_version() at startup, to
/// detect a library that was built for a different header.
pub const PUNCTUAL_ABI_VERSION: u32 = 1;

/// Returns the interface version of the library, which is PUNCTUAL_ABI_VERSION in its header.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_abi_version() -> u32 {
    PUNCTUAL_ABI_VERSION
}
