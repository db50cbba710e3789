//! JSON Schemas of what is written, made from the types: with the feature `schema`. Without
//! it, types say that they have one, and none is made.

#[cfg(feature = "schema")]
mod described;

#[cfg(feature = "schema")]
pub use described::schema_of;
#[cfg(not(feature = "schema"))]
pub use punctual_undescribed::JsonSchema;
#[cfg(feature = "schema")]
pub use schemars::JsonSchema;
