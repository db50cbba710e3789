//! Tests with generated traces of Perfetto. One was written with the classes of the Python package
//! perfetto 0.59, from the text of a `perf.data`.

use std::io::Write;

use punctual_model::{EventKind, TraceEvent};
use punctual_tracefile::{Item, TraceHead};

/// The value of a field.
#[derive(Clone)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn number(value: u64) -> Field {
    Field::Number(value)
}

fn text(value: &str) -> Field {
    Field::Bytes(value.as_bytes().to_vec())
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn message(fields: &[(u64, Field)]) -> Field {
    let mut bytes = Vec::new();
    for (of, value) in fields {
        match value {
            Field::Number(value) => bytes.extend([varint(of << 3), varint(*value)].concat()),
            Field::Bytes(inner) => {
                bytes.extend([varint(of << 3 | 2), varint(inner.len() as u64)].concat());
                bytes.extend(inner);
            }
        }
    }
    Field::Bytes(bytes)
}

fn packed(values: &[u64]) -> Field {
    Field::Bytes(values.iter().flat_map(|value| varint(*value)).collect())
}

fn file(packets: &[Field]) -> Vec<u8> {
    let packets: Vec<_> = packets.iter().map(|packet| (1, packet.clone())).collect();
    match message(&packets) {
        Field::Bytes(bytes) => bytes,
        Field::Number(_) => unreachable!("a message"),
    }
}

/// A thread: name, ID and priority.
type Thread = (&'static str, u64, u64);
const IDLE: Thread = ("swapper/0", 0, 120);
const WORKER: Thread = ("worker", 7, 120);
const LATE: Thread = ("late", 8, 19);

enum Sched {
    Switch(Thread, u64, Thread),
    Waking(Thread),
}

/// The events of two CPUs: time, running thread, and event.
fn events() -> [Vec<(u64, u64, Sched)>; 2] {
    use Sched::{Switch, Waking};
    [
        vec![
            (1_000, 0, Switch(IDLE, 0, WORKER)),
            (2_000, 7, Waking(LATE)),
            (2_500, 7, Switch(WORKER, 0, LATE)),
            (2_900, 8, Switch(LATE, 1, WORKER)),
        ],
        vec![
            (1_500, 0, Switch(IDLE, 0, ("other", 9, 120))),
            (2_600, 9, Waking(LATE)),
            (2_700, 9, Switch(("other", 9, 120), 1, IDLE)),
        ],
    ]
}

fn plain(cpu: u64, events: &[(u64, u64, Sched)]) -> Field {
    let mut fields = vec![(1, number(cpu))];
    for (time, pid, event) in events {
        let event = match event {
            Sched::Switch(prev, state, next) => {
                let values = [
                    (1, text(prev.0)),
                    (2, number(prev.1)),
                    (3, number(prev.2)),
                    (4, number(*state)),
                    (5, text(next.0)),
                    (6, number(next.1)),
                    (7, number(next.2)),
                ];
                (4, message(&values))
            }
            Sched::Waking(task) => {
                let (comm, pid, prio) = (text(task.0), number(task.1), number(task.2));
                (
                    20,
                    message(&[(1, comm), (2, pid), (3, prio), (5, number(1))]),
                )
            }
        };
        let fields_of = [(1, number(*time)), (2, number(*pid)), event];
        fields.push((2, message(&fields_of)));
    }
    message(&[(1, message(&fields))])
}

fn compact(cpu: u64, events: &[(u64, u64, Sched)]) -> Field {
    let mut names: Vec<&str> = Vec::new();
    let mut columns = vec![Vec::new(); 12];
    let mut last = [0, 0];
    for (time, _, event) in events {
        let (kind, first, task) = match event {
            Sched::Switch(_, state, next) => {
                columns[2].push(*state);
                (0, 1, next)
            }
            Sched::Waking(task) => {
                columns[9].push(1);
                (1, 7, task)
            }
        };
        let name = names.iter().position(|name| *name == task.0);
        let name = name.unwrap_or_else(|| {
            names.push(task.0);
            names.len() - 1
        });
        let [pid, prio, comm] = [[3, 4, 6], [8, 10, 11]][kind];
        columns[first].push(time - last[kind]);
        last[kind] = *time;
        columns[pid].push(task.1);
        columns[prio].push(task.2);
        columns[comm].push(name as u64);
    }
    let columns = (0..).zip(&columns).filter(|(_, column)| !column.is_empty());
    let mut fields: Vec<_> = columns.map(|(of, column)| (of, packed(column))).collect();
    fields.extend(names.iter().map(|name| (5, text(name))));
    message(&[(1, message(&[(1, number(cpu)), (4, message(&fields))]))])
}

fn compressed(packets: &[Field]) -> Field {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&file(packets)).expect("memory");
    message(&[(50, Field::Bytes(encoder.finish().expect("memory")))])
}

fn system() -> Field {
    let names = [(1, text("Linux")), (3, text("6.1.0-made"))];
    message(&[(45, message(&[(1, message(&names))]))])
}

fn read(bytes: &[u8]) -> (Vec<Item>, TraceHead) {
    crate::sound::any(bytes).expect("a trace")
}

fn brief(items: &[Item]) -> String {
    let brief = items.iter().map(|item| match item {
        Item::Event(TraceEvent {
            time,
            cpu,
            pid,
            kind,
            ..
        }) => match kind {
            EventKind::Switch {
                prev,
                next,
                prev_state,
            } => format!(
                "{cpu}@{} {pid} {} {}>{} {}",
                time.0, prev.comm, prev_state.0, next.comm, next.prio.0
            ),
            EventKind::Waking { task, target_cpu } => {
                format!("{cpu}@{} {pid} wakes {} on {target_cpu}", time.0, task.comm)
            }
            other => format!("{cpu}@{} {other:?}", time.0),
        },
        Item::Lost { cpu, until, .. } => format!("{cpu}@{} lost", until.0),
        other => format!("{other:?}"),
    });
    brief.collect::<Vec<_>>().join("\n")
}

const EXPECTED: &str = "0@1000 0 swapper/0 0>worker 120\n1@1500 0 swapper/0 0>other 120\n\
    0@2000 7 wakes late on 1\n0@2500 7 worker 0>late 19\n1@2600 9 wakes late on 1\n\
    1@2700 9 other 1>swapper/0 120\n0@2900 8 late 1>worker 120";

#[test]
fn items_are_those_of_the_same_perf_script() {
    let ours = read(&crate::perf::fixture("perfetto/file.pftrace"));
    let text = crate::sound::text(&crate::perf::fixture("perf/file.txt")).unwrap();
    assert!(ours.0.len() > 100, "{}", ours.0.len());
    crate::same::same(&ours, &text, "file.pftrace");
}

#[test]
fn bundles_are_merged_by_time() {
    let [first, second] = events();
    let packets = [
        system(),
        plain(1, &second),
        plain(0, &first[2..]),
        plain(0, &first[..2]),
    ];
    let single = read(&file(&packets));
    assert_eq!(brief(&single.0), EXPECTED);
    assert_eq!(single.1.kernel.as_deref(), Some("6.1.0-made"));
    assert_eq!(single.1.clock.as_deref(), Some("boot"));
    assert!(single.1.recorded.contains("sched:sched_waking"));
    assert_eq!(read(&file(&[compressed(&packets)])), single);
}

#[test]
fn compact_switches_take_the_thread_from_the_one_before() {
    let [first, second] = events();
    // The thread before the first switch of each CPU is not in the file.
    let expected = EXPECTED
        .replace("0@1000 0 swapper/0 0>worker 120", "0@1000 lost")
        .replace("1@1500 0 swapper/0 0>other 120", "1@1500 lost");
    let packets = [
        compact(0, &first[..3]),
        compact(1, &second),
        compact(0, &first[3..]),
    ];
    let (items, head) = read(&file(&packets));
    assert_eq!(brief(&items), expected);
    assert!(head.recorded.contains("sched:sched_switch"));
}

#[test]
fn unknown_events_are_found_by_their_names() {
    let field = |name: &str, value: u64| (2, message(&[(1, text(name)), (5, number(value))]));
    let named = |name: &str, fields: &[(u64, Field)]| {
        let generic = [&[(1, text(name))], fields].concat();
        let event = [
            (1, number(900)),
            (2, number(5)),
            (5, number(1)),
            (327, message(&generic)),
        ];
        message(&[(1, message(&[(1, number(0)), (2, message(&event))]))])
    };
    let (items, _) = read(&file(&[
        named(
            "contention_begin",
            &[field("lock_addr", 4_096), field("flags", 2)],
        ),
        named("contention_begin", &[]),
        named("reschedule_entry", &[]),
        named("other_event", &[]),
    ]));
    assert_eq!(
        brief(&items),
        "0@900 ContentionBegin { lock_addr: 4096, flags: 2 }\n0@900 lost\n\
         0@900 VectorEntry { vector: Reschedule }"
    );
    assert!(matches!(&items[0], Item::Event(event) if event.flags == 1 && event.pid == 5));
}

#[test]
fn losses_precede_the_next_event() {
    let [first, _] = events();
    let Field::Bytes(mut lossy) = plain(0, &first[2..]) else {
        unreachable!("a message");
    };
    // The packet before this one of the same sequence was dropped.
    lossy.extend([varint(42 << 3), varint(1)].concat());
    let (items, _) = read(&file(&[plain(0, &first[..2]), Field::Bytes(lossy)]));
    let brief = brief(&items);
    assert!(brief.contains("0@2500 lost\n0@2500 7 worker"), "{brief}");
}

#[test]
fn threads_that_stand_for_missing_events_are_a_loss() {
    let made: Thread = ("(not recorded)", 0x7fff_ffff, 0);
    let events = [
        (1_000, 7, Sched::Switch(WORKER, 0x8000, made)),
        (2_000, 7, Sched::Switch(made, 0x10, LATE)),
        (3_000, 8, Sched::Switch(LATE, 1, WORKER)),
    ];
    let (items, _) = read(&file(&[plain(0, &events)]));
    assert_eq!(brief(&items), "0@2000 lost\n0@3000 8 late 1>worker 120");
}

#[test]
fn truncated_and_foreign_files_name_the_place() {
    let [first, second] = events();
    let whole = file(&[plain(0, &first), plain(1, &second)]);
    let (items, head) = read(&whole[..whole.len() - 5]);
    assert_eq!(items.len(), 4);
    let warning = &head.warnings[0];
    assert!(
        warning.contains("the rest is missing: the file is damaged at byte"),
        "{warning}"
    );
    let refused = |bytes: &[u8]| crate::sound::any(bytes).expect_err("refused").to_string();
    let empty = refused(&file(&[system()]));
    assert!(
        empty.contains("Record the data source linux.ftrace"),
        "{empty}"
    );
    let short = refused(&whole[..20]);
    assert!(
        short.contains("damaged at byte 0: the packet has"),
        "{short}"
    );
    // A text can begin with the same byte.
    let error = refused("\n# hello: \u{fc}\n".as_bytes());
    assert!(error.starts_with("no line is an event"), "{error}");
}

/// Small files for the fuzz target and the tests of damaged files.
pub(crate) fn seeds() -> [(&'static str, Vec<u8>); 2] {
    let [first, second] = events();
    let compact = [compact(0, &first[..3]), compact(1, &second)];
    [
        (
            "perfetto",
            file(&[system(), plain(0, &first), plain(1, &second)]),
        ),
        (
            "perfetto-packed",
            file(&[system(), compressed(&compact), plain(0, &first[3..])]),
        ),
    ]
}
