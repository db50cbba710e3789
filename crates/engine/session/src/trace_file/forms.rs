//! One trace in every textual form gives the same reactions with the same shares.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use proptest::prelude::*;
use punctual_culprit::Wanted;
use punctual_model::{Explanation, Nanos};
use punctual_tracefile::{Input, open};

use super::{TraceRequest, explain_trace, explain_trace_jobs};
use crate::observe::JobRequest;
use crate::{JobDetail, Release};

#[derive(Clone, Copy)]
struct Thread {
    comm: &'static str,
    pid: u32,
    prio: u32,
}

const IDLE: Thread = Thread {
    comm: "swapper/1",
    pid: 0,
    prio: 120,
};
const THREADS: [Thread; 3] = [
    Thread {
        comm: "ctl",
        pid: 1400,
        prio: 9,
    },
    Thread {
        comm: "motion",
        pid: 1300,
        prio: 19,
    },
    Thread {
        comm: "worker",
        pid: 1202,
        prio: 120,
    },
];

enum Kind {
    Waking(Thread),
    Wakeup(Thread),
    Switch(char, Thread),
    IrqEntry,
    IrqExit,
    /// The begin and the end of a wait at a futex, which `syscalls` shows.
    Waits,
    Returns,
}

struct Event {
    us: u64,
    current: Thread,
    flags: &'static str,
    kind: Kind,
}

/// Lets threads wake, run, be preempted and sleep on one CPU, as the steps say.
fn simulate(steps: &[(u64, u8)]) -> Vec<Event> {
    let (mut us, mut current, mut irq) = (8_210_000_000, IDLE, false);
    let mut asleep = THREADS.to_vec();
    let mut ready: Vec<Thread> = Vec::new();
    let mut events = Vec::new();
    let mut push = |us, current, flags, kind| {
        events.push(Event {
            us,
            current,
            flags,
            kind,
        });
    };
    for (wait, choice) in steps {
        us += wait;
        match choice % 4 {
            0 | 1 if !asleep.is_empty() => {
                let thread = asleep.remove(usize::from(*choice / 4) % asleep.len());
                push(us, current, "d.h2.", Kind::Waking(thread));
                us += 1;
                push(us, current, "dNh3.", Kind::Wakeup(thread));
                ready.push(thread);
            }
            2 if !irq => {
                push(us, current, "d.h1.", Kind::IrqEntry);
                irq = true;
            }
            2 => {
                push(us, current, "d.h1.", Kind::IrqExit);
                irq = false;
            }
            _ if irq => {}
            _ => {
                ready.sort_by_key(|thread| thread.prio);
                let sleeps = choice / 4 % 2 == 0;
                let best = (!ready.is_empty()).then(|| ready.remove(0));
                let next = best.unwrap_or(IDLE);
                if next.pid == 0 && (current.pid == 0 || !sleeps) {
                    continue;
                }
                let state = if sleeps && current.pid != 0 { 'S' } else { 'R' };
                if state == 'S' {
                    push(us, current, ".....", Kind::Waits);
                    us += 1;
                }
                push(us, current, "d..2.", Kind::Switch(state, next));
                if next.pid != 0 {
                    us += 1;
                    push(us, next, ".....", Kind::Returns);
                }
                match (state, current.pid) {
                    (_, 0) => {}
                    ('S', _) => asleep.push(current),
                    _ => ready.push(current),
                }
                current = next;
            }
        }
    }
    events
}

/// Formats the name and the fields of an event as the kernel and perf do.
fn fields(event: &Event) -> (&'static str, String) {
    let woken = |thread: &Thread| {
        format!(
            "comm={} pid={} prio={} target_cpu=001",
            thread.comm, thread.pid, thread.prio
        )
    };
    match &event.kind {
        Kind::Waking(thread) => ("sched:sched_waking", woken(thread)),
        Kind::Wakeup(thread) => ("sched:sched_wakeup", woken(thread)),
        Kind::Switch(state, next) => {
            let prev = event.current;
            let text = format!(
                "prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> next_comm={} \
                 next_pid={} next_prio={}",
                prev.comm, prev.pid, prev.prio, next.comm, next.pid, next.prio
            );
            ("sched:sched_switch", text)
        }
        Kind::Waits => (
            "syscalls:sys_enter_futex",
            "uaddr: 0x00007f00, op: 0x00000080, val: 0x00000002".to_owned(),
        ),
        Kind::Returns => ("syscalls:sys_exit_futex", "0x0".to_owned()),
        Kind::IrqEntry => ("irq:irq_handler_entry", "irq=24 name=eth0".to_owned()),
        Kind::IrqExit => ("irq:irq_handler_exit", "irq=24 ret=handled".to_owned()),
    }
}

