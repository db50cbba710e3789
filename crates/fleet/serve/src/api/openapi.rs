//! The API description: the endpoints, and the schemas of their types, which `cargo xtask schemas`
//! makes.

use axum::Json;
use punctual_model::FromJson;
use serde_json::{Map, Value, json};

use super::{ENDPOINTS, Endpoint};
use crate::access::Need;

/// Returns the description in OpenAPI 3.1.
pub(super) async fn get() -> Json<Value> {
    Json(describe())
}

fn describe() -> Value {
    // The file is part of the program, so it can be read.
    let schemas = Value::from_json(include_bytes!("schemas.json")).unwrap_or_default();
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let operation = operation(endpoint, &schemas["bodies"]);
        let path = paths
            .entry(endpoint.route.path)
            .or_insert_with(|| json!({}));
        path[endpoint.route.method.to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas["components"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(endpoint: &Endpoint, schemas: &Value) -> Value {
    let parameters = endpoint
        .parameters
        .iter()
        .map(|(place, name, what, required)| {
            json!({
                "in": place, "name": name, "description": what, "required": required,
                "schema": {"type": "string"},
            })
        });
    let mut answers = Map::new();
    for (status, meaning, form) in endpoint.answers {
        let mut answer = json!({"description": meaning});
        if let Some(form) = form {
            answer["content"] = json!({"application/json": {"schema": schemas[*form]}});
        }
        answers.insert(status.to_string(), answer);
    }
    let mut operation = json!({
        "summary": endpoint.summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": answers,
    });
    if let Some((kind, form)) = endpoint.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": {kind: {"schema": schemas[form]}},
        });
    }
    if endpoint.route.need != Need::Open {
        operation["security"] = json!([{"token": []}]);
    }
    operation
}
