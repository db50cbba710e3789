//! Tests with `perf.data` files that were recorded by perf 6.1 on Linux 6.18, each with the text of
//! `perf script --ns`, and with generated files.

use std::fs;
use std::io::Read;
use std::path::Path;

use lzma_rust2::XzReader;
use punctual_model::{EventKind, Nanos};
use punctual_tracefile::{Item, TraceHead};

use crate::made::{Form, USUAL};
use crate::made_perf::{FINISHED_ROUND, Written};

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let packed = fs::read(folder.join(format!("{name}.xz"))).expect("a fixture");
    let mut bytes = Vec::new();
    let mut reader = XzReader::new(&packed[..], true);
    reader.read_to_end(&mut bytes).expect("xz");
    bytes
}

fn read(bytes: &[u8]) -> (Vec<Item>, TraceHead) {
    crate::sound::any(bytes).expect("a trace")
}

fn refused(bytes: &[u8]) -> String {
    crate::sound::any(bytes).expect_err("refused").to_string()
}

/// Every way to write a file, in both byte orders and with both sizes of a long.
pub(crate) fn all_forms() -> Vec<Written> {
    let mut all = Vec::new();
    for (is_big, long_bytes) in [(false, 8), (true, 8), (true, 4)] {
        for (is_from_pipe, is_packed) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let form = Form {
                is_big,
                long_bytes,
                ..USUAL
            };
            all.push(Written {
                form,
                is_from_pipe,
                is_packed,
            });
        }
    }
    all
}

/// Returns two rounds of records. In each, the second CPU has the earlier events.
pub(crate) fn two_rounds(by: &Written) -> Vec<Vec<u8>> {
    let form = by.form;
    let chain = [
        -128_i64 as u64,
        0x8100_0123,
        0x8100_0042,
        -512_i64 as u64,
        0x40_0000,
    ];
    vec![
        by.sample(1, 2_000, &chain, &form.switch(1, 2)),
        by.sample(0, 1_000, &[], &form.waking(9, 2, 1)),
        by.record(FINISHED_ROUND, &[]),
        by.sample(1, 4_000, &[], &form.switch(2, 1)),
        by.lost(1, 5_000, 12),
        by.sample(1, 6_000, &[], &form.switch(1, 2)),
        by.sample(0, 3_000, &[], &form.waking(9, 1, 1)),
        by.record(FINISHED_ROUND, &[]),
    ]
}

fn brief(items: &[Item]) -> String {
    let brief = items.iter().map(|item| match item {
        Item::Event(event) => {
            let kind = match &event.kind {
                EventKind::Switch { prev, next, .. } => format!("{}>{}", prev.pid, next.pid),
                EventKind::Waking { task, .. } => format!("wakes {}", task.pid),
                EventKind::KernelStack { frames } => format!("stack {frames:x?}"),
                other => format!("{other:?}"),
            };
            format!(
                "{}@{} {kind} flags {}",
                event.cpu, event.time.0, event.flags
            )
        }
        Item::Lost { cpu, count, until } => format!("{cpu}@{} lost {count:?}", until.0),
        other => format!("{other:?}"),
    });
    brief.collect::<Vec<_>>().join("\n")
}

#[test]
fn items_are_those_of_perf_script() {
    for (name, clock) in [("file", "perf"), ("pipe", "mono")] {
        let ours = read(&fixture(&format!("perf/{name}.data")));
        let text = crate::sound::text(&fixture(&format!("perf/{name}.txt"))).unwrap();
        assert!(ours.0.len() > 100, "{name}: {}", ours.0.len());
        crate::same::same(&ours, &text, name);
        let head = &ours.1;
        assert_eq!(head.clock.as_deref(), Some(clock));
        assert_eq!(head.clocks_differ, Some(clock == "perf"));
        assert_eq!(head.kernel.as_deref(), Some("6.18.44-fc-v657"));
        assert!(head.lists_events && head.recorded.contains("irq:softirq_exit"));
        assert!(head.warnings.is_empty(), "{:?}", head.warnings);
    }
}

