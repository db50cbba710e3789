//! Texts and tables: formatting of numbers, sanitizing, packed numbers.

mod grouped;
mod sanitize;
mod table;
mod varint;

pub use grouped::{counted, grouped, listed};
pub use sanitize::{escape_json, sanitize, sanitize_lines};
pub use table::{Cell, Column, Table};
pub use varint::{push_varint, take_varint};
