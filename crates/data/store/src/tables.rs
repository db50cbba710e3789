//! Tables of a store.

/// Version number of this schema. It is incremented with each change to [`TABLES`]. A program only
/// reads and writes stores with its own version; `steps.rs` converts earlier ones.
pub(crate) const SCHEMA: i64 = 15;

/// SQL that creates the tables in an empty file.
///
/// * `recording` has the data of a list in small rows that are read in one go. As long as a
///   recording is running, this includes the lease of its writer. `origin` is the origin of an
///   imported recording, as JSON. `experiment` is the experiment of a block; the checksum does not
///   cover it. `facts` and `audit` are hashes of rows in `facts`.
/// * `head` is the rest of a recording as JSON, without threads and rows.
/// * `progress` replaces parts of the head while the recording runs.
/// * `thread` is a measuring thread while the recording runs; its histogram is the sum of the rows.
/// * `pack` replaces the head and threads of a completed recording; both are compressed together.
/// * `series` is one interval of one thread.
/// * `chunk` is a sequence of samples in two compressed streams.
/// * `attachment` is data that belongs to a recording but is not part of its JSON, such as the
///   events around each explained outlier. `about` is JSON, `body` is compressed (zstd), and
///   `length` is the uncompressed size of the body.
/// * `experiment` is an experiment as JSON. There are few of them, so the table fits on one page.
/// * `facts` is the facts of a machine, or an audit, as JSON, stored only once if several
///   recordings have equal ones. `hash` is the hash of the content.
/// * `plan_series` is an epoch of a series of a plan. `slot` is a due time of an epoch, with its
///   result. `run` contains the data of a recording in a series that a trend needs.
/// * `wake_window` is a window of all wake-ups, from continuous monitoring.
/// * `plan_state` is persistent state of a service, such as the last boot and kernel of a series.
/// * `note` and `change_mark` are written by users, as JSON; there are few of them.
/// * `collected` names the machine that delivered a recording, and the hash of the delivery.
/// * `machine` is a line of the overview, updated with each delivery, so that ten thousand machines
///   can be shown without reading their recordings. `due` is the sum of the histograms of all
///   deliveries. It is a counter: deleting a recording does not decrease it.
/// * `quarantine` is a delivery that cannot be stored as a recording; `body` is compressed.
/// * `retired` names a machine that an administrator took out of service.
/// * `earlier_name` is a name under which a machine delivered before it was renamed.
/// * `token` contains only the hash of a secret. `machine` is the name of the machine that uses the
///   token, as reported by the machine; null until the token is used.
/// * `destination` and `delivery` are used by a machine that delivers. A finished recording without
///   a row in `delivery` is due. No separate row marks it as due, so it cannot be lost between two
///   transactions. `reason` is the reason for a refusal.
///
/// All tables are rowid tables: rows with large blobs are slow in WITHOUT ROWID tables
/// (sqlite.org/withoutrowid.html). Unsigned 64-bit numbers are stored as the signed ones with the
/// same bits. `crc` is the CRC-32 of the row's other columns, because SQLite does not checksum the
/// content of the file. Thanks to indexes, the newest recordings can be listed and killed runs can
/// be found without reading ten years of data.
pub(crate) const TABLES: &str = "
CREATE TABLE facts (
    hash TEXT NOT NULL PRIMARY KEY,
    length INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE plan_series (
    key INTEGER PRIMARY KEY,
    machine TEXT NOT NULL,
    host TEXT,
    name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    definition TEXT NOT NULL,
    begun_ns INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (name, machine, epoch)
) STRICT;
CREATE TABLE recording (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    label TEXT,
    probe TEXT NOT NULL,
    headline TEXT NOT NULL,
    started_ns INTEGER NOT NULL,
    duration_ns INTEGER NOT NULL,
    completion TEXT NOT NULL,
    outcome TEXT NOT NULL,
    recorded INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    max_ns INTEGER,
    p99_ns INTEGER,
    fingerprint TEXT NOT NULL,
    has_samples INTEGER NOT NULL,
    threads INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    sample_bytes INTEGER NOT NULL,
    writer_pid INTEGER,
    writer_start INTEGER,
    writer_boot TEXT,
    origin TEXT,
    host TEXT,
    experiment TEXT,
    series INTEGER REFERENCES plan_series,
    facts TEXT,
    audit TEXT,
    crc INTEGER NOT NULL
) STRICT;
CREATE INDEX recording_started ON recording (started_ns, id);
CREATE INDEX recording_running ON recording (key) WHERE completion = 'running';
CREATE INDEX recording_series ON recording (series, started_ns) WHERE series IS NOT NULL;
CREATE TABLE head (
    recording INTEGER PRIMARY KEY REFERENCES recording ON DELETE CASCADE,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE progress (
    recording INTEGER PRIMARY KEY REFERENCES recording ON DELETE CASCADE,
    largest TEXT NOT NULL,
    warnings TEXT NOT NULL,
    dropped INTEGER NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE thread (
    key INTEGER PRIMARY KEY,
    recording INTEGER NOT NULL REFERENCES recording ON DELETE CASCADE,
    thread INTEGER NOT NULL,
    json TEXT NOT NULL,
    accounting TEXT NOT NULL,
    accounting_crc INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (recording, thread)
) STRICT;
CREATE TABLE series (
    key INTEGER PRIMARY KEY,
    recording INTEGER NOT NULL REFERENCES recording ON DELETE CASCADE,
    thread INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    count INTEGER NOT NULL,
    early INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    min_ns INTEGER,
    max_ns INTEGER,
    sum_ns INTEGER NOT NULL,
    buckets BLOB NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (recording, thread, start_ns)
) STRICT;
CREATE TABLE chunk (
    key INTEGER PRIMARY KEY,
    recording INTEGER NOT NULL REFERENCES recording ON DELETE CASCADE,
    thread INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    count INTEGER NOT NULL,
    expected BLOB NOT NULL,
    latency BLOB NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (recording, thread, sequence)
) STRICT;
CREATE TABLE attachment (
    key INTEGER PRIMARY KEY,
    recording INTEGER NOT NULL REFERENCES recording ON DELETE CASCADE,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    about TEXT NOT NULL,
    length INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (recording, kind, number)
) STRICT;
CREATE TABLE experiment (
    id TEXT NOT NULL PRIMARY KEY,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE pack (
    recording INTEGER PRIMARY KEY REFERENCES recording ON DELETE CASCADE,
    length INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE slot (
    key INTEGER PRIMARY KEY,
    series INTEGER NOT NULL REFERENCES plan_series,
    due_ns INTEGER NOT NULL,
    cause TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    recording TEXT,
    crc INTEGER NOT NULL,
    UNIQUE (series, due_ns)
) STRICT;
CREATE INDEX slot_due ON slot (due_ns);
CREATE TABLE run (
    recording INTEGER PRIMARY KEY REFERENCES recording ON DELETE CASCADE,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE wake_window (
    key INTEGER PRIMARY KEY,
    machine TEXT NOT NULL,
    start_ns INTEGER NOT NULL,
    length INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL,
    UNIQUE (start_ns, machine)
) STRICT;
CREATE TABLE note (
    id TEXT NOT NULL PRIMARY KEY,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE change_mark (
    id TEXT NOT NULL PRIMARY KEY,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE plan_state (
    machine TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (machine, name)
) STRICT, WITHOUT ROWID;
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
    fingerprint TEXT NOT NULL,
    due BLOB NOT NULL,
    missed INTEGER NOT NULL,
    unknown INTEGER NOT NULL
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
    created_ns INTEGER NOT NULL,
    machine TEXT
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
    reason TEXT,
    at_ns INTEGER NOT NULL,
    PRIMARY KEY (destination, recording)
) STRICT;
CREATE TABLE retired (
    machine TEXT NOT NULL PRIMARY KEY,
    at_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE earlier_name (
    name TEXT NOT NULL PRIMARY KEY,
    machine TEXT NOT NULL
) STRICT;
";
