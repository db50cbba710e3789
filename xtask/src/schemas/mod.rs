//! `schemas`: writes the JSON Schemas of what the programs print and exchange. They are made from
//! the source, so that the programs contain no code for it.

mod attributes;
mod combine;
mod defaults;
mod generator;
mod source;
mod types;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use syn::parse::{Parse, ParseStream};
use syn::visit::{self, Visit};
use syn::{LitStr, Token};

use self::generator::{Direction, Generator};
use self::source::Sources;
use crate::paths::repository;

/// Folder of the schemas that `punctual schema` prints.
const FOLDER: &str = "crates/cli/punctual/schemas";

/// The file that names them, each with its type.
const FORMS: &str = "crates/cli/punctual/src/verbs/schema.rs";

/// The endpoints of the collector, and the schemas of their bodies.
const ENDPOINTS: &str = "crates/fleet/serve/src/api/mod.rs";
const BODIES: &str = "crates/fleet/serve/src/api/schemas.json";

#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if a schema differs from its file.
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let root = repository().canonicalize()?;
    let wanted = files(&root)?;
    let mut differing = Vec::new();
    for (path, text) in &wanted {
        if fs::read_to_string(path).ok().as_ref() == Some(text) {
            continue;
        }
        differing.push(path.clone());
        if !options.check {
            fs::write(path, text).with_context(|| path.display().to_string())?;
        }
    }
    for entry in fs::read_dir(root.join(FOLDER))? {
        let path = entry?.path();
        if !wanted.contains_key(&path) {
            differing.push(path.clone());
            if !options.check {
                fs::remove_file(&path)?;
            }
        }
    }
    for path in &differing {
        let done = if options.check { "differs" } else { "written" };
        println!("{}: {done}", path.strip_prefix(&root)?.display());
    }
    Ok(!options.check || differing.is_empty())
}

/// Returns all files with their texts.
fn files(root: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut sources = Sources::new(root);
    let mut files = BTreeMap::new();
    let module = ["punctual", "verbs", "schema"].map(str::to_owned).to_vec();
    for form in forms(&root.join(FORMS), "form")? {
        let generator = Generator::new(&mut sources, Direction::Written, "#/$defs/");
        let schema = generator.document(&module, &form.of);
        let schema = schema.with_context(|| format!("the schema {}", form.name))?;
        let mut text = String::new();
        write(&mut text, &schema, 0, true);
        text.push('\n');
        files.insert(root.join(FOLDER).join(format!("{}.json", form.name)), text);
    }
    files.insert(root.join(BODIES), bodies(root, &mut sources)?);
    Ok(files)
}

/// Returns the schemas of the bodies that the collector receives and sends. The API's description
/// has one list of types for all of them.
fn bodies(root: &Path, sources: &mut Sources) -> Result<String> {
    let module = ["serve", "api"].map(str::to_owned).to_vec();
    let mut generator = Generator::new(sources, Direction::Read, "#/components/schemas/");
    let mut bodies = serde_json::Map::new();
    for form in forms(&root.join(ENDPOINTS), "schema")? {
        let schema = generator.part(&module, &form.of);
        let schema = schema.with_context(|| format!("the schema {}", form.name))?;
        bodies.insert(form.name, schema);
    }
    let all = serde_json::json!({"bodies": bodies, "components": generator.into_definitions()});
    let mut text = String::new();
    write(&mut text, &all, 0, false);
    text.push('\n');
    Ok(text)
}

/// A type with a schema: `form!("name", Type, …)`.
struct Form {
    name: String,
    of: syn::Type,
}

impl Parse for Form {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse::<LitStr>()?.value();
        input.parse::<Token![,]>()?;
        let of = input.parse()?;
        if input.parse::<Option<Token![,]>>()?.is_some() {
            input.parse::<LitStr>()?;
        }
        Ok(Self { name, of })
    }
}

