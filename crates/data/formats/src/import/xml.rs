//! Walks through XML files element by element.

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::{ImportError, Location, Malformed, Source};

/// Maximum nesting depth. Files of this kind have only about ten levels.
const DEEPEST: usize = 64;

/// An element that is open or is just ending.
#[derive(Debug)]
pub(crate) struct Element {
    /// Its name.
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
    /// Its text, without the text of nested elements.
    pub(crate) text: String,
}

impl Element {
    /// Returns an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads an XML file, and calls `ended` at the end of each element with all open elements: the
/// outermost is the first, and the element that ends is the last. An error returned by `ended` is
/// passed on with its line.
///
/// # Errors
/// Returns an error for a file that is not well-formed, is truncated, or is nested deeper than 64,
/// and the errors of `ended`. Entities of a DTD are not supported.
pub(crate) fn walk(
    source: &mut Source<'_>,
    ended: &mut dyn FnMut(&[Element]) -> Result<(), Malformed>,
) -> Result<(), ImportError> {
    let bytes = source.rest()?;
    let text = str::from_utf8(&bytes).map_err(|error| {
        let place = Location::Line(line_at(&bytes, error.valid_up_to() as u64));
        source.bad_at(place, "is not UTF-8, which this XML format requires")
    })?;
    // A byte order mark does not count as text.
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let (mut open, mut roots): (Vec<Element>, _) = (Vec::new(), 0);
    loop {
        let event = reader.read_event();
        let position = match event {
            Ok(_) => reader.buffer_position(),
            Err(_) => reader.error_position(),
        };
        let bad =
            |reason: Malformed| source.bad_at(Location::Line(line_at(&bytes, position)), reason);
        match event.map_err(|error| bad(Malformed::NotWellFormed(error)))? {
            Event::Start(start) => {
                roots += usize::from(open.is_empty());
                open.push(element(&start).map_err(bad)?);
                if open.len() > DEEPEST {
                    return Err(bad(Malformed::TooDeep(DEEPEST)));
                }
            }
            Event::Empty(start) => {
                roots += usize::from(open.is_empty());
                open.push(element(&start).map_err(bad)?);
                ended(&open).map_err(bad)?;
                open.pop();
            }
            // The reader has checked that the names match.
            Event::End(_) => {
                ended(&open).map_err(bad)?;
                open.pop();
            }
            Event::Text(text) => add_text(&mut open, &text.xml10_content()).map_err(bad)?,
            Event::CData(text) => add_text(&mut open, &text.xml10_content()).map_err(bad)?,
            Event::GeneralRef(name) => {
                let text = resolve(&name).map_err(bad)?;
                add_text(&mut open, &text).map_err(bad)?;
            }
            Event::Eof if !open.is_empty() => {
                let name = &open[open.len() - 1].name;
                return Err(bad(Malformed::EndsInside(name.clone())));
            }
            Event::Eof if roots != 1 => {
                return Err(bad(Malformed::NotOneDocument));
            }
            Event::Eof => return Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

fn element(start: &BytesStart<'_>) -> Result<Element, Malformed> {
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| Malformed::Attribute(error.into()))?;
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| Malformed::Attribute(error.into()))?;
        let name: &str = attribute.key.as_ref();
        attributes.push((name.to_owned(), value.into_owned()));
    }
    let name = start.name();
    let name: &str = name.as_ref();
    Ok(Element {
        name: name.to_owned(),
        attributes,
        text: String::new(),
    })
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), Malformed> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(Malformed::TextOutside),
    }
    Ok(())
}

fn resolve(reference: &BytesRef<'_>) -> Result<String, Malformed> {
    let character = reference.resolve_char_ref();
    if let Some(character) = character.map_err(Malformed::Reference)? {
        return Ok(character.to_string());
    }
    let name: &str = reference;
    let known = resolve_predefined_entity(name).map(str::to_owned);
    known.ok_or_else(|| Malformed::UnknownEntity(name.to_owned()))
}

/// Returns the number of the line that contains a byte, from 1.
fn line_at(bytes: &[u8], position: u64) -> u64 {
    let position = usize::try_from(position).unwrap_or(bytes.len());
    let before = &bytes[..position.min(bytes.len())];
    memchr::memchr_iter(b'\n', before).count() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(text: &str) -> Result<Vec<String>, String> {
        let mut source = Source::new("file", text.as_bytes());
        let mut seen = Vec::new();
        let result = walk(&mut source, &mut |open| {
            let names: Vec<&str> = open.iter().map(|element| element.name.as_str()).collect();
            let last = open.last().map_or("", |element| element.text.trim());
            let id = open.last().and_then(|element| element.attribute("id"));
            seen.push(format!("{} {} {last}", names.join("/"), id.unwrap_or("-")));
            Ok(())
        });
        result.map(|()| seen).map_err(|error| error.to_string())
    }

    #[test]
    fn elements_come_where_they_end() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<a id='1 &lt; 2'>\n <b>x &amp; &#x79;</b>\n <c/></a>\n";
        assert_eq!(walked(text).unwrap(), ["a/b - x & y", "a/c - ", "a 1 < 2 "]);
    }

    #[test]
    fn invalid_xml_is_refused_with_line() {
        let deep = "<a>".repeat(100);
        for (text, line, reason) in [
            ("<a>\n<b></a>", ":2:", "well-formed"),
            ("<a>\n<b>", ":2:", "ends inside <b>"),
            ("<a/>\n<a/>", ":2:", "a single XML document"),
            ("", ":1:", "a single XML document"),
            ("\nx", ":2:", "outside"),
            ("<a>&nbsp;</a>", ":1:", "&nbsp;"),
            ("<a id='1' id='2'/>", ":1:", "attribute"),
            ("<a id='&x;'/>", ":1:", "attribute"),
            (&deep, ":1:", "deeper"),
        ] {
            let error = walked(text).unwrap_err();
            assert!(
                error.contains(line) && error.contains(reason),
                "{text}: {error}"
            );
        }
    }
}
