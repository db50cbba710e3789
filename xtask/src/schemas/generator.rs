//! JSON Schemas of types, with the same names and structure as the crate schemars gives them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use syn::{Fields, Variant};

use super::attributes::{Serde, comment, derives};
use super::combine::{allow_more, describe, extend, flatten, or_null, tuple};
use super::defaults::Defaults;
use super::source::{Body, Definition, Module, Sources};
use super::types::Kind;

/// Types that write themselves, and their schemas.
const WRITTEN_BY_THEMSELVES: &[(&str, &str)] = &[
    ("Comm", r#"{"type": "string"}"#),
    ("Text", r#"{"type": "string"}"#),
    (
        "Buckets",
        r#"{
            "description": "The non-empty buckets in ascending order, each as [lower edge in ns, count]. A bucket is 1 ns wide below 1 µs. Above, its width is a thousandth of the end of its decade (10 ns from 1 to 10 µs, 100 ns from 10 to 100 µs, and so on to 1000 s).",
            "type": "array",
            "items": {
                "type": "array",
                "prefixItems": [
                    {"type": "integer", "minimum": 0, "exclusiveMaximum": 1000000000000},
                    {"type": "integer", "minimum": 0}
                ],
                "minItems": 2,
                "maxItems": 2
            }
        }"#,
    ),
];

/// Fields that a function writes, and the type that it writes.
const WRITTEN_BY_FUNCTIONS: &[(&str, &str, &str)] = &[("Step", "setting", "String")];

/// Whether a schema describes what the program writes or what it reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Written,
    Read,
}

/// Generates the schemas of types, and collects the types that they refer to.
pub(super) struct Generator<'a> {
    pub(super) sources: &'a mut Sources,
    direction: Direction,
    /// Start of a reference to another type.
    path: &'static str,
    names: BTreeMap<String, String>,
    used: BTreeSet<String>,
    definitions: Map<String, Value>,
    /// The type of the whole document.
    root: Option<String>,
}

/// The type parameters of a type.
type Parameters = BTreeMap<String, Kind>;

impl<'a> Generator<'a> {
    pub(super) fn new(sources: &'a mut Sources, direction: Direction, path: &'static str) -> Self {
        Self {
            sources,
            direction,
            path,
            names: BTreeMap::new(),
            used: BTreeSet::new(),
            definitions: Map::new(),
            root: None,
        }
    }

    /// Returns the schema of a document.
    pub(super) fn document(mut self, module: &Module, of: &syn::Type) -> Result<Value> {
        let kind = Kind::new(self.sources, module, &Parameters::new(), of)?;
        self.root = Some(kind.id());
        let mut schema = self.schema(&kind)?;
        schema["title"] = kind.name().into();
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        if !self.definitions.is_empty() {
            schema["$defs"] = Value::Object(self.definitions);
        }
        Ok(schema)
    }

    /// Returns the schema of a part of a description, or a reference to it.
    pub(super) fn part(&mut self, module: &Module, of: &syn::Type) -> Result<Value> {
        let kind = Kind::new(self.sources, module, &Parameters::new(), of)?;
        self.subschema(&kind)
    }

    pub(super) fn into_definitions(self) -> Map<String, Value> {
        self.definitions
    }

    /// Returns a reference to a type that has a name, or the schema of another one.
    fn subschema(&mut self, kind: &Kind) -> Result<Value> {
        if !matches!(kind, Kind::Named(..)) {
            return self.schema(kind);
        }
        let id = kind.id();
        if self.root.as_ref() == Some(&id) {
            return Ok(json!({"$ref": "#"}));
        }
        let name = match self.names.get(&id) {
            Some(name) => name.clone(),
            None => {
                let base = kind.name();
                let more = (2..).map(|number| format!("{base}{number}"));
                let mut names = std::iter::once(base.clone()).chain(more);
                let name = names.find(|name| !self.used.contains(name)).unwrap_or(base);
                self.used.insert(name.clone());
                self.names.insert(id, name.clone());
                let schema = self.schema(kind)?;
                self.definitions.insert(name.clone(), schema);
                name
            }
        };
        Ok(json!({"$ref": format!("{}{name}", self.path)}))
    }

    fn schema(&mut self, kind: &Kind) -> Result<Value> {
        Ok(match kind {
            Kind::Plain(schema, _) => schema.clone(),
            Kind::Any => Value::Bool(true),
            Kind::Option(inside) => or_null(self.subschema(inside)?),
            Kind::List(inside) => json!({"type": "array", "items": self.subschema(inside)?}),
            Kind::Set(inside) => {
                json!({"type": "array", "uniqueItems": true, "items": self.subschema(inside)?})
            }
            Kind::Map(value) => {
                json!({"type": "object", "additionalProperties": self.subschema(value)?})
            }
            Kind::Array(inside, length) => json!({
                "type": "array", "items": self.subschema(inside)?,
                "minItems": length, "maxItems": length,
            }),
            Kind::Tuple(all) => {
                let all: Vec<Value> = all
                    .iter()
                    .map(|one| self.subschema(one))
                    .collect::<Result<_>>()?;
                tuple(all)
            }
            Kind::Named(definition, arguments) => self
                .named(&Rc::clone(definition), arguments)
                .with_context(|| {
                    format!("{}::{}", definition.module.join("::"), definition.name)
                })?,
        })
    }

