//! The API description, generated from the endpoints and their types.

use axum::Json;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{ENDPOINTS, Endpoint};
use crate::access::Need;

/// Returns the description in OpenAPI 3.1.
pub(super) async fn get() -> Json<Value> {
    Json(describe())
}

fn describe() -> Value {
    // OpenAPI 3.1 uses JSON Schema 2020-12, but with a different path for definitions.
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let operation = operation(endpoint, &mut generator);
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
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(endpoint: &Endpoint, generator: &mut schemars::SchemaGenerator) -> Value {
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
            answer["content"] = json!({"application/json": {"schema": form(generator)}});
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
            "content": {kind: {"schema": form(generator)}},
        });
    }
    if endpoint.route.need != Need::Open {
        operation["security"] = json!([{"token": []}]);
    }
    operation
}