/// Returns the types that a file names with a macro.
fn forms(file: &Path, name: &'static str) -> Result<Vec<Form>> {
    struct Macros(&'static str, Vec<syn::Result<Form>>);
    impl<'ast> Visit<'ast> for Macros {
        fn visit_macro(&mut self, one: &'ast syn::Macro) {
            if one.path.is_ident(self.0) {
                self.1.push(one.parse_body());
            }
            visit::visit_macro(self, one);
        }
    }
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut macros = Macros(name, Vec::new());
    macros.visit_file(&syn::parse_file(&text)?);
    Ok(macros.1.into_iter().collect::<syn::Result<_>>()?)
}

/// Keys that precede the others in a schema.
const FIRST: [&str; 6] = [
    "$schema",
    "title",
    "description",
    "type",
    "format",
    "properties",
];

/// Writes a schema on several lines. `is_schema` is false for an object whose keys are names.
fn write(text: &mut String, value: &Value, depth: usize, is_schema: bool) {
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
    };
    match value {
        Value::Object(all) if !all.is_empty() => {
            let place = |key: &str| match FIRST.iter().position(|first| *first == key) {
                Some(place) if is_schema => place,
                _ if is_schema && key == "$defs" => FIRST.len() + 1,
                _ => FIRST.len(),
            };
            let mut keys: Vec<&String> = all.keys().collect();
            keys.sort_by_key(|key| place(key));
            for (number, key) in keys.into_iter().enumerate() {
                text.push_str(if number == 0 { "{" } else { "," });
                line(text, depth + 1);
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push_str(": ");
                let names = is_schema && ["properties", "$defs", "default"].contains(&key.as_str());
                write(text, &all[key], depth + 1, !names);
            }
            line(text, depth);
            text.push('}');
        }
        Value::Array(all) if !all.is_empty() => {
            for (number, one) in all.iter().enumerate() {
                text.push_str(if number == 0 { "[" } else { "," });
                line(text, depth + 1);
                write(text, one, depth + 1, true);
            }
            line(text, depth);
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_are_those_of_the_source() {
        let root = repository().canonicalize().unwrap();
        let differing: Vec<PathBuf> = (files(&root).unwrap().into_iter())
            .filter(|(path, text)| fs::read_to_string(path).ok().as_ref() != Some(text))
            .map(|(path, _)| path)
            .collect();
        assert!(
            differing.is_empty(),
            "run cargo xtask schemas: {differing:?}"
        );
    }

    #[test]
    fn a_type_is_described_as_serde_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let src = folder.path().join("crates/base/model/src");
        fs::create_dir_all(&src).unwrap();
        let source = r#"
            mod other { pub struct Nanos(u64); }
            use other::Nanos;
            /// A thing.
            #[derive(Serialize)]
            #[serde(deny_unknown_fields)]
            pub struct Thing<T> {
                /// Its length.
                #[serde(rename = "length_ns")]
                length: u8,
                #[serde(skip_serializing_if = "Vec::is_empty", default)]
                parts: Vec<Option<T>>,
                #[serde(flatten)]
                more: Option<More>,
                #[serde(skip)]
                own: Nanos,
            }
            #[derive(Serialize)]
            struct More { state: State }
            #[derive(Serialize)]
            #[serde(rename_all = "snake_case")]
            enum State { AtRest, Moves { to: (i64, String) } }
        "#;
        fs::write(src.join("lib.rs"), source).unwrap();
        let mut sources = Sources::new(folder.path());
        let generator = Generator::new(&mut sources, Direction::Written, "#/$defs/");
        let of = syn::parse_str("Thing<bool>").unwrap();
        let schema = generator.document(&vec!["model".to_owned()], &of).unwrap();
        let expected = serde_json::json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "ThingOf_boolean",
            "description": "A thing.",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "length_ns": {
                    "description": "Its length.", "type": "integer", "format": "uint8",
                    "minimum": 0, "maximum": 255,
                },
                "parts": {"type": "array", "items": {"type": ["boolean", "null"]}},
                "state": {"$ref": "#/$defs/State"},
            },
            "required": ["length_ns"],
            "$defs": {"State": {"oneOf": [
                {"type": "string", "enum": ["at_rest"]},
                {
                    "type": "object",
                    "properties": {"moves": {
                        "type": "object",
                        "properties": {"to": {
                            "type": "array",
                            "prefixItems": [
                                {"type": "integer", "format": "int64"},
                                {"type": "string"},
                            ],
                            "minItems": 2,
                            "maxItems": 2,
                        }},
                        "required": ["to"],
                    }},
                    "required": ["moves"],
                    "additionalProperties": false,
                },
            ]}},
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn an_unknown_attribute_is_refused() {
        let item: syn::ItemStruct =
            syn::parse_str("#[serde(remote = \"Other\")] struct A;").unwrap();
        let error = attributes::Serde::new(&item.attrs)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("do not know"), "{error}");
    }
}
