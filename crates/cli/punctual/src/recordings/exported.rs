//! A recording and its samples, in a format for files.

use std::io;

use anyhow::{Context as _, Result};
use punctual_formats::{Export, ExportOptions, FORMATS, SampleSource};
use punctual_model::{Recording, RecordingId, Sample};
use punctual_store::{Store, StoreError};
use sha2::{Digest as _, Sha256};

/// The format that contains a whole recording.
const JSON: &str = "json";

/// Returns the bytes that `punctual export ID --format json` writes, and the command itself.
pub(crate) fn json(store: &Store, recording: &Recording) -> Result<(Vec<u8>, String)> {
    let found = FORMATS.iter().find(|format| format.name == JSON);
    let format = found.context("this program has no format json")?;
    let export = Export {
        recording,
        samples: &Samples {
            store,
            id: recording.id,
        },
        options: ExportOptions::default(),
    };
    let mut bytes = Vec::new();
    (format.write)(&export, &mut bytes)?;
    let command = format!("punctual export {} --format {JSON}", recording.id);
    Ok((bytes, command))
}

/// Returns the SHA-256 of these bytes in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The samples in the store, for formats that include samples.
pub(crate) struct Samples<'a> {
    pub(crate) store: &'a Store,
    pub(crate) id: RecordingId,
}

impl SampleSource for Samples<'_> {
    fn for_each(
        &self,
        thread: u32,
        chunk: &mut dyn FnMut(&[Sample]) -> io::Result<()>,
    ) -> io::Result<()> {
        let taken = self.store.samples(self.id, thread, &mut |samples| {
            chunk(samples).map_err(Failure::Output)
        });
        match taken {
            Ok(_) => Ok(()),
            Err(Failure::Output(error)) => Err(error),
            Err(Failure::Store(error)) => Err(io::Error::other(error)),
        }
    }
}

/// Reason why a sample could not be written.
enum Failure {
    Store(StoreError),
    Output(io::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