    fn named(&mut self, of: &Rc<Definition>, arguments: &[Kind]) -> Result<Value> {
        let described = |mut schema: Value| {
            describe(&mut schema, &of.attributes);
            schema
        };
        let own = WRITTEN_BY_THEMSELVES
            .iter()
            .find(|(name, _)| *name == of.name);
        if let Some((_, schema)) = own {
            let schema: Value = serde_json::from_str(schema)?;
            return Ok(match schema.get("description") {
                Some(_) => schema,
                None => described(schema),
            });
        }
        let serde = Serde::new(&of.attributes)?;
        let mut parameters: Parameters = (of.parameters.iter().cloned())
            .zip(arguments.iter().cloned())
            .collect();
        let this = Kind::Named(Rc::clone(of), arguments.to_vec());
        parameters.insert("Self".to_owned(), this);
        let other = match self.direction {
            Direction::Written => &serde.into,
            Direction::Read => &serde.from,
        };
        if let Some(other) = other {
            let other = syn::parse_str(other)?;
            let other = Kind::new(self.sources, &of.module, &parameters, &other)?;
            return self.schema(&other).map(described);
        }
        if !["Serialize", "Deserialize"]
            .iter()
            .any(|name| derives(&of.attributes, name))
        {
            bail!("it derives neither Serialize nor Deserialize: see WRITTEN_BY_THEMSELVES");
        }
        let schema = match &of.body {
            Body::Struct(fields) => self.fields(of, &serde, &parameters, fields)?,
            Body::Enum(variants) => self.variants(of, &serde, &parameters, variants)?,
        };
        Ok(described(schema))
    }

    fn field(
        &mut self,
        of: &Definition,
        parameters: &Parameters,
        field: &syn::Field,
    ) -> Result<(Kind, Value)> {
        let kind = self.kind(of, parameters, field)?;
        let mut schema = self.subschema(&kind)?;
        describe(&mut schema, &field.attrs);
        Ok((kind, schema))
    }

    fn kind(
        &mut self,
        of: &Definition,
        parameters: &Parameters,
        field: &syn::Field,
    ) -> Result<Kind> {
        let name = field
            .ident
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        if Serde::new(&field.attrs)?.is_written_by_function {
            let written = WRITTEN_BY_FUNCTIONS
                .iter()
                .find(|(owner, own, _)| *owner == of.name && *own == name);
            let (.., written) =
                written.with_context(|| format!("add the field {name} to WRITTEN_BY_FUNCTIONS"))?;
            return Kind::new(
                self.sources,
                &of.module,
                parameters,
                &syn::parse_str(written)?,
            );
        }
        Kind::new(self.sources, &of.module, parameters, &field.ty)
            .with_context(|| format!("its field {name}"))
    }

    fn fields(
        &mut self,
        of: &Definition,
        serde: &Serde,
        parameters: &Parameters,
        fields: &Fields,
    ) -> Result<Value> {
        match fields {
            Fields::Unit => Ok(json!({"type": "null"})),
            Fields::Unnamed(list) if list.unnamed.len() == 1 => {
                Ok(self.field(of, parameters, &list.unnamed[0])?.1)
            }
            Fields::Unnamed(list) => {
                let mut all = Vec::new();
                for field in &list.unnamed {
                    all.push(self.field(of, parameters, field)?.1);
                }
                Ok(tuple(all))
            }
            Fields::Named(list) if serde.transparent => {
                Ok(self.field(of, parameters, &list.named[0])?.1)
            }
            Fields::Named(list) => {
                let mut schema = json!({"type": "object"});
                if serde.deny_unknown_fields {
                    schema["additionalProperties"] = false.into();
                }
                for field in &list.named {
                    self.add_field(&mut schema, of, serde, parameters, field)?;
                }
                Ok(schema)
            }
        }
    }

