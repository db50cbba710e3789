//! Tests the flight recorder on this machine's kernel, if it is available.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::path::Path;
use std::time::Duration;

use punctual_model::{EventKind, Nanos};
use punctual_trace::{
    Description, Flight, Level, Plan, Tracefs, pack_pages, trace_dat, unpack_pages,
};

use common::owner;

fn arm(level: Level) -> Option<(Tracefs, Flight)> {
    let plan = Plan {
        level,
        bytes_per_cpu: 512 << 10,
    };
    let tracefs = Tracefs::find(Path::new("/"));
    match tracefs.and_then(|tracefs| Ok((tracefs.arm(plan, owner(), None)?, tracefs))) {
        Ok((flight, tracefs)) => Some((tracefs, flight)),
        Err(error) => {
            punctual_testing::skip_refused("flight recorder", &error);
            None
        }
    }
}

fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

#[test]
fn thread_activity_uses_the_probes_clock() {
    let Some((_tracefs, mut flight)) = arm(Level::Full) else {
        return;
    };
    flight.switch(true).unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    flight.watch(&[tid]).unwrap();
    // Run on a single CPU, because only the thread's own events are selected on other CPUs.
    let cpu = rustix::thread::sched_getcpu();
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    let from = now();
    let sleeps = 20;
    for _ in 0..sleeps {
        std::thread::sleep(Duration::from_millis(1));
    }
    let to = now();
    flight.take_out().unwrap();
    let cut = flight.slice_for(tid, Some(cpu as u32), from, to);
    eprintln!(
        "{} events, {} lost, {:?}",
        cut.events.len(),
        cut.lost,
        flight.clock()
    );
    for event in cut.events.iter().take(20) {
        eprintln!("{event:?}");
    }
    for not in flight.not_recorded() {
        eprintln!("{not:?}");
    }
    assert_eq!(cut.lost, 0);
    let woken = cut.events.iter().filter(|event| match &event.kind {
        EventKind::Waking { task, .. } => task.pid == tid,
        _ => false,
    });
    assert!(woken.count() >= sleeps);
    let switched = |into: bool| {
        let fits = |event: &&punctual_model::TraceEvent| match &event.kind {
            EventKind::Switch { prev, next, .. } => tid == if into { next.pid } else { prev.pid },
            _ => false,
        };
        cut.events.iter().filter(fits).count()
    };
    let (into, out) = (switched(true), switched(false));
    assert!(out >= sleeps, "{into} in, {out} out");
    // A kernel can lose all events of one CPU's idle thread outside interrupts, in every trace
    // instance, until the next boot.
    let from_idle = |event: &punctual_model::TraceEvent| {
        event.cpu == cpu as u32
            && matches!(&event.kind, EventKind::Switch { prev, .. } if prev.pid == 0)
    };
    if cut.events.iter().any(from_idle) {
        assert!(into >= sleeps, "{into} in, {out} out");
    } else {
        punctual_testing::skip!(
            Kernel,
            "switches in: the kernel writes none from the idle thread of CPU {cpu}"
        );
    }
    assert!(cut.events.is_sorted_by_key(|event| event.time));
    // Either the trace clock is the clock of the probe, or the error is not larger than the
    // duration of the comparison.
    assert!(flight.clock().error < Nanos::from_secs(1));
    flight.stop().unwrap();
}

/// Returns the output of `trace-cmd report` for a file if trace-cmd is installed.
fn reported(file: &Path) -> Option<String> {
    let output = std::process::Command::new("trace-cmd")
        .args(["report", "-i"])
        .arg(file)
        .output();
    match output {
        Ok(output) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(output.status.success(), "{}", text(&output.stderr));
            Some(text(&output.stdout))
        }
        Err(error) => {
            punctual_testing::skip!(Program, "trace-cmd report: {error}");
            None
        }
    }
}

#[test]
fn trace_cmd_reads_what_is_exported() {
    let Some((_tracefs, mut flight)) = arm(Level::Full) else {
        return;
    };
    flight.switch(true).unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let mut intervals = Vec::new();
    let mut events = 0;
    for _ in 0..3 {
        let from = now();
        std::thread::sleep(Duration::from_millis(5));
        let to = now();
        flight.take_out().unwrap();
        let cut = flight.slice_for(tid, None, from, to);
        assert_eq!(cut.lost, 0);
        events += cut.events.len();
        intervals.push(unpack_pages(&pack_pages(&cut.pages)).unwrap());
    }
    let json = serde_json::to_string(&flight.describe().unwrap()).unwrap();
    let description: Description = serde_json::from_str(&json).unwrap();
    flight.stop().unwrap();
    let symbols = [(0xffff_ffff_8100_0000, "_stext".to_owned())].into();
    let bytes = trace_dat(&description, &intervals, &[], &symbols).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.dat");
    std::fs::write(&file, &bytes).unwrap();
    let Some(text) = reported(&file) else { return };
    let lines = text.lines().filter(|line| line.contains(": ")).count();
    eprintln!(
        "{} bytes, {lines} lines of {events} events\n{}",
        bytes.len(),
        &text[..text.len().min(3_000)]
    );
    assert!(lines >= events, "{lines} of {events}");
    assert!(text.contains(&format!("-{tid}")), "{text}");
    for word in ["sched_switch:", "sched_waking:", "local_timer_entry:"] {
        assert!(text.contains(word), "{word}");
    }
}
