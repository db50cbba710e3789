//! Tests of text traces. `tracefs*`, `trace-cmd*` except `trace-cmd-2`, and `perf-script*` all show
//! the same recording on Linux 6.18. The other texts were written by hand, following published
//! examples from other kernels and from rtla, so they only test that their form can be read.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use punctual_model::{EventKind, NoiseSource, TraceEvent, Vector};
use punctual_tracefile::{Item, TraceHead};

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/text");
    fs::read_to_string(folder.join(name).with_extension("txt")).expect("a fixture")
}

fn read(name: &str) -> (Vec<Item>, TraceHead) {
    crate::sound::text(fixture(name).as_bytes()).expect("a trace")
}

fn events(items: &[Item]) -> Vec<TraceEvent> {
    let events = items.iter().filter_map(|item| match item {
        Item::Event(event) => Some(event.clone()),
        _ => None,
    });
    events.collect()
}

/// Returns the part of an event that is shown by all formats. This excludes flags, addresses (which
/// the kernel hashes), and whether a thread was preempted (which trace-cmd before 3.2 does not
/// print).
fn common(event: &TraceEvent) -> (u32, u32, String) {
    let mut kind = event.kind.clone();
    match &mut kind {
        EventKind::Switch { prev_state, .. } => {
            // trace-cmd before 3.2 swaps the two states of a thread that ends.
            let ends = if prev_state.is_exit() { 0x30 } else { 0 };
            prev_state.0 = prev_state.0 & 0xff | ends;
        }
        EventKind::HrtimerStart {
            hrtimer, function, ..
        }
        | EventKind::HrtimerExpireEntry {
            hrtimer, function, ..
        } => {
            (*hrtimer, *function) = (0, 0);
        }
        EventKind::HrtimerCancel { hrtimer } | EventKind::HrtimerExpireExit { hrtimer } => {
            *hrtimer = 0;
        }
        EventKind::WorkqueueStart { work, function }
        | EventKind::WorkqueueEnd { work, function } => {
            (*work, *function) = (0, 0);
        }
        EventKind::IpiSend {
            callsite, callback, ..
        } => (*callsite, *callback) = (0, 0),
        EventKind::PageFaultKernel { ip, .. } => *ip = 0,
        EventKind::ContentionBegin { lock_addr, .. }
        | EventKind::ContentionEnd { lock_addr, .. } => {
            *lock_addr = 0;
        }
        _ => (),
    }
    (event.cpu, event.pid, format!("{kind:?}"))
}

#[test]
fn recording_is_equal_in_every_trace_format() {
    let (of_tracefs, head) = read("tracefs");
    assert_eq!(head.format, "text of tracefs");
    assert_eq!((head.resolution.0, head.cpus), (1_000, Some(2)));
    assert_eq!(of_tracefs.len(), 380);
    assert!(
        head.recorded.contains("irq_vectors:*_entry"),
        "{:?}",
        head.recorded
    );
    assert!(!head.lists_events);
    let of_tracefs = events(&of_tracefs);
    for (name, format) in [
        ("trace-cmd", "text of trace-cmd report"),
        ("trace-cmd-flags", "text of trace-cmd report"),
        ("trace-cmd-nanoseconds", "text of trace-cmd report"),
        ("tracefs-latency", "text of tracefs (latency format)"),
        ("tracefs-tgid", "text of tracefs"),
        ("tracefs-without-flags", "text of tracefs"),
    ] {
        let (items, head) = read(name);
        assert_eq!(head.format, format, "{name}");
        assert!(head.warnings.is_empty(), "{name}: {:?}", head.warnings);
        let other = events(&items);
        assert!(other.len() > 70, "{name}");
        let begins = other[0].time.0.abs_diff(of_tracefs[0].time.0);
        for (ours, other) in of_tracefs.iter().zip(&other) {
            assert_eq!(common(ours), common(other), "{name}");
            let differs = other.time.0.abs_diff(ours.time.0).abs_diff(begins);
            assert!(differs <= 2_000, "{name}: {differs} ns");
            if matches!(name, "trace-cmd-flags" | "tracefs-latency" | "tracefs-tgid") {
                // trace-cmd before 3.2 shows only one kind of rescheduling, and does not show
                // whether softirqs are disabled.
                let resched = match name {
                    "trace-cmd-flags" => 0xa6,
                    _ => 0,
                };
                assert_eq!(ours.flags | resched, other.flags | resched, "{name}");
                assert_eq!(ours.preempt_count, other.preempt_count, "{name}");
            }
        }
    }
    assert_eq!(read("trace-cmd-nanoseconds").1.resolution.0, 1);
    assert_eq!(
        read("tracefs-latency").1.kernel.as_deref(),
        Some("6.18.44-fc-v669")
    );
}

