//! Metrics pushed by OTLP.

use std::time::Duration;

use punctual_serve::PushTo;

use crate::place::{Place, deliver, recording};
use crate::receiver::Receiver;

/// A field of a message: its number, and its bytes or its number as bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let content = match key & 7 {
            0 => varint(&mut bytes).to_le_bytes().to_vec(),
            wire => {
                let length = if wire == 1 {
                    8
                } else {
                    varint(&mut bytes) as usize
                };
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                content.to_vec()
            }
        };
        found.push((key >> 3, content));
    }
    found
}

/// The message in the first field with each of these numbers, one in the other.
fn inner(bytes: &[u8], path: &[u64]) -> Vec<u8> {
    path.iter().fold(bytes.to_vec(), |bytes, number| {
        let mut fields = fields(&bytes).into_iter();
        fields.find(|(known, _)| known == number).unwrap().1
    })
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

#[test]
fn a_collector_gets_the_histogram_and_the_sums() {
    let place = Place::new();
    let one = recording(1, "board");
    let due: u64 = one.accounting().recorded + one.accounting().missed;
    let writer = place.serve();
    deliver(writer.address, &one);
    writer.stop();
    let receiver = Receiver::new(0);
    let url = format!("http://{}/v1/metrics", receiver.address);
    let _server = place.serve_as(|config| {
        config.push = Some(PushTo {
            url,
            every: Duration::from_secs(3_600),
        });
    });
    let metric = inner(&receiver.next(), &[1, 2, 2]);
    assert_eq!(inner(&metric, &[1]), b"punctual_latency");
    assert_eq!(inner(&metric, &[3]), b"s");
    // The histogram is cumulative, and holds each due period once.
    assert_eq!(number(&inner(&metric, &[10, 2])), 2);
    let point = inner(&metric, &[10, 1]);
    assert_eq!(inner(&point, &[1, 1]), b"machine");
    assert_eq!(inner(&point, &[1, 2, 1]), b"board");
    assert_eq!(number(&inner(&point, &[4])), due);
    let counts = inner(&point, &[8, 2]);
    let mut sum = number(&inner(&point, &[7]));
    let (mut value, mut shift) = (0u64, 0);
    for byte in counts {
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            sum += value;
            (value, shift) = (0, 0);
        }
    }
    assert_eq!(sum, due);
    let metric = inner(&receiver.next(), &[1, 2, 2]);
    assert_eq!(inner(&metric, &[1]), b"punctual_recordings");
    assert_eq!(inner(&metric, &[7, 3]), 1u64.to_le_bytes(), "it only grows");
    let value = f64::from_bits(number(&inner(&metric, &[7, 1, 4])));
    assert_eq!(value, 1.0);
}
