use super::*;
use crate::testing::{
    FakeTracefs, PageBuilder, Piece, Value, layout, osnoise_record, record, timerlat_record,
};
use punctual_model::{NoiseGap, OsnoiseSample, SignedNanos, TimerlatContext, TimerlatSample};
use std::fs;
use std::sync::Arc;

const OWNER: Owner = Owner {
    pid: 4_711,
    start: 99,
};

struct Machine {
    root: tempfile::TempDir,
    fake: Arc<FakeTracefs>,
    tracefs: Tracefs,
}

fn machine(tracers: &str) -> Machine {
    let root = tempfile::tempdir().unwrap();
    let fake = Arc::new(FakeTracefs::new(root.path(), tracers).unwrap());
    fake.with_events(&[]).unwrap();
    let files = Arc::clone(&fake) as Arc<dyn crate::Files>;
    Machine {
        tracefs: Tracefs::find_with(root.path(), files).unwrap(),
        root,
        fake,
    }
}

const BOTH: &str = "timerlat osnoise nop";

fn timerlat(user: bool) -> NoiseAsk {
    NoiseAsk::Timerlat {
        cpus: "0".parse().unwrap(),
        period: Nanos::from_micros(500),
        user,
        stacks_above: None,
    }
}

fn osnoise() -> NoiseAsk {
    NoiseAsk::Osnoise {
        cpus: "0".parse().unwrap(),
        period: Nanos::from_millis(100),
        runtime: Nanos::from_millis(50),
        threshold: Nanos::from_micros(1),
        told_above: Nanos::from_micros(2),
        interrupts: true,
        stop: NoiseStop::default(),
    }
}

