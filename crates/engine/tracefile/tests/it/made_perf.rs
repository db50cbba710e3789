//! Generates a `perf.data` with any byte order and long size, as a file or from a pipe, and
//! compressed or not.
//!
//! Source: tools/perf/Documentation/perf.data-file-format.txt.

#![allow(unreachable_pub)]

use crate::made::Form;

/// Type numbers of records.
pub const LOST: u64 = 2;
pub const SAMPLE: u64 = 9;
const HEADER_ATTR: u64 = 64;
const TRACING_DATA: u64 = 66;
pub const FINISHED_ROUND: u64 = 68;
const FEATURE: u64 = 80;
const COMPRESSED: u64 = 81;

/// Fields of a sample: ID, IP, TID, TIME, CPU, PERIOD, CALLCHAIN and RAW.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 5 | 1 << 10;
const RELEASE: &str = "6.1.0-made";
/// The ID of the tracepoint.
const ID: u64 = 7;

/// How the file is written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub form: Form,
    pub is_from_pipe: bool,
    pub is_packed: bool,
}

impl Written {
    fn number(&self, value: u64, bytes: usize) -> Vec<u8> {
        self.form.number(value, bytes)
    }

    /// Returns a record.
    pub fn record(&self, kind: u64, body: &[u8]) -> Vec<u8> {
        let mut record = self
            .form
            .numbers(&[(kind, 4), (0, 2), (8 + body.len() as u64, 2)]);
        record.extend(body);
        record
    }

    /// Returns a sample with this record of the kernel, and these addresses of its call chain.
    pub fn sample(&self, cpu: u64, time: u64, chain: &[u64], raw: &[u8]) -> Vec<u8> {
        let mut body = self
            .form
            .numbers(&[(ID, 8), (0, 8), (1, 4), (1, 4), (time, 8)]);
        body.extend(
            self.form
                .numbers(&[(cpu, 4), (0, 4), (1, 8), (chain.len() as u64, 8)]),
        );
        body.extend(chain.iter().flat_map(|address| self.number(*address, 8)));
        // The size and the record together are a multiple of 8 bytes.
        let size = (raw.len() + 4).next_multiple_of(8) - 4;
        body.extend(self.number(size as u64, 4));
        body.extend(raw);
        body.resize(body.len() + size - raw.len(), 0);
        self.record(SAMPLE, &body)
    }

    /// Returns the report that events of a CPU were lost.
    pub fn lost(&self, cpu: u64, time: u64, count: u64) -> Vec<u8> {
        let fields = [
            (ID, 8),
            (count, 8),
            (1, 4),
            (1, 4),
            (time, 8),
            (cpu, 4),
            (0, 4),
            (ID, 8),
        ];
        self.record(LOST, &self.form.numbers(&fields))
    }

    fn attr(&self) -> Vec<u8> {
        let sample_id_all = if self.form.is_big {
            1 << (63 - 18)
        } else {
            1 << 18
        };
        let fields = [
            (2, 4),
            (128, 4),
            (300, 8),
            (1, 8),
            (SAMPLE_TYPE, 8),
            (4, 8),
            (sample_id_all, 8),
        ];
        let mut attr = self.form.numbers(&fields);
        attr.resize(128, 0);
        attr
    }

    fn release(&self) -> Vec<u8> {
        let mut text = self.number(16, 4);
        text.extend(RELEASE.as_bytes());
        text.resize(20, 0);
        text
    }

    /// Compresses records as one stream. A record begins in one piece and ends in the next.
    fn packed(&self, records: &[u8]) -> Vec<u8> {
        use std::io::Write as _;
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("zstd");
        let (mut file, mut sent) = (Vec::new(), 0);
        for piece in records.chunks(100) {
            encoder.write_all(piece).expect("memory");
            encoder.flush().expect("memory");
            let packed = &encoder.get_ref()[sent..];
            file.extend(self.record(COMPRESSED, packed));
            sent += packed.len();
        }
        file
    }

    /// Returns a file with these records.
    pub fn file(&self, records: &[Vec<u8>]) -> Vec<u8> {
        let mut data = records.concat();
        if self.is_packed {
            data = self.packed(&data);
        }
        let magic = if self.form.is_big {
            b"2ELIFREP"
        } else {
            b"PERFILE2"
        };
        let mut file = magic.to_vec();
        let formats = self.form.tracing_data();
        if self.is_from_pipe {
            file.extend(self.number(16, 8));
            let attr = [self.attr(), self.number(ID, 8)].concat();
            file.extend(self.record(HEADER_ATTR, &attr));
            let release = [self.number(4, 8), self.release()].concat();
            file.extend(self.record(FEATURE, &release));
            file.extend(self.record(TRACING_DATA, &self.number(formats.len() as u64, 4)));
            file.extend(&formats);
            file.resize(
                file.len() + formats.len().next_multiple_of(8) - formats.len(),
                0,
            );
            file.extend(data);
            return file;
        }
        let (ids, attrs) = (104, 112);
        let (begin, entry) = (attrs + 144, 144);
        let header = [104, entry, attrs, entry, begin, data.len() as u64, 0, 0];
        file.extend(header.iter().flat_map(|word| self.number(*word, 8)));
        // The features 1 (formats) and 4 (release of the kernel).
        file.extend(
            [0b1_0010, 0, 0, 0]
                .iter()
                .flat_map(|word| self.number(*word, 8)),
        );
        file.extend(self.number(ID, 8));
        file.extend([self.attr(), self.form.numbers(&[(ids, 8), (8, 8)])].concat());
        file.extend(&data);
        let release = self.release();
        let at = file.len() as u64 + 32;
        let sizes = [
            at,
            formats.len() as u64,
            at + formats.len() as u64,
            release.len() as u64,
        ];
        file.extend(sizes.iter().flat_map(|word| self.number(*word, 8)));
        file.extend([formats, release].concat());
        file
    }
}
