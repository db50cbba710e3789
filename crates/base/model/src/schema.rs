//! JSON Schemas, generated from the types.

mod described;

pub use described::schema_of;
pub use schemars::JsonSchema;
