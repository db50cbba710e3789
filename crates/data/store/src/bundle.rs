//! An archive with all stored data of a recording, for a support request.

use std::fs;
use std::io::{self, Write};

use jiff::Timestamp;
use punctual_model::{Completion, Recording, Sample, ToJson, escape_json};
use sha2::{Digest, Sha256};

use crate::{Filter, Lease, Store, StoreError};

/// Compression level: fast, but with most of the possible compression.
const LEVEL: i32 = 6;

/// Who may read the files of a bundle after it has been unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Their owner.
    Owner,
    /// All users.
    All,
}

impl Readers {
    fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::All => 0o644,
        }
    }
}

/// An archive (`.tar.zst`) while it is being written.
pub struct Bundle<W: Write> {
    archive: tar::Builder<zstd::Encoder<'static, W>>,
    /// Description of the recording on one line.
    title: String,
    folder: String,
    readers: Readers,
    time: u64,
    /// Each file, or the reason why it is missing.
    contents: Vec<String>,
    /// Name and SHA-256 of each file that was written.
    written: Vec<(String, String)>,
    is_listed: bool,
}

impl<W: Write> Bundle<W> {
    /// Begins a bundle that contains the recording as JSON, a store with only this recording and
    /// its samples and attachments, and the facts of its machine. Without a store, the bundle has
    /// neither samples nor attachments.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read, or if the copy or `to` cannot be written.
    pub fn new(
        to: W,
        store: Option<&Store>,
        recording: &Recording,
        readers: Readers,
    ) -> Result<Self, StoreError> {
        let packed = zstd::Encoder::new(to, LEVEL).map_err(StoreError::Bundle)?;
        let mut bundle = Self {
            archive: tar::Builder::new(packed),
            title: format!("the recording {} of {}", recording.id, recording.started),
            folder: format!("punctual-{}", recording.id.short()),
            readers,
            time: u64::try_from(Timestamp::now().as_second()).unwrap_or(0),
            contents: Vec::new(),
            written: Vec::new(),
            is_listed: false,
        };
        bundle.put_json("recording.json", "the recording", &recording.in_words())?;
        bundle.add(
            "store.db",
            "the recording with its samples and trace events, to be read with: punctual --store \
             store.db show",
            &copied(store, recording)?,
        )?;
        let about = "the machine that was measured";
        bundle.put_json("host.json", about, &recording.host)?;
        Ok(bundle)
    }

    /// Adds a file. `about` describes it in the list of contents.
    ///
    /// # Errors
    /// [`StoreError::Bundle`].
    pub fn add(&mut self, name: &str, about: &str, content: &[u8]) -> Result<(), StoreError> {
        self.contents.push(format!("{name}: {about}"));
        self.file(name, content)
    }

    /// Adds a value as JSON.
    ///
    /// # Errors
    /// [`StoreError::Bundle`].
    pub fn put_json(
        &mut self,
        name: &str,
        about: &str,
        value: &dyn ToJson,
    ) -> Result<(), StoreError> {
        let json = format!("{}\n", escape_json(&value.to_pretty_json()));
        self.add(name, about, json.as_bytes())
    }

    /// Records in the list of contents why a file is missing.
    pub fn lack(&mut self, name: &str, why: &str) {
        self.contents.push(format!("{name}: missing: {why}"));
    }

    fn file(&mut self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(self.readers.mode());
        header.set_mtime(self.time);
        let path = format!("{}/{name}", self.folder);
        self.archive
            .append_data(&mut header, path, content)
            .map_err(StoreError::Bundle)?;
        let digest = Sha256::digest(content);
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.written.push((name.to_owned(), sha256));
        Ok(())
    }

    /// Writes the list of contents, and returns name and SHA-256 of each file. `later` are names and
    /// descriptions of files that are added after the list.
    ///
    /// # Errors
    /// [`StoreError::Bundle`].
    pub fn list(&mut self, later: &[(&str, &str)]) -> Result<Vec<(String, String)>, StoreError> {
        let later = later.iter().map(|(name, about)| format!("{name}: {about}"));
        self.contents.extend(later);
        let text = format!(
            "Bundle of {}, created by punctual {} at {}.\n\n{}\n",
            self.title,
            env!("CARGO_PKG_VERSION"),
            Timestamp::now(),
            self.contents.join("\n")
        );
        self.file("CONTENTS.txt", text.as_bytes())?;
        self.is_listed = true;
        Ok(self.written.clone())
    }

    /// Ends the bundle, with the list of its contents.
    ///
    /// # Errors
    /// [`StoreError::Bundle`].
    pub fn finish(mut self) -> Result<W, StoreError> {
        if !self.is_listed {
            self.list(&[])?;
        }
        let packed = self.archive.into_inner();
        packed
            .and_then(zstd::Encoder::finish)
            .map_err(StoreError::Bundle)
    }
}

/// Maximum number of recordings in the store of a bundle.
const MOST_RECORDINGS: usize = 100;

/// Returns the recordings of the store in a bundle, without their samples.
///
/// # Errors
/// Returns an error if the file cannot be copied to a temporary one, is not a store, is damaged, or
/// has more than 100 recordings.
pub fn recordings(store: &[u8]) -> Result<Vec<Recording>, StoreError> {
    let folder = punctual_files::scratch::folder().map_err(StoreError::Bundle)?;
    let path = folder.path().join("store.db");
    let file = fs::File::create_new(&path);
    file.and_then(|mut file| file.write_all(store))
        .map_err(StoreError::Bundle)?;
    let store = Store::open_read_only(&path)?;
    let newest = Filter {
        limit: Some(MOST_RECORDINGS + 1),
        ..Filter::default()
    };
    let found = store.list_by(&newest)?;
    if found.len() > MOST_RECORDINGS {
        let why = format!("its store has more than {MOST_RECORDINGS} recordings");
        return Err(StoreError::Bundle(io::Error::other(why)));
    }
    found.iter().map(|one| store.load(one.id)).collect()
}

/// Returns a store with only this recording and its attachments.
fn copied(store: Option<&Store>, recording: &Recording) -> Result<Vec<u8>, StoreError> {
    let folder = punctual_files::scratch::folder().map_err(StoreError::Bundle)?;
    let path = folder.path().join("store.db");
    let copy = Store::open(&path)?;
    let mut running = recording.clone();
    running.completion = Completion::Running;
    // The copy has no other writer, so it needs no lease.
    let mut writer = copy.begin(&running, &Lease::default())?;
    if let Some(store) = store {
        for thread in 0..recording.threads.len() as u32 {
            store.samples(recording.id, thread, &mut |samples: &[Sample]| {
                writer.samples(thread, samples)
            })?;
        }
        for attached in store.attachments(recording.id)? {
            let content = store.attachment(recording.id, &attached.kind, attached.number)?;
            if let Some((about, body)) = content {
                writer.attach(&attached.kind, attached.number, &about, &body)?;
            }
        }
    }
    match recording.completion {
        // A running recording simply continues. The copy contains its current state and is marked
        // as interrupted.
        Completion::Running => {
            let stopped = Recording {
                completion: Completion::Interrupted,
                ..recording.clone()
            };
            writer.finish(&stopped)?;
        }
        _ => writer.finish(recording)?,
    }
    // Without this, an error while the log is copied into the file would not be reported.
    copy.link.empty_log()?;
    drop(copy);
    #[expect(
        clippy::disallowed_methods,
        reason = "this function has written the file"
    )]
    fs::read(&path).map_err(StoreError::Bundle)
}
