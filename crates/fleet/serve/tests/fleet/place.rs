//! A store in a temporary folder, a collector on it, and recordings to deliver.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_model::{Fact, Recording, RecordingId};
pub(crate) use punctual_push::protocol::sha256;
use punctual_serve::{Config, Running, start};
use punctual_store::{Collection, Lease, SqliteCollection, Store, Wanted};
use tempfile::TempDir;
use uuid::Uuid;

use crate::client::{Answer, send};

pub(crate) struct Sandbox {
    _folder: TempDir,
    pub(crate) store: PathBuf,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("collector.db");
        Self {
            _folder: folder,
            store,
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.store.with_file_name(name)
    }

    pub(crate) fn collection(&self) -> SqliteCollection {
        SqliteCollection::open(&self.store).unwrap()
    }

    pub(crate) fn serve(&self) -> Running {
        self.serve_as(|_| {})
    }

    pub(crate) fn serve_as(&self, change: impl FnOnce(&mut Config)) -> Running {
        let mut config = Config::new("127.0.0.1:0".parse().unwrap());
        change(&mut config);
        start(config, Arc::new(self.collection())).unwrap()
    }
}

/// Returns the recording of this machine with this number.
pub(crate) fn recording(number: u128, host: &str) -> Recording {
    numbered(punctual_model::testing::recording(2, 3), number, host)
}

/// Returns the same recording, but with only one thread and one second.
pub(crate) fn small(number: u128, host: &str) -> Recording {
    numbered(punctual_model::testing::recording(1, 1), number, host)
}

fn numbered(mut recording: Recording, number: u128, host: &str) -> Recording {
    recording.id = RecordingId(Uuid::from_u128(
        0x019a_4d1c_7b3a_7000_8000_0000_0000_0000 + number,
    ));
    recording.started += std::time::Duration::from_secs(number as u64 * 60);
    recording.host.hostname = Fact::known(host.to_owned(), "uname");
    recording.samples = None;
    recording
}

pub(crate) fn json(recording: &Recording) -> Vec<u8> {
    serde_json::to_vec(recording).unwrap()
}

/// Delivers a body under an ID.
pub(crate) fn put_recording(
    to: SocketAddr,
    id: RecordingId,
    body: &[u8],
    more: &[(&str, &str)],
) -> Answer {
    let packed = zstd::bulk::compress(body, 3).unwrap();
    let hash = sha256(body);
    let mut headers = vec![("Content-Encoding", "zstd"), ("Punctual-SHA256", &hash)];
    headers.extend_from_slice(more);
    send(
        to,
        "PUT",
        &format!("/v1/recordings/{id}"),
        &headers,
        &packed,
    )
}

pub(crate) fn deliver(to: SocketAddr, recording: &Recording) -> Answer {
    put_recording(to, recording.id, &json(recording), &[])
}

/// Asserts that each of these recordings is stored exactly once, by ID and content, and that
/// nothing else is stored or quarantined.
pub(crate) fn all_are_kept(
    collection: &dyn Collection,
    all: impl IntoIterator<Item = impl Borrow<Recording>>,
) {
    let wanted = Wanted {
        most: usize::MAX,
        ..Wanted::default()
    };
    let mut kept = BTreeMap::new();
    for listed in collection.list(&wanted).unwrap() {
        let (_, recording) = collection.load(listed.summary.id).unwrap();
        let before = kept.insert(recording.id, sha256(&json(&recording)));
        assert!(before.is_none(), "twice");
    }
    let known = |one: &Recording| (one.id, sha256(&json(one)));
    let sent: BTreeMap<_, _> = all.into_iter().map(|one| known(one.borrow())).collect();
    let is_same = kept == sent;
    assert!(is_same, "{} kept of {} sent", kept.len(), sent.len());
    let machines = collection.machines().unwrap();
    assert_eq!(machines[0].recordings, sent.len() as u64);
    assert!(collection.quarantined(10).unwrap().is_empty());
}

/// Stores recordings as if they had been made there.
pub(crate) fn measured(store: &Store, recordings: &[Recording]) {
    for recording in recordings {
        let writer = store.begin(recording, &Lease::default()).unwrap();
        writer.finish(recording).unwrap();
    }
}
