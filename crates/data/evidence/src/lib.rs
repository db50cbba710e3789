//! Signed statements about recordings, which a reader can verify without the store.
//!
//! **For:** the canonical bytes of a recording and their digest ([`canonical()`], [`digest`]), the key
//! of a machine ([`SigningKey`]), an in-toto statement in a DSSE envelope ([`sign`]), and its
//! verification ([`verify()`]), which computes the verdict again.
//!
//! **Knows:** recordings, Ed25519, DSSE and in-toto.
//!
//! **Must not know:** stores, the terminal, where a file came from.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod canonical;
mod envelope;
mod key;
mod statement;
mod verify;

pub use canonical::{canonical, digest};
pub use key::{KeyError, PublicKey, SigningKey};
pub use statement::sign;
pub use verify::{Check, NotVerified, State, Verified, verify};