    fn add_field(
        &mut self,
        schema: &mut Value,
        of: &Definition,
        of_type: &Serde,
        parameters: &Parameters,
        field: &syn::Field,
    ) -> Result<()> {
        let serde = Serde::new(&field.attrs)?;
        if serde.skip || serde.skip_deserializing && self.direction == Direction::Read {
            return Ok(());
        }
        if serde.flatten {
            let kind = self.kind(of, parameters, field)?;
            let other = self.flattened(&kind)?;
            flatten(schema, other);
            return Ok(());
        }
        let (kind, mut own) = self.field(of, parameters, field)?;
        if serde.skip_deserializing {
            own["readOnly"] = true.into();
        }
        let has_default = of_type.default.is_some() || serde.default.is_some();
        if has_default {
            let defaults = Defaults {
                sources: self.sources,
            };
            let default = defaults.of_field(of, &kind, field, &serde)?;
            if let (Some(default), Value::Object(own)) = (default, &mut own) {
                own.insert("default".to_owned(), default);
            }
        }
        let name = field
            .ident
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let name = serde.field_name(&name, of_type);
        let may_lack = match self.direction {
            Direction::Written => serde.skip_serializing_if.is_some(),
            Direction::Read => has_default || matches!(kind, Kind::Option(_)),
        };
        if !may_lack {
            extend(schema, "required", vec![name.clone().into()]);
        }
        if schema.get("properties").is_none() {
            schema["properties"] = json!({});
        }
        schema["properties"][&name] = own;
        Ok(())
    }

    fn flattened(&mut self, kind: &Kind) -> Result<Value> {
        let (inside, is_optional) = match kind {
            Kind::Option(inside) => (inside.as_ref(), true),
            other => (other, false),
        };
        let mut schema = self.schema(inside)?;
        if is_optional && let Value::Object(schema) = &mut schema {
            schema.remove("required");
            if let Some(all) = schema.remove("oneOf") {
                schema.insert("anyOf".to_owned(), json!([{"oneOf": all}, {}]));
            }
        }
        allow_more(&mut schema);
        Ok(schema)
    }

    fn variants(
        &mut self,
        of: &Definition,
        serde: &Serde,
        parameters: &Parameters,
        variants: &[Variant],
    ) -> Result<Value> {
        let mut all = Vec::new();
        // Variants without a comment are listed together, before the others.
        let mut names = Vec::new();
        for variant in variants {
            let own = Serde::new(&variant.attrs)?;
            let name = own.variant_name(&variant.ident.to_string(), serde)?;
            let is_bare = matches!(variant.fields, Fields::Unit)
                && comment(&variant.attrs).is_empty()
                && serde.tag.is_none()
                && !serde.untagged;
            if own.skip {
                continue;
            }
            if is_bare {
                names.push(name);
                continue;
            }
            let mut schema = match &serde.tag {
                Some(tag) => self.tagged(of, serde, parameters, variant, (tag, &name))?,
                None if serde.untagged => self.content(of, serde, parameters, variant)?,
                None if matches!(variant.fields, Fields::Unit) => {
                    json!({"type": "string", "const": name})
                }
                None => json!({
                    "type": "object",
                    "properties": {&name: self.content(of, serde, parameters, variant)?},
                    "required": [name],
                    "additionalProperties": false,
                }),
            };
            describe(&mut schema, &variant.attrs);
            all.push(schema);
        }
        if !names.is_empty() {
            let names = json!({"type": "string", "enum": names});
            if all.is_empty() {
                return Ok(names);
            }
            all.insert(0, names);
        }
        Ok(if serde.untagged {
            json!({"anyOf": all})
        } else {
            json!({"oneOf": all})
        })
    }

    /// Returns the schema of a variant without its name. The fields of a variant have no default.
    fn content(
        &mut self,
        of: &Definition,
        serde: &Serde,
        parameters: &Parameters,
        variant: &Variant,
    ) -> Result<Value> {
        let of_variant = Serde {
            deny_unknown_fields: serde.deny_unknown_fields,
            ..Serde::default()
        };
        self.fields(of, &of_variant, parameters, &variant.fields)
    }

    /// Returns the schema of a variant whose name is the value of a field.
    fn tagged(
        &mut self,
        of: &Definition,
        serde: &Serde,
        parameters: &Parameters,
        variant: &Variant,
        (tag, name): (&str, &str),
    ) -> Result<Value> {
        let mut schema = match &variant.fields {
            Fields::Unnamed(list) if list.unnamed.len() == 1 => {
                let kind = self.kind(of, parameters, &list.unnamed[0])?;
                let schema = self.schema(&kind)?;
                let is_closed = schema["additionalProperties"] == false;
                if is_closed || !matches!(kind, Kind::Named(..)) {
                    schema
                } else {
                    self.subschema(&kind)?
                }
            }
            _ => self.content(of, serde, parameters, variant)?,
        };
        schema["type"] = "object".into();
        if schema.get("properties").is_none() {
            schema["properties"] = json!({});
        }
        schema["properties"][tag] = json!({"type": "string", "const": name});
        let mut required = vec![Value::from(tag)];
        required.extend(schema["required"].as_array().into_iter().flatten().cloned());
        schema["required"] = required.into();
        Ok(schema)
    }
}