#[test]
fn perf_script_matches_tracefs_events() {
    let (perf, head) = read("perf-script");
    assert_eq!(head.format, "text of perf script");
    assert!(head.lists_events);
    assert!(
        head.recorded.contains("sched:sched_migrate_task"),
        "listed, though it did not occur"
    );
    assert_eq!(head.kernel.as_deref(), Some("6.18.44-fc-v669"));
    assert!(head.warnings.is_empty(), "{:?}", head.warnings);
    let perf = events(&perf);
    let kind = |event: &TraceEvent| format!("{:?}", std::mem::discriminant(&event.kind));
    let kinds: BTreeSet<String> = perf.iter().map(kind).collect();
    let is_in_perf = |event: &&TraceEvent| {
        kinds.contains(&kind(event))
            && !matches!(
                &event.kind,
                EventKind::VectorEntry { vector } | EventKind::VectorExit { vector }
                    if !matches!(vector, Vector::LocalTimer | Vector::Reschedule)
            )
    };
    let tracefs = events(&read("tracefs").0);
    for cpu in [0, 1] {
        let of_cpu = |events: &[TraceEvent]| -> Vec<_> {
            let events = events
                .iter()
                .filter(is_in_perf)
                .filter(|event| event.cpu == cpu);
            events.map(common).collect()
        };
        let (perf, tracefs) = (of_cpu(&perf), of_cpu(&tracefs));
        // The clocks differ, so the excerpts begin and end at slightly different events.
        let begin = perf.windows(5).position(|five| five == &tracefs[3..8]);
        let begin = begin.unwrap_or_else(|| panic!("{:?} of {perf:?}", &tracefs[3..8]));
        let both = perf[begin..].iter().zip(&tracefs[3..]);
        let same = both
            .clone()
            .take_while(|(perf, tracefs)| perf == tracefs)
            .count();
        assert!(
            same + 3 >= both.len(),
            "CPU {cpu}: {same} of {}",
            both.len()
        );
        assert!(same > 30, "CPU {cpu}: {same}");
    }
    let (fields, _) = read("perf-script-fields");
    assert_eq!(events(&fields)[..], perf[..fields.len()]);
}

#[test]
fn mail_colours_and_logs_change_nothing() {
    let plain = fixture("tracefs");
    let expected = events(&crate::sound::text(plain.as_bytes()).unwrap().0);
    for (before, after) in [
        ("> ", "\r\n"),
        (">> ", "\n"),
        ("\u{1b}[32m", "\u{1b}[0m\n"),
        ("2026-11-26T09:24:51.1234567Z ", "\n"),
        ("Nov 26 09:24:51 host kernel: [   12.345678] ", "\n"),
    ] {
        let lines = plain.lines().map(|line| format!("{before}{line}{after}"));
        let (items, head) = crate::sound::text(lines.collect::<String>().as_bytes()).unwrap();
        assert!(head.warnings.is_empty(), "{before:?}: {:?}", head.warnings);
        assert!(events(&items) == expected, "{before:?}");
    }
}

#[test]
fn lines_that_mail_wrapped_are_joined() {
    let plain = fixture("tracefs");
    let mut wrapped = String::new();
    for line in plain.lines() {
        let at = line.char_indices().skip(72).find(|(_, c)| *c == ' ');
        match at.filter(|_| !line.starts_with('#')) {
            Some((at, _)) => wrapped += &format!("> {}\n> {}\n", &line[..at], &line[at + 1..]),
            None => wrapped += &format!("> {line}\n"),
        }
    }
    let (items, head) = crate::sound::text(wrapped.as_bytes()).unwrap();
    let joined = |warning: &String| warning.starts_with("joined ");
    assert!(head.warnings.iter().any(joined), "{:?}", head.warnings);
    let kinds = |items: &[Item]| events(items).iter().map(common).collect::<Vec<_>>();
    let expected = crate::sound::text(plain.as_bytes()).unwrap().0;
    let (ours, expected) = (kinds(&items), kinds(&expected));
    assert_eq!(ours.len(), expected.len(), "{:?}", head.warnings);
    for (ours, expected) in ours.iter().zip(&expected) {
        assert_eq!(ours, expected);
    }
}

