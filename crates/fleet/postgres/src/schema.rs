//! Tables of a collection in PostgreSQL.

/// Version number of these tables. It is incremented with each change to [`TABLES`]. A program only
/// reads and writes tables of its own version, and [`STEPS`] convert earlier ones.
pub(super) const VERSION: i32 = 7;

/// The earliest version that can be converted.
pub(super) const OLDEST: i32 = 5;

/// The statements that convert each version to the next one, from [`OLDEST`] on.
pub(super) const STEPS: [&str; (VERSION - OLDEST) as usize] = [
    "CREATE TABLE retired (machine text PRIMARY KEY, at_ns bigint NOT NULL)",
    "CREATE TABLE earlier_name (name text PRIMARY KEY, machine text NOT NULL)",
];

/// Number of the advisory lock that a collector holds while it changes tables.
pub(super) const LOCK: i64 = 0x7075_6e63_7475_616c;

/// SQL that creates the tables.
///
/// * `recording` is partitioned by its UUIDv7, whose first 48 bits are the time in ms (RFC 9562,
///   5.7): the ID alone is unique, and a month is a range of IDs. Rows with other IDs are in
///   `recording_other`.
/// * `body` is the JSON without facts and samples, compressed with zstd; facts are stored once.
///   `run` is the data that a trend reads.
/// * `machine` is a line of the overview, updated with each delivery.
pub(super) const TABLES: &str = "
CREATE TABLE facts (
    hash text PRIMARY KEY,
    body bytea NOT NULL
);
CREATE TABLE plan_series (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine text NOT NULL,
    host text,
    name text NOT NULL,
    epoch bigint NOT NULL,
    definition text NOT NULL,
    begun_ns bigint NOT NULL,
    UNIQUE (name, machine, epoch)
);
CREATE TABLE recording (
    id uuid PRIMARY KEY,
    machine text NOT NULL,
    sha256 text NOT NULL,
    received_ns bigint NOT NULL,
    facts text NOT NULL,
    series bigint,
    label text,
    probe text NOT NULL,
    headline text NOT NULL,
    started_ns bigint NOT NULL,
    duration_ns bigint NOT NULL,
    completion text NOT NULL,
    outcome text NOT NULL,
    recorded bigint NOT NULL,
    missed bigint NOT NULL,
    max_ns bigint,
    p99_ns bigint,
    fingerprint text NOT NULL,
    host text,
    origin text,
    crc bigint NOT NULL,
    body bytea NOT NULL,
    run bytea
) PARTITION BY RANGE (id);
CREATE INDEX recording_by_start ON recording (started_ns DESC, id DESC);
CREATE INDEX recording_by_machine ON recording (machine, started_ns DESC, id DESC);
CREATE INDEX recording_by_series ON recording (series, started_ns) WHERE series IS NOT NULL;
CREATE INDEX recording_by_end ON recording
    (reverse(encode(uuid_send(id), 'hex')) text_pattern_ops);
CREATE TABLE recording_other PARTITION OF recording DEFAULT;
CREATE TABLE machine (
    name text PRIMARY KEY,
    recordings bigint NOT NULL,
    last_seen_ns bigint NOT NULL,
    latest uuid NOT NULL,
    latest_started_ns bigint NOT NULL,
    headline text NOT NULL,
    outcome text NOT NULL,
    completion text NOT NULL,
    max_ns bigint,
    p99_ns bigint,
    fingerprint text NOT NULL,
    due bytea NOT NULL,
    missed bigint NOT NULL,
    unknown bigint NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE wake_window (
    machine text NOT NULL,
    start_ns bigint NOT NULL,
    length integer NOT NULL,
    crc bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (start_ns, machine)
) PARTITION BY RANGE (start_ns);
CREATE TABLE wake_window_other PARTITION OF wake_window DEFAULT;
CREATE TABLE slot (
    series bigint NOT NULL REFERENCES plan_series ON DELETE CASCADE,
    due_ns bigint NOT NULL,
    cause text NOT NULL,
    state text NOT NULL,
    reason text,
    recording uuid,
    PRIMARY KEY (series, due_ns)
);
CREATE INDEX slot_by_due ON slot (due_ns);
CREATE TABLE note (
    id uuid PRIMARY KEY,
    json text NOT NULL
);
CREATE TABLE change_mark (
    id uuid PRIMARY KEY,
    series text NOT NULL,
    json text NOT NULL
);
CREATE TABLE quarantine (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL,
    machine text NOT NULL,
    sha256 text NOT NULL,
    received_ns bigint NOT NULL,
    reason text NOT NULL,
    bytes bigint NOT NULL,
    body bytea NOT NULL,
    UNIQUE (id, machine, sha256)
);
CREATE TABLE token (
    name text PRIMARY KEY,
    role text NOT NULL,
    sha256 text NOT NULL UNIQUE,
    created_ns bigint NOT NULL,
    machine text
);
CREATE TABLE audit (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ns bigint NOT NULL,
    who text NOT NULL,
    action text NOT NULL,
    what text NOT NULL
);
CREATE TABLE dictionary (
    machine text NOT NULL,
    hash text NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (machine, hash)
);
CREATE TABLE retired (machine text PRIMARY KEY, at_ns bigint NOT NULL);
CREATE TABLE earlier_name (name text PRIMARY KEY, machine text NOT NULL);
";
