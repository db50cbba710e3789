//! Writes CTF traces as LTTng's kernel tracer does.

use std::fs;
use std::path::Path;

/// The events: the name, and the fields with their types. A type is a number of bits, signed if it
/// is negative; 0 is a name of 16 letters; 1 a text that ends with a zero byte.
type Row = (&'static str, &'static [(&'static str, i32)]);

/// The events of a trace. The last one has an ID that does not fit into the short header.
pub(crate) const EVENTS: [Row; 6] = [
    (
        "sched_switch",
        &[
            ("prev_comm", 0),
            ("prev_tid", -32),
            ("prev_prio", -32),
            ("prev_state", -64),
            ("next_comm", 0),
            ("next_tid", -32),
            ("next_prio", -32),
        ],
    ),
    (
        "sched_waking",
        &[
            ("comm", 0),
            ("tid", -32),
            ("prio", -32),
            ("target_cpu", -32),
        ],
    ),
    ("irq_handler_entry", &[("irq", -32), ("name", 1)]),
    ("irq_handler_exit", &[("irq", -32), ("ret", -32)]),
    ("syscall_entry_futex", &[("uaddr", 64), ("op", -32)]),
    ("syscall_exit_futex", &[("ret", -64)]),
];
/// ID of the last event.
const LONG_ID: u32 = 900;

/// The value of a field.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Number(i64),
    Text(&'static str),
}

/// An event: its row, the time in ns, and its fields.
pub(crate) type Event = (usize, u64, Vec<Value>);

/// A packet of a CPU.
#[derive(Clone, Default)]
pub(crate) struct Packet {
    pub(crate) cpu: u32,
    pub(crate) sequence: u64,
    pub(crate) discarded: u64,
    pub(crate) events: Vec<Event>,
}

/// How a trace is written.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub(crate) is_big: bool,
    pub(crate) is_json: bool,
}

impl Written {
    pub(crate) const ALL: [Self; 4] = [
        Self::new(false, false),
        Self::new(true, false),
        Self::new(false, true),
        Self::new(true, true),
    ];

    const fn new(is_big: bool, is_json: bool) -> Self {
        Self { is_big, is_json }
    }

    /// Writes a trace: its metadata, and a file for each CPU.
    pub(crate) fn write(self, folder: &Path, cpus: &[Vec<Packet>]) {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("metadata"), self.metadata()).expect("a file");
        for (cpu, packets) in cpus.iter().enumerate() {
            let bytes: Vec<u8> = packets.iter().flat_map(|of| self.packet(of)).collect();
            fs::write(folder.join(format!("channel0_{cpu}")), bytes).expect("a file");
        }
    }

    pub(crate) fn metadata(self) -> String {
        if self.is_json {
            return self.json();
        }
        let order = if self.is_big { "be" } else { "le" };
        let mut text = format!("/* CTF 1.8 */\n{}", HEAD.replace("ORDER", order));
        for (index, (name, fields)) in EVENTS.iter().enumerate() {
            let id = id_of(index);
            text += &format!(
                "event {{ name = \"{name}\"; id = {id}; stream_id = 0; fields := struct {{\n"
            );
            for (field, of) in *fields {
                text += &match of {
                    0 => format!(
                        "integer {{ size = 8; align = 8; signed = 0; encoding = UTF8; }} _{field}[16];\n"
                    ),
                    1 => format!("string _{field};\n"),
                    bits => format!(
                        "integer {{ size = {}; align = 8; signed = {}; encoding = none; }} _{field};\n",
                        bits.abs(),
                        i32::from(*bits < 0)
                    ),
                };
            }
            text += "}; };\n";
        }
        text
    }

    fn json(self) -> String {
        let order = if self.is_big {
            "big-endian"
        } else {
            "little-endian"
        };
        let mut text = JSON
            .replace('\n', "")
            .replace("PART", "\n\u{1e}")
            .replace("ORDER", order);
        for (index, (name, fields)) in EVENTS.iter().enumerate() {
            let id = id_of(index);
            let members: Vec<String> = fields.iter().map(|(field, of)| {
                let class = match of {
                    0 => r#"{"type":"static-length-string","length":16}"#.to_owned(),
                    1 => r#"{"type":"null-terminated-string"}"#.to_owned(),
                    bits => format!(
                        r#"{{"type":"fixed-length-{}-integer","length":{},"byte-order":"{order}","alignment":8}}"#,
                        if *bits < 0 { "signed" } else { "unsigned" },
                        bits.abs()
                    ),
                };
                format!(r#"{{"name":"{field}","field-class":{class}}}"#)
            }).collect();
            text += &format!(
                "\n\u{1e}{{\"type\":\"event-record-class\",\"id\":{id},\"name\":\"{name}\",\
                 \"payload-field-class\":{{\"type\":\"structure\",\"member-classes\":[{}]}}}}",
                members.join(",")
            );
        }
        text + "\n"
    }

    fn number(self, value: i64, bytes: usize) -> Vec<u8> {
        if self.is_big {
            value.to_be_bytes()[8 - bytes..].to_vec()
        } else {
            value.to_le_bytes()[..bytes].to_vec()
        }
    }

    fn event(self, (row, time, values): &Event) -> Vec<u8> {
        let id = id_of(*row);
        let mut bytes = if id == LONG_ID {
            let first = if self.is_big { 31 << 3 } else { 31 };
            let mut bytes = vec![first];
            bytes.extend(self.number(i64::from(id), 4));
            bytes.extend(self.number(*time as i64, 8));
            bytes
        } else {
            let time = (*time & 0x7ff_ffff) as u32;
            let both = if self.is_big {
                id << 27 | time
            } else {
                time << 5 | id
            };
            self.number(i64::from(both), 4)
        };
        for ((_, of), value) in EVENTS[*row].1.iter().zip(values) {
            match (of, value) {
                (0, Value::Text(text)) => {
                    let mut name = text.as_bytes().to_vec();
                    name.resize(16, 0);
                    bytes.extend(name);
                }
                (_, Value::Text(text)) => bytes.extend([text.as_bytes(), &[0]].concat()),
                (bits, Value::Number(value)) => {
                    bytes.extend(self.number(*value, bits.unsigned_abs() as usize / 8));
                }
            }
        }
        bytes
    }

    /// A packet of 4,096 bytes.
    pub(crate) fn packet(self, packet: &Packet) -> Vec<u8> {
        const SIZE: usize = 4_096;
        let events: Vec<u8> = packet.events.iter().flat_map(|of| self.event(of)).collect();
        let time = |event: Option<&Event>| event.map_or(0, |(_, time, _)| *time as i64);
        let mut bytes = self.number(0xc1fc_1fc1, 4);
        bytes.extend([0; 16]);
        bytes.extend(self.number(0, 4));
        let content = bytes.len() + 6 * 8 + 4 + events.len();
        for value in [
            time(packet.events.first()),
            time(packet.events.last()),
            content as i64 * 8,
            SIZE as i64 * 8,
            packet.sequence as i64,
            packet.discarded as i64,
        ] {
            bytes.extend(self.number(value, 8));
        }
        bytes.extend(self.number(i64::from(packet.cpu), 4));
        bytes.extend(events);
        bytes.resize(SIZE, 0xee);
        bytes
    }
}

fn id_of(row: usize) -> u32 {
    if row + 1 == EVENTS.len() {
        LONG_ID
    } else {
        row as u32
    }
}

/// The head of the metadata, in the words of LTTng.
const HEAD: &str = r#"
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; } := unsigned long;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
trace {
    major = 1; minor = 8; byte_order = ORDER;
    packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; };
};
env { domain = "kernel"; kernel_release = "6.1.0"; tracer_name = "lttng-modules"; tracer_major = 2; };
clock { name = "monotonic"; freq = 1000000000; offset = 1700000000000000000; };
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := uint27_clock_monotonic_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock_monotonic_t;
struct packet_context {
    uint64_clock_monotonic_t timestamp_begin; uint64_clock_monotonic_t timestamp_end;
    uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num;
    unsigned long events_discarded; uint32_t cpu_id;
};
struct event_header_compact {
    enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
    variant <id> {
        struct { uint27_clock_monotonic_t timestamp; } compact;
        struct { uint32_t id; uint64_clock_monotonic_t timestamp; } extended;
    } v;
} align(8);
stream { id = 0; event.header := struct event_header_compact; packet.context := struct packet_context; };
"#;

