//! Generation of schemas, and types whose schema does not follow from their fields.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::bucket_counts::{Buckets, MAX_TRACKABLE_NS};

/// Returns the JSON Schema of a type as it is serialised.
pub fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12()
        // Includes fields that are only written and never read, such as percentiles for scripts.
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>()
}

impl JsonSchema for Buckets {
    fn schema_name() -> Cow<'static, str> {
        "Buckets".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The non-empty buckets in ascending order, each as [lower edge in ns, \
                            count]. A bucket is 1 ns wide below 1 µs. Above, its width is a \
                            thousandth of the end of its decade (10 ns from 1 to 10 µs, 100 ns \
                            from 10 to 100 µs, and so on to 1000 s).",
            "type": "array",
            "items": {
                "type": "array",
                "prefixItems": [
                    {"type": "integer", "minimum": 0, "exclusiveMaximum": MAX_TRACKABLE_NS},
                    {"type": "integer", "minimum": 0}
                ],
                "minItems": 2,
                "maxItems": 2
            }
        })
    }
}
