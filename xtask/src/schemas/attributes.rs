//! What serde's attributes and the comments of a definition say.

use anyhow::{Result, bail};
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The attributes of serde that change the JSON of a type, a variant or a field.
#[derive(Default)]
pub(super) struct Serde {
    pub(super) rename: Option<String>,
    pub(super) rename_all: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) untagged: bool,
    pub(super) transparent: bool,
    pub(super) flatten: bool,
    pub(super) skip: bool,
    pub(super) skip_deserializing: bool,
    pub(super) deny_unknown_fields: bool,
    pub(super) skip_serializing_if: Option<String>,
    /// The type that is written instead, and the type that is read instead.
    pub(super) into: Option<String>,
    pub(super) from: Option<String>,
    /// Whether a missing field has a default, and the function that returns it.
    pub(super) default: Option<Option<String>>,
    pub(super) is_written_by_function: bool,
}

impl Serde {
    pub(super) fn new(attributes: &[Attribute]) -> Result<Self> {
        let mut all = Self::default();
        for attribute in attributes.iter().filter(|one| one.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta
                    .path
                    .get_ident()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let value = match meta.value() {
                    Ok(value) => Some(value.parse::<syn::LitStr>()?.value()),
                    Err(_) => None,
                };
                all.set(&name, value)
                    .map_err(|error| meta.error(error.to_string()))
            })?;
        }
        if all.skip_deserializing {
            all.default.get_or_insert(None);
        }
        Ok(all)
    }

    fn set(&mut self, name: &str, value: Option<String>) -> Result<()> {
        match name {
            "rename" => self.rename = value,
            "rename_all" => self.rename_all = value,
            "tag" => self.tag = value,
            "untagged" => self.untagged = true,
            "transparent" => self.transparent = true,
            "flatten" => self.flatten = true,
            "skip" => self.skip = true,
            "skip_deserializing" => self.skip_deserializing = true,
            "deny_unknown_fields" => self.deny_unknown_fields = true,
            "skip_serializing_if" => self.skip_serializing_if = value,
            "into" => self.into = value,
            "from" | "try_from" => self.from = value,
            "default" => self.default = Some(value),
            "serialize_with" => self.is_written_by_function = true,
            // These only change what is accepted.
            "alias" | "deserialize_with" | "bound" => {}
            _ => bail!("the schemas do not know this attribute of serde"),
        }
        Ok(())
    }

    /// Returns the name of a variant in JSON. Rules of their type rename variants only.
    pub(super) fn variant_name(&self, name: &str, of_type: &Self) -> Result<String> {
        if let Some(name) = &self.rename {
            return Ok(name.clone());
        }
        Ok(match of_type.rename_all.as_deref() {
            None => name.to_owned(),
            Some("lowercase") => name.to_lowercase(),
            Some("snake_case") => snake(name, '_'),
            Some("kebab-case") => snake(name, '-'),
            Some(other) => bail!("the schemas do not know the rule {other}"),
        })
    }

    /// Returns the name of a field in JSON.
    pub(super) fn field_name(&self, name: &str, of_type: &Self) -> String {
        match (&self.rename, of_type.rename_all.as_deref()) {
            (Some(name), _) => name.clone(),
            (None, Some("kebab-case")) => name.replace('_', "-"),
            (None, _) => name.trim_start_matches("r#").to_owned(),
        }
    }
}

fn snake(name: &str, between: char) -> String {
    let mut snake = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            snake.push(between);
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Returns the comment on a definition, without the white space around it.
pub(super) fn comment(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                Expr::Lit(ExprLit {
                    lit: Lit::Str(text),
                    ..
                }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        });
    let lines: Vec<String> = lines
        .map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned())
        .collect();
    lines.join("\n").trim().to_owned()
}

/// Returns whether a type derives a trait.
pub(super) fn derives(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| {
        let mut found = false;
        attribute.path().is_ident("derive")
            && attribute
                .parse_nested_meta(|meta| {
                    let last = meta.path.segments.last();
                    found |= last.is_some_and(|last| last.ident == name);
                    Ok(())
                })
                .is_ok()
            && found
    })
}
