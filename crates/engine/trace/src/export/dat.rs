//! Writes `trace.dat`, version 6: the file format of trace-cmd and KernelShark. Perfetto can read
//! the output of `trace-cmd report -N`, which is text that starts with `cpus=` (its
//! docs/getting-started/other-formats.md and src/trace_processor/util/trace_type.cc).
//!
//! Source: trace-cmd.dat.v6(5), and the source code of `trace-cmd report` for the position of the
//! option for the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use punctual_model::{Comm, CpuSet, TraceEvent};

use super::description::{Description, FTRACE};
use super::merge::merge;
use crate::TraceError;
use crate::flight::RawPage;
use crate::ring::{Layout, MISSED, Page};

/// The magic number and the version.
const MAGIC: &[u8] = b"\x17\x08\x44tracing6\0";

/// Number of the option that means that the trace clock follows the table of CPUs.
const OPTION_TRACECLOCK: u16 = 4;

/// Maximum total size of the pages in one file, in bytes. It is limited because the file is built
/// in memory.
pub const LARGEST_TRACE: u64 = 256 << 20;

/// Builds a `trace.dat` from the pages of several time intervals, and marks that events are missing
/// between two intervals. `requested` contains the pages of events that the user asked for. They
/// come from a separate buffer, and both buffers are merged in the file. `symbols` contains the
/// names of kernel addresses.
///
/// # Errors
/// Returns an error if the pages have an unknown layout or an impossible CPU number, are longer
/// than their layout allows, or exceed [`LARGEST_TRACE`].
pub fn trace_dat(
    description: &Description,
    intervals: &[Vec<RawPage>],
    requested: &[Vec<RawPage>],
    symbols: &BTreeMap<u64, String>,
) -> Result<Vec<u8>, TraceError> {
    let layout = description.layout()?;
    check(description, layout, &[intervals, requested].concat())?;
    let mut cpus = by_cpu(layout, intervals);
    for (cpu, pages) in by_cpu(layout, requested) {
        let own = cpus.entry(cpu).or_default();
        *own = merge(layout, own, &pages);
    }
    let count = cpus
        .keys()
        .next_back()
        .map_or(0, |last| last + 1)
        .max(description.cpus);
    let mut file = File {
        bytes: Vec::new(),
        big_endian: layout.big_endian,
    };
    file.head(description, layout);
    file.formats(description);
    file.sized32(&kallsyms(symbols));
    file.sized32("");
    file.sized64(&cmdlines(description, layout, &cpus)?);
    file.u32(count);
    file.clock_option();
    file.bytes.extend(b"flyrecord\0");
    file.data(layout, count, &cpus, &description.trace_clock);
    Ok(file.bytes)
}

/// Rejects pages that would make the file arbitrarily large: the file has a row for each CPU up to
/// the last one, and each page is padded.
fn check(
    description: &Description,
    layout: Layout,
    intervals: &[Vec<RawPage>],
) -> Result<(), TraceError> {
    let refuse = |what: String| Err(TraceError::Pages { what });
    let last = intervals.iter().flatten().map(|page| page.cpu).max();
    let last = last.max(description.cpus.checked_sub(1)).unwrap_or(0);
    if last > CpuSet::MAX_CPU {
        return refuse(format!(
            "CPU {last} is above the limit of {}",
            CpuSet::MAX_CPU
        ));
    }
    let longest = intervals
        .iter()
        .flatten()
        .map(|page| page.bytes.len())
        .max();
    if longest.is_some_and(|longest| longest > layout.page_bytes) {
        return refuse(format!(
            "a page has {} bytes instead of at most {}",
            longest.unwrap_or(0),
            layout.page_bytes
        ));
    }
    let pages: usize = intervals.iter().map(Vec::len).sum();
    match (pages as u64).saturating_mul(layout.page_bytes as u64) {
        bytes if bytes > LARGEST_TRACE => refuse(format!(
            "{pages} pages of {} bytes exceed {} MiB: export one outlier at a time",
            layout.page_bytes,
            LARGEST_TRACE >> 20
        )),
        _ => Ok(()),
    }
}

/// Returns the pages of each CPU in ascending order of time, without duplicates, padded to a whole
/// page. Pages after a gap are marked.
fn by_cpu(layout: Layout, intervals: &[Vec<RawPage>]) -> BTreeMap<u32, Vec<Vec<u8>>> {
    // For each time: the page, and whether the preceding page is also present.
    let mut cpus: BTreeMap<u32, BTreeMap<u64, (&RawPage, bool)>> = BTreeMap::new();
    for interval in intervals {
        let mut seen = BTreeSet::new();
        for page in interval {
            let Ok(parsed) = Page::parse(layout, &page.bytes) else {
                continue;
            };
            let follows = !seen.insert(page.cpu);
            let pages = cpus.entry(page.cpu).or_default();
            let known = pages.entry(parsed.time()).or_insert((page, follows));
            known.1 |= follows;
        }
    }
    let padded = |(page, follows): (&RawPage, bool)| {
        let mut bytes = page.bytes.to_vec();
        bytes.resize(layout.page_bytes, 0);
        if !follows && let Some(word) = bytes.get_mut(commit_low(layout)) {
            let value = layout.unsigned(word);
            if value & MISSED == 0 {
                let value = (value | MISSED) as u32;
                word.copy_from_slice(&if layout.big_endian {
                    value.to_be_bytes()
                } else {
                    value.to_le_bytes()
                });
            }
        }
        bytes
    };
    cpus.into_iter()
        .map(|(cpu, pages)| (cpu, pages.into_values().map(padded).collect()))
        .collect()
}

