//! Parses types.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::lexer::Token;
use super::{Attribute, Attributes, Parser, byte_order};
use crate::TraceFileError;
use crate::ctf::types::{
    Choice, Enumeration, Form, Integer, Length, MOST_ALIGNMENT, MOST_DEPTH, Structure, Type,
    Variant,
};

const TOO_DEEP: &str = "more than 32 types are inside each other";

/// A type and the name of its field.
type Declared = (Rc<Type>, String);

impl Parser {
    /// Reads a declaration that only gives a name to a type. Returns `false` if there is none.
    pub(super) fn named_type(&mut self) -> Result<bool, TraceFileError> {
        if self.accepts_word("typealias") {
            let of = self.type_only()?;
            self.expect(":=")?;
            let name = self.words()?.join(" ");
            self.name(name, of);
        } else if self.accepts_word("typedef") {
            if let Some((of, name)) = self.declared()? {
                self.name(name, of);
            }
        } else if ["struct", "enum", "variant"]
            .iter()
            .any(|word| self.is_word(word))
        {
            self.type_only()?;
        } else {
            return Ok(false);
        }
        self.expect(";")?;
        Ok(true)
    }

    fn name(&mut self, name: String, of: Rc<Type>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, of);
        }
    }

    fn known(&self, name: &str) -> Result<Rc<Type>, TraceFileError> {
        let mut scopes = self.scopes.iter().rev();
        let known = scopes.find_map(|scope| scope.get(name));
        known
            .cloned()
            .ok_or_else(|| self.error(&format!("the type {name} is unknown")))
    }

    /// Reads words up to the next sign.
    fn words(&mut self) -> Result<Vec<String>, TraceFileError> {
        let mut words = vec![self.word()?];
        while matches!(self.peek(), Some(Token::Word(_))) {
            words.push(self.word()?);
        }
        Ok(words)
    }

    /// Reads a type without the name of a field.
    pub(super) fn type_only(&mut self) -> Result<Rc<Type>, TraceFileError> {
        if let Some(of) = self.built()? {
            return Ok(of);
        }
        let name = self.words()?.join(" ");
        self.known(&name)
    }

    /// Reads a type, the name of a field, and the lengths of its arrays. Returns `None` if the type
    /// is only declared, without a field.
    fn declared(&mut self) -> Result<Option<Declared>, TraceFileError> {
        let (of, name) = if let Some(of) = self.built()? {
            if self.is_sign(";") {
                return Ok(None);
            }
            (of, self.word()?)
        } else {
            let mut words = self.words()?;
            let name = words.pop().unwrap_or_default();
            (self.known(&words.join(" "))?, name)
        };
        let mut lengths = Vec::new();
        while self.accepts("[") {
            lengths.push(match self.peek() {
                Some(Token::Number(_)) => Length::Fixed(self.unsigned()?),
                _ => Length::Of(last_name(&self.path()?)),
            });
            self.expect("]")?;
        }
        let mut of = of;
        for length in lengths.into_iter().rev() {
            let element = of;
            of = self.make(Form::Array { element, length })?;
        }
        Ok(Some((of, name)))
    }

    fn unsigned(&mut self) -> Result<u64, TraceFileError> {
        match self.next() {
            Some(Token::Number(number)) if u64::try_from(number).is_ok() => Ok(number as u64),
            _ => {
                self.at -= 1;
                Err(self.error("a number is missing"))
            }
        }
    }

    /// Reads a type that begins with a word of the language. Returns `None` if the next word is the
    /// name of a type.
    fn built(&mut self) -> Result<Option<Rc<Type>>, TraceFileError> {
        let Some(Token::Word(word)) = self.peek() else {
            return Err(self.error("a type is missing"));
        };
        let word = word.clone();
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(self.error(TOO_DEEP));
        }
        let of = match word.as_str() {
            "integer" => {
                self.at += 1;
                let attributes = self.attributes()?;
                Some(self.make(Form::Integer(self.integer(&attributes)?))?)
            }
            "floating_point" => {
                self.at += 1;
                let attributes = self.attributes()?;
                Some(self.make(self.floating_point(&attributes)?)?)
            }
            "string" => {
                self.at += 1;
                if self.is_sign("{") {
                    self.attributes()?;
                }
                Some(self.make(Form::Text)?)
            }
            "struct" => Some(self.structure()?),
            "enum" => Some(self.enumeration()?),
            "variant" => Some(self.variant()?),
            _ => None,
        };
        self.depth -= 1;
        Ok(of)
    }

    fn alignment(&self, attributes: &Attributes) -> Result<Option<u64>, TraceFileError> {
        let Some(alignment) = attributes.get("align") else {
            return Ok(None);
        };
        let alignment = alignment.unsigned().filter(|align| is_alignment(*align));
        alignment
            .map(Some)
            .ok_or_else(|| self.error("an alignment is not a power of two up to 65536"))
    }

    fn integer(&self, attributes: &Attributes) -> Result<Integer, TraceFileError> {
        let size = attributes.get("size").and_then(Attribute::unsigned);
        let size = size
            .filter(|size| (1..=64).contains(size))
            .ok_or_else(|| self.error("an integer has no size of 1 to 64 bits"))?;
        let natural = if size.is_multiple_of(8) { 8 } else { 1 };
        let is_signed = match attributes.get("signed") {
            Some(Attribute::Number(number)) => *number != 0,
            Some(Attribute::Text(text)) => text.eq_ignore_ascii_case("true"),
            _ => false,
        };
        let text = |name: &str| match attributes.get(name) {
            Some(Attribute::Text(text)) => text.as_str(),
            _ => "none",
        };
        Ok(Integer {
            size: size as u32,
            alignment: self.alignment(attributes)?.unwrap_or(natural),
            is_signed,
            order: attributes.get("byte_order").and_then(byte_order),
            is_time: text("map").starts_with("clock."),
            is_text: !text("encoding").eq_ignore_ascii_case("none"),
        })
    }

    fn floating_point(&self, attributes: &Attributes) -> Result<Form, TraceFileError> {
        let digits = |name: &str| attributes.get(name).and_then(Attribute::unsigned);
        let bits = digits("exp_dig").zip(digits("mant_dig"));
        let bits = bits.and_then(|(exponent, mantissa)| exponent.checked_add(mantissa));
        Ok(Form::Skipped {
            bits: bits.ok_or_else(|| self.error("a floating_point has no size"))?,
            alignment: self.alignment(attributes)?.unwrap_or(8),
        })
    }

    /// Reads the name of a structure, enumeration or variant, if it has one.
    fn optional_name(&mut self, kind: &str) -> Option<String> {
        self.at += 1;
        match self.peek() {
            Some(Token::Word(name)) => {
                let name = format!("{kind} {name}");
                self.at += 1;
                Some(name)
            }
            _ => None,
        }
    }

    /// Returns a type that was declared before, because the next token does not declare it.
    fn named(&self, name: Option<String>) -> Result<Rc<Type>, TraceFileError> {
        match name {
            Some(name) => self.known(&name),
            None => Err(self.error("{ is missing")),
        }
    }

    fn structure(&mut self) -> Result<Rc<Type>, TraceFileError> {
        let name = self.optional_name("struct");
        if !self.accepts("{") {
            return self.named(name);
        }
        let mut structure = Structure {
            alignment: 1,
            fields: Vec::new(),
        };
        for (of, name) in self.fields()? {
            structure.add(&name, of);
        }
        if self.accepts_word("align") {
            self.expect("(")?;
            let alignment = self.unsigned()?;
            if !is_alignment(alignment) {
                return Err(self.error("an alignment is not a power of two up to 65536"));
            }
            structure.alignment = structure.alignment.max(alignment);
            self.expect(")")?;
        }
        self.declare(name, Form::Structure(structure))
    }

    /// Reads fields up to the `}`.
    fn fields(&mut self) -> Result<Vec<Declared>, TraceFileError> {
        self.scopes.push(BTreeMap::new());
        let mut fields = Vec::new();
        while !self.accepts("}") {
            if self.is_word("typealias") || self.is_word("typedef") {
                self.named_type()?;
                continue;
            }
            fields.extend(self.declared()?);
            self.expect(";")?;
        }
        self.scopes.pop();
        Ok(fields)
    }

    fn make(&self, form: Form) -> Result<Rc<Type>, TraceFileError> {
        Type::new(form).ok_or_else(|| self.error(TOO_DEEP))
    }

    fn declare(&mut self, name: Option<String>, form: Form) -> Result<Rc<Type>, TraceFileError> {
        let of = self.make(form)?;
        if let Some(name) = name {
            self.name(name, Rc::clone(&of));
        }
        Ok(of)
    }

    fn enumeration(&mut self) -> Result<Rc<Type>, TraceFileError> {
        let name = self.optional_name("enum");
        let container = if self.accepts(":") {
            self.type_only()?
        } else if self.is_sign("{") {
            self.known("int")?
        } else {
            return self.named(name);
        };
        let Form::Integer(integer) = &container.form else {
            return Err(self.error("the values of an enum must be integers"));
        };
        let integer = integer.clone();
        self.expect("{")?;
        let (mut labels, mut next) = (Vec::new(), 0_i128);
        while !self.accepts("}") {
            let label = match self.next() {
                Some(Token::Word(label) | Token::Text(label)) => label,
                _ => return Err(self.error("the label of an enum is missing")),
            };
            if self.accepts("=") {
                next = self.signed()?;
            }
            let last = if self.accepts("...") {
                self.signed()?
            } else {
                next
            };
            labels.push((label, vec![(next, last)]));
            next = last + 1;
            self.accepts(",");
        }
        let enumeration = Enumeration { integer, labels };
        self.declare(name, Form::Enumeration(Rc::new(enumeration)))
    }

    fn signed(&mut self) -> Result<i128, TraceFileError> {
        match self.next() {
            Some(Token::Number(number)) => Ok(number),
            _ => {
                self.at -= 1;
                Err(self.error("a number is missing"))
            }
        }
    }

    fn variant(&mut self) -> Result<Rc<Type>, TraceFileError> {
        let name = self.optional_name("variant");
        let tag = if self.accepts("<") {
            let tag = last_name(&self.path()?);
            self.expect(">")?;
            Some(tag)
        } else {
            None
        };
        let choices = if self.accepts("{") {
            let choices = self.fields()?.into_iter().map(|(of, label)| Choice {
                label,
                ranges: Vec::new(),
                of,
            });
            choices.collect()
        } else {
            match &self.named(name.clone())?.form {
                Form::Variant(variant) => variant.choices.clone(),
                _ => return Err(self.error("a variant has no choices")),
            }
        };
        let tag = tag.unwrap_or_default();
        let variant = Form::Variant(Variant { tag, choices });
        self.declare(name, variant)
    }
}

/// Returns the last name of a path such as `stream.event.header.id`.
fn last_name(path: &str) -> String {
    path.rsplit('.').next().unwrap_or(path).to_owned()
}

fn is_alignment(alignment: u64) -> bool {
    alignment.is_power_of_two() && alignment <= MOST_ALIGNMENT
}
