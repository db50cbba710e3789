//! Parses the metadata of CTF 1.8, which is a text in the language TSDL.
//!
//! Source: the specification of CTF 1.8.3, sections 7 and C (<https://diamon.org/ctf/v1.8.3>).

mod lexer;
mod types;

use std::collections::BTreeMap;
use std::rc::Rc;

use self::lexer::{Token, tokens};
use super::types::{Clock, EventClass, Metadata, StreamClass, Type};
use crate::TraceFileError;
use crate::dat::parser::Endian;

/// Number of ticks in a second if a clock does not state it.
const GIGAHERTZ: u64 = 1_000_000_000;

/// Parses the text of the metadata.
///
/// # Errors
/// Returns an error that names the line.
pub(super) fn parse(text: &str) -> Result<Metadata, TraceFileError> {
    let tokens = tokens(text).map_err(|(line, rest)| TraceFileError::Metadata {
        line,
        what: format!("{:?} cannot be read", rest.trim_end()),
    })?;
    let mut parser = Parser {
        tokens,
        at: 0,
        scopes: vec![BTreeMap::new()],
        depth: 0,
        contents: Contents::default(),
    };
    while parser.peek().is_some() {
        parser.declaration()?;
    }
    parser.contents.finish()
}

/// The contents that have been read.
#[derive(Default)]
struct Contents {
    order: Option<Endian>,
    environment: BTreeMap<String, String>,
    clock: Option<Clock>,
    packet_header: Option<Rc<Type>>,
    streams: BTreeMap<u64, StreamClass>,
    /// The events, and the ID of the stream of each.
    events: Vec<(Option<u64>, u64, EventClass)>,
}

impl Contents {
    fn finish(mut self) -> Result<Metadata, TraceFileError> {
        let order = self.order.ok_or_else(|| TraceFileError::Metadata {
            line: 1,
            what: "a trace block with a byte_order is missing".to_owned(),
        })?;
        let only = self.streams.keys().next().copied().unwrap_or(0);
        for (stream, id, event) in self.events {
            let stream = self.streams.entry(stream.unwrap_or(only)).or_default();
            stream.events.insert(id, Rc::new(event));
        }
        Ok(Metadata {
            order,
            environment: self.environment,
            clock: self.clock,
            packet_header: self.packet_header,
            streams: self.streams,
        })
    }
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    /// The names of types, innermost scope last.
    scopes: Vec<BTreeMap<String, Rc<Type>>>,
    /// Number of types that surround the next token.
    depth: u32,
    contents: Contents,
}

/// The value of an attribute.
#[derive(Debug)]
enum Attribute {
    Number(i128),
    Text(String),
    Type(Rc<Type>),
}

impl Attribute {
    fn unsigned(&self) -> Option<u64> {
        match self {
            Self::Number(number) => (*number).try_into().ok(),
            _ => None,
        }
    }

    fn words(self) -> Option<String> {
        match self {
            Self::Number(number) => Some(number.to_string()),
            Self::Text(text) => Some(text),
            Self::Type(_) => None,
        }
    }

    fn of_type(self) -> Option<Rc<Type>> {
        match self {
            Self::Type(of) => Some(of),
            _ => None,
        }
    }
}