/// Formats the name and the fields of an event as tracefs does.
fn of_kernel(event: &Event) -> String {
    match event.kind {
        Kind::Waits => "sys_futex(uaddr: 7f00, op: 80, val: 2)".to_owned(),
        Kind::Returns => "sys_futex -> 0x0".to_owned(),
        _ => {
            let (name, text) = fields(event);
            format!("{}: {text}", bare(name))
        }
    }
}

/// Formats the fields of an event as trace-cmd's plugins do.
fn of_plugin(event: &Event) -> String {
    let woken =
        |thread: &Thread| format!("{}:{} [{}] CPU:001", thread.comm, thread.pid, thread.prio);
    match &event.kind {
        Kind::Waking(thread) | Kind::Wakeup(thread) => woken(thread),
        Kind::Switch(state, next) => {
            let prev = event.current;
            format!(
                "{}:{} [{}] {state} ==> {}:{} [{}]",
                prev.comm, prev.pid, prev.prio, next.comm, next.pid, next.prio
            )
        }
        _ => fields(event).1,
    }
}

fn bare(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, name)| name)
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn comm(event: &Event) -> &'static str {
    if event.current.pid == 0 {
        "<idle>"
    } else {
        event.current.comm
    }
}

fn lines(events: &[Event], line: impl Fn(&Event) -> String) -> String {
    events.iter().map(|event| line(event) + "\n").collect()
}

fn of_tracefs(event: &Event) -> String {
    format!(
        "{:>16}-{:<7} [001] {} {}: {}",
        comm(event),
        event.current.pid,
        event.flags,
        seconds(event.us),
        of_kernel(event)
    )
}