/// `perf record` and `trace-cmd record -B bar -C mono` of `syscalls:sys_enter_futex`.
#[test]
fn calls_by_name_have_their_arguments() {
    for (clock, binary, text) in [
        ("perf", "perf/futex.data", "perf/futex.txt"),
        ("mono", "dat/futex.dat", "dat/futex.txt"),
    ] {
        let ours = read(&fixture(binary));
        let text = crate::sound::text(&fixture(text)).unwrap();
        crate::same::same(&ours, &text, clock);
        let (items, head) = ours;
        assert_eq!(head.clock.as_deref(), Some(clock));
        assert!(!head.recorded.contains("raw_syscalls:sys_enter"), "{clock}");
        // FUTEX_WAIT_PRIVATE, at the same mutex.
        let waits = items.iter().filter_map(|item| match item {
            Item::Event(punctual_model::TraceEvent {
                kind:
                    EventKind::SysEnter {
                        id,
                        args: [at, 128],
                    },
                ..
            }) => Some((head.calls[id].as_str(), *at)),
            _ => None,
        });
        let waits: Vec<_> = waits.collect();
        let most = waits
            .iter()
            .map(|one| waits.iter().filter(|other| *other == one).count());
        assert!(most.max() > Some(5), "{clock}: {waits:?}");
        assert_eq!(waits[0].0, "futex", "{clock}");
    }
}

#[test]
fn ends_of_named_calls_are_read() {
    for (name, file, report) in [
        ("perf", "perf/calls.data", "perf/calls.txt"),
        ("trace-cmd", "dat/calls.dat", "dat/calls.txt"),
    ] {
        let ours = read(&fixture(file));
        let text = crate::sound::text(&fixture(report)).unwrap();
        crate::same::same(&ours, &text, name);
        let head = &ours.1;
        assert_eq!(head.machine.as_deref(), Some("x86_64"), "{name}");
        let refused = |item: &&Item| match item {
            Item::Event(event) => match event.kind {
                EventKind::SysExit { id, ret: -1 } => head.calls.contains_key(&id),
                _ => false,
            },
            _ => false,
        };
        assert_eq!(ours.0.iter().filter(refused).count(), 4, "{name}");
    }
}

#[test]
fn byte_order_and_packing_change_nothing() {
    for by in all_forms() {
        let (items, head) = read(&by.file(&two_rounds(&by)));
        assert_eq!(
            brief(&items),
            "0@1000 wakes 2 flags 1\n1@2000 1>2 flags 1\n\
             1@2000 stack [81000123, 81000042] flags 1\n0@3000 wakes 1 flags 1\n\
             1@4000 2>1 flags 1\n1@5000 lost Some(12)\n1@6000 1>2 flags 1",
            "{by:?}"
        );
        assert_eq!(head.kernel.as_deref(), Some("6.1.0-made"), "{by:?}");
        assert_eq!(items[0].time(), Nanos(1_000));
    }
}

#[test]
fn a_truncated_file_is_refused_with_the_place() {
    let whole = fixture("perf/file.data");
    let error = refused(&whole[..10_000]);
    let place = "damaged at byte 10000: the file ends here";
    assert!(error.contains(place), "{error}");
    let mut killed = whole;
    killed[48..56].fill(0);
    assert!(
        refused(&killed).contains("perf record was killed"),
        "killed"
    );
    assert!(refused(b"PERFILE2\x68").contains("at byte 8"), "short");
}

#[test]
fn a_truncated_stream_gives_its_beginning() {
    let whole = fixture("perf/pipe.data");
    let (items, _) = read(&whole);
    let (cut, head) = read(&whole[..whole.len() - 2_001]);
    let number = cut
        .iter()
        .filter(|item| matches!(item, Item::Event(_)))
        .count();
    assert!(number > 10 && number < items.len(), "{number}");
    assert!(matches!(cut.last(), Some(Item::Lost { .. })));
    let warning = &head.warnings[0];
    assert!(warning.contains("ends inside this record"), "{warning}");
}

#[test]
fn without_tracepoints_the_remedy_is_named() {
    let by = all_forms()[0];
    let mut file = by.file(&two_rounds(&by));
    // Clear the features.
    file[72..80].fill(0);
    assert!(refused(&file).contains("Record at least -e sched:sched_switch"));
}
