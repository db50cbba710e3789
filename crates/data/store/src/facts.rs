//! Machine facts and audits, stored only once if several recordings have equal ones. The facts of a
//! machine with many CPUs take more space than its histograms.

use std::fmt::Write;

use punctual_model::{FromJson, HostFacts, Recording, ToJson};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::bits::{Bits, Crc};
use crate::error::Context;

/// Length of the stored hash in bytes: 32 hexadecimal digits.
const KEPT: usize = 16;

/// Maximum size of facts as JSON: those of 8,192 CPUs take about 10 MiB.
const LONGEST: u64 = 64 << 20;

/// A slower level, because facts are rarely written.
const LEVEL: i32 = 9;

/// Keys of the facts and the audit in a head.
const HOST: &str = "host";
const AUDIT: &str = "audit";

pub(crate) fn hash_of(json: &str) -> String {
    hex(&Sha256::digest(json)[..KEPT])
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

fn crc_of(hash: &str, length: u64, body: &[u8]) -> u32 {
    let crc = Crc::new("facts", 0).text(hash).number(length);
    crc.blob(body).end()
}

/// Removes the facts and the audit from a head.
pub(crate) fn take_out(head: &str) -> String {
    match Value::from_json(head.as_bytes()) {
        Ok(mut parsed) => {
            parsed[HOST] = Value::Null;
            parsed[AUDIT] = Value::Null;
            parsed.to_string()
        }
        // Heads that we wrote always parse.
        Err(_) => head.to_owned(),
    }
}

/// Stores the facts and the audit of a recording unless equal ones are already stored.
pub(crate) fn insert(
    connection: &Connection,
    key: i64,
    recording: &Recording,
) -> rusqlite::Result<()> {
    let put = |value: &dyn ToJson| {
        // The hash of a text depends on the order of the fields: here by name.
        let json = value.to_value().to_string();
        let hash = hash_of(&json);
        put_json(connection, &hash, &json).map(|()| hash)
    };
    let facts = put(&recording.host)?;
    let audit = recording.audit.as_ref();
    let audit = audit.map(|audit| put(audit)).transpose()?;
    connection
        .prepare_cached("UPDATE recording SET facts = ?2, audit = ?3 WHERE key = ?1")?
        .execute(params![key, facts, audit])?;
    Ok(())
}

/// Stores a text under its hash, unless it already exists.
pub(crate) fn put_json(connection: &Connection, hash: &str, json: &str) -> rusqlite::Result<()> {
    let there = connection
        .prepare_cached("SELECT 1 FROM facts WHERE hash = ?1")?
        .exists([hash])?;
    if there {
        return Ok(());
    }
    let body = zstd::bulk::compress(json.as_bytes(), LEVEL)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let length = json.len() as u64;
    connection
        .prepare_cached("INSERT INTO facts (hash, length, body, crc) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            hash,
            Bits(length),
            body,
            crc_of(hash, length, &body)
        ])?;
    Ok(())
}

/// Returns the JSON with this hash; `None` if there is none.
pub(crate) fn read(
    connection: &Connection,
    context: &Context,
    hash: &str,
) -> Result<Option<String>, StoreError> {
    let row = connection
        .prepare_cached("SELECT length, body, crc FROM facts WHERE hash = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([hash], |row| {
                    Ok((
                        row.get::<_, Bits>(0)?.0,
                        row.get::<_, Vec<u8>>(1)?,
                        row.get(2)?,
                    ))
                })
                .optional()
        })
        .map_err(|error| context.on(error))?;
    let Some((length, body, crc)): Option<(u64, Vec<u8>, u32)> = row else {
        return Ok(None);
    };
    let changed = || context.damaged(format!("facts {} were changed", hash.escape_debug()));
    if crc != crc_of(hash, length, &body) || length > LONGEST {
        return Err(changed());
    }
    let json = zstd::bulk::decompress(&body, usize::try_from(length).unwrap_or(usize::MAX));
    let json = json.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    json.filter(|json| hash_of(json) == hash)
        .map(Some)
        .ok_or_else(changed)
}

/// Adds the facts and the audit to a head. Keeps those that the head already contains.
pub(crate) fn put_back(
    connection: &Connection,
    context: &Context,
    key: i64,
    head: String,
) -> Result<String, StoreError> {
    let (facts, audit): (Option<String>, Option<String>) = connection
        .prepare_cached("SELECT facts, audit FROM recording WHERE key = ?1")
        .and_then(|mut statement| statement.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))))
        .map_err(|error| context.on(error))?;
    if facts.is_none() && audit.is_none() {
        return Ok(head);
    }
    let Ok(Value::Object(mut parsed)) = Value::from_json(head.as_bytes()) else {
        return Ok(head);
    };
    for (part, hash) in [(HOST, facts), (AUDIT, audit)] {
        let Some(hash) = hash.filter(|_| parsed.get(part).is_none_or(Value::is_null)) else {
            continue;
        };
        let missing = || context.damaged(format!("facts {} are missing", hash.escape_debug()));
        let json = read(connection, context, &hash)?.ok_or_else(missing)?;
        let value = Value::from_json(json.as_bytes()).map_err(|_| missing())?;
        parsed.insert(part.to_owned(), value);
    }
    Ok(Value::Object(parsed).to_string())
}

/// Returns the facts with this hash; `None` if there are none.
pub(crate) fn facts_of(
    connection: &Connection,
    context: &Context,
    hash: &str,
) -> Result<Option<HostFacts>, StoreError> {
    let Some(json) = read(connection, context, hash)? else {
        return Ok(None);
    };
    let facts = HostFacts::from_json(json.as_bytes());
    facts.map(Some).map_err(|error| {
        context.damaged(format!(
            "facts {} cannot be read: {error}",
            hash.escape_debug()
        ))
    })
}
