//! Generates a `trace.dat` with any byte order, long size, version and compression.
//!
//! Source: trace-cmd.dat.v6(5), trace-cmd.dat.v7(5), `kernel/trace/ring_buffer.c`.

#![allow(unreachable_pub, dead_code)]

use std::io::Write;

/// The form of the file.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub is_big: bool,
    pub long_bytes: usize,
    pub version: u8,
    pub packing: &'static str,
    /// Whether the file has the formats of the events of KVM and of interrupts.
    pub has_kvm: bool,
}

/// Name, ID and priority of a thread.
pub type Thread<'a> = (&'a str, u64, u64);

/// The usual form: version 6, little-endian, 64 bits.
pub const USUAL: Form = Form {
    is_big: false,
    long_bytes: 8,
    version: 6,
    packing: "none",
    has_kvm: false,
};

/// The type numbers of the records.
pub const BPRINT: u64 = 3;
pub const STACK: u64 = 4;
pub const PRINT: u64 = 5;
pub const BPUTS: u64 = 14;
pub const RETURN: u64 = 10;
pub const TIMERLAT: u64 = 19;
pub const SWITCH: u64 = 300;
pub const WAKING: u64 = 301;
pub const WORK_END: u64 = 302;
pub const EXPIRE: u64 = 303;
pub const IRQ_ENTRY: u64 = 304;
pub const IRQ_EXIT: u64 = 305;
pub const KVM_ENTRY: u64 = 306;
pub const KVM_EXIT: u64 = 307;

/// The table of kernel functions. The first is at 0x81000000, and each of the others is 0x100 after
/// the one before it.
const SYMBOLS: &str = "81000000 T _stext\n81000100 t schedule\n81000200 t my_timer\n";

impl Form {
    /// Encodes a number in `bytes` bytes.
    pub fn number(&self, value: u64, bytes: usize) -> Vec<u8> {
        if self.is_big {
            value.to_be_bytes()[8 - bytes..].to_vec()
        } else {
            value.to_le_bytes()[..bytes].to_vec()
        }
    }

    /// Encodes numbers, each with its size in bytes.
    pub fn numbers(&self, values: &[(u64, usize)]) -> Vec<u8> {
        let numbers = values
            .iter()
            .map(|(value, bytes)| self.number(*value, *bytes));
        numbers.collect::<Vec<_>>().concat()
    }

    fn long(&self, value: u64) -> Vec<u8> {
        self.number(value, self.long_bytes)
    }

    /// Returns a record of this type, written by this thread, with the fields of this type.
    pub fn record(&self, id: u64, pid: u64, fields: &[Vec<u8>]) -> Vec<u8> {
        let mut record = self.numbers(&[(id, 2), (0x01, 1), (2, 1), (pid, 4)]);
        record.extend(fields.concat());
        record
    }

    /// Returns a record of sched_switch.
    pub fn switch(&self, prev: u64, next: u64) -> Vec<u8> {
        self.switch_of(("before", prev, 120), 1, ("after", next, 19))
    }

    /// Returns a record of sched_switch between these threads: name, ID and priority. `state`: the
    /// state of the first one.
    pub fn switch_of(&self, prev: Thread<'_>, state: u64, next: Thread<'_>) -> Vec<u8> {
        let mut fields = vec![comm(prev.0), self.numbers(&[(prev.1, 4), (prev.2, 4)])];
        fields.push(self.long(state));
        fields.extend([comm(next.0), self.numbers(&[(next.1, 4), (next.2, 4)])]);
        self.record(SWITCH, prev.1, &fields)
    }

    /// Returns a record of sched_waking.
    pub fn waking(&self, pid: u64, task: u64, cpu: u64) -> Vec<u8> {
        self.waking_of(pid, ("after", task, 19), cpu)
    }

    /// Returns a record of sched_waking of this thread: name, ID and priority.
    pub fn waking_of(&self, pid: u64, task: Thread<'_>, cpu: u64) -> Vec<u8> {
        let numbers = self.numbers(&[(task.1, 4), (task.2, 4), (cpu, 4)]);
        self.record(WAKING, pid, &[comm(task.0), numbers])
    }