#[test]
fn rtla_trace_has_samples_noise_and_stack() {
    let (items, head) = read("timerlat-rt");
    assert!(head.warnings.is_empty(), "{:?}", head.warnings);
    let marks = items.iter().filter_map(|item| match item {
        Item::Mark(mark) => Some((mark.cpu, mark.text.as_str())),
        _ => None,
    });
    let marks: Vec<_> = marks.collect();
    assert_eq!(marks.len(), 4);
    assert_eq!(marks[1], (6, "#58634 context irq timer_latency 12505 ns"));
    assert_eq!(marks[3], (6, "stop tracing hit on cpu 6"));
    let events = events(&items);
    let irq = &events[0];
    let EventKind::Noise {
        source: NoiseSource::Irq { vector, desc },
        start,
        duration,
    } = &irq.kind
    else {
        panic!("{irq:?}");
    };
    assert_eq!((*vector, &*desc.0), (236, "local_timer"));
    assert_eq!((start.0, duration.0), (426_271_245_463, 12_553));
    assert_eq!(
        (irq.flags, irq.preempt_count),
        (0x01 | 0x02 | 0x04 | 0x08, 0x33)
    );
    let frames = events[2].kind.frames();
    assert_eq!(
        (frames.len(), events[2].pid, events[2].cpu),
        (12, 79_756, 6)
    );
    assert_eq!(head.symbols[&frames[6]], "_raw_spin_unlock_irqrestore");
}

#[test]
fn noise_of_osnoise_is_read() {
    let (items, head) = read("osnoise");
    let events = events(&items);
    assert_eq!(events.len(), 6);
    assert!(matches!(
        events[3].kind,
        EventKind::SampleThreshold {
            interference: 2,
            ..
        }
    ));
    assert!(head.recorded.contains("osnoise:nmi_noise"));
    assert!(head.warnings.is_empty(), "{:?}", head.warnings);
}

#[test]
fn old_kernel_text_has_its_gaps() {
    let (items, head) = read("mainline-4-9");
    let events = events(&items);
    assert_eq!(events.len(), 4);
    assert!(matches!(
        &items[0],
        Item::Lost {
            cpu: 1,
            count: None,
            ..
        }
    ));
    assert!(
        matches!(
            &items[4],
            Item::Lost {
                cpu: 1,
                count: Some(123),
                ..
            }
        ),
        "{:?}",
        items[4]
    );
    assert_eq!(events[2].flags, 0x01);
    assert!(head.warnings.is_empty(), "{:?}", head.warnings);
}

#[test]
fn old_trace_cmd_shows_stacks_and_losses() {
    let (items, head) = read("trace-cmd-2");
    assert!(matches!(
        &items[0],
        Item::Lost {
            cpu: 0,
            count: Some(204_600),
            ..
        }
    ));
    let events = events(&items);
    let EventKind::Switch { next, .. } = &events[6].kind else {
        panic!("{:?}", events[6]);
    };
    assert_eq!(
        (next.to_string().as_str(), next.prio.0),
        ("a b ==> c:7-7625", 49)
    );
    let frames = events[3].kind.frames().iter();
    let names: Vec<_> = frames.map(|frame| head.symbols[frame].as_str()).collect();
    assert_eq!(names, ["schedule", "futex_wait_queue_me", "futex_wait"]);
    assert_eq!(head.cpus, Some(8));
    assert!(head.warnings.is_empty(), "{:?}", head.warnings);
}

#[test]
fn old_perf_has_only_kernel_stacks() {
    let (items, head) = read("perf-4-14");
    let events = events(&items);
    let stacks: Vec<usize> = events
        .iter()
        .map(|event| event.kind.frames().len())
        .collect();
    assert_eq!(stacks, [0, 2, 0, 1, 0, 0, 0, 0]);
    let pids: Vec<u32> = events.iter().map(|event| event.pid).collect();
    assert_eq!(pids, [19_593, 19_593, 19_593, 19_593, 19, 19, 0, 812]);
    assert!(head.warnings.is_empty(), "{:?}", head.warnings);
}