/// The text with the lines changed as mail programs and logs do.
fn changed(text: &str, prefix: &str, end: &str) -> String {
    text.lines()
        .map(|line| format!("{prefix}{line}{end}\n"))
        .collect()
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

/// Returns the bytes of a number in groups of 7 bits.
fn in_groups(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Puts a text into an xz file without compression (tukaani.org/xz/xz-file-format.txt): a block of
/// LZMA2 with stored chunks, and no check.
fn xz(text: &[u8]) -> Vec<u8> {
    let with_crc = |bytes: &[u8]| [bytes, &crc(bytes)].concat();
    let padded = |mut bytes: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    // The length of the header in words of 4 bytes, without the first word; one filter (LZMA2) with
    // one byte of properties: the size of the dictionary.
    let mut block = with_crc(&[2, 0, 0x21, 1, 8, 0, 0, 0]);
    for (place, chunk) in text.chunks(0xffff).enumerate() {
        let [high, low] = (chunk.len() as u16 - 1).to_be_bytes();
        block.extend([if place == 0 { 1 } else { 2 }, high, low]);
        block.extend(chunk);
    }
    block.push(0);
    let sizes = [in_groups(block.len()), in_groups(text.len())].concat();
    let index = with_crc(&padded([vec![0, 1], sizes].concat()));
    let words = (index.len() / 4 - 1) as u32;
    let end = [&words.to_le_bytes()[..], &[0, 0]].concat();
    [
        b"\xfd7zXZ\0".to_vec(),
        with_crc(&[0, 0]),
        padded(block),
        index,
        crc(&end).to_vec(),
        end,
        b"YZ".to_vec(),
    ]
    .concat()
}

/// The forms that show the flags of events.
fn with_flags(events: &[Event]) -> Vec<(&'static str, Vec<u8>)> {
    let tracefs = lines(events, of_tracefs);
    let first = events.first().map_or(0, |event| event.us);
    let latency = lines(events, |event| {
        let us = event.us - first;
        let (comm, pid, flags) = (comm(event), event.current.pid, event.flags);
        let text = of_kernel(event);
        format!("{comm:>8.8}-{pid:<7} 1{flags} {us:>4}us : {text}")
    });
    let trace_cmd = lines(events, |event| {
        let (name, time) = (bare(fields(event).0), seconds(event.us));
        let (comm, pid, flags) = (comm(event), event.current.pid, event.flags);
        let name = format!("{name}:");
        format!(
            "{comm:>16}-{pid:<5} [001] {flags} {time}: {name:<20} {}",
            of_plugin(event)
        )
    });
    let atrace = lines(events, |event| {
        let (comm, pid, flags) = (comm(event), event.current.pid, event.flags);
        let (time, text) = (seconds(event.us), of_kernel(event));
        format!("{comm:>16}-{pid:<7} (-------) [001] {flags} {time}: {text}")
    });
    let header = "# tracer: nop\n#\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(tracefs.as_bytes()).unwrap();
    let quoted = tracefs.replace('=', "=3D");
    let dump = changed(&latency, "[   12.345678] ", "");
    vec![
        ("tracefs", tracefs.clone().into_bytes()),
        ("gzip", packed.finish().unwrap()),
        ("xz", xz(tracefs.as_bytes())),
        ("CRLF", changed(&tracefs, "", "\r").into_bytes()),
        ("mail", changed(&tracefs, "> > ", "").into_bytes()),
        ("quoted-printable", quoted.into_bytes()),
        (
            "journal",
            changed(&tracefs, "Nov 26 09:24:51 lab1 kernel: ", "").into_bytes(),
        ),
        ("latency format", latency.into_bytes()),
        ("dmesg dump", dump.into_bytes()),
        ("atrace", format!("{header}{atrace}").into_bytes()),
        ("trace-cmd", format!("cpus=2\n{trace_cmd}").into_bytes()),
    ]
}

const STACK: &str = "\tffffffff81a00300 __schedule+0x300 ([kernel.kallsyms])\n\
     \tffffffff81b0005a schedule+0x5a ([kernel.kallsyms])\n\
     \t    7f409cd18109 main+0x85 (/usr/bin/motion)\n\n";

/// The forms of perf script, which has no flags.
fn without_flags(events: &[Event]) -> Vec<(&'static str, Vec<u8>)> {
    let perf = |before: &dyn Fn(&Event) -> String, digits: &str, stack: &str| {
        let mut text = String::new();
        for event in events {
            let (name, fields) = fields(event);
            let time = seconds(event.us);
            let _ = writeln!(text, "{} {time}{digits}: {name}: {fields}", before(event));
            text.push_str(stack);
        }
        text.into_bytes()
    };
    let name = |event: &Event| (event.current.comm, event.current.pid);
    let usual = |event: &Event| {
        let (comm, pid) = name(event);
        format!("{comm:>16} {pid:>5} [001]")
    };
    // -F tid,cpu,time,event,trace
    let no_comm = |event: &Event| format!("{:>7} [001]", event.current.pid);
    let process = |event: &Event| {
        let (comm, pid) = name(event);
        format!("{comm:>16} {pid:>5}/{pid:<5} [001]")
    };
    vec![
        ("perf", perf(&usual, "", "")),
        ("perf --ns", perf(&usual, "000", "")),
        ("perf -F pid,tid", perf(&process, "", "")),
        ("perf -F -comm", perf(&no_comm, "", "")),
        ("perf -F -comm -g", perf(&no_comm, "", STACK)),
        ("perf -g", perf(&usual, "", STACK)),
        ("perf -g --ns", perf(&process, "000", STACK)),
    ]
}

/// Returns the latency and the shares of each reaction.
fn reactions(name: &str, text: Vec<u8>) -> Vec<(Nanos, Vec<String>)> {
    reactions_of(&explanation(name, text))
}

fn explanation(name: &str, text: Vec<u8>) -> Explanation {
    let request = TraceRequest {
        file: name.to_owned(),
        wanted: Wanted::longest(),
        command_line: Vec::new(),
    };
    let mut reader = open(Input::stream(Cursor::new(text))).unwrap();
    let explained = explain_trace(reader.as_mut(), request).unwrap();
    explained.recording.explanation.unwrap()
}

fn reactions_of(explanation: &Explanation) -> Vec<(Nanos, Vec<String>)> {
    let reaction = |outlier: &punctual_model::Outlier| {
        let shares = outlier.blame.shares.iter();
        let shares = shares.map(|share| format!("{} {}", share.ns, share.cause.label()));
        (outlier.latency_ns, shares.collect())
    };
    explanation.outliers.iter().map(reaction).collect()
}

/// Recorded files with refused calls, as single events and by number, and waits for kernel locks. The
/// text of perf script has no flags.
#[test]
fn binary_files_give_the_reactions_of_their_text() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../tracefile/tests/fixtures");
    for (binary, text) in [
        ("dat/calls.dat", "dat/calls.txt"),
        ("perf/calls.data", "perf/calls.txt"),
    ] {
        let [binary, text] = [binary, text].map(|name| {
            let bytes = std::fs::read(folder.join(format!("{name}.xz"))).unwrap();
            explanation(name, bytes)
        });
        assert!(text.outliers.len() >= 10);
        assert_eq!(reactions_of(&binary), reactions_of(&text));
        assert_eq!(binary.refused_calls, text.refused_calls);
        let refused = binary.refused_calls.iter();
        let refused: Vec<_> = refused
            .map(|one| (one.call.as_str(), one.error, one.times))
            .collect();
        assert_eq!(refused, [("mlockall", 1, 2), ("sched_setscheduler", 1, 2)]);
    }
}

/// Jobs whose waits for a mutex only `syscalls:sys_enter_futex` shows.
#[test]
fn waits_of_a_binary_file_are_those_of_its_text() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../tracefile/tests/fixtures");
    let explained = |name: &str| {
        let open = || open(Input::path(&folder.join(format!("{name}.xz"))).unwrap()).unwrap();
        let comm = punctual_model::Comm::new(b"worker");
        let request = TraceRequest {
            file: name.to_owned(),
            wanted: Wanted {
                comm: Some(comm),
                ..Wanted::longest()
            },
            command_line: Vec::new(),
        };
        let jobs = JobRequest {
            budget: Nanos::from_millis(2),
            release: Release::default(),
            detail: JobDetail::Full,
        };
        let (mut one, mut two) = (open(), open());
        let explained = explain_trace_jobs(one.as_mut(), two.as_mut(), request, &jobs).unwrap();
        explained.recording.explanation.unwrap()
    };
    // Other jobs are late because of other threads.
    let place = |outlier: &punctual_model::Outlier| {
        let mut labels = outlier.blame.shares.iter().map(|one| one.cause.label());
        let label = labels.find(|label| label.starts_with("lock holder: holder"))?;
        let (_, futex) = label.rsplit_once("futex 0x")?;
        Some((outlier.latency_ns, futex.to_owned()))
    };
    for (binary, text) in [
        ("dat/futex.dat", "dat/futex.txt"),
        ("perf/futex.data", "perf/futex.txt"),
    ] {
        let [binary, text] = [binary, text].map(explained);
        let places: Vec<_> = binary.outliers.iter().filter_map(place).collect();
        assert!(places.len() >= 5, "{places:?}");
        assert!(places[0].1.len() > 8, "{places:?}");
        assert!(places.iter().all(|one| one.1 == places[0].1), "{places:?}");
        // The text has no flags, so it does not show what woke the holder.
        let of_text: Vec<_> = text.outliers.iter().filter_map(place).collect();
        assert_eq!(of_text, places);
        let blamed = text.outliers.iter().map(|one| one.blame.sentence());
        let blamed: Vec<_> = blamed
            .filter(|one| one.contains("which waited for"))
            .collect();
        assert!(blamed.is_empty(), "{blamed:?}");
    }
}

