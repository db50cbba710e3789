//! Tests with `trace.dat` files that were recorded by trace-cmd 3.1.6 on Linux 6.18. For each,
//! there is also the text from `trace-cmd report -t`. All files are compressed with xz. The
//! `buffers*` files have two instances, one of which repeats events of the first buffer.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use lzma_rust2::XzReader;
use punctual_tracefile::{Input, Item, TraceHead, open};

const FIXTURES: [&str; 4] = ["v6", "v7", "buffers6", "buffers7"];

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dat");
    folder.join(format!("{name}.xz"))
}

fn unpacked(name: &str) -> Vec<u8> {
    let packed = fs::read(path(name)).expect("a fixture");
    let mut bytes = Vec::new();
    XzReader::new(&packed[..], true)
        .read_to_end(&mut bytes)
        .expect("xz");
    bytes
}

fn dat(name: &str) -> Vec<u8> {
    unpacked(&format!("{name}.dat"))
}

fn read(bytes: &[u8]) -> (Vec<Item>, TraceHead) {
    crate::sound::any(bytes).expect("a trace")
}

fn read_file(path: &Path) -> (Vec<Item>, TraceHead) {
    let mut reader = open(Input::path(path).expect("a file")).expect("a trace");
    let mut items = Vec::new();
    while let Some(item) = reader.next_item().expect("an item") {
        items.push(item);
    }
    (items, reader.head().clone())
}

#[test]
fn items_are_those_of_trace_cmd_report() {
    for name in FIXTURES {
        let ours = read(&dat(name));
        let text = crate::sound::text(&unpacked(&format!("{name}.txt"))).unwrap();
        assert!(ours.0.len() > 100, "{name}: {}", ours.0.len());
        crate::same::same(&ours, &text, name);
        let is_mark = |item: &&Item| matches!(item, Item::Mark(_));
        let Some(Item::Mark(mark)) = ours.0.iter().find(is_mark) else {
            panic!("{name} has no mark");
        };
        assert_eq!(mark.text, "hit latency threshold (120 > 100)");
    }
}

#[test]
fn installed_trace_cmd_reports_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for name in FIXTURES {
        let file = folder.path().join(name);
        fs::write(&file, dat(name)).unwrap();
        let mut report = Command::new("trace-cmd");
        let Ok(output) = report.args(["report", "-t"]).arg(&file).output() else {
            punctual_testing::skip!(Program, "trace-cmd is not installed");
            return;
        };
        let text = crate::sound::text(&output.stdout).unwrap();
        crate::same::same(&read_file(&file), &text, name);
    }
}

#[test]
fn the_head_tells_what_the_file_says() {
    for (name, format, clock, differ) in [
        ("v6", "trace.dat version 6", "local", true),
        ("v7", "trace.dat version 7, zstd", "mono", false),
        ("buffers6", "trace.dat version 6", "mono", false),
        ("buffers7", "trace.dat version 7, zstd", "mono", false),
    ] {
        let (_, head) = read(&dat(name));
        assert_eq!(head.format, format);
        assert_eq!(head.clock.as_deref(), Some(clock), "{name}");
        assert_eq!(head.clocks_differ, Some(differ), "{name}");
        assert_eq!((head.resolution.0, head.cpus), (1, Some(2)), "{name}");
        assert_eq!(head.kernel.as_deref(), Some("6.18.44-fc-v669"), "{name}");
        assert!(head.lists_events, "{name}");
        let listed = |event: &str| head.recorded.contains(event);
        assert!(
            listed("sched:sched_switch") && listed("irq:softirq_exit"),
            "{name}"
        );
        assert_eq!(
            listed("sched:sched_pi_setprio"),
            !name.starts_with("buffers"),
            "{name}"
        );
        assert!(!listed("exceptions:page_fault_user"), "{name}");
        let double = "several buffers contain the same events";
        let warnings: Vec<_> = head
            .warnings
            .iter()
            .map(|text| text.starts_with(double))
            .collect();
        assert_eq!(
            warnings,
            vec![true; usize::from(name.starts_with("buffers"))],
            "{name}"
        );
    }
}

#[test]
fn all_inputs_read_the_same() {
    let bytes = dat("v6");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let expected = read_file(file.path());
    assert_eq!(read(&bytes), expected);
    assert_eq!(read_file(&path("v6.dat")), expected, "xz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    assert_eq!(read(&gzip.finish().unwrap()), expected, "gzip");
    assert_eq!(
        read(&zstd::encode_all(&bytes[..], 1).unwrap()),
        expected,
        "zstd"
    );
    let text = unpacked("v6.txt");
    let packed = zstd::encode_all(&text[..], 1).unwrap();
    assert_eq!(read(&packed), crate::sound::text(&text).unwrap());
}

#[test]
fn other_files_are_named() {
    let refused = |bytes: &[u8]| crate::sound::any(bytes).unwrap_err().to_string();
    for (bytes, kind) in [
        (&b""[..], "not a trace but an empty file"),
        (b"\x7fELF\x02", "a program"),
        (b"\0\x01\x02", "binary data of an unknown format"),
        (
            b"hello\n",
            "no line is an event of a trace; the first line is \"hello\"",
        ),
        (
            b"\x17\x08\x44tracing5\0",
            "version 5, but only versions 6 and 7 can be read",
        ),
        (
            b"\x17\x08\x44tracing6\0\x07",
            "damaged at byte 13: the byte order is 7",
        ),
        (
            b"\x17\x08\x44tracing6\0",
            "damaged at byte 12: the data ends here prematurely",
        ),
    ] {
        let error = refused(bytes);
        assert!(error.contains(kind), "{error}");
    }
    let twice = zstd::encode_all(&zstd::encode_all(&b"x"[..], 1).unwrap()[..], 1).unwrap();
    assert!(refused(&twice).contains("zstd data inside compressed data"));
    let missing = Input::path(Path::new("/no/such/trace.dat")).err().unwrap();
    assert!(
        missing.to_string().contains("/no/such/trace.dat"),
        "{missing}"
    );
}
