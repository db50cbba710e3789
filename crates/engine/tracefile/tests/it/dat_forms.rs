//! Tests with generated `trace.dat` files, as if from other machines: big-endian, with 32 bits,
//! with each compression, and damaged.

use std::fs;
use std::path::Path;

use crate::made::{Form, USUAL};
use punctual_model::{EventKind, TraceEvent};
use punctual_tracefile::{Item, TraceHead};

fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for (version, packing) in [(6, "none"), (7, "none"), (7, "zlib"), (7, "zstd")] {
        for long_bytes in [4, 8] {
            forms.extend([false, true].map(|is_big| Form {
                is_big,
                long_bytes,
                version,
                packing,
                has_kvm: false,
            }));
        }
    }
    forms
}

/// The pages of two CPUs.
fn cpus(form: &Form) -> Vec<Vec<Vec<u8>>> {
    let values = [form.number(7, 4), b"many\0".to_vec()].concat();
    let mut before = form.page(4_000, 3 << 30, &[(10, form.waking(0, 42, 1))]);
    before.extend(form.number(12, form.long_bytes));
    vec![
        vec![
            form.page(
                1_000,
                0,
                &[(5, form.switch(41, 42)), (300, form.print(42, "one\n"))],
            ),
            form.page(2_000, 0, &[(0, form.bprint(42, 0x8200_0000, &values))]),
            form.page(3_000, 0, &[(0, form.bputs(42, 0x8200_0100))]),
            before,
        ],
        vec![form.page(
            1_000,
            1 << 31,
            &[
                (10, form.expire(0x8100_0200, 990)),
                (40, form.stack(42, &[0x8100_0110, 0x8100_0020])),
                (3_000, form.timerlat(9, 1, 55)),
            ],
        )],
    ]
}

fn read(bytes: &[u8]) -> (Vec<Item>, TraceHead) {
    crate::sound::any(bytes).expect("a trace")
}

fn shown(items: &[Item]) -> Vec<String> {
    let shown = items.iter().map(|item| match item {
        Item::Event(event) => {
            assert_eq!((event.flags, event.preempt_count), (1, 2));
            let what = match &event.kind {
                EventKind::Switch { prev, next, .. } => format!("{prev} -> {next}"),
                EventKind::Waking { task, target_cpu } => format!("wakes {task} on {target_cpu}"),
                EventKind::HrtimerExpireEntry {
                    function, now_ns, ..
                } => {
                    format!("timer {function:#x} at {now_ns}")
                }
                EventKind::KernelStack { frames } => format!("stack {frames:x?}"),
                other => format!("{other:?}"),
            };
            format!("{} cpu{} {}: {what}", event.time.0, event.cpu, event.pid)
        }
        Item::Mark(mark) => format!(
            "{} cpu{} {}: {}",
            mark.time.0, mark.cpu, mark.pid, mark.text
        ),
        Item::Statement { .. } | Item::Function { .. } | Item::RunTime { .. } => {
            format!("{item:?}")
        }
        Item::Lost { cpu, count, until } => format!("{} cpu{cpu} lost {count:?}", until.0),
    });
    shown.collect()
}

#[test]
fn every_file_layout_is_read() {
    for form in forms() {
        let (items, head) = read(&form.file("mono", &[], &cpus(&form)));
        let expected = [
            "1005 cpu0 41: before-41 -> after-42",
            "1010 cpu1 lost None",
            "1010 cpu1 0: timer 0x81000200 at 990",
            "1050 cpu1 42: stack [81000110, 81000020]",
            "1305 cpu0 42: one",
            "2000 cpu0 42: value 7 of many",
            "3000 cpu0 42: constant",
            "4010 cpu0 lost Some(12)",
            "4010 cpu0 0: wakes after-42 on 1",
            "4050 cpu1 0: #9 context thread timer_latency 55 ns",
        ];
        assert_eq!(shown(&items), expected, "{form:?}");
        let symbols: Vec<_> = head
            .symbols
            .iter()
            .map(|(at, name)| (*at, &**name))
            .collect();
        let expected = [
            (0x8100_0020, "_stext"),
            (0x8100_0110, "schedule"),
            (0x8100_0200, "my_timer"),
        ];
        assert_eq!(symbols, expected, "{form:?}");
        assert_eq!(head.warnings.len(), 1, "{:?}", head.warnings);
        let warning = &head.warnings[0];
        assert!(
            warning.contains("workqueue:workqueue_execute_end"),
            "{warning}"
        );
        assert!(warning.contains("no field function"), "{warning}");
        assert!(head.lists_events && !head.recorded.contains("workqueue:workqueue_execute_end"));
    }
}

