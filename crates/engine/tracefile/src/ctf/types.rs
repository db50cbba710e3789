//! The contents of the metadata: the types of fields, the streams and the events.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::dat::parser::Endian;

/// Maximum alignment in bits. Writers use at most 64.
pub(super) const MOST_ALIGNMENT: u64 = 1 << 16;

/// A number of fixed size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    /// Size in bits, from 1 to 64.
    pub(super) size: u32,
    pub(super) alignment: u64,
    pub(super) is_signed: bool,
    /// `None` for the byte order of the trace.
    pub(super) order: Option<Endian>,
    /// Whether the value is a time on the clock of the stream.
    pub(super) is_time: bool,
    /// Whether an array of this type is a text.
    pub(super) is_text: bool,
}

/// The ranges of values of a label. Both ends are included.
pub(super) type Ranges = Vec<(i128, i128)>;

/// A number whose values have labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Enumeration {
    pub(super) integer: Integer,
    pub(super) labels: Vec<(String, Ranges)>,
}

/// Maximum number of types inside each other. LTTng uses 4.
pub(super) const MOST_DEPTH: u32 = 32;

/// The type of a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) form: Form,
    /// Number of types inside each other. Limited, because types are read and dropped recursively.
    depth: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Integer(Integer),
    /// A number of variable size in the form LEB128.
    Leb128 {
        is_signed: bool,
        is_time: bool,
    },
    Enumeration(Rc<Enumeration>),
    /// A field whose value is not needed.
    Skipped {
        bits: u64,
        alignment: u64,
    },
    /// A text that ends with a zero byte.
    Text,
    Structure(Structure),
    Variant(Variant),
    Array {
        element: Rc<Type>,
        length: Length,
    },
    /// A field that is present if the other field has one of these values.
    Optional {
        tag: String,
        ranges: Ranges,
        field: Rc<Type>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Structure {
    pub(super) alignment: u64,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: Rc<str>,
    /// The name that CTF 1.8 gives to a field with this purpose, if CTF 2 states a purpose.
    pub(super) role: Option<Rc<str>>,
    pub(super) of: Rc<Type>,
}

/// Several types, from which the value of the field `tag` selects one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) tag: String,
    pub(super) choices: Vec<Choice>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The label of the tag in CTF 1.8.
    pub(super) label: String,
    /// The values of the tag in CTF 2. Empty in CTF 1.8.
    pub(super) ranges: Ranges,
    pub(super) of: Rc<Type>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Fixed(u64),
    /// The value of the field with this name.
    Of(String),
}

impl Type {
    /// Returns a type, or `None` if it contains too many types inside each other.
    pub(super) fn new(form: Form) -> Option<Rc<Self>> {
        let inner = |of: &Rc<Self>| of.depth;
        let deepest = match &form {
            Form::Structure(structure) => {
                structure.fields.iter().map(|field| inner(&field.of)).max()
            }
            Form::Variant(variant) => variant.choices.iter().map(|choice| inner(&choice.of)).max(),
            Form::Array { element, .. } => Some(inner(element)),
            Form::Optional { field, .. } => Some(inner(field)),
            _ => None,
        };
        let depth = deepest.unwrap_or(0) + 1;
        (depth <= MOST_DEPTH).then(|| Rc::new(Self { form, depth }))
    }

    /// Returns the alignment of a field of this type, in bits.
    pub(super) fn alignment(&self) -> u64 {
        match &self.form {
            Form::Integer(integer) => integer.alignment,
            Form::Enumeration(of) => of.integer.alignment,
            Form::Skipped { alignment, .. } => *alignment,
            Form::Text | Form::Leb128 { .. } => 8,
            Form::Structure(structure) => structure.alignment,
            Form::Array { element, .. } => element.alignment(),
            Form::Variant(_) | Form::Optional { .. } => 1,
        }
    }
}

impl Structure {
    /// Adds a field, and aligns the structure like its fields.
    pub(super) fn add(&mut self, name: &str, of: Rc<Type>) {
        self.alignment = self.alignment.max(of.alignment()).max(1);
        self.fields.push(Field {
            name: name.into(),
            role: None,
            of,
        });
    }
}

/// The events of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct EventClass {
    pub(super) name: String,
    pub(super) context: Option<Rc<Type>>,
    pub(super) fields: Option<Rc<Type>>,
}

/// The streams of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamClass {
    pub(super) packet_context: Option<Rc<Type>>,
    pub(super) event_header: Option<Rc<Type>>,
    pub(super) event_context: Option<Rc<Type>>,
    pub(super) events: BTreeMap<u64, Rc<EventClass>>,
}

/// A clock.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    pub(super) name: String,
    /// Ticks in a second.
    pub(super) frequency: u64,
}

/// The metadata of a trace.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) order: Endian,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) clock: Option<Clock>,
    pub(super) packet_header: Option<Rc<Type>>,
    pub(super) streams: BTreeMap<u64, StreamClass>,
}

impl Metadata {
    /// Returns whether LTTng recorded the trace.
    pub(super) fn is_lttng(&self) -> bool {
        let tracer = self.environment.get("tracer_name");
        tracer.is_some_and(|tracer| tracer.starts_with("lttng"))
    }

    /// Returns whether the trace contains events of the kernel.
    pub(super) fn is_kernel(&self) -> bool {
        let domain = self.environment.get("domain");
        domain.is_none_or(|domain| domain == "kernel")
    }
}
