//! Errors from finding, storing and sending alerts.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use punctual_files::FileError;
use punctual_store::StoreError;

/// An error of one poll. It is logged, and the next poll retries.
#[derive(Debug, thiserror::Error)]
pub(super) enum AlertError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}: {source}", folder.display())]
    Disk {
        folder: PathBuf,
        source: rustix::io::Errno,
    },
    #[error("state of alerts {}: {}", path.display(), source.reason())]
    StateFile { path: PathBuf, source: FileError },
    #[error("state of alerts {}: {source}", path.display())]
    StateJson {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{url}: {source}")]
    Webhook { url: String, source: ureq::Error },
    #[error("no command")]
    NoCommand,
    #[error("{program}: {source}")]
    Command { program: String, source: io::Error },
    #[error("{program}: {status}")]
    Status { program: String, status: ExitStatus },
    #[error("{program} took too long and was killed")]
    TooLong { program: String },
}