/// The tracer function_graph takes its own times from the clock `local`.
#[test]
fn returns_of_functions_have_their_durations() {
    for form in forms() {
        let records = [
            (0, form.switch(41, 42)),
            (50_000, form.returned(42, 0x8100_0200, 900_000, 949_000)),
            (10, form.returned(42, 0x8100_0100, 1_000, 10_999)),
            (10, form.returned(42, 0x8100_0110, 1_000, 11_000)),
        ];
        let (items, head) = read(&form.file("mono", &[], &[vec![form.page(1_000, 0, &records)]]));
        let runs: Vec<_> = (items.iter())
            .filter_map(|item| match item {
                Item::Function { time, run } => Some((time.0, run.clone())),
                _ => None,
            })
            .map(|(time, run)| (time, run.function.to_string(), run.pid, run.end, run.took.0))
            .collect();
        let run = |time, name: &str, took| {
            let end = Some(punctual_model::Nanos(time));
            (time, name.to_owned(), Some(42), end, took)
        };
        let expected = [
            run(51_000, "my_timer", 49_000),
            run(51_020, "schedule", 10_000),
        ];
        assert_eq!(runs, expected, "{form:?}: {:?}", head.warnings);
    }
}

fn times(clock: &str, options: &[(u64, Vec<u8>)]) -> Vec<u64> {
    let form = USUAL;
    let page = |time| vec![form.page(time, 0, &[(0, form.switch(1, 2))])];
    let file = form.file(clock, options, &[page(3_125_000), page(6_250_000)]);
    let events = read(&file).0.into_iter().filter_map(|item| match item {
        Item::Event(TraceEvent { time, .. }) => Some(time.0),
        _ => None,
    });
    events.collect()
}

#[test]
fn times_are_those_of_trace_cmd_report() {
    let form = USUAL;
    assert_eq!(times("mono", &[]), [3_125_000, 6_250_000]);
    // The option OFFSET in ns, and the option DATE in us.
    assert_eq!(
        times("mono", &[(7, b"-125\0".to_vec())]),
        [3_124_875, 6_249_875]
    );
    assert_eq!(
        times("mono", &[(1, b"0x10\0".to_vec())]),
        [3_141_000, 6_266_000]
    );
    // The option TSC2NSEC, with 0.32 ns per cycle.
    let calibration = form.numbers(&[(5_368_709, 4), (24, 4), (0, 8)]);
    assert_eq!(times("x86-tsc", &[(14, calibration)]), [999_999, 1_999_999]);
    // The option TIME_SHIFT, with one sample for CPU 0 and none for CPU 1.
    let mut shift = form.numbers(&[(77, 8), (0, 4), (2, 4), (1, 4), (3_000_000, 8)]);
    shift.extend(form.numbers(&[(1_000_000_000, 8), (1, 8), (0, 4)]));
    assert_eq!(times("mono", &[(12, shift)]), [6_250_000, 1_003_125_000]);
}

/// `trace-cmd record -B bar -C mono` of trace-cmd 3.1.6 states the clock of the top-level buffer for the
/// buffer `bar`.
#[test]
fn clock_of_an_instance_is_that_of_its_option() {
    let form = Form {
        version: 7,
        ..USUAL
    };
    let clocks = b"local global [mono] boot\n".to_vec();
    let file = |options: &[_]| {
        let mut file = form.file("mono_raw", options, &cpus(&form));
        let (made, wanted) = (b"\0mono_raw\0", b"bar\0local\0");
        let at = file.windows(made.len()).position(|bytes| bytes == made);
        let at = at.expect("the buffer has this clock and no name");
        file[at..at + wanted.len()].copy_from_slice(wanted);
        read(&file).1
    };
    let head = file(&[(4, clocks)]);
    assert_eq!(head.clock.as_deref(), Some("mono"));
    assert_eq!(head.clocks_differ, Some(false));
    assert_eq!(file(&[]).clock.as_deref(), Some("local"));
}

#[test]
fn clocks_that_count_something_else_are_refused() {
    let file = |clock| USUAL.file(clock, &[], &cpus(&USUAL));
    for clock in ["x86-tsc", "counter"] {
        let error = crate::sound::any(&file(clock)).unwrap_err().to_string();
        assert!(
            error.contains(clock) && error.contains("-C mono"),
            "{error}"
        );
    }
    assert_eq!(read(&file("local")).1.clocks_differ, Some(true));
    assert_eq!(read(&file("mono")).1.clocks_differ, Some(false));
    assert_eq!(read(&file("of-mars")).1.clocks_differ, None);
    assert_eq!(read(&file("mono")).1.resolution.0, 1);
    assert_eq!(read(&file("uptime")).1.resolution.0, 10_000_000);
}

#[test]
fn short_option_is_skipped() {
    for (version, id) in [(6, 12), (7, 14), (6, 3), (7, 3)] {
        let form = Form { version, ..USUAL };
        let usual = read(&form.file("mono", &[], &cpus(&form)));
        let (items, head) = read(&form.file("mono", &[(id, vec![1, 2])], &cpus(&form)));
        assert_eq!(items, usual.0, "{form:?}");
        let expected = format!("skipped option {id}: ");
        let is_told = |text: &String| text.starts_with(&expected);
        assert!(head.warnings.iter().any(is_told), "{:?}", head.warnings);
    }
}

