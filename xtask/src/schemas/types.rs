//! The types of fields, as far as JSON distinguishes them.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use syn::{Expr, ExprLit, GenericArgument, Lit, PathArguments};

use super::attributes::{Serde, comment};
use super::source::{Body, Definition, Found, Module, Sources};

/// Names in schemas that differ from those of the types.
const NAMES: &[(&str, &str)] = &[
    ("ApplicationJson", "Application"),
    ("ChannelJson", "ApplicationChannel"),
    ("DueJson", "DuePeriods"),
    ("Resolution", "Grain"),
];

/// The type of a field.
#[derive(Clone)]
pub(super) enum Kind {
    /// A type without parts: its schema, and its name in the names of other types.
    Plain(Value, &'static str),
    Any,
    Option(Box<Kind>),
    List(Box<Kind>),
    Set(Box<Kind>),
    Map(Box<Kind>),
    Array(Box<Kind>, u64),
    Tuple(Vec<Kind>),
    Named(Rc<Definition>, Vec<Kind>),
}

/// Returns the kind of a standard type, or of a type of a library.
fn plain(name: &str) -> Option<Kind> {
    let (kind, format) = match name {
        "String" | "str" | "PathBuf" => ("string", None),
        "bool" => ("boolean", None),
        "f64" => ("number", Some("double")),
        "u8" => ("integer", Some("uint8")),
        "u16" => ("integer", Some("uint16")),
        "u32" => ("integer", Some("uint32")),
        "u64" => ("integer", Some("uint64")),
        "usize" => ("integer", Some("uint")),
        "i8" => ("integer", Some("int8")),
        "i16" => ("integer", Some("int16")),
        "i32" => ("integer", Some("int32")),
        "i64" => ("integer", Some("int64")),
        "Timestamp" => ("string", Some("date-time")),
        "Uuid" => ("string", Some("uuid")),
        "char" => {
            let schema = json!({"type": "string", "minLength": 1, "maxLength": 1});
            return Some(Kind::Plain(schema, "Character"));
        }
        "Value" => return Some(Kind::Any),
        _ => return None,
    };
    let mut schema = json!({"type": kind});
    if let Some(format) = format {
        schema["format"] = format.into();
        if format.starts_with("uint") {
            schema["minimum"] = 0.into();
        }
        let range = match format {
            "uint8" => Some((0, 255)),
            "uint16" => Some((0, 65_535)),
            "int8" => Some((-128, 127)),
            "int16" => Some((-32_768, 32_767)),
            _ => None,
        };
        if let Some((least, most)) = range {
            schema["minimum"] = least.into();
            schema["maximum"] = most.into();
        }
    }
    Some(Kind::Plain(schema, format.unwrap_or(kind)))
}

impl Kind {
    /// Resolves a type in a module. `parameters` are the types for the type parameters.
    pub(super) fn new(
        sources: &mut Sources,
        module: &Module,
        parameters: &BTreeMap<String, Self>,
        of: &syn::Type,
    ) -> Result<Self> {
        let mut inner = |one: &syn::Type| Self::new(sources, module, parameters, one);
        match of {
            syn::Type::Reference(reference) => inner(&reference.elem),
            syn::Type::Paren(inside) => inner(&inside.elem),
            syn::Type::Slice(list) => Ok(Self::List(Box::new(inner(&list.elem)?))),
            syn::Type::Tuple(all) => Ok(Self::Tuple(
                all.elems.iter().map(inner).collect::<Result<_>>()?,
            )),
            syn::Type::Array(array) => {
                let Expr::Lit(ExprLit {
                    lit: Lit::Int(length),
                    ..
                }) = &array.len
                else {
                    bail!("the length of an array is no number");
                };
                let length = length.base10_parse()?;
                Ok(Self::Array(Box::new(inner(&array.elem)?), length))
            }
            syn::Type::Path(path) => Self::at(sources, module, parameters, &path.path),
            _ => bail!("the schemas do not know a type of this kind"),
        }
    }

    fn at(
        sources: &mut Sources,
        module: &Module,
        parameters: &BTreeMap<String, Self>,
        path: &syn::Path,
    ) -> Result<Self> {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|one| one.ident.to_string())
            .collect();
        if let [name] = names.as_slice()
            && let Some(found) = parameters.get(name)
        {
            return Ok(found.clone());
        }
        let mut arguments = Vec::new();
        if let Some(PathArguments::AngleBracketed(all)) =
            path.segments.last().map(|last| &last.arguments)
        {
            for argument in &all.args {
                if let GenericArgument::Type(one) = argument {
                    arguments.push(Self::new(sources, module, parameters, one)?);
                }
            }
        }
        match sources.find(module, &names)? {
            Found::Type(found) => Self::of_definition(sources, found, arguments),
            Found::Alias(module, alias) => Self::new(sources, &module, &BTreeMap::new(), &alias),
            Found::Foreign => {
                let name = names.last().map_or("", String::as_str);
                Self::foreign(name, arguments)
            }
        }
    }

    fn of_definition(
        sources: &mut Sources,
        found: Rc<Definition>,
        arguments: Vec<Self>,
    ) -> Result<Self> {
        // A comment makes a type of its own.
        let inside = match &found.body {
            Body::Struct(fields)
                if Serde::new(&found.attributes)?.transparent
                    && comment(&found.attributes).is_empty() =>
            {
                fields.iter().next()
            }
            _ => None,
        };
        match inside {
            Some(field) => Self::new(sources, &found.module, &BTreeMap::new(), &field.ty),
            None => Ok(Self::Named(found, arguments)),
        }
    }

    fn foreign(name: &str, arguments: Vec<Self>) -> Result<Self> {
        let last = arguments.into_iter().next_back().map(Box::new);
        Ok(match (name, last) {
            ("Option", Some(inside)) => Self::Option(inside),
            ("Vec" | "VecDeque", Some(inside)) => Self::List(inside),
            ("BTreeSet" | "HashSet", Some(inside)) => Self::Set(inside),
            ("BTreeMap" | "HashMap", Some(value)) => Self::Map(value),
            ("Box" | "Arc" | "Cow", Some(inside)) => *inside,
            (name, None) => match plain(name) {
                Some(kind) => kind,
                None => bail!("the schemas do not know the type {name}"),
            },
            (name, Some(_)) => bail!("the schemas do not know the type {name}<…>"),
        })
    }

    /// Returns the name in a schema.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Plain(_, name) => (*name).to_owned(),
            Self::Any => "AnyValue".to_owned(),
            Self::Option(inside) => format!("Nullable_{}", inside.name()),
            Self::List(inside) => format!("Array_of_{}", inside.name()),
            Self::Set(inside) => format!("Set_of_{}", inside.name()),
            Self::Map(value) => format!("Map_of_{}", value.name()),
            Self::Array(inside, length) => format!("Array_size_{length}_of_{}", inside.name()),
            Self::Tuple(all) => {
                let names: Vec<String> = all.iter().map(Self::name).collect();
                format!("Tuple_of_{}", names.join("_and_"))
            }
            Self::Named(definition, arguments) => match arguments.first() {
                Some(argument) => format!("{}Of_{}", definition.name, argument.name()),
                None => {
                    let other = NAMES.iter().find(|(name, _)| *name == definition.name);
                    other
                        .map_or(&definition.name[..], |(_, name)| name)
                        .to_owned()
                }
            },
        }
    }

    /// Returns a name that no other type has.
    pub(super) fn id(&self) -> String {
        match self {
            Self::Named(definition, _) => {
                format!("{}::{}", definition.module.join("::"), self.name())
            }
            other => other.name(),
        }
    }
}
