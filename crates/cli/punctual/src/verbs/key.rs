//! `key`: shows, exports and replaces the signing key of this machine.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Parser;
use jiff::Timestamp;
use punctual_evidence::{KnownKey, PublicKey, SigningKey};
use punctual_files::Output;
use punctual_model::to_json;
use serde::Serialize;

use crate::context::{Context, earlier_keys, signing_key};
use crate::exit::Exit;
use crate::output;
use crate::running::push::host_name;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Key>("key");

const LONG: &str = "Show the public key with which this machine signs its recordings (punctual sign), and its \
    fingerprint. Makes the key if there is none: Ed25519, in the file signing.key next to the journal of \
    settings, which only its owner can read. An existing key is never overwritten.\n\n\
    A reader verifies with punctual verify --key KEY, or with --keys FILE and the file of -o. Give the key \
    to the reader on another way than the statements.\n\n\
    --rotate replaces the key. The file signing.earlier keeps the public key of the old one, so its \
    statements can still be verified; its private key is gone. If the old key was stolen, delete its line \
    there, and tell the readers.";

/// Show, export or replace the key that signs recordings
#[derive(Parser)]
#[command(long_about = LONG)]
struct Key {
    /// Replace the key; statements of the old key stay verifiable
    #[arg(long)]
    rotate: bool,
    /// New file with the public keys, for verify --keys; - for stdout
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The keys of this machine.
#[derive(Serialize)]
struct Keys {
    /// The public key.
    public_key: String,
    /// SHA-256 of the public key.
    fingerprint: String,
    /// File of the private key.
    file: PathBuf,
    /// Replaced keys.
    earlier: Vec<Earlier>,
}

to_json!(Keys);

#[derive(Serialize)]
struct Earlier {
    public_key: String,
    fingerprint: String,
    /// Name of the machine, and the time at which the key was replaced.
    name: String,
}

impl Run for Key {
    fn run(self, _: &Context) -> Result<Exit> {
        let (path, list) = (signing_key()?, earlier_keys()?);
        let is_new = path.symlink_metadata().is_err();
        let host = host_name();
        let key = if self.rotate {
            let now = Timestamp::now().strftime("%FT%TZ");
            SigningKey::rotate(&path, &list, &format!("{host} until {now}"))?
        } else {
            SigningKey::open(&path)?
        };
        let key = key.public();
        if is_new {
            output::note(&format!("a key was made: {}", path.display()));
        } else if self.rotate {
            output::note("the key was replaced: give the new public key to the readers");
        }
        let mut earlier = KnownKey::read_if_any(&list)?;
        // A killed --rotate has already listed a key that is still in use.
        earlier.retain(|one| one.key != key);
        if let Some(to) = &self.output {
            export(to, KnownKey::new(key, &host), earlier)?;
        } else {
            let keys = Keys::new(key, path, &earlier);
            let json = self.json.then(|| output::json(&keys));
            output::print(&json.unwrap_or_else(|| keys.text()))?;
        }
        Ok(Exit::Done)
    }
}

/// Writes the public keys to a file that does not exist yet, which could be a list of other keys.
fn export(to: &Path, own: KnownKey, earlier: Vec<KnownKey>) -> Result<()> {
    let list = KnownKey::list(&[vec![own], earlier].concat());
    match Output::open(to)?.put_new(list.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} exists and is not replaced: it may list keys of other machines. Write another file, or \
             add to it: punctual key -o - >> FILE",
            to.display()
        ),
        done => done?,
    }
    if to != Path::new("-") {
        output::note(&format!("public keys written to {}", to.display()));
    }
    Ok(())
}

impl Keys {
    fn new(key: PublicKey, file: PathBuf, earlier: &[KnownKey]) -> Self {
        let earlier = earlier.iter().map(|one| Earlier {
            public_key: one.key.hex(),
            fingerprint: one.key.fingerprint(),
            name: one.name.clone(),
        });
        Self {
            public_key: key.hex(),
            fingerprint: key.fingerprint(),
            file,
            earlier: earlier.collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "public key   {}\nfingerprint  SHA-256 {}\nfile         {}\n",
            self.public_key,
            self.fingerprint,
            self.file.display()
        );
        for one in &self.earlier {
            text.push_str(&format!(
                "earlier key  {} of {}\n",
                one.public_key, one.name
            ));
        }
        text
    }
}
