//! The tables, and how a store of an earlier schema becomes one of this.

use std::collections::BTreeMap;

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;
use crate::error::Context;

/// `punc` in ASCII: tells our files from other programs' (file(1) shows it).
pub(crate) const APPLICATION_ID: i64 = 0x7075_6e63;

/// What made each schema out of the one before it, in order; the first makes
/// schema 1 out of an empty file. A line that was released is never edited,
/// only followed by another.
pub(crate) const MIGRATIONS: &[&str] = &[
    V1,
    V2,
    V3,
    V4,
    V5,
    V6,
    crate::collect::schema::TABLES,
    V8,
    V9,
];

/// * `recording` is what a list shows, in small rows that are read in one go,
///   with the lease of the writer while it runs.
/// * `head` is the rest of a recording as JSON, without threads and rows.
/// * `progress` is what replaces parts of the head while it runs.
/// * `thread` holds a measuring thread; its histogram is there from the end of
///   the run on, before that it is the sum of the rows.
/// * `series` holds one interval of one thread.
/// * `chunk` is a run of samples in two compressed streams.
///
/// Rowid tables throughout: rows with large blobs are slow in WITHOUT ROWID
/// ones (sqlite.org/withoutrowid.html). Unsigned 64-bit numbers are kept as
/// the signed ones of the same bits. `crc` is the CRC-32 of the row's other
/// columns, because SQLite does not checksum what is in the file.
const V1: &str = "
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
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE head (
    recording INTEGER PRIMARY KEY REFERENCES recording ON DELETE CASCADE,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE progress (
    recording INTEGER PRIMARY KEY REFERENCES recording ON DELETE CASCADE,
    worst TEXT NOT NULL,
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
    histogram BLOB,
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
";

/// Where a recording comes from that was made elsewhere, as JSON: what its
/// source could not tell must not be listed as a zero, and half an import is
/// swept away.
const V2: &str = "ALTER TABLE recording ADD COLUMN origin TEXT;";

/// * `attachment` is what belongs to a recording and is no part of its JSON: of
///   each explained outlier the events around it. `about` is JSON, `body` is
///   compressed (zstd), `length` what it is without.
const V3: &str = "
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
";

/// The name of the machine, so that a list can show it and filter by it. Null in
/// rows of before, whose head has it, and where it is not known.
const V4: &str = "ALTER TABLE recording ADD COLUMN host TEXT;";

/// * `experiment` is an experiment as JSON. There are few: one page does for the table.
/// * The column says which experiment a recording is a block of, so that lists leave it
///   out. No figure is made of it: the checksum does not cover it.
const V5: &str = "
CREATE TABLE experiment (
    id TEXT NOT NULL PRIMARY KEY,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE recording ADD COLUMN experiment TEXT;
";

/// Measurements by a plan, over years.
/// * `facts` is a machine's facts as JSON, once for all recordings with equal ones: their
///   heads have none. `hash` is of the content.
/// * `pack` replaces head and threads of a recording that is done: together, compressed.
/// * `plan_series` is an epoch of a series of a plan, `slot` a due time of one with what
///   became of it. `run` is what a trend needs of a recording that belongs to a series.
/// * `wake_window` is a window of watching all wake-ups.
/// * `plan_state` is what a service remembers: the last boot and kernel of a series.
/// * `note` and `change_mark` are what users wrote, as JSON: few.
///
/// The columns of `recording` are keys of figures that have a checksum of their own.
const V6: &str = "
CREATE TABLE facts (
    hash TEXT NOT NULL PRIMARY KEY,
    length INTEGER NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE TABLE pack (
    recording INTEGER PRIMARY KEY REFERENCES recording ON DELETE CASCADE,
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
ALTER TABLE recording ADD COLUMN series INTEGER REFERENCES plan_series;
ALTER TABLE recording ADD COLUMN facts TEXT;
CREATE INDEX recording_series ON recording (series, started_ns) WHERE series IS NOT NULL;
";

/// From here on a recording that is done lies in `pack`; those of before are packed by
/// [`crate::Store::compact`]. A list of the newest and the search for runs that were killed
/// need not read all of ten years.
const V8: &str = "
CREATE INDEX recording_started ON recording (started_ns, id);
CREATE INDEX recording_running ON recording (key) WHERE completion = 'running';
";

/// The hash of a recording's audit, which lies in `facts`, once for all recordings with an equal
/// one. Null where there is none, and in rows of before, whose head has it.
const V9: &str = "ALTER TABLE recording ADD COLUMN audit TEXT;";

/// Reads one of SQLite's header numbers.
pub(crate) fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// Whose file it is, and of which schema; 0 for a file without content.
pub(crate) fn version(
    connection: &Connection,
    known: i64,
    context: &Context,
) -> Result<i64, StoreError> {
    let read = |name: &str| pragma(connection, name).map_err(|error| context.on(error));
    if is_blank(connection).map_err(|error| context.on(error))? {
        return Ok(0);
    }
    let application = read("application_id")?;
    let found = read("user_version")?;
    if application != APPLICATION_ID {
        return Err(StoreError::NotAStore {
            path: context.path.clone(),
            what: match application {
                0 => "it is an SQLite database of another program".to_owned(),
                id => format!("it is an SQLite database of another program (application ID {id})"),
            },
        });
    }
    match found {
        found if found > known => Err(StoreError::Newer {
            path: context.path.clone(),
            found,
            known,
        }),
        // The application ID and the version are written in one transaction.
        found if found < 1 => Err(context.damaged(format!("it says it has schema {found}"))),
        found => Ok(found),
    }
}

/// Kind and name of each object of a database, with the statement that made it;
/// indexes of constraints have none.
type Objects = BTreeMap<(String, String), Option<String>>;

/// Refuses a store that holds anything but the tables of schema `found`: a view in
/// place of a table, a trigger or a virtual table would run statements of whoever
/// made the file. 0 is a file without content.
pub(crate) fn check_objects(
    connection: &Connection,
    found: i64,
    context: &Context,
) -> Result<(), StoreError> {
    let on = |error| context.on(error);
    let made = usize::try_from(found).ok();
    let made = made.and_then(|count| MIGRATIONS.get(..count));
    let model = Connection::open_in_memory().map_err(on)?;
    model
        .execute_batch(&made.unwrap_or_default().concat())
        .map_err(on)?;
    let ours = objects(&model).map_err(on)?;
    let theirs = objects(connection).map_err(on)?;
    if let Some((_, name)) = ours.keys().find(|object| !theirs.contains_key(object)) {
        return Err(context.damaged(format!("it has no table or index {name}")));
    }
    for ((kind, name), sql) in &theirs {
        let fits = match ours.get(&(kind.clone(), name.clone())) {
            Some(our) => our == sql,
            None => kind == "table" && is_by_product(name, sql.as_deref()),
        };
        if !fits {
            let name = name.escape_debug();
            return Err(context.damaged(format!("its {kind} {name} is not made by punctual")));
        }
    }
    Ok(())
}

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    let mut statement = connection.prepare("SELECT type, name, sql FROM sqlite_schema")?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    rows.collect()
}

/// Whether it is a table of plain columns that the sqlite3 program leaves: the
/// figures of ANALYZE, or rows that .recover could not place.
fn is_by_product(name: &str, sql: Option<&str>) -> bool {
    let Some(sql) = sql else { return false };
    let columns = match name {
        "sqlite_stat1" => return sql == "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
        "sqlite_stat4" => return sql == "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
        _ => sql.strip_prefix("CREATE TABLE "),
    };
    let columns = columns.map(|rest| rest.replace(['"', '\''], ""));
    let columns = columns.as_deref().and_then(|rest| {
        let rest = rest.strip_prefix(name)?.trim_start();
        rest.strip_prefix('(')?.strip_suffix(')')
    });
    let plain = |column: &str| {
        let number = column.strip_prefix('c');
        matches!(
            column,
            "rootpgno INTEGER" | "pgno INTEGER" | "nfield INTEGER" | "id INTEGER"
        ) || number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    };
    name.starts_with("lost_and_found")
        && columns.is_some_and(|columns| columns.split(',').map(str::trim).all(plain))
}

/// Brings the file to the last of `migrations`, each step in a transaction of
/// its own. Another process may do the same at once: the version is read again
/// under the lock.
pub(crate) fn migrate(
    connection: &mut Connection,
    migrations: &[&str],
    context: &Context,
) -> Result<(), StoreError> {
    let known = migrations.len() as i64;
    loop {
        if version(connection, known, context)? == known {
            return Ok(());
        }
        let on = |error| context.on(error);
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(on)?;
        let found = version(&transaction, known, context)?;
        let Some(sql) = usize::try_from(found)
            .ok()
            .and_then(|at| migrations.get(at))
        else {
            return Ok(());
        };
        transaction.execute_batch(sql).map_err(on)?;
        transaction
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(on)?;
        transaction
            .pragma_update(None, "user_version", found + 1)
            .map_err(on)?;
        transaction.commit().map_err(on)?;
    }
}

/// Whether nobody made anything of the file yet: it is empty, or an SQLite
/// database without any table (what a crash can leave of a new store).
fn is_blank(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0
        && pragma(connection, "application_id")? == 0
        && pragma(connection, "user_version")? == 0)
}
