//! Options of verbs that write signed statements.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use punctual_evidence::{Signer, SigningKey};

use crate::context::signing_key;
use crate::exit::with_causes;
use crate::output;

// Keys that sign a statement.
#[derive(Args)]
pub(crate) struct Signing {
    /// Sign also with an SSH key of a person (ssh-keygen -Y sign)
    #[arg(long, value_name = "KEYFILE")]
    ssh_key: Option<PathBuf>,
}

impl Signing {
    /// Whether the signature of a person is requested.
    pub(crate) fn is_requested(&self) -> bool {
        self.ssh_key.is_some()
    }

    /// Returns the keys that sign.
    pub(crate) fn signer(&self) -> Result<Signer> {
        Ok(Signer {
            key: SigningKey::open(&signing_key()?)?,
            ssh_key: self.ssh_key.clone(),
        })
    }

    /// Returns the keys that sign; `None`, with a message, if this machine can have no key and no
    /// other key was given.
    pub(crate) fn signer_if_possible(&self) -> Result<Option<Signer>> {
        let is_requested = self.is_requested();
        match self.signer() {
            Err(error) if !is_requested => {
                output::note(&format!("not signed: {}", with_causes(&error)));
                Ok(None)
            }
            signer => signer.map(Some),
        }
    }
}