#[test]
fn chains_of_a_file_are_those_of_its_text() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../tracefile/tests/fixtures/dat");
    let [binary, text] = ["calls.dat", "calls.txt"].map(|name| {
        let path = folder.join(format!("{name}.xz"));
        let mut reader = open(Input::path(&path).unwrap()).unwrap();
        let request = TraceRequest {
            file: name.to_owned(),
            wanted: Wanted::longest(),
            command_line: Vec::new(),
        };
        let comm = punctual_model::Comm::new(b"python3");
        let from = punctual_culprit::ChainStart::Thread(comm);
        super::trace_chains(reader.as_mut(), &request, from, comm).unwrap()
    });
    assert!(text.latencies.recorded() > 10);
    assert_eq!(
        (binary.begun, binary.edges, binary.longest, binary.ended_in),
        (text.begun, text.edges, text.longest, text.ended_in)
    );
}

proptest! {
    #[test]
    fn every_form_gives_the_same_reactions(
        steps in proptest::collection::vec((1u64..300, any::<u8>()), 4..60),
    ) {
        let events = simulate(&steps);
        prop_assume!(!events.is_empty());
        let mut latencies = None;
        for forms in [with_flags(&events), without_flags(&events)] {
            let mut known = None;
            for (name, text) in forms {
                let found = reactions(name, text);
                let own: Vec<Nanos> = found.iter().map(|(latency, _)| *latency).collect();
                let first = known.get_or_insert_with(|| found.clone());
                prop_assert_eq!(&found, first, "{}", name);
                let first = latencies.get_or_insert_with(|| own.clone());
                prop_assert_eq!(&own, first, "{}", name);
            }
        }
    }
}
