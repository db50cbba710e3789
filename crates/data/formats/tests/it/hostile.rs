//! Truncated, damaged or malicious files: each is rejected with a reason, or results in a recording
//! in which all invariants hold.

use std::fs;
use std::path::PathBuf;

use crate::sound::read_and_check;
use proptest::prelude::*;
use punctual_formats::{Head, IMPORTS, Import, ImportError, Source, import, recognise};
use punctual_model::Recording;

fn folder(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Shortens a large file of samples, because they are all alike.
fn shortened(mut bytes: Vec<u8>) -> Vec<u8> {
    const MOST: usize = 28 * 100;
    if bytes.len() > 3 * MOST {
        bytes.truncate(MOST);
        // Text is cut at the end of a line. Content with zero bytes is cut after whole records of
        // 28 bytes.
        if !bytes.contains(&0)
            && let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n')
        {
            bytes.truncate(end + 1);
        }
    }
    bytes
}

/// Returns the recognised fixtures, each with its reader.
fn fixtures() -> Vec<(String, Vec<u8>, &'static Import)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder("tests/fixtures")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let bytes = shortened(fs::read(entry.path()).unwrap());
        let head = Source::new("file", bytes.as_slice())
            .head()
            .map(|head| recognise(&name, &head));
        if let Ok(Ok(import)) = head {
            found.push((name, bytes, import));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() > 20, "{}", found.len());
    found
}

/// Reads a file with the given reader. If a reader recognises the file, reads the file with that
/// reader, too. The reason in an error must be suitable for a terminal.
fn try_read(import: &Import, bytes: &[u8]) -> Option<Recording> {
    // Writing all formats takes longer than reading, so it is done only for one length in 16.
    let thoroughly = bytes.len().is_multiple_of(16);
    let head = Head {
        bytes: &bytes[..bytes.len().min(Head::LENGTH)],
        whole: bytes.len() <= Head::LENGTH,
    };
    if let Ok(other) = recognise("file", &head)
        && other.name != import.name
    {
        short(read_and_check(other, bytes, thoroughly));
    }
    short(read_and_check(import, bytes, thoroughly))
}

fn short(result: Result<Recording, ImportError>) -> Option<Recording> {
    let error = match result {
        Ok(recording) => return Some(recording),
        Err(error) => error.to_string(),
    };
    assert!(error.starts_with("file"), "{error}");
    assert!(error.len() < 600, "an error of {} bytes", error.len());
    assert!(!error.contains(char::is_control), "{error:?}");
    None
}

#[test]
fn truncated_file_is_refused_or_sound() {
    for (name, bytes, import) in fixtures() {
        let whole = try_read(import, &bytes);
        let samples = |recording: Option<Recording>| {
            recording.map_or(0, |recording| recording.accounting().recorded)
        };
        let all = samples(whole);
        // Each place in the head and the tail. Between them lie many rows of one form, and a prime
        // step cuts these at all places.
        let tail = bytes.len().saturating_sub(200);
        for cut in (0..bytes.len()).filter(|cut| *cut < 200 || *cut > tail || cut % 31 == 0) {
            let some = samples(try_read(import, &bytes[..cut]));
            assert!(some <= all || all == 0, "{name} at {cut}: {some} of {all}");
        }
    }
}

/// Returns the start and end of each number in a text.
fn numbers(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut numbers = Vec::new();
    let mut start = None;
    for (place, byte) in bytes.iter().enumerate() {
        match (byte.is_ascii_digit(), start) {
            (true, None) => start = Some(place),
            (false, Some(first)) => {
                numbers.push((first, place));
                start = None;
            }
            _ => {}
        }
    }
    numbers
}

fn with_number(bytes: &[u8], (start, end): (usize, usize), number: &[u8]) -> Vec<u8> {
    [&bytes[..start], number, &bytes[end..]].concat()
}

#[test]
fn extreme_numbers_are_refused_or_sound() {
    let million = vec![b'9'; 1_000_000];
    let most = u64::MAX.to_string();
    let beyond = "18446744073709551616";
    for (_, bytes, import) in fixtures() {
        let numbers = numbers(&bytes);
        // Tries the first numbers, which include all kinds, and the last ones.
        let some = numbers.iter().take(14).chain(numbers.iter().rev().take(4));
        for (nth, place) in some.enumerate() {
            for number in [
                most.as_bytes(),
                beyond.as_bytes(),
                b"-1",
                b"1e308",
                b"NaN",
                b"",
            ] {
                try_read(import, &with_number(&bytes, *place, number));
            }
            if nth % 10 == 0 {
                try_read(import, &with_number(&bytes, *place, &million));
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    for depth in [100, 200_000] {
        for (name, head) in [
            (
                "rt-tests-json",
                "{\"file_version\": 1, \"rt_test_version:\": \"2.10\", \"thread\": ",
            ),
            ("jitterdebugger-json", "{\"version\": 3, \"cpu\": "),
            (
                "rt-dataset",
                "{\"format\": {\"name\": \"RT Dataset\", \"version\": \"1.0\"}, \"latency\": ",
            ),
        ] {
            for open in ["[", "{\"0\":"] {
                let text = format!("{head}{}", open.repeat(depth));
                assert!(try_read(import(name).unwrap(), text.as_bytes()).is_none());
            }
        }
        let text = format!("<rteval version=\"1\">{}", "<Measurements>".repeat(depth));
        assert!(try_read(import("rteval-xml").unwrap(), text.as_bytes()).is_none());
    }
}

/// A hundred thousand histogram rows in descending order.
#[test]
fn many_unordered_rows_import_quickly() {
    const ROWS: u64 = 100_000;
    let rows = |separator: &str, row: &dyn Fn(u64) -> String| {
        let rows: Vec<String> = (1..=ROWS).rev().map(row).collect();
        rows.join(separator)
    };
    let json = rows(", ", &|us| format!("\"{us}\": 1"));
    let figures = format!("\"min\": 1, \"max\": {ROWS}, \"avg\": {}.00", ROWS / 2);
    let text = format!(
        "{{\"version\": 3, \"cpu\": {{\"0\": {{\"histogram\": {{{json}}}, \"count\": {ROWS}, {figures}}}}}}}"
    );
    let recording = try_read(import("jitterdebugger-json").unwrap(), text.as_bytes()).unwrap();
    assert_eq!(recording.accounting().recorded, ROWS);
    let text = format!(
        "{{\"file_version\": 1, \"rt_test_version:\": \"2.10\", \"num_threads\": 1, \"thread\": \
         {{\"0\": {{\"histogram\": {{{json}}}, \"cycles\": {ROWS}, {figures}, \"cpu\": 0}}}}}}"
    );
    let recording = try_read(import("rt-tests-json").unwrap(), text.as_bytes()).unwrap();
    assert_eq!(recording.accounting().recorded, ROWS);
    let buckets = rows("", &|us| format!("<bucket index=\"{us}\" value=\"1\"/>"));
    let text = format!(
        "<rteval version=\"3\"><Measurements><cyclictest command_line=\"\"><core id=\"0\">\
         <statistics><samples>{ROWS}</samples></statistics>\
         <histogram>{buckets}</histogram></core></cyclictest></Measurements></rteval>"
    );
    let recording = try_read(import("rteval-xml").unwrap(), text.as_bytes()).unwrap();
    assert_eq!(recording.accounting().recorded, ROWS);
}

#[test]
fn line_ends_of_other_systems_change_nothing() {
    for (name, bytes, import) in fixtures() {
        let (Some(before), false) = (try_read(import, &bytes), bytes.contains(&0)) else {
            continue;
        };
        let text = String::from_utf8(bytes).unwrap();
        let after = try_read(import, text.replace('\n', "\r\n").as_bytes());
        let after = after.unwrap_or_else(|| panic!("{name} with CRLF is refused"));
        assert!(before.threads == after.threads, "{name}");
    }
}

#[test]
fn other_encodings_are_refused() {
    for (name, bytes, import) in fixtures() {
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        if text.contains('\0') {
            continue;
        }
        let little: Vec<u8> = (text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let with_mark = [&[0xff, 0xfe], little.as_slice()].concat();
        for utf16 in [little, with_mark] {
            assert!(try_read(import, &utf16).is_none(), "{name}");
            let head = Head {
                bytes: &utf16[..utf16.len().min(Head::LENGTH)],
                whole: utf16.len() <= Head::LENGTH,
            };
            let error = recognise(&name, &head).unwrap_err();
            assert!(
                matches!(
                    error,
                    ImportError::Unrecognised { .. } | ImportError::Foreign { .. }
                ),
                "{name}: {error}"
            );
        }
    }
}

/// Some editors put a byte order mark at the beginning of UTF-8 text.
#[test]
fn a_mark_of_utf8_is_passed_over() {
    for (name, bytes, import) in fixtures() {
        if bytes.contains(&0) {
            continue;
        }
        let marked = [b"\xef\xbb\xbf", bytes.as_slice()].concat();
        let mut source = Source::new("file", marked.as_slice());
        let found = recognise("file", &source.head().unwrap()).unwrap();
        assert_eq!(found.name, import.name, "{name}");
        let before = try_read(import, &bytes).map(|recording| recording.threads);
        let after = try_read(import, &marked).map(|recording| recording.threads);
        assert!(before == after, "{name}");
    }
}

/// Fuzz targets for data in a store, in the memory of another process, sent to a server, or in a
/// trace. Each is listed with the function that it calls, and has its own seeds.
const BLOBS: [(&str, &str); 11] = [
    ("app-figures", "punctual_fuzz::figures(bytes)"),
    ("program-code", "punctual_fuzz::program(bytes)"),
    ("serve-delivery", "punctual_fuzz::delivery(bytes)"),
    ("serve-series", "punctual_fuzz::series(bytes)"),
    ("serve-windows", "punctual_fuzz::windows(bytes)"),
    ("store-attachment", "punctual_fuzz::attachment(bytes)"),
    ("store-chunk", "punctual_fuzz::chunk(bytes)"),
    ("trace-ctf", "punctual_fuzz::ctf(bytes)"),
    ("trace-dat", "punctual_fuzz::trace(bytes)"),
    ("trace-pages", "punctual_fuzz::pages(bytes)"),
    ("trace-text", "punctual_fuzz::text(bytes)"),
];

#[test]
fn readers_and_blobs_have_fuzz_targets() {
    let fuzz = folder("../../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let readers = IMPORTS.iter().map(|import| {
        (
            import.name,
            format!("punctual_fuzz::read(\"{}\", bytes)", import.name),
        )
    });
    let blobs = BLOBS.map(|(name, call)| (name, call.to_owned()));
    let mut expected = Vec::new();
    for (name, call) in readers.chain(blobs) {
        let target = format!("fuzz_targets/{name}.rs");
        let entry = format!("name = \"{name}\"\npath = \"{target}\"\n");
        assert!(manifest.contains(&entry), "no {target} in fuzz/Cargo.toml");
        let source = fs::read_to_string(fuzz.join(&target)).unwrap();
        assert!(source.contains(&call), "{target} does not call {call}");
        expected.push(format!("{name}.rs"));
    }
    let names = |of: &str| -> Vec<String> {
        let entries = fs::read_dir(fuzz.join(of)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    expected.sort();
    assert_eq!(names("fuzz_targets"), expected);
    assert_eq!(manifest.matches("[[bin]]").count(), expected.len());
    assert_eq!(names("seeds"), BLOBS.map(|(name, _)| name));
    for (name, _) in BLOBS {
        assert!(!names(&format!("seeds/{name}")).is_empty(), "{name}");
    }
}

/// One change to a file.
#[derive(Clone, Debug)]
enum Change {
    /// Replaces a byte.
    Byte(usize, u8),
    /// Removes a piece.
    Without(usize, usize),
    /// Duplicates a piece.
    Twice(usize, usize),
    /// Replaces a number.
    Number(usize, u64),
    /// Inserts a piece of another fixture.
    From(usize, usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![Just(0u8), Just(b'\n'), Just(b'"'), Just(b'-'), any::<u8>()];
    let number = prop_oneof![0u64..100, any::<u64>(), Just(u64::MAX)];
    prop_oneof![
        (any::<usize>(), byte).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<usize>(), 1usize..300).prop_map(|(at, length)| Change::Without(at, length)),
        (any::<usize>(), 1usize..300).prop_map(|(at, length)| Change::Twice(at, length)),
        (any::<usize>(), number).prop_map(|(nth, number)| Change::Number(nth, number)),
        (any::<usize>(), any::<usize>(), 1usize..300).prop_map(|(a, b, n)| Change::From(a, b, n)),
    ]
}

fn changed(bytes: &[u8], change: &Change, other: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return other.to_vec();
    }
    let piece = |of: &[u8], at: usize, length: usize| {
        let at = at % of.len();
        (at, (at + length).min(of.len()))
    };
    let mut bytes = bytes.to_vec();
    match *change {
        Change::Byte(at, byte) => {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        Change::Without(at, length) => {
            let (start, end) = piece(&bytes, at, length);
            bytes.drain(start..end);
        }
        Change::Twice(at, length) => {
            let (start, end) = piece(&bytes, at, length);
            let copy = bytes[start..end].to_vec();
            bytes.splice(start..start, copy);
        }
        Change::Number(nth, number) => {
            let numbers = numbers(&bytes);
            if let Some(place) = numbers.get(nth % numbers.len().max(1)) {
                bytes = with_number(&bytes, *place, number.to_string().as_bytes());
            }
        }
        Change::From(at, from, length) => {
            let (start, end) = piece(other, from, length);
            let at = at % bytes.len();
            bytes.splice(at..at, other[start..end].iter().copied());
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_files_are_refused_or_sound(
        which in any::<usize>(),
        other in any::<usize>(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let fixtures = fixtures();
        let (_, bytes, import) = &fixtures[which % fixtures.len()];
        let other = &fixtures[other % fixtures.len()].1;
        let damaged = (changes.iter()).fold(bytes.clone(), |bytes, change| {
            changed(&bytes, change, other)
        });
        try_read(import, &damaged);
    }
}