/// This head in CTF 2.
const JSON: &str = r#"
PART{"type":"preamble","version":2}
PART{"type":"field-class-alias","name":"u64","field-class":{"type":"fixed-length-unsigned-integer",
"length":64,"byte-order":"ORDER","alignment":8}}
PART{"type":"trace-class","environment":{"domain":"kernel","kernel_release":"6.1.0",
"tracer_name":"lttng-modules"},"packet-header-field-class":{"type":"structure","member-classes":[
{"name":"magic","field-class":{"type":"fixed-length-unsigned-integer","length":32,
"byte-order":"ORDER","alignment":8,"roles":["packet-magic-number"]}},
{"name":"uuid","field-class":{"type":"static-length-blob","length":16,
"roles":["metadata-stream-uuid"]}},
{"name":"class","field-class":{"type":"fixed-length-unsigned-integer","length":32,
"byte-order":"ORDER","alignment":8,"roles":["data-stream-class-id"]}}]}}
PART{"type":"clock-class","name":"monotonic","frequency":1000000000}
PART{"type":"data-stream-class","default-clock-class-name":"monotonic",
"packet-context-field-class":{"type":"structure","member-classes":[
{"name":"begin","field-class":{"type":"fixed-length-unsigned-integer","length":64,
"byte-order":"ORDER","alignment":8,"roles":["default-clock-timestamp"]}},
{"name":"end","field-class":{"type":"fixed-length-unsigned-integer","length":64,
"byte-order":"ORDER","alignment":8,"roles":["packet-end-default-clock-timestamp"]}},
{"name":"content","field-class":{"type":"fixed-length-unsigned-integer","length":64,
"byte-order":"ORDER","alignment":8,"roles":["packet-content-length"]}},
{"name":"total","field-class":{"type":"fixed-length-unsigned-integer","length":64,
"byte-order":"ORDER","alignment":8,"roles":["packet-total-length"]}},
{"name":"number","field-class":{"type":"fixed-length-unsigned-integer","length":64,
"byte-order":"ORDER","alignment":8,"roles":["packet-sequence-number"]}},
{"name":"lost","field-class":{"type":"fixed-length-unsigned-integer","length":64,
"byte-order":"ORDER","alignment":8,"roles":["discarded-event-record-counter-snapshot"]}},
{"name":"cpu_id","field-class":{"type":"fixed-length-unsigned-integer","length":32,
"byte-order":"ORDER","alignment":8}}]},
"event-record-header-field-class":{"type":"structure","minimum-alignment":8,"member-classes":[
{"name":"kind","field-class":{"type":"fixed-length-unsigned-integer","length":5,
"byte-order":"ORDER","roles":["event-record-class-id"]}},
{"name":"v","field-class":{"type":"variant","selector-field-location":
{"origin":"event-record-header","path":["kind"]},"options":[
{"name":"compact","selector-field-ranges":[[0,30]],"field-class":{"type":"structure",
"member-classes":[{"name":"t","field-class":{"type":"fixed-length-unsigned-integer","length":27,
"byte-order":"ORDER","roles":["default-clock-timestamp"]}}]}},
{"name":"extended","selector-field-ranges":[[31,31]],"field-class":{"type":"structure",
"member-classes":[{"name":"id","field-class":{"type":"fixed-length-unsigned-integer","length":32,
"byte-order":"ORDER","alignment":8,"roles":["event-record-class-id"]}},
{"name":"t","field-class":{"type":"fixed-length-unsigned-integer","length":64,
"byte-order":"ORDER","alignment":8,"roles":["default-clock-timestamp"]}}]}}]}}]}}
"#;
