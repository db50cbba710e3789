//! Tests with generated CTF traces in the form of LTTng's kernel tracer.
//!
//! The reader was also compared with babeltrace2 2.0 on traces that LTTng recorded on Linux 3.6 to
//! 4.15: the number of switches and the run time of each thread are equal.

use std::fs;
use std::path::Path;

use punctual_model::{EventKind, KernelPriority, Task, TaskState, TraceEvent};
use punctual_tracefile::{Item, TraceHead};

use crate::made_ctf::{Packet, Value, Written};
use crate::sound::NEXT_FILE;

const SWITCH: usize = 0;
const WAKING: usize = 1;
const IRQ: usize = 2;
const IRQ_END: usize = 3;
const FUTEX: usize = 4;
const FUTEX_END: usize = 5;
/// A time whose lowest 27 bits overflow soon.
const BEGIN: u64 = (77 << 27) - 2_000;

fn number(value: i64) -> Value {
    Value::Number(value)
}

/// A switch from one thread to another: name, ID and priority of each.
fn switch(
    prev: (&'static str, i64, i64),
    state: i64,
    next: (&'static str, i64, i64),
) -> Vec<Value> {
    vec![
        Value::Text(prev.0),
        number(prev.1),
        number(prev.2),
        number(state),
        Value::Text(next.0),
        number(next.1),
        number(next.2),
    ]
}

const IDLE: (&str, i64, i64) = ("swapper/0", 0, 20);
/// FIFO 80 is 19 on the kernel's scale.
const MOTOR: (&str, i64, i64) = ("motor", 42, -81);

/// Two CPUs. On CPU 0, motor is woken by an interrupt, and makes a system call.
pub(crate) fn two_cpus() -> Vec<Vec<Packet>> {
    let wake = vec![Value::Text("motor"), number(42), number(-81), number(0)];
    let first = Packet {
        events: vec![
            (SWITCH, BEGIN, switch(("make", 7, 20), 1, IDLE)),
            (IRQ, BEGIN + 1_000, vec![number(19), Value::Text("eth0")]),
            (WAKING, BEGIN + 1_500, wake),
            // Here, the short time overflows.
            (IRQ_END, BEGIN + 2_500, vec![number(19), number(1)]),
            (SWITCH, BEGIN + 4_000, switch(IDLE, 0, MOTOR)),
        ],
        ..Packet::default()
    };
    let second = Packet {
        sequence: 1,
        events: vec![
            (FUTEX, BEGIN + 5_000, vec![number(0x7fff_0000), number(128)]),
            (FUTEX_END, BEGIN + 6_000, vec![number(-11)]),
            (SWITCH, BEGIN + 7_000, switch(MOTOR, 1, IDLE)),
        ],
        ..Packet::default()
    };
    let other = Packet {
        cpu: 1,
        events: vec![(SWITCH, BEGIN + 1_200, switch(IDLE, 0, ("make", 7, 20)))],
        ..Packet::default()
    };
    vec![vec![first, second], vec![other]]
}

fn read(folder: &Path) -> (Vec<Item>, TraceHead) {
    crate::sound::folder(folder).expect("a trace")
}

fn refused(folder: &Path) -> String {
    let refused = crate::sound::folder(folder).expect_err("refused");
    refused.to_string()
}

fn event(cpu: u32, time: u64, pid: u32, kind: EventKind) -> Item {
    Item::Event(TraceEvent {
        time: punctual_model::Nanos(time),
        cpu,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    })
}

fn task(comm: &str, pid: u32, prio: i16) -> Task {
    Task {
        comm: punctual_model::Comm::new(comm.as_bytes()),
        pid,
        prio: KernelPriority(prio),
    }
}

fn switched(prev: Task, state: u32, next: Task) -> EventKind {
    EventKind::Switch {
        prev,
        prev_state: TaskState(state),
        next,
    }
}

#[test]
fn events_are_those_of_the_kernel_in_every_form() {
    let (idle, motor, make) = (
        task("swapper/0", 0, 120),
        task("motor", 42, 19),
        task("make", 7, 120),
    );
    let futex = punctual_futex();
    let expected = [
        event(0, BEGIN, 7, switched(make, 1, idle)),
        event(
            0,
            BEGIN + 1_000,
            0,
            EventKind::IrqEntry {
                irq: 19,
                name: "eth0".into(),
            },
        ),
        event(1, BEGIN + 1_200, 0, switched(idle, 0, make)),
        event(
            0,
            BEGIN + 1_500,
            0,
            EventKind::Waking {
                task: motor,
                target_cpu: 0,
            },
        ),
        event(0, BEGIN + 2_500, 0, EventKind::IrqExit { irq: 19, ret: 1 }),
        event(0, BEGIN + 4_000, 0, switched(idle, 0, motor)),
        event(
            0,
            BEGIN + 5_000,
            42,
            EventKind::SysEnter {
                id: futex,
                args: [0x7fff_0000, 128],
            },
        ),
        event(
            0,
            BEGIN + 6_000,
            42,
            EventKind::SysExit {
                id: futex,
                ret: -11,
            },
        ),
        event(0, BEGIN + 7_000, 42, switched(motor, 1, idle)),
    ];
    for form in Written::ALL {
        let folder = tempfile::tempdir().unwrap();
        form.write(folder.path(), &two_cpus());
        let (items, head) = read(folder.path());
        assert_eq!(items, expected);
        assert_eq!(head.clock.as_deref(), Some("mono"));
        assert_eq!(head.clocks_differ, Some(false));
        assert_eq!(head.kernel.as_deref(), Some("6.1.0"));
        assert_eq!(head.calls.get(&futex).map(String::as_str), Some("futex"));
        assert!(head.lists_events && head.recorded.contains("sched:sched_waking"));
        assert!(head.warnings.is_empty(), "{:?}", head.warnings);
    }
}

/// Returns the number of futex(2) on this architecture.
fn punctual_futex() -> i64 {
    punctual_host::system_call_numbers("futex")[0]
}

#[test]
fn lost_events_are_where_the_packets_state_them() {
    let mut cpus = two_cpus();
    cpus[1].clear();
    cpus[0][0].discarded = 3;
    cpus[0][1].discarded = 3;
    let folder = tempfile::tempdir().unwrap();
    Written::ALL[0].write(folder.path(), &cpus);
    let lost = |folder: &Path| -> Vec<(Option<u64>, u64)> {
        let (items, _) = read(folder);
        let lost = items.iter().filter_map(|item| match item {
            Item::Lost { count, until, .. } => Some((*count, until.0 - BEGIN)),
            _ => None,
        });
        lost.collect()
    };
    // The thread after the gap is unknown until the next switch.
    assert_eq!(lost(folder.path()), [(Some(3), 5_000), (None, 7_000)]);
    cpus[0][0].discarded = 0;
    cpus[0][1].discarded = 0;
    cpus[0][1].sequence = 5;
    Written::ALL[0].write(folder.path(), &cpus);
    assert_eq!(lost(folder.path()), [(None, 5_000), (None, 7_000)]);
}

#[test]
fn unused_events_are_named_with_their_number() {
    let mut cpus = two_cpus();
    let irq = |time| (IRQ, BEGIN + time, vec![number(19), Value::Text("eth0")]);
    let end = (IRQ_END, BEGIN + 40, vec![number(19), number(1)]);
    // Only CPU 1 has a switch after the interrupt.
    let switch = cpus[1][0].events[0].clone();
    cpus[1][0].events = vec![irq(30), switch];
    cpus.push(vec![Packet {
        cpu: 2,
        events: vec![irq(20), irq(30), end],
        ..Packet::default()
    }]);
    let folder = tempfile::tempdir().unwrap();
    let form = Written::ALL[0];
    form.write(folder.path(), &cpus);
    let (_, head) = read(folder.path());
    assert_eq!(
        head.warnings,
        [
            "CPU 2: no sched_switch shows the thread of these events, so they are not used: \
             irq_handler_entry (2), irq_handler_exit (1)"
        ]
    );
    let other = form.metadata().replace("\"irq_", "\"my_irq_");
    fs::write(folder.path().join("metadata"), other).unwrap();
    let (_, head) = read(folder.path());
    assert_eq!(
        head.warnings,
        ["no analysis uses these events: my_irq_handler_entry (4), my_irq_handler_exit (2)"]
    );
}

#[test]
fn warnings_beyond_the_limit_are_counted() {
    let packet = Packet {
        events: two_cpus()[0][0].events[..1].to_vec(),
        ..Packet::default()
    };
    let folder = tempfile::tempdir().unwrap();
    Written::ALL[0].write(folder.path(), &[vec![packet; 25]]);
    let file = folder.path().join("channel0_0");
    let mut bytes = fs::read(&file).unwrap();
    // The ID of the only event becomes unknown.
    let begin = 4 + 16 + 4 + 6 * 8 + 4;
    for packet in bytes.chunks_mut(4_096) {
        packet[begin] |= 30;
    }
    fs::write(&file, bytes).unwrap();
    let (_, head) = read(folder.path());
    assert_eq!(head.warnings.len(), 21, "{:?}", head.warnings);
    assert_eq!(head.warnings[20], "and 5 more warnings like these");
}

#[test]
fn trace_is_found_in_the_folder_of_its_session() {
    let session = tempfile::tempdir().unwrap();
    Written::ALL[0].write(&session.path().join("session-1/kernel"), &two_cpus());
    let ust = session.path().join("session-1/ust/uid/1000/64-bit");
    Written::ALL[0].write(&ust, &[]);
    let metadata = Written::ALL[0].metadata();
    let of_programs = metadata.replace("\"kernel\"", "\"ust\"");
    fs::write(ust.join("metadata"), &of_programs).unwrap();
    assert_eq!(read(session.path()).0.len(), 9);
    let (items, head) = read(&session.path().join("session-1"));
    assert_eq!(items.len(), 9);
    let [warning] = head.warnings.as_slice() else {
        panic!("{:?}", head.warnings);
    };
    assert!(warning.contains("64-bit: events of programs (LTTng-UST) are not used"));
    let other = session.path().join("session-2/kernel");
    Written::ALL[0].write(&other, &two_cpus());
    assert!(refused(session.path()).contains("2 CTF traces"));
    fs::remove_dir_all(&other).unwrap();
    assert!(refused(&other.with_file_name("")).contains("no CTF trace"));
    let one = session.path().join("session-1/kernel/channel0_0");
    let error = crate::sound::any(&fs::read(one).unwrap()).expect_err("refused");
    assert!(error.to_string().contains("pass its folder"), "{error}");
}

#[test]
fn wrong_metadata_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let good = Written::ALL[0].metadata();
    for (from, to, says) in [
        (
            "uint32_t magic",
            "uint33_t magic",
            "the type uint33_t is unknown",
        ),
        ("size = 27", "size = 65", "1 to 64 bits"),
        ("align = 8", "align = 7", "not a power of two"),
        ("byte_order = le;", "", "no byte_order"),
        ("stream {", "strom {", "the block strom is unknown"),
        ("} := uint8_t;", "} := uint8_t", "; is missing"),
        ("name = \"sched_switch\";", "", "no name"),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(folder.path().join("metadata"), good.replace(from, to)).unwrap();
        let error = refused(folder.path());
        assert!(
            error.contains(says) && error.contains("in line "),
            "{error}"
        );
    }
    let deep = "struct { ".repeat(100_000);
    let text = good.replace("struct { uint32_t magic", &format!("{deep} uint32_t magic"));
    fs::write(folder.path().join("metadata"), text).unwrap();
    assert!(refused(folder.path()).contains("32 types"));
    let chain: String = (1..1_000)
        .map(|n| format!("typealias struct {{ t{} x; }} := t{n};\n", n - 1))
        .collect();
    let text = format!("{good}typealias integer {{ size = 8; }} := t0;\n{chain}");
    fs::write(folder.path().join("metadata"), text).unwrap();
    assert!(refused(folder.path()).contains("32 types"));
    let nothing = good
        .replace("sched_", "x_")
        .replace("irq_", "y_")
        .replace("syscall", "z");
    fs::write(folder.path().join("metadata"), nothing).unwrap();
    assert!(refused(folder.path()).contains("lttng enable-event"));
}

#[test]
fn damaged_traces_end() {
    let folder = tempfile::tempdir().unwrap();
    let form = Written::ALL[0];
    form.write(folder.path(), &two_cpus());
    let file = folder.path().join("channel0_0");
    let good = fs::read(&file).unwrap();
    let contents = 76 + 400;
    for byte in (0..contents).step_by(3).chain(4_096..4_096 + 80) {
        for bits in [0x01, 0x80] {
            let mut bad = good.clone();
            bad[byte] ^= bits;
            fs::write(&file, bad).unwrap();
            let _ = crate::sound::folder(folder.path());
        }
    }
    for length in (0..contents).step_by(5).chain([4_095, 4_096, 4_100, 5_000]) {
        fs::write(&file, &good[..length]).unwrap();
        let (_, head) = read(folder.path());
        let is_cut = length % 4_096 != 0;
        assert_eq!(head.warnings.is_empty(), !is_cut, "{length}");
    }
    fs::write(&file, &good).unwrap();
    for form in [Written::ALL[0], Written::ALL[2]] {
        let metadata = form.metadata().into_bytes();
        for byte in (0..metadata.len()).step_by(17) {
            let mut bad = metadata.clone();
            bad[byte] = bad[byte].wrapping_add(1);
            fs::write(folder.path().join("metadata"), bad).unwrap();
            let _ = crate::sound::folder(folder.path());
        }
    }
}

/// `PUNCTUAL_UPDATE_SEEDS=1` rewrites the seeds of the fuzz target.
#[test]
fn the_seeds_are_ctf_traces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/trace-ctf");
    let cpus: Vec<_> = (two_cpus().into_iter())
        .map(|packets| packets.into_iter().take(1).collect())
        .collect();
    for (name, form) in [("text", Written::ALL[0]), ("json", Written::ALL[3])] {
        let made = tempfile::tempdir().unwrap();
        form.write(made.path(), &cpus);
        let files = ["metadata", "channel0_0", "channel0_1"];
        let files = files.map(|name| fs::read(made.path().join(name)).unwrap());
        let path = folder.join(name);
        if std::env::var_os("PUNCTUAL_UPDATE_SEEDS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, files.join(NEXT_FILE)).unwrap();
        }
        let seed = fs::read(&path).unwrap();
        // Maximum size of an input for the fuzzer, in bytes.
        assert!(seed.len() <= 16_384, "{name}: {} bytes", seed.len());
        assert_eq!(crate::sound::ctf(&seed).unwrap(), read(made.path()));
    }
}