    /// Returns the option with the ID of the trace.
    pub fn trace_id(&self, id: u64) -> (u64, Vec<u8>) {
        (11, self.number(id, 8))
    }

    /// Returns the option that names a guest: the ID of its trace, and the thread of each CPU.
    pub fn guest(&self, name: &str, id: u64, threads: &[u64]) -> (u64, Vec<u8>) {
        let mut option = name.as_bytes().to_vec();
        option.push(0);
        option.extend(self.numbers(&[(id, 8), (threads.len() as u64, 4)]));
        for (cpu, thread) in (0..).zip(threads) {
            option.extend(self.numbers(&[(cpu, 4), (*thread, 4)]));
        }
        (13, option)
    }

    /// Returns the option with the differences to the clock of the host: for each CPU, times and
    /// offsets in ns.
    pub fn time_shift(&self, host: u64, cpus: &[&[(u64, i64)]]) -> (u64, Vec<u8>) {
        let mut option = self.numbers(&[(host, 8), (0, 4), (cpus.len() as u64, 4)]);
        for samples in cpus {
            option.extend(self.number(samples.len() as u64, 4));
            option.extend(samples.iter().flat_map(|(time, _)| self.number(*time, 8)));
            let offsets = samples.iter().map(|(_, offset)| *offset as u64);
            option.extend(offsets.flat_map(|offset| self.number(offset, 8)));
            option.extend(samples.iter().flat_map(|_| self.number(1, 8)));
        }
        for samples in cpus {
            option.extend(samples.iter().flat_map(|_| self.number(0, 8)));
        }
        (12, option)
    }

    /// Returns a record of a kernel stack.
    pub fn stack(&self, pid: u64, frames: &[u64]) -> Vec<u8> {
        let mut fields = vec![self.number(frames.len() as u64, 4)];
        // The array is aligned to a multiple of the size of a long.
        fields.push(vec![0; self.long_bytes - 4]);
        fields.extend(frames.iter().map(|frame| self.long(*frame)));
        self.record(STACK, pid, &fields)
    }

    /// Returns a record with text that a program wrote.
    pub fn print(&self, pid: u64, text: &str) -> Vec<u8> {
        self.record(
            PRINT,
            pid,
            &[self.long(0x8100_0010), text.as_bytes().to_vec(), vec![0]],
        )
    }

    /// Returns a record with the address of a format string and its values.
    pub fn bprint(&self, pid: u64, format: u64, values: &[u8]) -> Vec<u8> {
        let fields = [self.long(0x8100_0010), self.long(format), values.to_vec()];
        self.record(BPRINT, pid, &fields)
    }

    /// Returns a record with the address of a constant string.
    pub fn bputs(&self, pid: u64, text: u64) -> Vec<u8> {
        self.record(BPUTS, pid, &[self.long(0x8100_0010), self.long(text)])
    }

    /// Returns a record of the return of a function.
    pub fn returned(&self, pid: u64, function: u64, called: u64, returned: u64) -> Vec<u8> {
        let numbers = self.numbers(&[(2, 4), (0, 4), (called, 8), (returned, 8)]);
        self.record(RETURN, pid, &[self.long(function), numbers])
    }

    /// Returns a record of timerlat.
    pub fn timerlat(&self, sequence: u64, context: u64, latency: u64) -> Vec<u8> {
        let fields = [(sequence, 4), (context, 4), (latency, 8)];
        self.record(TIMERLAT, 0, &[self.numbers(&fields)])
    }

    /// Returns a record of hrtimer_expire_entry.
    pub fn expire(&self, function: u64, now: u64) -> Vec<u8> {
        let fields = [self.long(0x1234), self.long(function), self.number(now, 8)];
        self.record(EXPIRE, 0, &fields)
    }

    /// Returns a page with this time, these flags in its word `commit`, and these records, each
    /// with the time since the record before it.
    pub fn page(&self, time: u64, flags: u64, records: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut data = Vec::new();
        for (delta, record) in records {
            let (kind, length) = match record.len() {
                4..=112 if record.len().is_multiple_of(4) => (record.len() as u64 / 4, None),
                length => (0, Some(length as u64 + 4)),
            };
            let head = if self.is_big {
                kind << 27 | delta
            } else {
                kind | delta << 5
            };
            data.extend(self.number(head, 4));
            data.extend(length.map_or(vec![], |length| self.number(length, 4)));
            data.extend(record);
            data.resize(data.len().next_multiple_of(4), 0);
        }
        let mut page = self.number(time, 8);
        page.extend(self.long(data.len() as u64 | flags));
        page.extend(data);
        page
    }

