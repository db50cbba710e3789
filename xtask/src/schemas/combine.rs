//! Parts of schemas, and their combination.

use serde_json::{Value, json};
use syn::Attribute;

use super::attributes::comment;

pub(super) fn describe(schema: &mut Value, attributes: &[Attribute]) {
    let text = comment(attributes);
    if !text.is_empty() {
        match schema {
            Value::Bool(true) => *schema = json!({"description": text}),
            schema => schema["description"] = text.into(),
        }
    }
}

pub(super) fn tuple(all: Vec<Value>) -> Value {
    let length = all.len();
    json!({"type": "array", "prefixItems": all, "minItems": length, "maxItems": length})
}

/// Returns whether a schema is, or begins with, a reference to other schemas.
fn refers(schema: &Value) -> bool {
    ["$ref", "oneOf", "anyOf", "allOf"]
        .iter()
        .any(|key| schema.get(*key).is_some())
}

pub(super) fn or_null(mut schema: Value) -> Value {
    if refers(&schema) {
        return json!({"anyOf": [schema, {"type": "null"}]});
    }
    if let Value::Object(all) = &mut schema {
        if let Some(kind) = all.get("type").cloned() {
            all.insert("type".to_owned(), json!([kind, "null"]));
        }
        if let Some(Value::Array(words)) = all.get_mut("enum") {
            words.push(Value::Null);
        }
    }
    schema
}

pub(super) fn extend(schema: &mut Value, key: &str, more: Vec<Value>) {
    match schema.get_mut(key) {
        Some(Value::Array(known)) => known.extend(more),
        _ => schema[key] = more.into(),
    }
}

/// Adds the properties of another schema to those of a schema.
pub(super) fn flatten(schema: &mut Value, other: Value) {
    let Value::Object(mut other) = other else {
        schema["additionalProperties"] = true.into();
        return;
    };
    // A choice cannot see the properties beside it.
    if schema.get("additionalProperties").is_some() && refers(&Value::Object(other.clone())) {
        let more = schema
            .as_object_mut()
            .and_then(|all| all.remove("additionalProperties"));
        schema["unevaluatedProperties"] = more.into();
    }
    if other.contains_key("additionalProperties") && refers(schema) {
        let more = other.remove("additionalProperties");
        other.insert("unevaluatedProperties".to_owned(), more.into());
    }
    for (key, value) in other {
        match (key.as_str(), schema.get_mut(&key), value) {
            (_, None, value) => schema[&key] = value,
            ("required", Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
            ("properties", Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
            ("oneOf" | "anyOf", Some(known), more) => {
                let both = vec![json!({&key: known.take()}), json!({&key: more})];
                if let Value::Object(all) = schema {
                    all.remove(&key);
                }
                extend(schema, "allOf", both);
            }
            _ => {}
        }
    }
}

/// Lets objects have more properties, because those beside them are in the same object.
pub(super) fn allow_more(schema: &mut Value) {
    if let Value::Object(all) = schema {
        all.retain(|key, value| key != "additionalProperties" || *value != false);
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        for one in schema
            .get_mut(key)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            allow_more(one);
        }
    }
}
