//! Numbers and checksums as stored in columns.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// An unsigned number, stored as the signed number with the same bits, because SQLite has no
/// unsigned integers and no value may be lost.
#[derive(Clone, Copy)]
pub(crate) struct Bits(pub(crate) u64);

impl ToSql for Bits {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.cast_signed()))
    }
}

impl FromSql for Bits {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(|number| Self(number.cast_unsigned()))
    }
}

/// CRC-32 of a row, computed over its columns in order. The length precedes each text and blob, so
/// that content cannot move from one column to the next unnoticed.
pub(crate) struct Crc(Vec<u8>);

impl Crc {
    /// Starts the checksum of a row in `table` that belongs to the recording with the key
    /// `recording`. A row that a damaged index assigns to another recording will not match.
    pub(crate) fn new(table: &str, recording: i64) -> Self {
        // The columns are hashed in one go at the end, because many short updates take several
        // times as long, and a list has thousands of rows.
        Self(Vec::with_capacity(512))
            .text(table)
            .number(recording.cast_unsigned())
    }

    pub(crate) fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn maybe(self, number: Option<u64>) -> Self {
        match number {
            Some(number) => self.number(1).number(number),
            None => self.number(0),
        }
    }

    pub(crate) fn blob(self, bytes: &[u8]) -> Self {
        let mut crc = self.number(bytes.len() as u64);
        crc.0.extend_from_slice(bytes);
        crc
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.blob(text.as_bytes())
    }

    pub(crate) fn maybe_blob(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            Some(bytes) => self.number(1).blob(bytes),
            None => self.number(0),
        }
    }

    pub(crate) fn end(self) -> u32 {
        crc32fast::hash(&self.0)
    }
}
