//! Tests with damaged `trace.dat` files, and with files that punctual itself exports.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::made::{Form, IRQ_EXIT, USUAL};
use punctual_model::{Nanos, TraceEvent};
use punctual_trace::{Description, Page, trace_dat, unpack_pages};
use punctual_tracefile::Item;

/// Returns a pseudo-random number (xorshift64).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

/// Changes a few bytes, removes or repeats some, or truncates the file.
fn mutated(whole: &[u8], state: &mut u64) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=next(state) % 6 {
        if bytes.len() < 2 {
            break;
        }
        // Half of the changes are made in the first tenth of the file, which contains its
        // structure.
        let among = match next(state) % 2 {
            0 => bytes.len(),
            _ => bytes.len().div_ceil(10),
        };
        let at = next(state) % among;
        let end = (at + 1 + next(state) % 40).min(bytes.len());
        match next(state) % 6 {
            0 => bytes[at] ^= 1 << (next(state) % 8),
            1 => drop(bytes.drain(at..end)),
            2 if next(state).is_multiple_of(4) => bytes.truncate(at.max(1)),
            3 => {
                let piece = bytes[at..end].to_vec();
                let to = next(state) % bytes.len();
                bytes.splice(to..to, piece);
            }
            4 => bytes[at..end].fill(0xff),
            _ => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][next(state) % 5],
        }
    }
    bytes
}

/// Returns the fixtures and generated files in every form.
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dat");
    let mut files = Vec::new();
    for name in ["v6", "v7", "buffers6", "buffers7"] {
        let packed = fs::read(folder.join(format!("{name}.dat.xz"))).expect("a fixture");
        let mut bytes = Vec::new();
        let mut reader = lzma_rust2::XzReader::new(&packed[..], true);
        reader.read_to_end(&mut bytes).expect("xz");
        files.push((name.to_owned(), bytes));
    }
    for (version, packing) in [(6, "none"), (7, "none"), (7, "zlib"), (7, "zstd")] {
        for (is_big, long_bytes) in [(true, 4), (false, 8)] {
            let form = Form {
                is_big,
                long_bytes,
                version,
                packing,
                has_kvm: false,
            };
            let page =
                |time| form.page(time, 0, &[(5, form.switch(1, 2)), (9, form.print(2, "x"))]);
            let cpus = vec![
                vec![page(1_000), page(2_000), page(3_000)],
                vec![page(1_500)],
            ];
            files.push((format!("{form:?}"), form.file("mono", &[], &cpus)));
        }
    }
    for by in crate::perf::all_forms() {
        files.push((format!("{by:?}"), by.file(&crate::perf::two_rounds(&by))));
    }
    let perfetto = crate::perfetto::seeds();
    files.extend(perfetto.map(|(name, bytes)| (name.to_owned(), bytes)));
    files
}

/// `PUNCTUAL_UPDATE_SEEDS=1` rewrites the seeds of the fuzz target.
#[test]
fn the_seeds_are_traces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/trace-dat");
    for (name, version, packing, is_big, long_bytes) in [
        ("6", 6, "none", false, 8),
        ("7-zlib", 7, "zlib", true, 4),
        ("7-zstd", 7, "zstd", false, 8),
    ] {
        let form = Form {
            is_big,
            long_bytes,
            version,
            packing,
            has_kvm: false,
        };
        let page = form.page(1_000, 0, &[(5, form.switch(1, 2)), (9, form.print(2, "x"))]);
        check_seed(&folder.join(name), &form.file("mono", &[], &[vec![page]]));
    }
    for (name, by) in ["perf", "perf-pipe", "perf-packed"]
        .iter()
        .zip(crate::perf::all_forms())
    {
        check_seed(&folder.join(name), &by.file(&crate::perf::two_rounds(&by)));
    }
    for (name, made) in crate::perfetto::seeds() {
        check_seed(&folder.join(name), &made);
    }
}

fn check_seed(path: &Path, made: &[u8]) {
    if std::env::var_os("PUNCTUAL_UPDATE_SEEDS").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, made).expect("a seed");
    }
    let seed = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(
        crate::sound::any(&seed).expect("a trace"),
        crate::sound::any(made).expect("a trace"),
        "{}",
        path.display()
    );
    // Maximum size of an input for the fuzzer, in bytes.
    assert!(
        seed.len() <= 16_384,
        "{}: {} bytes",
        path.display(),
        seed.len()
    );
}

#[test]
fn mutated_files_are_read_or_refused() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for (name, whole) in files() {
        let (mut read, mut refused) = (0, 0);
        for _ in 0..500 {
            match crate::sound::any(&mutated(&whole, &mut state)) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(
            read > 50 && refused > 5,
            "{name}: {read} read, {refused} refused"
        );
    }
}

