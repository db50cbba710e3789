//! Signed statements about recordings, which a reader can verify without the store.
//!
//! **For:** the canonical bytes of a recording and their digest ([`canonical()`], [`digest`]), the key
//! of a machine ([`SigningKey`]), an in-toto statement in a DSSE envelope ([`sign`]), and its
//! verification ([`verify()`]), which computes the verdict again. The statement can also be about
//! files: it is attached to the PDF of a certificate ([`pdf`]), or is part of a bundle.
//!
//! **Knows:** recordings, Ed25519, DSSE and in-toto; archives, the structure of a PDF and ssh-keygen.
//!
//! **Must not know:** stores, the terminal, where a file came from.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod assumptions;
mod bundle;
mod canonical;
mod check;
mod envelope;
mod error;
mod files;
mod key;
mod known;
pub mod pdf;
mod public_key;
mod ssh;
mod statement;
mod verify;

pub use bundle::STATEMENT_FILE;
pub use canonical::{canonical, digest};
pub use check::{Check, State};
pub use error::NotVerified;
pub use files::SignedFile;
pub use key::{Signer, SigningKey};
pub use known::{KnownKey, Trusted};
pub use public_key::{KeyError, PublicKey};
pub use ssh::SshError;
pub use statement::{sign, sign_series};
pub use verify::{Member, Recordings, Verified, verify};