/// Returns the position of the low half of the word `commit`.
fn commit_low(layout: Layout) -> std::ops::Range<usize> {
    let begin = match (layout.big_endian, layout.long_bytes) {
        (true, 8) => Layout::COMMIT_AT + 4,
        _ => Layout::COMMIT_AT,
    };
    begin..begin + 4
}

/// Formats the symbols in the format of /proc/kallsyms.
fn kallsyms(symbols: &BTreeMap<u64, String>) -> String {
    symbols.iter().fold(String::new(), |mut text, symbol| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:016x} T {}", symbol.0, symbol.1);
        text
    })
}

/// Formats the thread names in the format of saved_cmdlines: one thread ID and name per line.
fn cmdlines(
    description: &Description,
    layout: Layout,
    cpus: &BTreeMap<u32, Vec<Vec<u8>>>,
) -> Result<String, TraceError> {
    let mut decoder = description.decoder()?;
    let mut names: BTreeMap<u32, Comm> = BTreeMap::new();
    for (cpu, pages) in cpus {
        for page in pages {
            let Ok(page) = Page::parse(layout, page) else {
                continue;
            };
            let named = |event: TraceEvent| {
                for task in event.kind.tasks().into_iter().flatten() {
                    names.insert(task.pid, task.comm);
                }
            };
            decoder.page(&page, *cpu, description.clock(), |_| true, named);
        }
    }
    names.remove(&0);
    Ok(names.iter().fold(String::new(), |mut text, (pid, comm)| {
        let _ = writeln!(text, "{pid} {comm}");
        text
    }))
}

/// The file while it is being built.
struct File {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl File {
    fn u16(&mut self, number: u16) {
        self.bytes.extend(if self.big_endian {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        });
    }

    fn u32(&mut self, number: u32) {
        self.bytes.extend(if self.big_endian {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        });
    }

    fn u64(&mut self, number: u64) {
        self.bytes.extend(if self.big_endian {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        });
    }

    /// Writes a string, preceded by its length.
    fn sized32(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.bytes.extend(text.as_bytes());
    }

    fn sized64(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn head(&mut self, description: &Description, layout: Layout) {
        self.bytes.extend(MAGIC);
        self.bytes.push(u8::from(layout.big_endian));
        self.bytes.push(layout.long_bytes);
        self.u32(layout.page_bytes as u32);
        for (name, text) in [
            ("header_page\0", &description.header_page),
            ("header_event\0", &description.header_event),
        ] {
            self.bytes.extend(name.as_bytes());
            // Programs that read the file expect a line feed at the end of the last line.
            self.sized64(&format!("{}\n", text.trim_end_matches('\n')));
        }
    }

    fn formats(&mut self, description: &Description) {
        let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for format in &description.formats {
            systems
                .entry(&format.system)
                .or_default()
                .push(&format.text);
        }
        let own = systems.remove(FTRACE).unwrap_or_default();
        self.texts(&own);
        self.u32(systems.len() as u32);
        for (system, formats) in systems {
            self.bytes.extend(system.as_bytes());
            self.bytes.push(0);
            self.texts(&formats);
        }
    }

    fn texts(&mut self, texts: &[&str]) {
        self.u32(texts.len() as u32);
        for text in texts {
            self.sized64(&format!("{}\n", text.trim_end_matches('\n')));
        }
    }

    fn clock_option(&mut self) {
        self.bytes.extend(b"options  \0");
        self.u16(OPTION_TRACECLOCK);
        self.u32(0);
        self.u16(0);
    }

    /// Writes the table of the CPUs' data, the clock, and then the data, aligned to pages.
    fn data(
        &mut self,
        layout: Layout,
        count: u32,
        cpus: &BTreeMap<u32, Vec<Vec<u8>>>,
        clock: &str,
    ) {
        let page = layout.page_bytes as u64;
        let table = u64::from(count) * 16;
        let clock = format!("{}\n", clock.trim_end());
        let end = self.bytes.len() as u64 + table + 8 + clock.len() as u64;
        let mut offset = end.next_multiple_of(page);
        for cpu in 0..count {
            let size = cpus.get(&cpu).map_or(0, |pages| pages.len() as u64 * page);
            self.u64(offset);
            self.u64(size);
            offset += size;
        }
        self.sized64(&clock);
        self.bytes.resize(end.next_multiple_of(page) as usize, 0);
        for page in cpus.values().flatten() {
            self.bytes.extend(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(cpu: u32, length: usize) -> RawPage {
        RawPage {
            cpu,
            bytes: vec![0; length].into(),
        }
    }

    fn description() -> Description {
        Description {
            header_page: "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
                .to_owned(),
            page_bytes: 4_096,
            cpus: 2,
            ..Description::default()
        }
    }

    #[test]
    fn pages_that_no_kernel_writes_are_refused() {
        let usual = description();
        let write = |description: &Description, pages: Vec<RawPage>| {
            trace_dat(description, &[pages], &[], &BTreeMap::new())
        };
        let good = write(&usual, vec![page(0, 4_096), page(8_191, 16)]).unwrap();
        assert!(good.len() < 200_000, "{}", good.len());
        let many = Description {
            cpus: u32::MAX,
            ..description()
        };
        let wide = Description {
            header_page: usual.header_page.replace("4080", "4194288"),
            page_bytes: 4 << 20,
            ..description()
        };
        for (description, pages, text) in [
            (&usual, vec![page(20_000_000, 16)], "CPU 20000000"),
            (&many, vec![page(0, 16)], "CPU 4294967294"),
            (&usual, vec![page(0, 4_097)], "a page has 4097 bytes"),
            (
                &wide,
                vec![page(0, 16); 100],
                "100 pages of 4194304 bytes exceed",
            ),
        ] {
            let error = write(description, pages).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