    fn packed(&self, bytes: &[u8]) -> Vec<u8> {
        match self.packing {
            "zlib" => {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).expect("memory");
                encoder.finish().expect("memory")
            }
            "zstd" => zstd::encode_all(bytes, 1).expect("memory"),
            _ => bytes.to_vec(),
        }
    }

    fn sized32(&self, text: &str) -> Vec<u8> {
        [self.number(text.len() as u64, 4), text.as_bytes().to_vec()].concat()
    }

    fn sized64(&self, text: &str) -> Vec<u8> {
        [self.number(text.len() as u64, 8), text.as_bytes().to_vec()].concat()
    }

    fn header_info(&self) -> Vec<u8> {
        let (long, data) = (self.long_bytes, 8 + self.long_bytes);
        let page = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{};\tsigned:0;\n",
            4_096 - data
        );
        let event = "# compressed entry header\n";
        [
            b"header_page\0".to_vec(),
            self.sized64(&page),
            b"header_event\0".to_vec(),
        ]
        .concat()
        .into_iter()
        .chain(self.sized64(event))
        .collect()
    }

    /// Returns the formats of the tracers' events.
    fn ftrace(&self) -> Vec<u8> {
        let long = self.long_bytes;
        let formats = [
            format(
                "bprint",
                BPRINT,
                &[("ip", long), ("fmt", long), ("buf[]", 0)],
            ),
            format(
                "kernel_stack",
                STACK,
                &[("size", 4), ("pad", long - 4), ("caller[8]", 8 * long)],
            ),
            format("print", PRINT, &[("ip", long), ("buf[]", 0)]),
            format(
                "funcgraph_exit",
                RETURN,
                &[
                    ("func", long),
                    ("depth", 4),
                    ("overrun", 4),
                    ("calltime", 8),
                    ("rettime", 8),
                ],
            ),
            format("bputs", BPUTS, &[("ip", long), ("str", long)]),
            format(
                "timerlat",
                TIMERLAT,
                &[("seqnum", 4), ("context", 4), ("timer_latency", 8)],
            ),
        ];
        self.formats(&formats)
    }

    fn formats(&self, formats: &[String]) -> Vec<u8> {
        let mut bytes = self.number(formats.len() as u64, 4);
        bytes.extend(formats.iter().flat_map(|format| self.sized64(format)));
        bytes
    }

    /// Returns the formats of the other events. `workqueue_execute_end` has no field for the
    /// function, as in kernels before Linux 5.8.
    fn events(&self) -> Vec<u8> {
        let long = self.long_bytes;
        let switch = [
            ("prev_comm[16]", 16),
            ("prev_pid", 4),
            ("prev_prio", 4),
            ("prev_state", long),
            ("next_comm[16]", 16),
            ("next_pid", 4),
            ("next_prio", 4),
        ];
        let waking = [("comm[16]", 16), ("pid", 4), ("prio", 4), ("target_cpu", 4)];
        let sched = [
            format("sched_switch", SWITCH, &switch),
            format("sched_waking", WAKING, &waking),
        ];
        let work = [format("workqueue_execute_end", WORK_END, &[("work", long)])];
        let expire = [("hrtimer", long), ("function", long), ("now", 8)];
        let timer = [format("hrtimer_expire_entry", EXPIRE, &expire)];
        let irq = [
            format(
                "irq_handler_entry",
                IRQ_ENTRY,
                &[("irq", 4), ("name[16]", 16)],
            ),
            format("irq_handler_exit", IRQ_EXIT, &[("irq", 4), ("ret", 4)]),
        ];
        let kvm = [
            format("kvm_entry", KVM_ENTRY, &[("vcpu_id", 4)]),
            format("kvm_exit", KVM_EXIT, &[("exit_reason", 4)]),
        ];
        let more = [("irq\0", &irq[..]), ("kvm\0", &kvm)];
        let more = if self.has_kvm { &more[..] } else { &[] };
        let mut bytes = self.number(3 + more.len() as u64, 4);
        for (system, formats) in more.iter().copied().chain([
            ("sched\0", &sched[..]),
            ("workqueue\0", &work),
            ("timer\0", &timer),
        ]) {
            bytes.extend(system.as_bytes());
            bytes.extend(self.formats(formats));
        }
        bytes
    }

    fn option(&self, id: u64, data: &[u8]) -> Vec<u8> {
        let mut option = self.numbers(&[(id, 2), (data.len() as u64, 4)]);
        option.extend(data);
        option
    }

    /// Returns the file with these pages for each CPU.
    pub fn file(&self, clock: &str, options: &[(u64, Vec<u8>)], cpus: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut file = b"\x17\x08\x44tracing".to_vec();
        file.extend([b'0' + self.version, 0, u8::from(self.is_big), 8]);
        file.extend(self.number(4_096, 4));
        let cpus: Vec<Vec<u8>> = cpus.iter().map(|pages| padded(pages)).collect();
        match self.version {
            6 => self.version_6(file, clock, options, &cpus),
            _ => self.version_7(file, clock, options, &cpus),
        }
    }

    /// Returns a file of a latency tracer, which contains text instead of pages.
    pub fn text_file(&self, text: &str) -> Vec<u8> {
        let mut file = self.file("local", &[], &[]);
        if self.version == 6 {
            let tag = b"flyrecord\0";
            let at = file.windows(tag.len()).position(|bytes| bytes == tag);
            file.truncate(at.expect("the tag"));
            file.extend(b"latency  \0");
            file.extend(text.as_bytes());
            return file;
        }
        let offset = file.len() as u64;
        let mut content = text.as_bytes().to_vec();
        if self.packing != "none" {
            content = self.chunks(text.as_bytes());
        }
        let flags = u64::from(self.packing != "none");
        let header = [(22, 2), (flags, 2), (0, 4), (content.len() as u64, 8)];
        file.extend(self.numbers(&header));
        file.extend(content);
        let mut option = self.number(offset, 8);
        option.extend(b"\0local\0");
        // The new first options refer to this part and to the previous options.
        let begin = 18 + self.packing.len() + 5;
        let others = file[begin..begin + 8].to_vec();
        let at = self.number(file.len() as u64, 8);
        file[begin..begin + 8].copy_from_slice(&at);
        let options = [self.option(22, &option), self.option(0, &others)].concat();
        file.extend(self.section(0, &options));
        file
    }

    /// Returns the data as compressed chunks.
    fn chunks(&self, bytes: &[u8]) -> Vec<u8> {
        let mut chunks = self.number(bytes.len().div_ceil(8_192) as u64, 4);
        for chunk in bytes.chunks(8_192) {
            let packed = self.packed(chunk);
            chunks.extend(self.numbers(&[(packed.len() as u64, 4), (chunk.len() as u64, 4)]));
            chunks.extend(packed);
        }
        chunks
    }

    /// Returns the formats as perf stores them, which is like the beginning of a file of version 6.
    pub fn tracing_data(&self) -> Vec<u8> {
        let mut data = b"\x17\x08\x44tracing0.6\0".to_vec();
        data.extend([u8::from(self.is_big), 8]);
        data.extend(self.number(4_096, 4));
        data.extend([self.header_info(), self.ftrace(), self.events()].concat());
        data.extend([self.sized32(""), self.sized32("")].concat());
        data
    }

    fn version_6(
        &self,
        mut file: Vec<u8>,
        clock: &str,
        options: &[(u64, Vec<u8>)],
        cpus: &[Vec<u8>],
    ) -> Vec<u8> {
        file.extend(self.header_info());
        file.extend(self.ftrace());
        file.extend(self.events());
        file.extend(self.sized32(SYMBOLS));
        file.extend(self.sized32(PRINTK));
        file.extend(self.sized64("1 init\n"));
        file.extend(self.number(cpus.len() as u64, 4));
        file.extend(b"options  \0");
        file.extend(self.option(4, b""));
        for (id, data) in options {
            file.extend(self.option(*id, data));
        }
        file.extend([0, 0]);
        file.extend(b"flyrecord\0");
        let clock = self.sized64(&format!("[{clock}] other\n"));
        let mut offset = (file.len() + 16 * cpus.len() + clock.len()).next_multiple_of(4_096);
        for pages in cpus {
            file.extend(self.numbers(&[(offset as u64, 8), (pages.len() as u64, 8)]));
            offset += pages.len();
        }
        file.extend(clock);
        file.resize(file.len().next_multiple_of(4_096), 0);
        file.extend(cpus.concat());
        file
    }

    fn section(&self, id: u64, content: &[u8]) -> Vec<u8> {
        let is_packed = self.packing != "none";
        let mut packed = content.to_vec();
        if is_packed {
            let bytes = self.packed(content);
            packed = self.numbers(&[(bytes.len() as u64, 4), (content.len() as u64, 4)]);
            packed.extend(bytes);
        }
        let flags = u64::from(is_packed);
        let length = packed.len() as u64;
        let mut section = self.numbers(&[(id, 2), (flags, 2), (0, 4), (length, 8)]);
        section.extend(packed);
        section
    }

    fn version_7(
        &self,
        mut file: Vec<u8>,
        clock: &str,
        options: &[(u64, Vec<u8>)],
        cpus: &[Vec<u8>],
    ) -> Vec<u8> {
        file.extend(format!("{}\x001.0\0", self.packing).as_bytes());
        let begin = file.len();
        file.extend([0; 8]);
        let mut first = Vec::new();
        let sections = [
            (16, self.header_info()),
            (17, self.ftrace()),
            (18, self.events()),
            (19, self.sized32(SYMBOLS)),
            (20, self.sized32(PRINTK)),
        ];
        for (id, content) in sections {
            first.extend(self.option(id, &self.number(file.len() as u64, 8)));
            file.extend(self.section(id, &content));
        }
        let buffer = file.len() as u64;
        let flags = u64::from(self.packing != "none");
        file.extend(self.numbers(&[(3, 2), (flags, 2), (0, 4), (0, 8)]));
        let mut option = self.number(buffer, 8);
        option.extend(format!("\0{clock}\0").as_bytes());
        option.extend(self.numbers(&[(4_096, 4), (cpus.len() as u64, 4)]));
        for (cpu, pages) in cpus.iter().enumerate() {
            file.resize(file.len().next_multiple_of(4_096), 0);
            let offset = file.len() as u64;
            let mut size = pages.len() as u64;
            match self.packing {
                "none" => file.extend(pages),
                _ => {
                    file.extend(self.chunks(pages));
                    // trace-cmd writes the sections in this form.
                    size = file.len() as u64 - offset - 4;
                }
            }
            option.extend(self.numbers(&[(cpu as u64, 4), (offset, 8), (size, 8)]));
        }
        // The options are split into two sections.
        let mut second = self.option(3, &option);
        for (id, data) in options {
            second.extend(self.option(*id, data));
        }
        second.extend(self.option(0, &self.number(0, 8)));
        first.extend(self.option(0, &self.number(file.len() as u64, 8)));
        file.extend(self.section(0, &second));
        let at = self.number(file.len() as u64, 8);
        file[begin..begin + 8].copy_from_slice(&at);
        file.extend(self.section(0, &first));
        file
    }
}

const PRINTK: &str = "0x82000000 : \"value %d of %s\\n\"\n0x82000100 : \"constant\\n\"\n";

fn padded(pages: &[Vec<u8>]) -> Vec<u8> {
    let pages = pages.iter().map(|page| {
        let mut page = page.clone();
        page.resize(page.len().next_multiple_of(4_096), 0);
        page
    });
    pages.collect::<Vec<_>>().concat()
}

fn comm(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(16, 0);
    bytes
}

fn format(name: &str, id: u64, fields: &[(&str, usize)]) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let common = [
        ("common_type", 2),
        ("common_flags", 1),
        ("common_preempt_count", 1),
        ("common_pid", 4),
    ];
    let mut offset = 0;
    for (field, size) in common.iter().chain(fields) {
        let declared = if field.contains('[') && *size == 16 {
            format!("char {field}")
        } else {
            format!("int {field}")
        };
        text += &format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
        offset += size;
    }
    text + "\nprint fmt: \"\"\n"
}
