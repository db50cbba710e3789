//! Parses the metadata of CTF 2, which is a sequence of JSON objects.
//!
//! Source: CTF2-SPEC-2.0 (<https://diamon.org/ctf>).

use std::collections::BTreeMap;
use std::rc::Rc;

use punctual_model::FromJson;
use serde_json::Value;

use super::types::{
    Choice, Clock, Enumeration, EventClass, Form, Integer, Length, MOST_ALIGNMENT, Metadata,
    Ranges, StreamClass, Structure, Type,
};
use crate::TraceFileError;
use crate::dat::parser::Endian;

/// The purposes of fields, and the names that CTF 1.8 gives to such fields.
const ROLES: [(&str, &str); 8] = [
    ("data-stream-class-id", "stream_id"),
    ("packet-content-length", "content_size"),
    ("packet-total-length", "packet_size"),
    ("packet-sequence-number", "packet_seq_num"),
    (
        "discarded-event-record-counter-snapshot",
        "events_discarded",
    ),
    ("packet-end-default-clock-timestamp", "timestamp_end"),
    (TIME, "timestamp_begin"),
    ("event-record-class-id", "id"),
];
const TIME: &str = "default-clock-timestamp";

/// Parses the metadata.
///
/// # Errors
/// Returns an error that names the line.
pub(super) fn parse(text: &str) -> Result<Metadata, TraceFileError> {
    let mut parser = Parser {
        aliases: BTreeMap::new(),
        metadata: Metadata {
            order: Endian { is_big: false },
            environment: BTreeMap::new(),
            clock: None,
            packet_header: None,
            streams: BTreeMap::new(),
        },
    };
    let mut line = 1;
    for part in text.split('\u{1e}') {
        let read = match Value::from_json(part.as_bytes()) {
            Ok(fragment) => parser.fragment(&fragment),
            Err(_) if part.trim().is_empty() => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|what| TraceFileError::Metadata { line, what })?;
        line += part.matches('\n').count() as u32;
    }
    Ok(parser.metadata)
}

struct Parser {
    aliases: BTreeMap<String, Rc<Type>>,
    metadata: Metadata,
}

impl Parser {
    fn fragment(&mut self, fragment: &Value) -> Result<(), String> {
        let id = number(fragment, "id").unwrap_or(0);
        match text(fragment, "type").unwrap_or_default() {
            "trace-class" => {
                self.metadata.packet_header =
                    self.optional(fragment, "packet-header-field-class")?;
                let environment = fragment.get("environment").and_then(Value::as_object);
                for (name, value) in environment.into_iter().flatten() {
                    let value = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    self.metadata.environment.insert(name.clone(), value);
                }
            }
            "clock-class" => {
                let name = text(fragment, "name").unwrap_or_default().to_owned();
                let frequency = number(fragment, "frequency").filter(|of| *of > 0);
                let frequency = frequency.ok_or("the clock has no frequency")?;
                self.metadata.clock.get_or_insert(Clock { name, frequency });
            }
            "data-stream-class" => {
                let class = StreamClass {
                    packet_context: self.optional(fragment, "packet-context-field-class")?,
                    event_header: self.optional(fragment, "event-record-header-field-class")?,
                    event_context: self
                        .optional(fragment, "event-record-common-context-field-class")?,
                    events: BTreeMap::new(),
                };
                self.metadata.streams.insert(id, class);
            }
            "event-record-class" => {
                let stream = number(fragment, "data-stream-class-id").unwrap_or(0);
                let class = EventClass {
                    name: text(fragment, "name").unwrap_or_default().to_owned(),
                    context: self.optional(fragment, "specific-context-field-class")?,
                    fields: self.optional(fragment, "payload-field-class")?,
                };
                let stream = self.metadata.streams.entry(stream).or_default();
                stream.events.insert(id, Rc::new(class));
            }
            "field-class-alias" => {
                let name = text(fragment, "name").ok_or("the alias has no name")?;
                let of = self.optional(fragment, "field-class")?;
                self.aliases
                    .insert(name.to_owned(), of.ok_or("the alias has no field-class")?);
            }
            // The preamble.
            _ => (),
        }
        Ok(())
    }

    fn optional(&self, of: &Value, name: &str) -> Result<Option<Rc<Type>>, String> {
        of.get(name).map(|class| self.class(class)).transpose()
    }

    fn required(&self, of: &Value, name: &str) -> Result<Rc<Type>, String> {
        (self.optional(of, name)?).ok_or_else(|| format!("{name} is missing"))
    }

