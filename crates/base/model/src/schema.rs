//! JSON Schemas of what is written, made from the types.

mod described;

pub use described::schema_of;
pub use schemars::JsonSchema;
