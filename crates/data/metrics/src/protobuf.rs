//! Metrics as protobuf, the only format with native histograms: `io.prometheus.client` of
//! <https://github.com/prometheus/client_model>, each family preceded by its length. The encoding
//! is written by hand, because these few messages do not justify a protobuf compiler and its 40
//! crates.

use crate::native::{SCHEMA, ZERO_S};
use crate::{Family, Figures, Kind, Value};

pub(crate) const KIND: &str = "application/vnd.google.protobuf; \
    proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// A message under construction. <https://protobuf.dev/programming-guides/encoding/>
#[derive(Default)]
pub struct Message(
    /// The encoded bytes.
    pub Vec<u8>,
);

/// Wire types.
const VARINT: u64 = 0;
const DOUBLE: u64 = 1;
const BYTES: u64 = 2;

impl Message {
    /// Encodes a number without a field.
    pub fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Encodes uint32, uint64 and enumerations.
    pub fn unsigned(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(number);
    }

    /// Encodes sint32 and sint64.
    pub fn signed(&mut self, field: u64, number: i64) {
        self.unsigned(field, zigzag(number));
    }

    /// Encodes fixed64 and sfixed64.
    pub fn fixed(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | DOUBLE);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Encodes double.
    pub fn double(&mut self, field: u64, number: f64) {
        self.varint(field << 3 | DOUBLE);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Encodes bytes, strings and messages.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

pub(crate) fn encode(families: &[Family]) -> Vec<u8> {
    let mut out = Message::default();
    for family in families {
        let message = of_family(family);
        out.varint(message.0.len() as u64);
        out.0.extend_from_slice(&message.0);
    }
    out.0
}

fn of_family(family: &Family) -> Message {
    let mut out = Message::default();
    out.bytes(1, family.name.as_bytes());
    out.bytes(2, family.help.as_bytes());
    let kind = match family.kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Histogram => 4,
    };
    out.unsigned(3, kind);
    for sample in &family.samples {
        let mut metric = Message::default();
        for (name, value) in &sample.labels {
            let mut label = Message::default();
            label.bytes(1, name.as_bytes());
            label.bytes(2, value.as_bytes());
            metric.bytes(1, &label.0);
        }
        match &sample.value {
            Value::Histogram(figures) => metric.bytes(7, &of_histogram(figures).0),
            Value::Number(number) => {
                let mut value = Message::default();
                value.double(1, *number);
                let field = if family.kind == Kind::Counter { 3 } else { 2 };
                metric.bytes(field, &value.0);
            }
        }
        out.bytes(4, &metric.0);
    }
    out
}

fn of_histogram(figures: &Figures) -> Message {
    let mut out = Message::default();
    out.unsigned(1, figures.count);
    out.double(2, figures.sum_s);
    for (bound, count) in &figures.classic {
        let mut bucket = Message::default();
        bucket.unsigned(1, *count);
        bucket.double(2, *bound);
        out.bytes(3, &bucket.0);
    }
    out.signed(5, SCHEMA.into());
    out.double(6, ZERO_S);
    out.unsigned(7, figures.native.zero);
    let (spans, deltas) = figures.native.spans();
    for (offset, length) in spans {
        let mut span = Message::default();
        span.signed(1, offset.into());
        span.unsigned(2, length.into());
        out.bytes(12, &span.0);
    }
    let mut packed = Message::default();
    deltas
        .into_iter()
        .for_each(|delta| packed.varint(zigzag(delta)));
    out.bytes(13, &packed.0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_in_the_encoding_guide() {
        let mut message = Message::default();
        message.unsigned(1, 150);
        assert_eq!(message.0, [0x08, 0x96, 0x01]);
        let mut message = Message::default();
        message.bytes(2, b"testing");
        assert_eq!(message.0, b"\x12\x07testing");
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }

    #[test]
    fn families_follow_each_other_with_their_lengths() {
        let families = crate::tests::some();
        let bytes = encode(&families);
        let mut rest = bytes.as_slice();
        let mut seen = 0;
        while !rest.is_empty() {
            let mut length = 0usize;
            let mut shift = 0;
            loop {
                let (byte, after) = rest.split_first().unwrap();
                rest = after;
                length |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            assert_eq!(rest[0], 0x0a, "each begins with its name");
            rest = &rest[length..];
            seen += 1;
        }
        assert_eq!(seen, families.len());
    }
}