    /// Parses a field class. `serde_json` limits the depth.
    fn class(&self, class: &Value) -> Result<Rc<Type>, String> {
        if let Some(name) = class.as_str() {
            let known = self.aliases.get(name).cloned();
            return known.ok_or_else(|| format!("the field class {name} is unknown"));
        }
        let kind = text(class, "type").unwrap_or_default();
        let is_signed = kind.contains("-signed-");
        let is_time = roles(class).any(|role| role == TIME);
        let form = match kind {
            "structure" => self.structure(class)?,
            "variant" => self.variant(class)?,
            "optional" => Form::Optional {
                tag: location(class, "selector-field-location")?,
                ranges: match class.get("selector-field-ranges") {
                    Some(ranges) => ranges_of(ranges),
                    None => vec![(1, i128::MAX)],
                },
                field: self.required(class, "field-class")?,
            },
            "null-terminated-string" => Form::Text,
            "fixed-length-floating-point-number" => Form::Skipped {
                bits: number(class, "length").ok_or("length is missing")?,
                alignment: alignment(class, "alignment", 1)?,
            },
            _ if kind.starts_with("variable-length-") => Form::Leb128 { is_signed, is_time },
            _ if kind.starts_with("fixed-length-") => integer(class, is_signed, is_time)?,
            _ if kind.ends_with("-string") || kind.ends_with("-blob") => Form::Array {
                element: Type::new(Form::Integer(byte(kind.ends_with("-string")))).ok_or(DEEP)?,
                length: length(class, kind)?,
            },
            _ if kind.ends_with("-array") => Form::Array {
                element: self.required(class, "element-field-class")?,
                length: length(class, kind)?,
            },
            other => return Err(format!("the field class {other:?} is unknown")),
        };
        Type::new(form).ok_or_else(|| DEEP.to_owned())
    }

    fn structure(&self, class: &Value) -> Result<Form, String> {
        let mut structure = Structure {
            alignment: alignment(class, "minimum-alignment", 1)?,
            fields: Vec::new(),
        };
        for member in list(class, "member-classes") {
            let of = member.get("field-class").unwrap_or(&Value::Null);
            let found = ROLES
                .iter()
                .find(|(role, _)| roles(of).any(|of| of == *role));
            let name = text(member, "name").unwrap_or_default();
            structure.add(name, self.class(of)?);
            if let Some(field) = structure.fields.last_mut() {
                field.role = found.map(|(_, name)| Rc::from(*name));
            }
        }
        Ok(Form::Structure(structure))
    }

    fn variant(&self, class: &Value) -> Result<Form, String> {
        let choices = list(class, "options").map(|option| {
            Ok(Choice {
                label: String::new(),
                ranges: ranges_of(option.get("selector-field-ranges").unwrap_or(&Value::Null)),
                of: self.required(option, "field-class")?,
            })
        });
        Ok(Form::Variant(super::types::Variant {
            tag: location(class, "selector-field-location")?,
            choices: choices.collect::<Result<_, String>>()?,
        }))
    }
}

const DEEP: &str = "more than 32 field classes are inside each other";

fn text<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    of.get(name)?.as_str()
}

fn number(of: &Value, name: &str) -> Option<u64> {
    of.get(name)?.as_u64()
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn roles(class: &Value) -> impl Iterator<Item = &str> {
    list(class, "roles").filter_map(Value::as_str)
}

fn ranges_of(ranges: &Value) -> Ranges {
    let end = |value: Option<&Value>| {
        let value = value?;
        value
            .as_i64()
            .map(i128::from)
            .or_else(|| value.as_u64().map(i128::from))
    };
    let ranges = ranges.as_array().into_iter().flatten();
    ranges
        .filter_map(|range| Some((end(range.get(0))?, end(range.get(1))?)))
        .collect()
}

fn alignment(class: &Value, name: &str, default: u64) -> Result<u64, String> {
    let alignment = number(class, name).unwrap_or(default);
    let is_valid = alignment.is_power_of_two() && alignment <= MOST_ALIGNMENT;
    is_valid
        .then_some(alignment)
        .ok_or_else(|| format!("the alignment {alignment} is not a power of two up to 65536"))
}

/// Returns the name of the field at a location.
fn location(class: &Value, name: &str) -> Result<String, String> {
    let location = class.get(name).unwrap_or(&Value::Null);
    let path = location.get("path").unwrap_or(location);
    let last = path.as_array().and_then(|path| path.last()?.as_str());
    last.map(str::to_owned)
        .ok_or_else(|| format!("{name} names no field"))
}

fn length(class: &Value, kind: &str) -> Result<Length, String> {
    if kind.starts_with("static-") {
        let length = number(class, "length").ok_or("length is missing")?;
        return Ok(Length::Fixed(length));
    }
    Ok(Length::Of(location(class, "length-field-location")?))
}

fn byte(is_text: bool) -> Integer {
    Integer {
        size: 8,
        alignment: 8,
        is_signed: false,
        order: None,
        is_time: false,
        is_text,
    }
}

fn integer(class: &Value, is_signed: bool, is_time: bool) -> Result<Form, String> {
    let size = number(class, "length").filter(|size| (1..=64).contains(size));
    let size = size.ok_or("an integer has no length of 1 to 64 bits")?;
    let integer = Integer {
        size: size as u32,
        alignment: alignment(class, "alignment", 1)?,
        is_signed,
        order: Some(Endian {
            is_big: text(class, "byte-order") == Some("big-endian"),
        }),
        is_time,
        is_text: false,
    };
    let Some(mappings) = class.get("mappings").and_then(Value::as_object) else {
        return Ok(Form::Integer(integer));
    };
    let labels = mappings
        .iter()
        .map(|(label, ranges)| (label.clone(), ranges_of(ranges)));
    let labels = labels.collect();
    Ok(Form::Enumeration(Rc::new(Enumeration { integer, labels })))
}