impl Machine {
    fn read(&self, name: &str) -> String {
        let path = self.root.path().join("sys/kernel/tracing").join(name);
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    fn set(&self, name: &str, value: &str) {
        let path = self.root.path().join("sys/kernel/tracing").join(name);
        fs::write(path, value).unwrap();
    }

    fn put(&self, time: u64, records: &[(u32, Vec<u8>)], lost: Option<Lost>) {
        let mut page = PageBuilder::new(layout(cfg!(target_endian = "big")));
        for (delta, bytes) in records {
            page.write(&Piece::Event(*delta, bytes.clone()));
        }
        assert_eq!(self.fake.put_page(&page.page(time, lost)).unwrap(), 1);
    }
}

#[test]
fn timerlat_session_sets_reads_and_restores() {
    let machine = machine(BOTH);
    // Settings that would stop the trace, or cause a panic, are turned off and restored at the end.
    machine.set("osnoise/stop_tracing_us", "30");
    machine.set(
        "osnoise/options",
        "NO_DEFAULTS OSNOISE_WORKLOAD PANIC_ON_STOP NO_OSNOISE_PREEMPT_DISABLE",
    );
    let before = machine.fake.in_force().unwrap();
    machine.tracefs.may_start_osnoise(&timerlat(false)).unwrap();
    assert_eq!(machine.fake.in_force().unwrap(), before);

    let mut session = (machine.tracefs)
        .start_osnoise(&timerlat(false), OWNER)
        .unwrap();
    assert_eq!(machine.read("osnoise/cpus"), "0");
    assert_eq!(machine.read("osnoise/timerlat_period_us"), "500");
    assert_eq!(machine.read("osnoise/stop_tracing_us"), "0");
    assert_eq!(
        machine.read("osnoise/options"),
        "NO_DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP NO_OSNOISE_PREEMPT_DISABLE"
    );
    let name = &machine.fake.instances().unwrap()[0];
    assert_eq!(
        name,
        "punctual-osnoise-4711.99.0-3.1000.1000000.1000000.30.0.0.0.WPq"
    );
    let own = |file: &str| machine.read(&format!("instances/{name}/{file}"));
    assert_eq!(own("current_tracer"), "timerlat");
    assert_eq!(own("trace_clock"), "local global [mono]");

    assert_eq!(session.take().unwrap(), NoiseReports::default());
    let waking = record(
        "sched/sched_waking",
        0,
        7,
        &[Value::Name("x"), Value::Number(1)],
    );
    let early = 0_u64.wrapping_sub(40);
    let records = [
        (0, timerlat_record(0, 1, 0, 900)),
        (10, timerlat_record(77, 1, 1, early)),
        (5, waking),
        (5, timerlat_record(77, 1, 2, 12_000)),
    ];
    machine.put(1_000, &records, Some(Lost::Count(3)));
    let sample = |time, pid, context, latency| TimerlatSample {
        cpu: 0,
        time: Nanos(time),
        pid,
        seqnum: 1,
        context,
        latency: SignedNanos(latency),
    };
    let reports = session.take().unwrap();
    assert_eq!(
        reports.timerlat,
        [
            sample(1_000, 0, TimerlatContext::Irq, 900),
            sample(1_010, 77, TimerlatContext::Thread, -40),
            sample(1_020, 77, TimerlatContext::User, 12_000),
        ]
    );
    assert_eq!(reports.lost, [(0, 3)].into());

    session.stop().unwrap();
    assert_eq!(machine.fake.in_force().unwrap(), before);
    session.stop().unwrap();
    assert_eq!(session.take().unwrap(), NoiseReports::default());
}

/// The settings are restored at the end.
#[test]
fn interrupts_are_disabled_and_the_trace_stops_if_asked() {
    let machine = machine(BOTH);
    let ask = NoiseAsk::Osnoise {
        cpus: "0".parse().unwrap(),
        period: Nanos::from_millis(100),
        runtime: Nanos::from_millis(50),
        threshold: Nanos::from_micros(1),
        told_above: Nanos::from_micros(2),
        interrupts: false,
        stop: NoiseStop {
            single_us: 30,
            total_us: 400,
        },
    };
    machine.set("osnoise/options", "NO_DEFAULTS OSNOISE_WORKLOAD");
    let error = machine.tracefs.may_start_osnoise(&ask).unwrap_err();
    assert!(matches!(error, TraceError::NoIrqDisable), "{error}");
    let options = "NO_DEFAULTS OSNOISE_WORKLOAD NO_OSNOISE_IRQ_DISABLE";
    machine.set("osnoise/options", options);
    let before = machine.fake.in_force().unwrap();
    let session = machine.tracefs.start_osnoise(&ask, OWNER).unwrap();
    let set = machine.read("osnoise/options");
    assert!(set.contains(" OSNOISE_IRQ_DISABLE"), "{set}");
    assert_eq!(machine.read("osnoise/stop_tracing_us"), "30");
    assert_eq!(machine.read("osnoise/stop_tracing_total_us"), "400");
    let name = &machine.fake.instances().unwrap()[0];
    let switch = session.switch();
    assert!(switch.is_on().unwrap());
    machine.set(&format!("instances/{name}/tracing_on"), "0");
    assert!(!switch.is_on().unwrap());
    switch.turn_on().unwrap();
    assert!(switch.is_on().unwrap());
    drop(session);
    assert!(switch.is_on().is_err());
    assert_eq!(machine.fake.in_force().unwrap(), before);
}

#[test]
fn user_space_waits_if_kernel_allows() {
    let machine = machine(BOTH);
    let before = machine.fake.in_force().unwrap();
    let session = (machine.tracefs)
        .start_osnoise(&timerlat(true), OWNER)
        .unwrap();
    assert!(
        machine
            .read("osnoise/options")
            .contains("NO_OSNOISE_WORKLOAD")
    );
    session.user_wait(0).unwrap().wait().unwrap();
    assert!(session.user_wait(1).is_err());
    drop(session);
    assert_eq!(machine.fake.in_force().unwrap(), before);
    let file = "sys/kernel/tracing/osnoise/per_cpu/cpu0/timerlat_fd";
    fs::remove_file(machine.root.path().join(file)).unwrap();
    let error = (machine.tracefs)
        .start_osnoise(&timerlat(true), OWNER)
        .unwrap_err();
    assert!(
        matches!(error, TraceError::NoUserTimerlat { .. }),
        "{error}"
    );
    let kernel = machine.tracefs.start_osnoise(&timerlat(false), OWNER);
    drop(kernel.unwrap());
}

#[test]
fn timerlat_writes_stacks_of_late_threads() {
    let machine = machine(BOTH);
    let before = machine.fake.in_force().unwrap();
    let NoiseAsk::Timerlat {
        cpus, period, user, ..
    } = timerlat(false)
    else {
        unreachable!()
    };
    let ask = |above| NoiseAsk::Timerlat {
        cpus: cpus.clone(),
        period,
        user,
        stacks_above: Some(above),
    };
    let start = |above| machine.tracefs.start_osnoise(&ask(above), OWNER).unwrap();
    // A value of less than a microsecond must not become 0, because 0 means off.
    let session = start(Nanos(300));
    assert_eq!(machine.read("osnoise/print_stack"), "1");
    drop(session);
    let mut session = start(Nanos::from_micros(40));
    assert_eq!(machine.read("osnoise/print_stack"), "40");
    let stack = |values: &[i64]| {
        let values: Vec<Value> = values.iter().copied().map(Value::Number).collect();
        record("ftrace/kernel_stack", 0, 77, &values)
    };
    let records = [
        (0, timerlat_record(77, 1, 1, 41_000)),
        (9, stack(&[2, 0x30, 0x20])),
        // The stack claims more frames than it contains.
        (9, stack(&[9, 0x30])),
    ];
    machine.put(1_000, &records, None);
    let reports = session.take().unwrap();
    assert_eq!(reports.timerlat.len(), 1);
    let frames = reports.stacks.iter().map(|stack| stack.frames.as_slice());
    assert_eq!(frames.collect::<Vec<_>>(), [&[0x30, 0x20][..], &[0x30]]);
    let first = &reports.stacks[0];
    assert_eq!((first.cpu, first.time, first.pid), (0, Nanos(1_009), 77));
    session.stop().unwrap();
    assert_eq!(machine.fake.in_force().unwrap(), before);
}

/// A page written by Linux 6.12 with PREEMPT_RT on x86-64, and the format files for it.
#[test]
fn stacks_of_a_real_kernel_are_read() {
    if cfg!(target_endian = "big") {
        return;
    }
    let machine = machine(BOTH);
    for (folder, text) in [
        ("kernel_stack", include_str!("fixtures/kernel_stack.format")),
        ("timerlat", include_str!("fixtures/timerlat.format")),
    ] {
        let path = format!("sys/kernel/tracing/events/ftrace/{folder}/format");
        fs::write(machine.root.path().join(path), text).unwrap();
    }
    let ask = NoiseAsk::Timerlat {
        cpus: "0".parse().unwrap(),
        period: Nanos::from_millis(100),
        user: false,
        stacks_above: Some(Nanos::from_micros(1)),
    };
    let mut session = machine.tracefs.start_osnoise(&ask, OWNER).unwrap();
    let page = include_bytes!("fixtures/timerlat-stacks.page");
    machine.fake.put_page(page).unwrap();
    let reports = session.take().unwrap();
    let late = reports.timerlat.iter();
    let late: Vec<_> = late
        .filter(|one| one.context == TimerlatContext::Thread)
        .collect();
    assert!(late.len() > 10 && reports.lost.is_empty(), "{reports:?}");
    // The stack of the last thread is on the next page.
    assert!(late.len() - reports.stacks.len() <= 1, "{reports:?}");
    for (sample, stack) in late.iter().zip(&reports.stacks) {
        assert_eq!(sample.pid, stack.pid);
        assert!(
            stack.time - sample.time < Nanos::from_millis(1),
            "{stack:?}"
        );
        // The first frame is timerlat_irq, and the last is the entry point of this kernel.
        let (first, last) = (stack.frames[0], *stack.frames.last().unwrap());
        assert_eq!(
            (first, last),
            (0xffff_ffff_8be4_73ed, 0xffff_ffff_8bc3_f76d)
        );
        assert_eq!(stack.frames.len(), 16);
    }
}

#[test]
fn osnoise_reports_turns_and_gaps() {
    let machine = machine(BOTH);
    let before = machine.fake.in_force().unwrap();
    let mut session = machine.tracefs.start_osnoise(&osnoise(), OWNER).unwrap();
    assert_eq!(machine.read("osnoise/period_us"), "100000");
    assert_eq!(machine.read("osnoise/runtime_us"), "50000");
    assert_eq!(machine.read("tracing_thresh"), "1");
    assert_eq!(
        machine.fake.switched_on().unwrap(),
        ["osnoise:sample_threshold duration > 2000"]
    );
    let gap = [Value::Number(9), Value::Number(2_500), Value::Number(1)];
    let records = [
        (0, record("osnoise/sample_threshold", 0, 5, &gap)),
        (9, osnoise_record(5, [12, 50_003, 7, 1, 2, 3, 4, 5])),
    ];
    machine.put(5_000, &records, None);
    let reports = session.take().unwrap();
    assert_eq!(
        reports.osnoise,
        [OsnoiseSample {
            cpu: 0,
            time: Nanos(5_009),
            pid: 5,
            runtime: Nanos(50_003_000),
            noise: Nanos(12_000),
            longest: Nanos(7_000),
            hardware: 1,
            nmis: 2,
            irqs: 3,
            softirqs: 4,
            threads: 5,
        }]
    );
    assert_eq!(
        reports.gaps,
        [NoiseGap {
            cpu: 0,
            start_local: Nanos(9),
            duration: Nanos(2_500),
            interruptions: 1
        }]
    );
    session.stop().unwrap();
    assert_eq!(machine.fake.in_force().unwrap(), before);
}

#[test]
fn refused_write_changes_nothing() {
    for ask in [timerlat(false), timerlat(true), osnoise()] {
        let machine = machine(BOTH);
        let before = machine.fake.in_force().unwrap();
        machine.fake.refuse(usize::MAX, 0);
        let session = machine.tracefs.start_osnoise(&ask, OWNER).unwrap();
        let writes = machine.fake.written();
        drop(session);
        assert!(writes >= 6, "{writes}");
        for refused in 0..writes {
            machine.fake.refuse(refused, 1);
            let error = machine.tracefs.start_osnoise(&ask, OWNER).unwrap_err();
            assert!(matches!(error, TraceError::Write { .. }), "{error}");
            assert!(error.to_string().contains("lockdown"), "{error}");
            assert_eq!(machine.fake.in_force().unwrap(), before, "write {refused}");
        }
    }
}

#[test]
fn killed_session_is_undone_at_any_point() {
    for ask in [timerlat(false), timerlat(true), osnoise()] {
        let machine = machine(BOTH);
        let before = machine.fake.in_force().unwrap();
        for ended in 0..12 {
            // From this point on, all writes fail, as if the process had been killed.
            machine.fake.refuse(ended, usize::MAX / 2);
            if let Ok(session) = machine.tracefs.start_osnoise(&ask, OWNER) {
                std::mem::forget(session);
            }
            machine.fake.refuse(usize::MAX, 0);
            let lives = |pid, start| (pid, start) == (4_711, Some(99));
            assert_eq!(machine.tracefs.clear_left_behind(lives).unwrap(), [""; 0]);
            machine.tracefs.clear_left_behind(|_, _| false).unwrap();
            assert_eq!(machine.fake.in_force().unwrap(), before, "after {ended}");
        }
    }
}

#[test]
fn failed_restore_is_reported_and_retried_next() {
    let machine = machine(BOTH);
    let before = machine.fake.in_force().unwrap();
    for refused in 0..3 {
        let mut session = (machine.tracefs)
            .start_osnoise(&timerlat(true), OWNER)
            .unwrap();
        machine.fake.refuse(refused, usize::MAX / 2);
        let error = session.stop().unwrap_err();
        assert!(matches!(error, TraceError::NotRestored { .. }), "{error}");
        std::mem::forget(session);
        assert_ne!(machine.fake.in_force().unwrap(), before);
        machine.fake.refuse(usize::MAX, 0);
        assert_eq!(
            machine
                .tracefs
                .clear_left_behind(|_, _| false)
                .unwrap()
                .len(),
            1
        );
        assert_eq!(machine.fake.in_force().unwrap(), before, "write {refused}");
    }
}

#[test]
fn others_are_left_alone() {
    let machine = machine(BOTH);
    let theirs = machine.tracefs.path().join("instances/theirs");
    crate::Files::make_folder(&*machine.fake, &theirs).unwrap();
    for tracer in ["timerlat", "osnoise"] {
        fs::write(theirs.join("current_tracer"), tracer).unwrap();
        let before = machine.fake.in_force().unwrap();
        for ask in [timerlat(false), osnoise()] {
            let error = machine.tracefs.start_osnoise(&ask, OWNER).unwrap_err();
            assert!(matches!(error, TraceError::NoiseBusy { .. }), "{error}");
            assert!(error.to_string().contains("theirs"), "{error}");
        }
        assert_eq!(
            machine.tracefs.clear_left_behind(|_, _| false).unwrap(),
            [""; 0]
        );
        assert_eq!(machine.fake.in_force().unwrap(), before);
    }
    fs::write(theirs.join("current_tracer"), "nop").unwrap();
    let session = (machine.tracefs)
        .start_osnoise(&timerlat(false), OWNER)
        .unwrap();
    // If two punctual processes each start a session, the second one stops.
    let second = Owner { pid: 5, start: 1 };
    let error = machine.tracefs.start_osnoise(&osnoise(), second);
    assert!(matches!(error, Err(TraceError::NoiseBusy { .. })));
    drop(session);
}

#[test]
fn what_is_not_there_is_named() {
    let machine = machine("hwlat nop");
    for (ask, name) in [(timerlat(false), "timerlat"), (osnoise(), "osnoise")] {
        let error = machine.tracefs.start_osnoise(&ask, OWNER).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("no tracer '{name}'")), "{text}");
        assert!(text.contains("CONFIG_"), "{text}");
        assert!(text.contains("hwlat, nop"), "{text}");
    }
    assert_eq!(machine.fake.instances().unwrap(), [""; 0]);
}

#[test]
fn invalid_pages_are_only_counted() {
    let machine = machine(BOTH);
    let mut session = (machine.tracefs)
        .start_osnoise(&timerlat(false), OWNER)
        .unwrap();
    let mut page = PageBuilder::new(layout(cfg!(target_endian = "big"))).page(5, None);
    page[8..16].copy_from_slice(&0x3fff_u64.to_ne_bytes());
    machine.fake.put_page(&page).unwrap();
    // One record has an unknown context, and one is truncated.
    let short = timerlat_record(1, 2, 1, 5)[..14].to_vec();
    machine.put(9, &[(0, timerlat_record(1, 2, 9, 5)), (0, short)], None);
    let reports = session.take().unwrap();
    assert_eq!(reports.timerlat, []);
    assert_eq!(reports.lost, [(0, 3)].into());
}
