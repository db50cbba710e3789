//! Tests of the metrics that are pushed using OTLP.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_serve::PushTo;
use serde_json::Value;

use crate::place::{Sandbox, deliver, recording};
use crate::receiver::Receiver;

/// Returns the fields of a message: the field number, and its bytes or its value as bytes.
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

/// Returns the innermost message, following the first field with each of these numbers.
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
fn collector_receives_histogram_and_sums() {
    let place = Sandbox::new();
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
    // The histogram is cumulative, and contains each due period once.
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

/// A program that reads consecutive requests, each preceded by its length, with the classes that
/// the OpenTelemetry project generates from its definitions.
const READER: &str = "
import json, sys
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from google.protobuf.json_format import MessageToDict
data, found = sys.stdin.buffer.read(), []
while data:
    length = int.from_bytes(data[:8], 'little')
    found.append(MessageToDict(ExportMetricsServiceRequest.FromString(data[8:8 + length])))
    data = data[8 + length:]
print(json.dumps(found))
";

#[test]
fn opentelemetry_classes_read_pushed_metrics() {
    let python = |code: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", code]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn()
    };
    let there = python("import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2");
    if !there.is_ok_and(|mut child| child.wait().is_ok_and(|status| status.success())) {
        punctual_testing::skip!(Program, "python3 has no opentelemetry-proto");
        return;
    }
    let place = Sandbox::new();
    let one = recording(1, "board");
    let due: u64 = one.accounting().recorded + one.accounting().missed;
    let receiver = Receiver::new(0);
    let url = format!("http://{}/v1/metrics", receiver.address);
    let writer = place.serve();
    deliver(writer.address, &one);
    writer.stop();
    let _server = place.serve_as(|config| {
        let every = Duration::from_secs(3_600);
        config.push = Some(PushTo { url, every });
    });
    let mut reader = python(READER).unwrap();
    let mut stdin = reader.stdin.take().unwrap();
    for _ in 0..2 {
        let body = receiver.next();
        stdin.write_all(&(body.len() as u64).to_le_bytes()).unwrap();
        stdin.write_all(&body).unwrap();
    }
    drop(stdin);
    let output = reader.wait_with_output().unwrap();
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    let metric = |place: usize| &read[place]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
    let histogram = &metric(0)["exponentialHistogram"];
    assert_eq!(metric(0)["name"], "punctual_latency");
    assert_eq!(
        histogram["aggregationTemporality"],
        "AGGREGATION_TEMPORALITY_CUMULATIVE"
    );
    let point = &histogram["dataPoints"][0];
    // 64-bit numbers are strings in this format.
    let count = |value: &Value| value.as_str().unwrap_or("0").parse::<u64>().unwrap();
    let buckets = point["positive"]["bucketCounts"].as_array().unwrap();
    let sum: u64 = buckets.iter().map(count).sum();
    assert_eq!(sum + count(&point["zeroCount"]), due, "{point}");
    assert_eq!(count(&point["count"]), due);
    let machine = &point["attributes"][0];
    assert_eq!(machine["key"], "machine");
    assert_eq!(machine["value"]["stringValue"], "board");
    assert_eq!(metric(1)["name"], "punctual_recordings");
    assert_eq!(metric(1)["sum"]["isMonotonic"], true);
}
