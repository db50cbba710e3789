//! The tables of a collector, and of a machine that delivers to one.

/// * `collected` says who delivered a recording, and the hash of what was delivered.
/// * `machine` is a line of the overview, kept up to date with each delivery: ten
///   thousand machines are shown without a look at their recordings.
/// * `quarantine` holds what cannot be kept as a recording; `body` is compressed.
/// * `token` holds no secret, only its hash.
/// * `destination` and `delivery` are of a machine that delivers. A finished recording
///   without a line in `delivery` is due: what is due needs no row of its own, so it
///   cannot be lost between two transactions.
pub(crate) const TABLES: &str = "
CREATE TABLE collected (
    recording INTEGER PRIMARY KEY REFERENCES recording ON DELETE CASCADE,
    machine TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    received_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX collected_by_machine ON collected (machine, recording);
CREATE TABLE machine (
    name TEXT NOT NULL PRIMARY KEY,
    recordings INTEGER NOT NULL,
    last_seen_ns INTEGER NOT NULL,
    latest TEXT NOT NULL,
    latest_started_ns INTEGER NOT NULL,
    headline TEXT NOT NULL,
    outcome TEXT NOT NULL,
    completion TEXT NOT NULL,
    max_ns INTEGER,
    p99_ns INTEGER,
    fingerprint TEXT NOT NULL
) STRICT;
CREATE TABLE quarantine (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    machine TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    received_ns INTEGER NOT NULL,
    reason TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (id, machine, sha256)
) STRICT;
CREATE TABLE token (
    name TEXT NOT NULL PRIMARY KEY,
    role TEXT NOT NULL,
    sha256 TEXT NOT NULL UNIQUE,
    created_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE audit (
    key INTEGER PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    what TEXT NOT NULL
) STRICT;
CREATE TABLE destination (
    id TEXT NOT NULL PRIMARY KEY,
    url TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE delivery (
    destination TEXT NOT NULL REFERENCES destination ON DELETE CASCADE,
    recording INTEGER NOT NULL REFERENCES recording ON DELETE CASCADE,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_try_ns INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (destination, recording)
) STRICT;
";