/// The states S, D, idle, runnable and preempted, as different kernels write them after the states of
/// an idle thread and of an idle kworker.
#[test]
fn states_of_linux_4_are_corrected() {
    let bits = ["S", "D", "I", "R", "R+"];
    let index = ["S", "D", "t", "R", "R+"];
    let doubled = ["D", "T", "R+", "S", "R+"];
    let right = [0x1, 0x2, 0x80, 0, 0x100];
    let wrong = [0x2, 0x4, 0x100, 0x1, 0x100];
    let tell_tales = |[idle, kworker]: [&str; 2]| {
        [
            ("swapper/0", 0, idle.to_owned()),
            ("kworker/0:0", 9, kworker.to_owned()),
        ]
    };
    for (head, shown, letters, expected) in [
        (
            "# os release : 4.14.62-v7emcole\n",
            ["R", "t"],
            index,
            right,
        ),
        ("# os release : 4.14.190-vendor\n", ["R", "I"], bits, right),
        ("# os release : 4.18.0\n", ["S", "R+"], doubled, right),
        ("# os release : 4.18.0-372.el8\n", ["R", "I"], bits, right),
        ("# os release : 4.20.1\n", ["S", "R+"], doubled, wrong),
        ("# os release : 4.13.16\n", ["S", "R+"], doubled, wrong),
        ("# os release : 14.14.1\n", ["S", "R+"], doubled, wrong),
        ("", ["R", "t"], index, right),
        ("", ["R", "I"], bits, right),
        ("", ["S", "R+"], doubled, right),
    ] {
        let kworker = letters.map(|state| ("kworker/0:0", 9, state.to_owned()));
        let lines = tell_tales(shown).into_iter().chain(kworker).enumerate();
        let lines = lines.map(|(number, (name, pid, state))| {
            format!(
                "{name}     {pid} [000] 42.{number:06}: sched:sched_switch: prev_comm={name} \
                 prev_pid={pid} prev_prio=120 prev_state={state} ==> next_comm=make next_pid=7 \
                 next_prio=120\n"
            )
        });
        let text = format!("{head}{}", lines.collect::<String>());
        let (items, _) = crate::sound::text(text.as_bytes()).expect("a trace");
        let states = events(&items).into_iter().map(|event| match event.kind {
            EventKind::Switch { prev_state, .. } => prev_state.0,
            kind => panic!("{kind:?}"),
        });
        let states: Vec<u32> = states.skip(2).collect();
        if shown == ["S", "R+"] && expected == right {
            // A preempted kworker cannot be told from an idle one.
            assert_eq!(states, [0x1, 0x2, 0x80, 0, 0x80], "{head}");
        } else {
            assert_eq!(states, expected, "{head}");
        }
    }
}

/// Returns a pseudo-random number (xorshift64).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

#[test]
fn mutated_texts_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/text");
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for file in fs::read_dir(folder).unwrap() {
        let whole = fs::read(file.unwrap().path()).unwrap();
        // An excerpt is enough, and keeps the test short.
        let text = &whole[..whole.len().min(6_000)];
        for _ in 0..500 {
            let mut mutated = text.to_vec();
            for _ in 0..=next(&mut state) % 6 {
                let at = next(&mut state) % mutated.len();
                let end = (at + next(&mut state) % 40).min(mutated.len());
                match next(&mut state) % 5 {
                    0 => mutated[at] ^= 1 << (next(&mut state) % 8),
                    1 => drop(mutated.drain(at..end)),
                    2 => mutated.truncate(at.max(1)),
                    3 => mutated[at] = b"\n:[]-. =0\xff"[next(&mut state) % 10],
                    _ => {
                        let piece = mutated[at..end].to_vec();
                        let to = next(&mut state) % mutated.len();
                        mutated.splice(to..to, piece);
                    }
                }
                if mutated.is_empty() {
                    mutated.push(b'#');
                }
            }
            let _ = crate::sound::text(&mutated);
        }
    }
}
