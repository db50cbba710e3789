//! Values of fields that are missing, as JSON.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use syn::Fields;

use super::attributes::{Serde, derives};
use super::source::{Body, Definition, Sources};
use super::types::Kind;

/// Results of the functions that serde calls for missing fields.
const FUNCTIONS: &[(&str, &str)] = &[
    ("alike", "true"),
    ("episode_gap", "1000000000"),
    (
        "not_recorded",
        r#"{"source": "kernel configuration", "unknown": "recorded by an earlier version"}"#,
    ),
    (
        "sched_ext_not_recorded",
        r#"{"source": "sched_ext scheduler", "unknown": "recorded by an earlier version"}"#,
    ),
];

/// Finds the values of missing fields in the source.
pub(super) struct Defaults<'a> {
    pub(super) sources: &'a mut Sources,
}

impl Defaults<'_> {
    /// Returns the value of a missing field, or `None` if this value is not written.
    pub(super) fn of_field(
        mut self,
        of: &Definition,
        kind: &Kind,
        field: &syn::Field,
        serde: &Serde,
    ) -> Result<Option<Value>> {
        let value = match &serde.default {
            Some(Some(function)) => {
                let known = FUNCTIONS.iter().find(|(name, _)| name == function);
                let (_, value) = known.with_context(|| {
                    format!("{}: add the function {function} to FUNCTIONS", of.name)
                })?;
                serde_json::from_str(value)?
            }
            // The default of a type whose fields have defaults of their own.
            None if !derives(&of.attributes, "Default") => return Ok(None),
            _ => self.of_kind(kind)?,
        };
        let name = field.ident.as_ref().map(ToString::to_string);
        let is_left_out = is_left_out(serde, &value).with_context(|| format!("{name:?}"))?;
        Ok(Some(value).filter(|_| !is_left_out))
    }

    fn of_kind(&mut self, kind: &Kind) -> Result<Value> {
        Ok(match kind {
            Kind::Any | Kind::Option(_) => Value::Null,
            Kind::List(_) | Kind::Set(_) => json!([]),
            Kind::Map(_) => json!({}),
            Kind::Array(inside, length) => {
                let one = self.of_kind(inside)?;
                (0..*length).map(|_| one.clone()).collect()
            }
            Kind::Tuple(all) => all
                .iter()
                .map(|one| self.of_kind(one))
                .collect::<Result<_>>()?,
            Kind::Plain(schema, _) => match schema["type"].as_str() {
                Some("string") if schema.get("format").is_none() => json!(""),
                Some("boolean") => json!(false),
                Some("integer") => json!(0),
                Some("number") => json!(0.0),
                _ => bail!("a type without a default"),
            },
            Kind::Named(definition, _) => self
                .of_type(definition)
                .with_context(|| format!("the default of {}", definition.name))?,
        })
    }

    fn of_type(&mut self, of: &Definition) -> Result<Value> {
        let serde = Serde::new(&of.attributes)?;
        // The default of these types is empty.
        if serde.into.as_deref() == Some("String") || of.name == "Comm" {
            return Ok(json!(""));
        }
        if !derives(&of.attributes, "Default") {
            bail!("it does not derive Default");
        }
        let none = BTreeMap::new();
        match &of.body {
            Body::Enum(variants) => {
                let is_default = |one: &&syn::Variant| {
                    one.attrs
                        .iter()
                        .any(|attribute| attribute.path().is_ident("default"))
                };
                let found = variants
                    .iter()
                    .find(is_default)
                    .context("no default variant")?;
                let own = Serde::new(&found.attrs)?;
                Ok(own.variant_name(&found.ident.to_string(), &serde)?.into())
            }
            Body::Struct(Fields::Unnamed(list)) if list.unnamed.len() == 1 => {
                let kind = Kind::new(self.sources, &of.module, &none, &list.unnamed[0].ty)?;
                self.of_kind(&kind)
            }
            Body::Struct(fields) => {
                let mut all = json!({});
                for field in fields {
                    let own = Serde::new(&field.attrs)?;
                    let kind = Kind::new(self.sources, &of.module, &none, &field.ty)?;
                    let value = self.of_kind(&kind)?;
                    if own.flatten {
                        bail!("its fields include those of another type");
                    }
                    if !own.skip && !is_left_out(&own, &value)? {
                        let name = field.ident.as_ref().map(ToString::to_string);
                        all[own.field_name(&name.unwrap_or_default(), &serde)] = value;
                    }
                }
                Ok(all)
            }
        }
    }
}

/// Returns whether a field with this value is not written.
fn is_left_out(serde: &Serde, value: &Value) -> Result<bool> {
    Ok(match serde.skip_serializing_if.as_deref() {
        None => false,
        Some("Option::is_none") => value.is_null(),
        Some("Vec::is_empty") => *value == json!([]),
        Some("BTreeMap::is_empty") => *value == json!({}),
        Some("String::is_empty") => *value == json!(""),
        Some("std::ops::Not::not") => *value == json!(false),
        Some(other) => bail!("the schemas do not know the condition {other}"),
    })
}