#[test]
fn small_files_cost_little() {
    let form = Form {
        version: 7,
        packing: "zstd",
        ..USUAL
    };
    // This buffer has pages of 8 MiB, and contains the same page of zeros 5000 times.
    let mut option = form.number(30, 8);
    option.extend(b"other\0mono\0");
    option.extend(form.numbers(&[(8 << 20, 4), (5_000, 4)]));
    for cpu in 0..5_000 {
        option.extend(form.numbers(&[(cpu, 4), (4_096, 8), (8_192, 8)]));
    }
    let pages = vec![form.page(100, 0, &[(0, form.switch(1, 2))])];
    let file = form.file("mono", &[(3, option)], &[pages]);
    let begin = Instant::now();
    let (items, head) = crate::sound::any(&file).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(60), "it hangs");
    assert!(items.iter().any(|item| matches!(item, Item::Event(_))));
    assert!(head.warnings.len() > 1, "{:?}", head.warnings);
    let peak = peak_kib();
    assert!(peak < 1 << 20, "{peak} kB");
}

/// Each of these options costs a few bytes of the file, and much more memory without a limit.
#[test]
fn many_options_cost_little() {
    let form = Form {
        version: 7,
        packing: "zstd",
        ..USUAL
    };
    let page = form.page(100, 0, &[(0, form.switch(1, 2))]);
    let mut buffer = form.number(30, 8);
    buffer.extend(b"other\0mono\0");
    buffer.extend(form.numbers(&[(4_096, 4), (2_000, 4)]));
    for cpu in 0..2_000 {
        buffer.extend(form.numbers(&[(cpu, 4), (4_096, 8), (1, 8)]));
    }
    // An empty number of CPUs, statistics, and a buffer of 2,000 CPUs.
    for (option, times) in [
        ((8, Vec::new()), 2 << 20),
        ((2, Vec::new()), 2 << 20),
        ((3, buffer), 400),
    ] {
        let kind = option.0;
        let options = vec![option; times];
        let file = form.file("mono", &options, &[vec![page.clone()]]);
        assert!(file.len() < 100_000, "{}", file.len());
        let (items, head) = crate::sound::any(&file).unwrap();
        // The memory for pages does not suffice for this number of buffers.
        let is_read = items.iter().any(|item| matches!(item, Item::Event(_)));
        assert!(is_read || kind == 3, "{kind}");
        assert!(head.warnings.len() <= 200, "{}", head.warnings.len());
    }
    let peak = peak_kib();
    assert!(peak < 1 << 20, "{peak} kB");
}

#[test]
fn sections_are_limited_together() {
    let form = Form {
        version: 7,
        packing: "zstd",
        ..USUAL
    };
    // More than all sections may have, in options without a meaning.
    let options = vec![(99, vec![0; 32 << 20]); 5];
    let (_, head) = crate::sound::any(&form.file("mono", &options, &[])).unwrap();
    let said = head.warnings.concat();
    assert!(said.contains("more than any kernel needs"), "{said}");
}

/// The first page of each CPU is decoded before the first event is known.
#[test]
fn events_of_all_cpus_are_limited() {
    let form = Form {
        has_kvm: true,
        ..USUAL
    };
    let exit = form.record(IRQ_EXIT, 1, &[form.numbers(&[(1, 4), (1, 4)])]);
    let page = form.page(100, 0, &vec![(0, exit); 203]);
    let cpus = vec![vec![page]; 10_500];
    let error = crate::sound::any(&form.file("mono", &[], &cpus)).unwrap_err();
    assert!(error.to_string().contains("events in one page"), "{error}");
}

/// Returns the peak memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.expect("a peak").trim().trim_end_matches(" kB");
    peak.parse().expect("a number")
}

#[test]
fn own_export_has_its_pages_events() {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/trace-pages/whole");
    let seed = fs::read(seed).unwrap();
    let zero = seed.iter().position(|byte| *byte == 0).unwrap();
    let description: Description = serde_json::from_slice(&seed[..zero]).unwrap();
    let pages = unpack_pages(&seed[zero + 1..]).unwrap();
    let file = trace_dat(
        &description,
        std::slice::from_ref(&pages),
        &[],
        &BTreeMap::new(),
    )
    .unwrap();
    let (items, head) = crate::sound::any(&file).unwrap();
    assert_eq!(head.format, "trace.dat version 6");
    let mut expected = Vec::new();
    let mut decoder = description.decoder().unwrap();
    for raw in &pages {
        let page = Page::parse(description.layout().unwrap(), &raw.bytes).unwrap();
        for record in page.records() {
            expected.extend(decoder.event(raw.cpu, Nanos(record.time), record.data));
        }
    }
    // The seed contains the same page twice.
    expected.sort_by_key(|event| event.time);
    expected.dedup();
    let events = items.into_iter().filter_map(|item| match item {
        Item::Event(event) => Some(event),
        _ => None,
    });
    let events: Vec<TraceEvent> = events.collect();
    assert!(!events.is_empty());
    assert_eq!(events, expected);
}
