//! The formats and records of events of a simulated kernel.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

use super::{PageBuilder, Piece, append, layout};
use punctual_model::EVENTS;

/// Value of `common_type` of the event `ftrace:print`, as in Linux.
const PRINT: u16 = 5;

/// The types of the tracers' records, as in Linux 6.12 (`enum trace_type` in
/// `kernel/trace/trace.h`).
const OSNOISE: u16 = 18;
const TIMERLAT: u16 = 19;

/// The fields of these records, with the kernel's sizes (`kernel/trace/trace_entries.h`).
const OSNOISE_FIELDS: [(&str, usize); 8] = [
    ("u64 noise", 8),
    ("u64 runtime", 8),
    ("u64 max_sample", 8),
    ("unsigned int hw_count", 4),
    ("unsigned int nmi_count", 4),
    ("unsigned int irq_count", 4),
    ("unsigned int softirq_count", 4),
    ("unsigned int thread_count", 4),
];
const TIMERLAT_FIELDS: [(&str, usize); 3] = [
    ("unsigned int seqnum", 4),
    ("int context", 4),
    ("u64 timer_latency", 8),
];

/// Value of `common_type` of the first event in a folder; each following event has the next number.
const FIRST: u16 = 100;

/// The value of a field in a record.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A number of 8 bytes.
    Number(i64),
    /// A name of 16 bytes.
    Name(&'static str),
}

/// The interrupt vectors of the simulated kernel.
const VECTORS: [&str; 2] = ["local_timer", "reschedule"];

/// Returns the folders of the events, with simplified fields, in which numbers have 8 bytes and
/// names have 16.
fn folders() -> Vec<(String, &'static [&'static str])> {
    let mut all = Vec::new();
    for spec in EVENTS {
        match spec.name.strip_prefix('*') {
            None => all.push((format!("{}/{}", spec.system, spec.name), spec.fields)),
            Some(ending) => {
                let named = VECTORS.map(|vector| format!("{}/{vector}{ending}", spec.system));
                all.extend(named.map(|name| (name, spec.fields)));
            }
        }
    }
    all
}

fn is_name(field: &str) -> bool {
    field.ends_with("comm") || ["name", "desc", "dev_name"].contains(&field)
}

fn common() -> String {
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
     \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
     \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
        .to_owned()
}

fn format(name: &str, id: u16, fields: &[&str]) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n{}", common());
    let mut offset = 8;
    for field in fields {
        let (declared, size) = if is_name(field) {
            (format!("char {field}[16]"), 16)
        } else {
            (format!("long {field}"), 8)
        };
        text += &format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
        offset += size;
    }
    text + "\nprint fmt: \"%s\"\n"
}

fn format_of_tracer(name: &str, id: u16, fields: &[(&str, usize)]) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n{}", common());
    let mut offset = 8;
    for (declared, size) in fields {
        text += &format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
        offset += size;
    }
    text + "\nprint fmt: \"%s\"\n"
}

fn record_of_tracer(id: u16, pid: u32, fields: &[(&str, usize)], values: &[u64]) -> Vec<u8> {
    let mut bytes = id.to_ne_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(pid.to_ne_bytes());
    for ((_, size), value) in fields.iter().zip(values) {
        match size {
            4 => bytes.extend((*value as u32).to_ne_bytes()),
            _ => bytes.extend(value.to_ne_bytes()),
        }
    }
    bytes
}

/// Builds a record of timerlat. The context is 0 for the interrupt, 1 for the thread, or 2 for user
/// space.
pub fn timerlat_record(pid: u32, seqnum: u32, context: u32, latency_ns: u64) -> Vec<u8> {
    let values = [seqnum.into(), context.into(), latency_ns];
    record_of_tracer(TIMERLAT, pid, &TIMERLAT_FIELDS, &values)
}

/// Builds a record of osnoise from the noise, the runtime and the longest gap in us, followed by
/// the counts for hardware, NMIs, interrupts, softirqs and threads.
pub fn osnoise_record(pid: u32, values: [u64; 8]) -> Vec<u8> {
    record_of_tracer(OSNOISE, pid, &OSNOISE_FIELDS, &values)
}

/// Describes all events except `but`.
pub(super) fn write_formats(events: &Path, but: &[&str]) -> io::Result<()> {
    fs::create_dir_all(events.join("ftrace/print"))?;
    let layout = layout(cfg!(target_endian = "big"));
    fs::write(
        events.join("header_page"),
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
             \tfield: char data;\toffset:16;\tsize:{};\tsigned:0;\n",
            layout.page_bytes - layout.data_at
        ),
    )?;
    fs::write(events.join("header_event"), "# compressed entry header\n")?;
    let print = format!(
        "name: print\nID: {PRINT}\nformat:\n{}\
         \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
         \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n",
        common()
    );
    fs::write(events.join("ftrace/print/format"), print)?;
    let tracers = [
        ("osnoise", OSNOISE, &OSNOISE_FIELDS[..]),
        ("timerlat", TIMERLAT, &TIMERLAT_FIELDS[..]),
    ];
    for (name, id, fields) in tracers {
        let folder = events.join("ftrace").join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("format"), format_of_tracer(name, id, fields))?;
    }
    for (id, (folder, fields)) in (FIRST..).zip(folders()) {
        if but.contains(&folder.replace('/', ":").as_str()) {
            continue;
        }
        let name = folder.rsplit('/').next().unwrap_or_default().to_owned();
        let folder = events.join(folder);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("format"), format(&name, id, fields))?;
    }
    Ok(())
}

/// Creates the enable files of all events in an instance.
pub(super) fn write_switches(events: &Path, own: &Path) -> io::Result<()> {
    for (folder, _) in folders() {
        if events.join(&folder).exists() {
            let own = own.join(folder);
            fs::create_dir_all(&own)?;
            fs::write(own.join("enable"), "0\n")?;
            fs::write(own.join("filter"), "none\n")?;
            fs::write(own.join("trigger"), "")?;
        }
    }
    Ok(())
}

/// Builds a record of an event (`system/event`), written by this thread, with its fields in the
/// order of the table.
pub fn record(folder: &str, flags: u8, pid: u32, fields: &[Value]) -> Vec<u8> {
    let place = folders().iter().position(|(known, _)| known == folder);
    let id = place.map_or(0, |place| FIRST + place as u16);
    let mut bytes = id.to_ne_bytes().to_vec();
    bytes.extend([flags, 0]);
    bytes.extend(pid.to_ne_bytes());
    for field in fields {
        match field {
            Value::Number(number) => bytes.extend(number.to_ne_bytes()),
            Value::Name(name) => {
                let mut comm = [0; 16];
                let length = name.len().min(15);
                comm[..length].copy_from_slice(&name.as_bytes()[..length]);
                bytes.extend(comm);
            }
        }
    }
    bytes
}

/// Simulates `trace_marker`, where each write becomes a page with one record.
pub(super) struct Marker {
    pub(super) pipe: PathBuf,
    pub(super) behind: u64,
}

impl Write for Marker {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let mut bytes = PRINT.to_ne_bytes().to_vec();
        bytes.extend([0; 14]);
        bytes.extend(text);
        bytes.extend(b"\n\0");
        let mut page = PageBuilder::new(layout(cfg!(target_endian = "big")));
        page.write(&Piece::Event(0, bytes));
        append(&self.pipe, &page.page(now.wrapping_sub(self.behind), None))?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
