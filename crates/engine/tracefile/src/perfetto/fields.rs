//! Reads the fields of one event by their index in the table of events.

use std::sync::Arc;

use punctual_model::{Comm, EventFields, Text};

use super::table::Known;
use super::wire::{Message, Value, numbers};

/// Numbers in `GenericFtraceEvent.Field`.
const NAME: u64 = 1;
const TEXT: u64 = 3;

/// Maximum number of names that are kept. Most machines have about ten interrupts.
const MOST_NAMES: usize = 1_024;

/// The fields of an event. An absent field is 0 or empty, as in all messages of Perfetto.
pub(super) struct Fields<'a> {
    pub(super) known: &'a Known,
    pub(super) message: Message<'a>,
    pub(super) names: &'a mut Vec<Arc<str>>,
}

impl<'a> Fields<'a> {
    fn value(&self, number: usize) -> Option<Value<'a>> {
        if let Some(field) = self.known.fields.get(number) {
            return Some(self.message.get(*field).unwrap_or(Value::Number(0)));
        }
        // A generic event names its fields.
        let name = self.known.event.spec.fields.get(number)?;
        let fields = self.message.filter(|(of, _)| *of == 2);
        let mut fields = fields.map(|(_, value)| Message(value.bytes()));
        let field = fields.find(|field| {
            let own = field.get(NAME).map(Value::bytes);
            own == Some(name.as_bytes())
        })?;
        field
            .filter(|(of, _)| *of >= TEXT)
            .last()
            .map(|(_, value)| value)
    }
}

impl EventFields for Fields<'_> {
    fn u64(&self, number: usize) -> Option<u64> {
        self.value(number).map(Value::number)
    }

    fn i64(&self, number: usize) -> Option<i64> {
        self.u64(number).map(|value| value as i64)
    }

    fn comm(&self, number: usize) -> Option<Comm> {
        self.value(number).map(|value| Comm::new(value.bytes()))
    }

    fn text(&mut self, number: usize) -> Option<Text> {
        let bytes = self.value(number)?.bytes();
        let known = self.names.iter().find(|name| name.as_bytes() == bytes);
        if let Some(known) = known {
            return Some(Text(Arc::clone(known)));
        }
        let name: Arc<str> = String::from_utf8_lossy(bytes).into();
        if self.names.len() < MOST_NAMES {
            self.names.push(Arc::clone(&name));
        }
        Some(Text(name))
    }

    fn word(&self, number: usize, index: usize) -> Option<u64> {
        let field = self.known.fields.get(number)?;
        let words = numbers(self.message, *field);
        Some(words.get(index).copied().unwrap_or(0))
    }

    fn in_text(&self, number: usize) -> Option<u64> {
        self.u64(number)
    }

    fn cpus(&self, _: usize) -> Option<Vec<u32>> {
        Some(Vec::new())
    }
}