type Attributes = BTreeMap<String, Attribute>;

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    /// Skips a sign if it is next.
    fn accepts(&mut self, sign: &str) -> bool {
        let is_next = self.is_sign(sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn accepts_word(&mut self, word: &str) -> bool {
        let is_next = self.is_word(word);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), TraceFileError> {
        if self.accepts(sign) {
            return Ok(());
        }
        Err(self.error(&format!("{sign} is missing")))
    }

    fn error(&self, what: &str) -> TraceFileError {
        let last = self.tokens.len().saturating_sub(1);
        let line = self
            .tokens
            .get(self.at.min(last))
            .map_or(1, |(_, line)| *line);
        TraceFileError::Metadata {
            line,
            what: what.to_owned(),
        }
    }

    fn word(&mut self) -> Result<String, TraceFileError> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            _ => {
                self.at -= 1;
                Err(self.error("a name is missing"))
            }
        }
    }

    /// Reads words with dots between them.
    fn path(&mut self) -> Result<String, TraceFileError> {
        let mut path = self.word()?;
        while self.accepts(".") {
            path.push('.');
            path += &self.word()?;
        }
        Ok(path)
    }

    /// Reads a declaration at the outermost level.
    fn declaration(&mut self) -> Result<(), TraceFileError> {
        if self.accepts(";") || self.named_type()? {
            return Ok(());
        }
        let block = self.word()?;
        let attributes = self.block()?;
        match block.as_str() {
            "trace" => {
                let order = attributes.get("byte_order");
                self.contents.order = order.and_then(byte_order);
                if self.contents.order.is_none() {
                    return Err(self.error("the trace block has no byte_order"));
                }
                self.contents.packet_header = type_of(attributes, "packet.header");
            }
            "env" => {
                let words = attributes
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value.words()?)));
                self.contents.environment = words.collect();
            }
            "clock" => self.clock(attributes),
            "stream" => self.stream(attributes),
            "event" => self.event(attributes)?,
            "callsite" => (),
            other => return Err(self.error(&format!("the block {other} is unknown"))),
        }
        Ok(())
    }

    fn clock(&mut self, mut attributes: Attributes) {
        let name = attributes.remove("name").and_then(Attribute::words);
        let frequency = attributes.get("freq").and_then(Attribute::unsigned);
        self.contents.clock.get_or_insert(Clock {
            name: name.unwrap_or_default(),
            frequency: frequency.filter(|freq| *freq > 0).unwrap_or(GIGAHERTZ),
        });
    }

    fn stream(&mut self, mut attributes: Attributes) {
        let id = attributes.get("id").and_then(Attribute::unsigned);
        let mut take = |name| attributes.remove(name).and_then(Attribute::of_type);
        let class = StreamClass {
            packet_context: take("packet.context"),
            event_header: take("event.header"),
            event_context: take("event.context"),
            events: BTreeMap::new(),
        };
        self.contents.streams.insert(id.unwrap_or(0), class);
    }

    fn event(&mut self, mut attributes: Attributes) -> Result<(), TraceFileError> {
        let number = |name: &str| attributes.get(name).and_then(Attribute::unsigned);
        let (stream, id) = (number("stream_id"), number("id"));
        let name = attributes.remove("name").and_then(Attribute::words);
        let class = EventClass {
            name: name.ok_or_else(|| self.error("the event before has no name"))?,
            context: attributes.remove("context").and_then(Attribute::of_type),
            fields: attributes.remove("fields").and_then(Attribute::of_type),
        };
        self.contents.events.push((stream, id.unwrap_or(0), class));
        Ok(())
    }

    /// Reads a block with its attributes, and the `;` after it. Types that are declared in the
    /// block are known only there.
    fn block(&mut self) -> Result<Attributes, TraceFileError> {
        self.scopes.push(BTreeMap::new());
        let attributes = self.attributes()?;
        self.scopes.pop();
        self.accepts(";");
        Ok(attributes)
    }

    fn attributes(&mut self) -> Result<Attributes, TraceFileError> {
        self.expect("{")?;
        let mut attributes = Attributes::new();
        while !self.accepts("}") {
            if self.accepts(";") || self.named_type()? {
                continue;
            }
            let name = self.path()?;
            let value = if self.accepts(":=") {
                Attribute::Type(self.type_only()?)
            } else {
                self.expect("=")?;
                match self.next() {
                    Some(Token::Number(number)) => Attribute::Number(number),
                    Some(Token::Text(text)) => Attribute::Text(text),
                    _ => {
                        self.at -= 1;
                        Attribute::Text(self.path()?)
                    }
                }
            };
            attributes.insert(name, value);
            self.expect(";")?;
        }
        Ok(attributes)
    }
}

fn type_of(mut attributes: Attributes, name: &str) -> Option<Rc<Type>> {
    attributes.remove(name).and_then(Attribute::of_type)
}

/// Returns a byte order. `None` for the byte order of the trace, and for an unknown word.
fn byte_order(attribute: &Attribute) -> Option<Endian> {
    match attribute {
        Attribute::Text(text) => match text.as_str() {
            "le" => Some(Endian { is_big: false }),
            "be" | "network" => Some(Endian { is_big: true }),
            _ => None,
        },
        _ => None,
    }
}