#[test]
fn counters_of_the_buffers_are_told() {
    let stats =
        b"CPU: 0\nentries: 3\noverrun: 5\ncommit overrun: 0\ndropped events: 1\n\0".to_vec();
    let (_, head) = read(&USUAL.file("mono", &[(2, stats)], &cpus(&USUAL)));
    let expected = "the kernel's buffers were too small: 5 events were overwritten, 1 event was \
        dropped";
    assert!(
        head.warnings.iter().any(|text| text == expected),
        "{:?}",
        head.warnings
    );
}

#[test]
fn damaged_pages_are_gaps() {
    let form = USUAL;
    let good = |time| form.page(time, 0, &[(0, form.switch(1, 2))]);
    let mut absurd = good(200);
    absurd[8..12].copy_from_slice(&0x3fff_ffff_u32.to_le_bytes());
    let mut broken = form.page(200, 0, &[(0, form.switch(1, 2)), (5, form.switch(2, 1))]);
    let second = 16 + 4 + form.switch(1, 2).len();
    broken[second] = 28 | 5 << 5;
    let short = form.page(200, 0, &[(0, form.switch(1, 2)[..24].to_vec())]);
    let event = |time: u64| format!("{time} cpu0 1: before-1 -> after-2");
    let gap = "300 cpu0 lost None".to_owned();
    for (page, expected, warning) in [
        (
            absurd,
            vec![event(100), gap.clone(), event(300)],
            "damaged records",
        ),
        (
            broken,
            vec![event(100), event(200), gap.clone(), event(300)],
            "damaged records",
        ),
        (
            short,
            vec![event(100), gap.clone(), event(300)],
            "shorter than their fields",
        ),
        (
            good(50),
            vec![event(100), gap, event(300)],
            "go back in time",
        ),
    ] {
        let file = form.file("mono", &[], &[vec![good(100), page, good(300)]]);
        let (items, head) = read(&file);
        assert_eq!(shown(&items), expected, "{warning}");
        let offset = (file.len() - 2 * 4_096).to_string();
        let has = |text: &String| text.contains(warning) && text.contains(&offset);
        assert!(
            head.warnings.iter().any(has),
            "{offset}: {:?}",
            head.warnings
        );
    }
}

#[test]
fn cut_file_is_read_to_its_end() {
    for form in forms() {
        let whole = form.file("mono", &[], &cpus(&form));
        let items = shown(&read(&whole).0);
        if form.version == 6 {
            // The second page of CPU 0 is truncated.
            let (cut, head) = read(&whole[..whole.len() - 4 * 4_096 + 30]);
            let cut = shown(&cut);
            let expected = [&items[0], &items[4], "1305 cpu0 lost None"];
            assert_eq!(cut, expected, "{form:?}");
            let has = |text: &String| text.contains("the file is truncated");
            assert!(head.warnings.iter().any(has), "{:?}", head.warnings);
        }
        for length in (12..whole.len()).step_by(173) {
            if let Ok((cut, _)) = crate::sound::any(&whole[..length]) {
                let is_known = |item: &&String| item.contains("lost") || items.contains(item);
                let cut = shown(&cut);
                assert_eq!(
                    cut.iter().filter(is_known).count(),
                    cut.len(),
                    "{form:?} {length}"
                );
            }
        }
    }
}

#[test]
fn absurd_numbers_are_refused_or_skipped() {
    let form = Form {
        version: 7,
        ..USUAL
    };
    let buffer = |cpu: u64, offset: u64, size: u64| {
        let mut option = form.number(30, 8);
        option.extend(b"other\0mono\0");
        option.extend(form.numbers(&[(4_096, 4), (1, 4), (cpu, 4), (offset, 8), (size, 8)]));
        (3, option)
    };
    let usual = shown(&read(&form.file("mono", &[], &cpus(&form))).0);
    for option in [
        buffer(4_000_000_000, 0, 4_096),
        buffer(0, u64::MAX - 5, u64::MAX),
        buffer(0, 0, u64::MAX),
        buffer(1, 4_096, u64::MAX / 2),
    ] {
        let (items, head) = read(&form.file("mono", &[option], &cpus(&form)));
        let mut items = shown(&items);
        items.retain(|item| {
            !item.contains("0 cpu0 lost None") && !item.contains("0 cpu1 lost None")
        });
        let mut usual = usual.clone();
        usual.retain(|item| !item.contains("0 cpu1 lost None"));
        assert_eq!(items, usual);
        assert!(head.warnings.len() > 1, "{:?}", head.warnings);
    }
    let cpu_count = USUAL.file("mono", &[(8, form.number(4_000_000_000, 4))], &cpus(&USUAL));
    let error = crate::sound::any(&cpu_count).unwrap_err().to_string();
    assert!(error.contains("4000000000 CPUs"), "{error}");
}

#[test]
fn latency_tracer_text_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/text");
    let text = fs::read_to_string(folder.join("tracefs-latency.txt")).unwrap();
    let expected = crate::sound::text(text.as_bytes()).unwrap();
    for form in forms() {
        assert!(read(&form.text_file(&text)) == expected, "{form:?}");
    }
}
